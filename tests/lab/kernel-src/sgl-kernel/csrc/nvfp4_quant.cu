#include <cuda_fp4.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include "sgl_kernel_ops.h"

namespace sgl_kernel {

namespace {

constexpr int kGroup = 16;

// One thread quantizes one group of 16 values: scale = amax / 6 in e4m3, values in e2m1.
// On sm_120a the conversion is the instruction cvt.rn.satfinite.e2m1x2, which plain sm_120 does not have.
__global__ void nvfp4_quant_kernel(const float* __restrict__ in, uint8_t* __restrict__ packed,
                                   uint8_t* __restrict__ scales, size_t groups) {
  const size_t group = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (group >= groups) return;
  const float* values = in + group * kGroup;

  float amax = 0.0f;
#pragma unroll
  for (int i = 0; i < kGroup; ++i) amax = fmaxf(amax, fabsf(values[i]));

  const __nv_fp8_e4m3 scale(amax / kFp4Max);
  scales[group] = scale.__x;
  const float stored = static_cast<float>(scale);
  const float inverse = stored > 0.0f ? 1.0f / stored : 0.0f;

#pragma unroll
  for (int i = 0; i < kGroup; i += 2) {
    const float2 pair = make_float2(values[i] * inverse, values[i + 1] * inverse);
    packed[(group * kGroup + i) / 2] = __nv_cvt_float2_to_fp4x2(pair, __NV_E2M1, cudaRoundNearest);
  }
}

}  // namespace

cudaError_t nvfp4_quant(const float* in, uint8_t* packed, uint8_t* scales, size_t n, cudaStream_t stream) {
  const size_t groups = n / kGroup;
  if (groups == 0 || n % kGroup != 0) return cudaErrorInvalidValue;
  const unsigned threads = 128;
  nvfp4_quant_kernel<<<static_cast<unsigned>((groups + threads - 1) / threads), threads, 0, stream>>>(
      in, packed, scales, groups);
  return cudaGetLastError();
}

}  // namespace sgl_kernel
