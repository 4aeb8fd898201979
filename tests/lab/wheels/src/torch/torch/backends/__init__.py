"""Libraries behind torch."""

from torch.backends import cudnn

__all__ = ["cudnn"]
