"""Fixtures of the hooks' tests: settings of one test do not reach another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from endpoint import SimServer
from rewarding import Points, points_of

from svr_async.engine.concurrency import run_sync
from svr_async.serving.hooks.judging import NAMES, PREFIX, close_engines, configure


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begin and end without settings of hooks and without an open engine."""
    for name in NAMES:
        monkeypatch.setenv(PREFIX + name.upper(), "")
    yield
    run_sync(close_engines())


@pytest.fixture(params=["rules", "sim"])
def points(request: pytest.FixtureRequest, sim: SimServer, tmp_path: Path) -> Points:
    """Return criteria with points, for hooks that judge by the rules, then by a simulated endpoint."""
    found = points_of(request.param, sim.base_url)
    configure(judge=found.judge, cache=tmp_path / "cache")
    return found
