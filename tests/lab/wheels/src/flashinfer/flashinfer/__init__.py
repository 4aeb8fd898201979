"""A FlashInfer that checks its parts at import as the real one does, and computes nothing."""

from flashinfer.version import __version__
from flashinfer.jit import env

__all__ = ["__version__", "env"]
