"""Exceptions that print under the names of the libraries that raise them in the real server."""

from __future__ import annotations


class AcceleratorError(RuntimeError):
    """torch: a CUDA call failed."""


class OutOfMemoryError(RuntimeError):
    """torch: an allocation failed."""


class SafetensorError(Exception):
    """safetensors: a file cannot be read."""


AcceleratorError.__module__ = OutOfMemoryError.__module__ = "torch"
SafetensorError.__module__ = "safetensors_rust"

NOT_ENOUGH_MEMORY = "Not enough memory. Please try to increase --mem-fraction-static."


class NotEnoughMemory(RuntimeError):
    """Nothing is left for the KV pool; the real server raises a plain RuntimeError."""

    def __init__(self) -> None:
        super().__init__(NOT_ENOUGH_MEMORY)


NotEnoughMemory.__module__ = "builtins"
NotEnoughMemory.__qualname__ = "RuntimeError"
