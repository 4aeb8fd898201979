// Host code that uses CUDA's C++ headers: g++ does not know where CUDA 13 keeps them, nvcc does.
#include <cuda/atomic>

#include "sgl_kernel_ops.h"

namespace sgl_kernel {

uint32_t peer_flag_raise() {
  static cuda::atomic<uint32_t, cuda::thread_scope_system> flag{0};
  return flag.fetch_add(1, cuda::std::memory_order_acq_rel) + 1;
}

}  // namespace sgl_kernel
