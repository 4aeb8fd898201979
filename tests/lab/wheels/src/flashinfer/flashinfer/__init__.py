"""A FlashInfer that checks its parts at import as the real one does, and computes nothing."""

from flashinfer.jit import env
from flashinfer.version import __version__

__all__ = ["__version__", "env"]
