"""Faults of the network: whatever fails, the evaluation ends with the same items or names the endpoint."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from endpoint import SimConfig
from rig import serving
from trials import evaluate, items, paid_again, prepare, run_without_faults

from svr_async.simulation.simulator import FAULTS


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
    """Rate limits, errors, cut and empty replies change no byte, and no whole answer is paid for twice."""
    reference = run_without_faults(tmp_path / "smooth", pairs)
    with serving(SimConfig(latency_ms=5.0, fault_rate=0.2)) as server:
        folder = prepare(tmp_path / "rough", server.base_url, pairs)
        done = evaluate(folder, "--concurrency", str(concurrency), timeout=500)
        assert done.returncode == 0, done.stderr
        struck = Counter(record.fault for record in server.log() if record.fault)
        assert paid_again(server) == 0
    assert items(folder) == reference.items
    assert set(struck) == set(FAULTS) or pairs < 100
    assert struck
