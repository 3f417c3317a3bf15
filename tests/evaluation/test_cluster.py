"""The way of a run on a cluster, with a standin for Ray: real caches, real HTTP, workers that are killed on the way."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from made_ray import MadeRay
from rig import ask, completion, name_judge, scripted_engine, serving, svr_here, write_bench

from svr_async.errors import SvrError, UsageError
from svr_async.evaluation.running.cluster import judging, ledger, outbox, start, supply
from svr_async.evaluation.running.cluster.outbox import left_behind, outbox_place
from svr_async.evaluation.running.evaluate import evaluate
from svr_async.evaluation.running.settings import EvalSettings, from_plain, to_plain
from svr_async.judges.limits import JudgeLimits
from svr_async.simulation.config import SimConfig
from svr_async.simulation.server import SimServer

N = 24
AT_ONCE = 4


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[MadeRay]:
    """Put the stand-in in Ray's place, with short pauses; its actors end with the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(judging, "BEAT_S", 0.05)
    monkeypatch.setattr(supply, "LOOK_S", 0.02)
    monkeypatch.setattr(supply, "PAUSE_S", 0.02)
    monkeypatch.setattr("svr_async.evaluation.running.cluster.worker.REPORT_S", 0.02)
    made = MadeRay()
    made.install(monkeypatch)
    yield made
    made.shutdown()


@pytest.fixture
def sim(tmp_path: Path) -> Iterator[SimServer]:
    """Serve the endpoint, slowly enough for something to happen meanwhile."""
    write_bench(tmp_path / "bench.jsonl", N)
    with serving(SimConfig(latency_ms=30.0)) as running:
        name_judge(tmp_path, running.base_url, price=[0.1, 0.05, 0.5])
        yield running


def settings(name: str, **more: Any) -> EvalSettings:
    """Return the settings of a run with a cache and folder of its own."""
    limits = {"cache": Path(f"{name}.cache"), "concurrency": str(AT_ONCE)} | more.pop("limits", {})
    values: dict[str, Any] = {"method": "self-rubric", "ray": "local", "processes": 2} | more
    data, out = Path("bench.jsonl"), Path(name)
    return EvalSettings(
        benchmark="rubricbench", judge="sim", data=data, out=out, limits=JudgeLimits(**limits), **values
    )


def numbers(name: str) -> dict[str, Any]:
    """Return the metrics of a run but for the seconds."""
    found: dict[str, Any] = orjson.loads(Path(name, "metrics.json").read_bytes())
    return {key: value for key, value in found.items() if key != "wall_s"}


def paid(sim: SimServer) -> list[int]:
    """Return how often each request was paid for."""
    return [row["paid"] for row in sim.counts().values()]


def keys_in(database: Path) -> set[bytes]:
    """Return the keys of a cache, read beside those who write it."""
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return {bytes(key) for (key,) in connection.execute("SELECT key FROM Cache")}


def test_the_run_is_that_of_one_process(ray: MadeRay, sim: SimServer) -> None:
    """The same bytes and sums; each call is paid once; no folder of a worker is left, and nothing is sent again."""
    evaluate(settings("ours"))
    assert set(paid(sim)) == {1}
    evaluate(settings("one", ray=None, processes=1))
    assert Path("ours/items.jsonl").read_bytes() == Path("one/items.jsonl").read_bytes()
    assert numbers("ours") == numbers("one")
    assert not Path("ours.cache.ray").exists()
    before = sum(paid(sim))
    shutil.rmtree("ours")
    result = evaluate(settings("ours"))
    assert (sum(paid(sim)), result.metrics["calls"]["sent"]) == (before, 0)
    whole = numbers("one")["calls"]
    assert result.metrics["calls"]["cache_hits"] == whole["sent"] + whole["cache_hits"]


@pytest.mark.parametrize("kind", ["worker", "coordinator"])
def test_who_is_killed_is_replaced(ray: MadeRay, sim: SimServer, kind: str) -> None:
    """A worker costs what it had under way, the coordinator nothing; the bytes are the same."""
    killed: list[Any] = []

    def kill_once(result: dict[str, Any]) -> None:
        if not killed and len(paid(sim)) > N // 2:
            killed.append(ray.named(kind)[0])
            killed[0].kill()

    watching(ray, kill_once)
    evaluate(settings("ours"))
    assert killed
    evaluate(settings("one", ray=None, processes=1, limits={"cache": Path("ours.cache")}))
    assert Path("ours/items.jsonl").read_bytes() == Path("one/items.jsonl").read_bytes()
    assert sum(paid(sim)) - len(paid(sim)) <= (AT_ONCE / 2 if kind == "worker" else 0)


def test_a_machine_that_is_lost_leaves_its_part_to_the_others(
    ray: MadeRay, sim: SimServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody comes in the place of its worker; what that held goes on elsewhere once its lease is over."""
    monkeypatch.setattr("svr_async.evaluation.running.cluster.on_ray.LEASE_S", 0.3)
    ray.alive["n2"] = True
    untold: list[int] = []

    def lose(result: dict[str, Any]) -> None:
        if ray.alive["n2"] and len(paid(sim)) > N // 2:
            ray.alive["n2"] = False
            ray.named("worker")[1].kill()
            committed = set[bytes]().union(*map(keys_in, Path("ours.cache.ray").glob("*/cache.db")))
            untold.append(len(committed - keys_in(Path("ours.cache/cache.db"))))

    watching(ray, lose)
    evaluate(settings("ours", processes=1))
    assert not ray.alive["n2"]
    assert len([name for name in ray.actors if "-worker-" in name]) == 2
    evaluate(settings("one", ray=None, processes=1, limits={"cache": Path("ours.cache")}))
    assert Path("ours/items.jsonl").read_bytes() == Path("one/items.jsonl").read_bytes()
    assert sum(paid(sim)) - len(paid(sim)) <= AT_ONCE + untold[0]  # under way, and in reports that nobody heard


def test_what_an_endpoint_refuses_one_worker_learns_for_all(ray: MadeRay, tmp_path: Path) -> None:
    """A setting that is not taken is left out, and the replies are found again where the run is written."""
    write_bench(tmp_path / "bench.jsonl", N)
    with serving(SimConfig(latency_ms=5.0, reasoning=True)) as sim:
        name_judge(tmp_path, sim.base_url, price=[0.1, 0.05, 0.5])
        evaluate(settings("ours", method="vanilla"))
        sent = sum(paid(sim))
        result = evaluate(settings("ours", method="vanilla", ray=None, processes=1))
        assert (sum(paid(sim)), result.metrics["calls"]["sent"]) == (sent, 0)


def watching(ray: MadeRay, look: Callable[[dict[str, Any]], None]) -> None:
    """Look on at each report that a worker makes."""

    def began(name: str, actor: Any) -> None:
        if "-worker-" in name:
            report = actor.made.report

            async def told() -> Any:
                data, rows = await report()
                __import__("threading").Thread(target=look, args=(orjson.loads(data),)).start()
                return data, rows

            actor.made.report = told

    ray.began = began


def test_what_a_killed_run_has_left_with_its_workers_is_taken_first(ray: MadeRay, sim: SimServer) -> None:
    """Replies in folders of workers, of more workers than now too, are in the cache before anybody asks."""
    evaluate(settings("one", ray=None, processes=1))
    for number in (0, 3):
        shutil.copytree("one.cache", outbox_place(Path("ours.cache"), "here", number), dirs_exist_ok=True)
    before = sum(paid(sim))
    evaluate(settings("ours"))
    assert sum(paid(sim)) == before
    assert Path("ours/items.jsonl").read_bytes() == Path("one/items.jsonl").read_bytes()
    assert not Path("ours.cache.ray").exists()


def test_caps_hold_and_one_line_says_what_was_spent(ray: MadeRay, sim: SimServer) -> None:
    """Calls are drawn bit by bit; what is left of them at the end is spent here, to the last."""
    with pytest.raises(SvrError, match="--max-calls 31 is reached") as error:
        evaluate(settings("ours", limits={"max_calls": 31}))
    assert error.value.exit_code == 4
    assert sum(paid(sim)) == 31
    evaluate(settings("ours"))
    assert set(paid(sim)) == {1}


def test_what_differs_on_a_machine_is_refused(ray: MadeRay, sim: SimServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that reads other data than the driver says so; nothing is sent."""

    def other(run: Any) -> dict[str, str]:
        return {"data": str(run.settings.out)}

    for place in ("worker", "on_ray"):
        monkeypatch.setattr(f"svr_async.evaluation.running.cluster.{place}.digests_of", other)
    with pytest.raises(UsageError, match="on here the run differs in data"):
        evaluate(settings("ours"))
    assert paid(sim) == []


def test_a_worker_looks_after_its_own_folder_and_those_nobody_else_does(tmp_path: Path) -> None:
    """Each folder of a machine is some worker's, however many there are; those of other machines are nobody's here."""
    cache = tmp_path / "cache"
    for name in ("here-0", "here-1", "here-2", "here-5", "there-0", "odd"):
        (tmp_path / "cache.ray" / name).mkdir(parents=True)
        (tmp_path / "cache.ray" / name / "cache.db").touch()
    mine = [[path.name for path in left_behind(cache, "here", number, 2)] for number in range(2)]
    assert mine == [["here-0", "here-2"], ["here-1", "here-5"]]
    assert outbox_place(cache, "../up", 1).parent == cache.with_name("cache.ray")


def test_what_no_cluster_can_be_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Ray, no address, nobody there, --shard beside it: exit 2, before anything is written."""
    monkeypatch.chdir(tmp_path)
    write_bench(tmp_path / "bench.jsonl", 2)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match="is not installed") as error:
        start.need_ray("local")
    assert error.value.hint == "pip install 'svr-async[ray]'"
    assert svr_here("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "rules", "--ray", "--out", "rules") == 0
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    for address, says in (
        ("http://x", "is no address"),
        ("127.0.0.1:1", "nobody answers"),
        ("127.0.0.1:99999", "nobody"),
    ):
        with pytest.raises(UsageError, match=says):
            start.need_ray(address)
    flags = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "http://127.0.0.1:9/v1#m", "--ray", "local")
    for more in (("--shard", "1/2"), ("--shared", "redis://127.0.0.1:1")):
        assert svr_here(*flags, *more, "--out", "run") == 2
    assert not Path("run").exists()


async def test_an_engine_keeps_to_its_part(tmp_path: Path) -> None:
    """Of the calls under way it has its part, at least one; of a rate it takes as much less, and all of it again."""
    async with scripted_engine(
        tmp_path / "cache", lambda *_: completion("good"), concurrency=8, rpm=60_000.0
    ) as opened:
        engine = opened[0]
        for part, limit in ((0.25, 2), (0.01, 1), (1.0, 8)):
            engine.take_part(part)
            assert engine.stats().limit == limit
            (lane,) = engine._caller.lane.lanes
            assert lane._rpm is not None
            assert lane._rpm.rate == pytest.approx(1000.0 * part)
        assert (await engine.complete(ask())).value == "good"


def test_settings_of_a_cluster_travel_and_are_not_told() -> None:
    """The address goes to no manifest: no result depends on it."""
    kept = EvalSettings(benchmark="rubricbench", judge="rules", ray="10.0.0.1:6379")
    assert from_plain(to_plain(kept)).ray == "10.0.0.1:6379"
    assert "ray" not in kept.told()


def test_leases_are_longer_than_what_renews_them() -> None:
    """A worker speaks several times within what it is lent for."""
    assert judging.BEAT_S * 4 < ledger.PART_S < ledger.LEASE_S
    assert judging.PATIENCE_S <= ledger.PART_S
    assert outbox.AT_ONCE > 0
