#include <cuda_runtime.h>

// Stands where FA3 stands: compiled for Hopper and older only, and useless on SM120.
__global__ void flash_row_max_kernel(const float* scores, float* row_max, int columns) {
  float best = -INFINITY;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) best = fmaxf(best, scores[blockIdx.x * columns + i]);
  for (int offset = 16; offset > 0; offset /= 2) best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, offset));
  if (threadIdx.x == 0) row_max[blockIdx.x] = best;
}

cudaError_t flash_row_max(const float* scores, float* row_max, int rows, int columns) {
  flash_row_max_kernel<<<rows, 32>>>(scores, row_max, columns);
  return cudaGetLastError();
}
