"""Faults of the network: whatever fails, the evaluation ends with the same items or names the endpoint."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from pathlib import Path

import pytest
from rig import serving, until
from trials import evaluate, items, paid_again, prepare, run_without_faults

from svr_async.simulation.config import MIXED, SimConfig
from svr_async.simulation.server import SimServer


@pytest.mark.parametrize(
    ("concurrency", "pairs"),
    [(1, 12), (8, 100), (512, 600), pytest.param(512, 5000, marks=[pytest.mark.soak, pytest.mark.timeout(600)])],
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
    assert set(struck) == set(MIXED) or pairs < 100
    assert struck


def test_an_endpoint_that_is_down_ends_the_run_with_its_address(tmp_path: Path) -> None:
    """End within 30 s with an error that names host and port, if nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        folder = prepare(tmp_path, f"http://{address}/v1", 4)
        done = evaluate(folder, timeout=30)
    assert done.returncode not in {0, 1}
    assert address in done.stderr
    assert "Traceback" not in done.stderr


async def test_an_outage_in_the_middle_changes_nothing(tmp_path: Path) -> None:
    """The endpoint closes all connections for a second and comes back: the run completes by itself."""
    reference = await asyncio.to_thread(run_without_faults, tmp_path / "smooth", 100)
    async with SimServer(SimConfig(latency_ms=30.0)) as server:
        folder = prepare(tmp_path / "outage", server.base_url, 100)
        run = asyncio.create_task(asyncio.to_thread(evaluate, folder, "--concurrency", "8"))
        await until(lambda: server.stats()["completed"] >= 30)
        await server.go_down()
        await asyncio.sleep(1.0)
        assert server.stats()["completed"] < 100
        await server.come_back()
        done = await run
        again = paid_again(server)
    assert done.returncode == 0, done.stderr
    assert items(folder) == reference.items
    assert again == 0
