"""Sizes rounded up to a few, so that arrays of nearly the same shape share one compiled program."""

from __future__ import annotations


def roomy(size: int) -> int:
    """Round a size up to three binary digits: at most a quarter more, and few sizes in all; 1 at least."""
    step = 1 << max(0, size.bit_length() - 3)
    return max(1, -(-size // step) * step)
