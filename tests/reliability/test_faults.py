"""Faults of the network: whatever fails, the evaluation ends with the same items or names the endpoint."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from rig import serving
from trials import evaluate, items, paid_again, prepare, run_without_faults

from svr_async.simulation.config import SimConfig
from svr_async.simulation.faults import FaultConfig

MIXED = ("429", "500", "reset", "truncated", "slow-drip")


@pytest.mark.parametrize(
    ("concurrency", "pairs"),
    [
        (1, 12),
        (512, 600),
        pytest.param(8, 100, marks=pytest.mark.soak),
        pytest.param(512, 5000, marks=[pytest.mark.soak, pytest.mark.timeout(600)]),
    ],
)
def test_one_call_in_five_fails_and_the_items_are_the_same(tmp_path: Path, concurrency: int, pairs: int) -> None:
    """Rate limits, errors, resets, cut and slow replies change no byte, and no whole answer is paid for twice."""
    reference = run_without_faults(tmp_path / "smooth", pairs)
    faults = FaultConfig(rate=0.2, kinds=MIXED, retry_after_s=0.05, drip_s=0.001)
    with serving(SimConfig(latency_ms=5.0, faults=faults)) as server:
        folder = prepare(tmp_path / "rough", server.base_url, pairs)
        done = evaluate(folder, "--concurrency", str(concurrency), timeout=500)
        assert done.returncode == 0, done.stderr
        struck = Counter(record.fault for record in server.log() if record.fault)
        assert paid_again(server) == 0
    assert items(folder) == reference.items
    assert set(struck) == set(MIXED) or pairs < 100
    assert struck
