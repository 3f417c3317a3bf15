"""Fixtures of the reliability rig: the nursery of processes, an endpoint, and a run without a fault to compare with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from nursery import Nursery, open_nursery


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """Keep one process that forks children, for all tests of a module."""
    with open_nursery(tmp_path_factory.mktemp("nursery")) as opened:
        yield opened
