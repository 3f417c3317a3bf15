"""Small campaigns against whole runs, with the history checker: the same as in test_soak.py, in seconds."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaigns import faults, outages, refused, smooth, stopped, together

from svr_async.simulation.faults import GROUPS

KINDS = ",".join(kind for kind in GROUPS["mixed"] if kind not in {"429-date", "huge", "gzip-bomb"})
PAIRS = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run once without a fault in a folder that all campaigns share."""
    found = tmp_path_factory.mktemp("campaigns")
    smooth(found, PAIRS, "vanilla")
    return found


def test_mixed_faults_are_accounted_for_to_the_call(folder: Path) -> None:
    """With 40 % faulty calls of many kinds: the same items, and paid = kept + damaged after billing, exactly."""
    found = faults(folder, folder / "smooth", method="vanilla", rate=0.4, kinds=KINDS, concurrency=32)
    assert (found.kept, found.cut_off, found.paid_again) == (PAIRS, 0, 0)
    assert found.paid == PAIRS + found.after_billing
    assert len(found.kinds) >= 12


def test_outages_and_restarts_need_no_help(folder: Path) -> None:
    """The endpoint is away at the start, refuses for a while and restarts: the run completes by itself, same items."""
    outages(
        folder, folder / "smooth", method="vanilla", concurrency=8, at=("0.6:0.3", "1.2:0.3:503", "1.8:0.2"),
        latency_ms=200,
    )  # fmt: skip


def test_a_stop_with_many_calls_in_flight(folder: Path) -> None:
    """SIGTERM with twenty calls in flight: those that come back are judged and kept, and the folder says partial."""
    found = stopped(folder, in_flight=40, latency_ms=1200, share=0.5)
    assert 20 <= found["judged"] == found["completed"]


@pytest.mark.parametrize("kind", ["401", "quota"])
def test_a_refusal_costs_no_more_than_a_round_of_calls(folder: Path, kind: str) -> None:
    """After the first 401, or the first word of an empty account, at most `concurrency` further calls leave; exit 4."""
    found = refused(folder, kind, concurrency=8, paid=20, latency_ms=40)
    assert found["further_calls"] <= 8


def test_three_processes_on_one_cache(folder: Path) -> None:
    """Three runs at once on one cache end with the same items, and between them pay once for each question."""
    found = together(folder, folder / "smooth", processes=3, concurrency=8)
    assert (found.kept, found.paid) == (PAIRS, PAIRS)
