"""What all labs share and is built once into the cache: index, kernel repository, checkpoint."""

from __future__ import annotations


def build() -> None:
    """Build what is missing."""
