"""A torch without tensors: versions, ABI, CMake files and the few questions that installers and builds ask."""

from torch import _C, backends, cuda, utils, version
from torch.version import __version__

__all__ = ["_C", "__version__", "backends", "compiled_with_cxx11_abi", "cuda", "dtype", "utils", "version"]


class dtype:
    """A data type that knows its name."""

    def __init__(self, name: str, itemsize: int) -> None:
        self.name = name
        self.itemsize = itemsize

    def __repr__(self) -> str:
        return f"torch.{self.name}"


float32 = dtype("float32", 4)
float16 = dtype("float16", 2)
bfloat16 = dtype("bfloat16", 2)
float8_e4m3fn = dtype("float8_e4m3fn", 1)
float8_e5m2 = dtype("float8_e5m2", 1)


def compiled_with_cxx11_abi() -> bool:
    """Whether libtorch uses the C++11 ABI of libstdc++: yes in every wheel since 2.6."""
    return bool(_C._GLIBCXX_USE_CXX11_ABI)
