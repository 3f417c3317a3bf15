"""Python's garbage collector, kept from walking thousands of live calls over and over while they are under way.

With its usual thresholds it runs every 700 objects and walks everything every 70,000; at 4,096 calls in flight that is
a third of the time. Reference counts free nearly all that a call makes; what is left waits a little longer here.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

THRESHOLDS = (100_000, 50, 100)
_lock = threading.Lock()
_inside = 0
_usual: tuple[int, int, int] = (700, 10, 10)
_froze = False


@contextlib.contextmanager
def calm_collector() -> Iterator[None]:
    """Raise the thresholds and set aside what is alive now; all is as before when the last of those inside leaves."""
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _inside, _usual, _froze  # noqa: PLW0603  (the collector is the process's, too)
    with _lock:
        _inside += 1
        if _inside > 1:
            return
        _usual = gc.get_threshold()
        if _usual[0] == 0:
            return  # switched off: leave it so
        gc.set_threshold(*(max(ours, theirs) for ours, theirs in zip(THRESHOLDS, _usual, strict=True)))
        _froze = gc.get_freeze_count() == 0  # else objects that others have frozen would be thawed
        if _froze:
            gc.freeze()


def _leave() -> None:
    global _inside, _froze  # noqa: PLW0603  (the collector is the process's, too)
    with _lock:
        _inside -= 1
        if _inside:
            return
        gc.set_threshold(*_usual)
        if _froze:
            gc.unfreeze()
            _froze = False
