"""Sizes rounded up to a few, so that arrays of nearly the same shape share one compiled program."""

from __future__ import annotations


def roomy(size: int, *, least: int = 1) -> int:
    """Round a size up to three binary digits: at most a quarter more, and few sizes in all; `least` at least."""
    step = 1 << max(0, size.bit_length() - 3)
    return max(least, -(-size // step) * step)
