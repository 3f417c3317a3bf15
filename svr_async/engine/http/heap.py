"""Memory of large replies, handed back to the system now and then.

The C library keeps what a large reply leaves between smaller things that live on, and the next one seldom fits: where
one call in twenty brought 256 KB of nothing, a process grew to 480 MB of which it used 5. When asked, glibc gives all
such pages back, which takes milliseconds; other libraries are left alone.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache

LARGE_BYTES = 1 << 16  # of a reply: smaller ones leave holes that are used again
PASSED_BYTES = 1 << 26  # of large replies, after which memory is handed back
_passed = 0


def large_reply(n_bytes: int) -> None:
    """Note that a reply of so many bytes, at least LARGE_BYTES, has been let go."""
    global _passed  # noqa: PLW0603  (the heap is the process's, too)
    _passed += n_bytes
    if _passed >= PASSED_BYTES:
        _passed = 0
        _trim()(0)


@cache
def _trim() -> Callable[[int], int]:
    """Return glibc's malloc_trim, or what does nothing where there is none."""
    found = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    return found if found is not None else lambda _: 0
