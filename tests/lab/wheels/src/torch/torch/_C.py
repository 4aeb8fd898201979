"""What the C extension tells about itself."""

_GLIBCXX_USE_CXX11_ABI = True


def _cuda_getCompiledVersion() -> int:
    """CUDA version as major * 1000 + minor * 10."""
    from torch.version import cuda

    major, minor = cuda.split(".")
    return int(major) * 1000 + int(minor) * 10
