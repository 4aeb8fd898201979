"""Where CMake finds TorchConfig.cmake."""

from pathlib import Path

cmake_prefix_path = str(Path(__file__).resolve().parents[1] / "share" / "cmake")
