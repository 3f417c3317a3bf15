"""`--ray` on a real Ray cluster of two nodes on loopback; skipped without Ray (pip install 'svr-async[ray]')."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from endpoint import SimConfig, SimServer
from rig import name_judge, run_items, run_metrics, serving, svr, svr_here, write_bench

pytest.importorskip("ray", reason="ray is not installed: pip install 'svr-async[ray]' in a separate environment")

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

N = 400
CONCURRENCY = 32
EVAL = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--method", "direct", "-q")
ON_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Start a cluster of two nodes in processes of this machine."""
    for name, value in ON_LOOPBACK.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    )
    import ray
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 100_000_000}
    started = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        started.add_node(**node)
        yield started
    finally:
        ray.shutdown()
        started.shutdown()


@pytest.fixture
def sim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimServer]:
    """Serve an endpoint, and run in one process for comparison."""
    monkeypatch.chdir(tmp_path)
    write_bench(tmp_path / "bench.jsonl", N)
    with serving(SimConfig(latency_ms=200.0)) as server:
        name_judge(tmp_path, server.base_url)
        assert svr_here(*EVAL, "--cache", "cache1", "--out", "one") == 0
        yield server


def paid(sim: SimServer) -> int:
    """Return how many requests the endpoint has answered."""
    return sim.paid().total()


def test_two_nodes_write_the_bytes_of_one_process(cluster: Any, sim: SimServer) -> None:
    """The items are the same, and each call is paid once."""
    before = paid(sim)
    flags = ("--ray", cluster.address, "--concurrency", str(CONCURRENCY))
    assert svr_here(*EVAL, *flags, "--cache", "cache2", "--out", "many") == 0
    assert run_items("many") == run_items("one")
    assert run_metrics("many")["calls"]["sent"] == run_metrics("one")["calls"]["sent"]
    assert paid(sim) == 2 * before


def test_a_node_that_is_killed_costs_a_retry(cluster: Any, sim: SimServer) -> None:
    """The run completes with the same bytes, the cache holds every reply, at most calls in flight are paid twice."""
    before, killed = paid(sim), threading.Event()

    def kill_in_the_middle() -> None:
        while paid(sim) < before + N // 3:
            time.sleep(0.01)
        cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
        killed.set()

    threading.Thread(target=kill_in_the_middle, daemon=True).start()
    flags = ("--ray", cluster.address, "--concurrency", str(CONCURRENCY))
    assert svr_here(*EVAL, *flags, "--cache", "cache2", "--out", "many") == 0
    assert killed.wait(60)
    assert run_items("many") == run_items("one")
    assert paid(sim) <= 2 * before + CONCURRENCY
    assert svr_here(*EVAL, "--offline", "--cache", "cache2", "--out", "again") == 0
    assert run_items("again") == run_items("one")


def test_a_local_cluster_is_started_for_a_run(sim: SimServer, tmp_path: Path) -> None:
    """`--ray local` needs no administrator, and the cluster ends with the command."""
    done = svr(
        *EVAL, "--ray", "local", "--cache", "cache2", "--out", "many", cwd=tmp_path, timeout=120, PYTHONHASHSEED="0"
    )
    assert done.returncode == 0, done.stderr
    assert run_items("many") == run_items("one")
