"""Fixtures of the hooks' tests: settings of one test do not reach another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from rewarding import untouched

from svr_async.engine.concurrency import run_sync
from svr_async.serving.hooks.judging import close_engines


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begin without any setting of hooks, and leave none, nor an open engine."""
    with untouched(monkeypatch):
        yield
    run_sync(close_engines())
