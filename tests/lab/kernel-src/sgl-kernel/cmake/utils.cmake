# Find torch through its own Python package. A torch whose TorchConfig.cmake does not name CUDA_VERSION leaves it to the
# toolkit, so that the tree also configures in an environment with a torch that has no C++ side.
macro(lab_find_torch)
    execute_process(
        COMMAND ${Python_EXECUTABLE} -c "import torch; print(torch.utils.cmake_prefix_path)"
        OUTPUT_VARIABLE TORCH_PREFIX
        OUTPUT_STRIP_TRAILING_WHITESPACE
        ERROR_QUIET
    )
    if (TORCH_PREFIX)
        list(APPEND CMAKE_PREFIX_PATH "${TORCH_PREFIX}")
        find_package(Torch QUIET)
    endif()
    if (NOT CUDA_VERSION)
        set(CUDA_VERSION "${CUDAToolkit_VERSION_MAJOR}.${CUDAToolkit_VERSION_MINOR}")
    endif()
    if (NOT "${CUDA_VERSION}" MATCHES "^${CUDAToolkit_VERSION_MAJOR}\\.")
        message(FATAL_ERROR "torch was built for CUDA ${CUDA_VERSION} but nvcc is ${CUDAToolkit_VERSION}")
    endif()
endmacro()

# A stable-ABI Python module of C++ and CUDA sources, installed under sgl_kernel/FOLDER.
function(lab_add_ops target output folder flags)
    Python_add_library(${target} MODULE USE_SABI 3.10 ${ARGN})
    target_compile_definitions(${target} PRIVATE SGL_KERNEL_FLAVOUR="${folder}")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:${flags}>)
    target_compile_features(${target} PRIVATE cxx_std_17)
    target_link_libraries(${target} PRIVATE mscclpp_static CUDA::cudart)
    set_target_properties(${target} PROPERTIES
        OUTPUT_NAME ${output}
        PREFIX ""
        SUFFIX ".abi3.so"
        CUDA_RUNTIME_LIBRARY Shared
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${folder}
        INSTALL_RPATH "$ORIGIN/../../nvidia/cu13/lib;$ORIGIN/../nvidia/cu13/lib;${CUDAToolkit_LIBRARY_DIR}"
    )
    install(TARGETS ${target} LIBRARY DESTINATION sgl_kernel/${folder})
endfunction()
