"""The version that this package carries."""

__version__ = "0.5.12.post1"
