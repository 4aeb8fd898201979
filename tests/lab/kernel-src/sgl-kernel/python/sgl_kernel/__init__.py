"""Kernels: picks the build of common_ops that fits the card."""

from sgl_kernel.load_utils import _load_architecture_specific_ops
from sgl_kernel.version import __version__

common_ops = _load_architecture_specific_ops()

runtime_version = common_ops.runtime_version
nvfp4_quant = common_ops.nvfp4_quant

__all__ = ["__version__", "common_ops", "nvfp4_quant", "runtime_version"]
