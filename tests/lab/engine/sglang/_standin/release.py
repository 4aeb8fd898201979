"""The version this package carries, alone in a file so that the wheel builder can read it without importing the rest."""

__version__ = "0.5.12.post1"
