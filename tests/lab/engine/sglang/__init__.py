"""A stand-in for SGLang 0.5.12.post1 that needs no GPU.

It answers, logs, starts slowly and fails the way the real server does.

Drawn from the captures of a real 0.5.12.post1 (see README.md beside this package). Where a capture and this package
disagree, this package is wrong. It is used by the lab only and never shipped.
"""

from sglang._standin.release import __version__

__all__ = ["__version__"]
