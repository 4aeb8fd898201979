#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

namespace sgl_kernel {

// Packs n floats (device memory, n a multiple of 16) into n/2 bytes of FP4 pairs and n/16 FP8 scales.
cudaError_t nvfp4_quant(const float* in, uint8_t* packed, uint8_t* scales, size_t n, cudaStream_t stream);

// Largest value of an e2m1 number.
constexpr float kFp4Max = 6.0f;

// A counter that one rank raises and the others wait for, in system scope.
uint32_t peer_flag_raise();

}  // namespace sgl_kernel
