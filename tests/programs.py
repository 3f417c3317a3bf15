"""Programs that some tests need: without one they are skipped, or fail with CI=true."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable

import pytest

PROGRAMS = {
    "Chromium": ("chromium", "chromium-browser", "google-chrome"),
    "a C compiler": ("cc", "gcc"),
    "a Redis server": ("redis-server", "valkey-server"),
}
_REASON = "needs {}, which is not on PATH"


def find(what: str) -> str | None:
    """Return the path of a program of `PROGRAMS`, or None if it is not installed."""
    return next(filter(None, map(shutil.which, PROGRAMS[what])), None)


def need(what: str) -> str:
    """Return the path of a program; without one the test is skipped, or fails where CI=true."""
    path = find(what)
    if path is None:
        end = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        end(_REASON.format(what))
    return path


def left_out(reasons: Iterable[str]) -> str:
    """Return one line on the tests that were skipped for want of a program, from all reasons; else nothing."""
    counts = Counter(reasons)
    missing = [f"{n} for want of {what}" for what in PROGRAMS if (n := counts["Skipped: " + _REASON.format(what)])]
    return f"tests left out: {', '.join(missing)}; install it to run them too" if missing else ""
