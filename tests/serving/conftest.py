"""Fixtures of the hooks' tests: settings of one test do not reach another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from svr_async.engine.concurrency import run_sync
from svr_async.serving.hooks.judging import NAMES, PREFIX, close_engines


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begin without any setting of hooks, and leave none, nor an open engine."""
    for name in NAMES:
        monkeypatch.setenv(PREFIX + name.upper(), "")
    yield
    run_sync(close_engines())
