"""`--ray` on a stand-in for Ray: the nodes of a cluster send, this process decides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from endpoint import SimServer
from fake_ray import Actor, FakeRay
from made_pairs import write_planted
from rig import ask, name_judge, run_items, run_metrics, write_bench

from svr_async.engine import ray as transport
from svr_async.engine.cache import Cache
from svr_async.engine.caller import EngineConfig
from svr_async.engine.classify import Failure
from svr_async.engine.engine import CallEngine
from svr_async.engine.ray import RayTransport
from svr_async.engine.secrets import Secret
from svr_async.engine.transport import CallFailedError, RawReply
from svr_async.errors import RefusedError

Cli = Callable[..., tuple[int, str, str]]
N = 24
EVAL = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--method", "self-rubric", "-q")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    """Return a cluster of two nodes."""
    return FakeRay(monkeypatch)


@pytest.fixture
def place(tmp_path: Path, sim: SimServer) -> Path:
    """Put data and a judge into the folder where commands run."""
    write_bench(tmp_path / "bench.jsonl", N)
    write_planted(tmp_path / "pairs.jsonl", 40)
    name_judge(tmp_path, sim.base_url)
    return tmp_path


def paid(sim: SimServer) -> int:
    """Return how many requests the endpoint has answered."""
    return sim.paid().total()


def test_a_run_on_a_cluster_has_the_bytes_of_one_process(
    cli: Cli, cluster: FakeRay, place: Path, sim: SimServer
) -> None:
    """Both nodes send, each call is paid once, every reply is in the driver's cache, and the items are the same."""
    assert cli(*EVAL, "--cache", "cache1", "--out", "one")[0] == 0
    before = paid(sim)
    code, _, err = cli(*EVAL, "--ray", "10.0.0.5:6379", "--cache", "cache2", "--out", "many")
    assert code == 0, err
    assert run_items("many") == run_items("one")
    assert run_metrics("many")["calls"] == run_metrics("one")["calls"]
    assert paid(sim) == 2 * before
    assert cluster.addresses == ["10.0.0.5:6379"]
    assert all(actor.posts for actor in cluster.actors)
    assert cli(*EVAL, "--offline", "--cache", "cache2", "--out", "again")[0] == 0
    assert run_items("again") == run_items("one")


def test_a_lost_node_costs_a_retry(cli: Cli, cluster: FakeRay, place: Path, sim: SimServer) -> None:
    """The run completes with the same bytes, and no reply that had arrived is paid again."""
    assert cli(*EVAL, "--cache", "cache1", "--out", "one")[0] == 0
    before = paid(sim)

    cluster.dies_after["n2"] = 3
    code, _, err = cli(*EVAL, "--ray", "auto", "--cache", "cache2", "--out", "many", "--concurrency", "16")
    assert code == 0, err
    assert not cluster.alive["n2"]
    assert run_items("many") == run_items("one")
    assert paid(sim) <= 2 * before + 16
    assert cli(*EVAL, "--offline", "--cache", "cache2", "--out", "again")[0] == 0


class Script:
    """What the actors of each node send through: a function of the node and the number of its request."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cluster: FakeRay, answer: Callable[[str, int], Any]) -> None:
        self.sent: dict[str, int] = {}
        self._answer = answer

        def make(actor: Actor) -> None:
            actor.made._transport.send = lambda _: self._send(actor.node)

        cluster.on_start = make
        monkeypatch.setattr(transport, "LOOK_S", 0.01)

    async def _send(self, node: str) -> RawReply:
        number = self.sent[node] = self.sent.get(node, 0) + 1
        answer = self._answer(node, number)
        if isinstance(answer, Failure):
            raise CallFailedError(answer)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, RawReply)
        return answer


def engine_on_ray(folder: Path) -> CallEngine:
    """Return an engine that sends through Ray."""
    sender = RayTransport("auto", "http://127.0.0.1:1/v1", Secret("sk-sentinel-77"), timeout_s=5)
    config = EngineConfig(concurrency=8, wait_s=0.001, max_wait_s=0.02)
    return CallEngine(sender, Cache.open(folder), config=config)


@pytest.mark.parametrize(
    ("trouble", "says"),
    [
        (lambda c, m: m.setattr(transport, "_living_nodes", dict), "no node of the Ray cluster can send"),
        (lambda c, m: m.setattr(transport, "connect", _fails), "the Ray cluster auto cannot be used: no such cluster"),
        (lambda c, m: m.setattr(transport.Sender, "hello", _old), "n2: svr-async is 0.1 there"),
        (lambda c, m: Script(m, c, lambda *_: KeyError("a bug")), "a Ray node could not send: KeyError: 'a bug'"),
    ],
)
async def test_a_cluster_that_cannot_send_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: FakeRay, trouble: Callable[..., object], says: str
) -> None:
    """No nodes, no connection, another version, or a bug on a node: one error that says so, no endless wait."""
    trouble(cluster, monkeypatch)
    async with engine_on_ray(tmp_path) as engine:
        with pytest.raises(RefusedError) as error:
            await engine.complete(ask("one"))
        assert says in error.value.message


def _fails(_: str) -> None:
    raise ConnectionError("no such cluster")


async def _old(_: object) -> str:
    return "0.1"
