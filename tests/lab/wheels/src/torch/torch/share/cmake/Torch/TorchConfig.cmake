# Sets what extension builds read from the real file: the CUDA version of this torch, found there through Caffe2's
# public/cuda.cmake, its flags, headers and libraries.
get_filename_component(TORCH_INSTALL_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(TORCH_FOUND TRUE)
set(TORCH_INCLUDE_DIRS "${TORCH_INSTALL_PREFIX}/include")
set(TORCH_LIBRARIES "")
set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=1")
set(CUDA_VERSION "@CUDA@")
set(Caffe2_MAIN_LIBS "")
# The real file adds code for the cards it sees, or for TORCH_CUDA_ARCH_LIST, to every CUDA compilation.
set(TORCH_CUDA_ARCH_FLAGS "")
foreach(arch $ENV{TORCH_CUDA_ARCH_LIST})
    string(REPLACE "." "" number "${arch}")
    list(APPEND TORCH_CUDA_ARCH_FLAGS "-gencode=arch=compute_${number},code=sm_${number}")
endforeach()
