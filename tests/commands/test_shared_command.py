"""`--shared redis://…` on the command line: machines are folders, the simulated endpoint's counts are the witness."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis_server import RedisServer, redis_server
from rig import (
    background,
    name_judge,
    paid,
    read_lines,
    run_items,
    run_metrics,
    serving,
    sim_process,
    svr,
    until,
    wait_until,
    write_bench,
)

from svr_async.engine.money import Budget
from svr_async.engine.rates import Bucket
from svr_async.engine.shared.lending import lending

Cli = Callable[..., tuple[int, str, str]]
EVAL = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--method", "self-rubric", "-q")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """Run a Redis server for one test."""
    with redis_server(tmp_path) as running:
        yield running


def test_what_one_machine_has_paid_another_takes_from_the_look_aside(
    cli: Cli, server: RedisServer, tmp_path: Path
) -> None:
    """Shards, then the whole run with an empty cache: it sends nothing and has the same bytes; no password is kept."""
    write_bench(tmp_path / "bench.jsonl", 12)
    with server.client() as client:
        client.config_set("requirepass", "open-sesame-9")
    url = server.url.replace("://", "://:open-sesame-9@")
    with serving() as sim:
        name_judge(tmp_path, sim.base_url)
        for number in ("1", "2"):
            where = ("--cache", f"m{number}", "--out", f"s{number}")
            assert cli(*EVAL, "--shard", f"{number}/2", "--shared", url, *where)[0] == 0
        paid = len(sim.counts())
        code, _, err = cli(*EVAL, "--shared", url, "--cache", "m3", "--out", "whole")
        assert (code, err) == (0, "")
        assert cli(*EVAL, "--cache", "m3", "--out", "again", "--offline")[0] == 0
        assert [row["paid"] for row in sim.counts().values()] == [1] * paid
    assert run_metrics("whole")["calls"]["sent"] == 0
    assert cli("merge", "s1", "s2", "--out", "merged")[0] == 0
    assert run_items("whole") == run_items("merged") == run_items("again")
    for folder, _, files in os.walk(tmp_path):
        for name in files:
            assert b"open-sesame-9" not in Path(folder, name).read_bytes(), name


def test_what_is_no_address_or_is_not_installed_is_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 2 before anything is sent, with how to mend it."""
    write_bench(Path("bench.jsonl"), 2)
    with serving() as sim:
        name_judge(Path(), sim.base_url)
        code, _, err = cli(*EVAL, "--shared", "http://127.0.0.1:1")
        assert (code, "is no redis:// address" in err, err.count("\n")) == (2, True, 1), err
        monkeypatch.setitem(__import__("sys").modules, "redis.asyncio", None)
        code, _, err = cli(*EVAL, "--shared", "redis://127.0.0.1:1")
        assert (code, "pip install 'svr-async[redis]'" in err, err.count("\n")) == (2, True, 1), err
        assert sim.counts() == {}


def test_what_one_shard_leaves_of_a_cap_another_may_use(cli: Cli, server: RedisServer, tmp_path: Path) -> None:
    """A shard that has all in its cache lends its calls and dollars; without the server each keeps to its own part."""
    write_bench(tmp_path / "bench.jsonl", 24)
    flags = [
        "eval",
        "rubricbench",
        "--data",
        "bench.jsonl",
        "--judge",
        "sim",
        "--method",
        "vanilla",
        "--audit",
        "0",
        "-q",
    ]
    capped = ("--max-calls", "20", "--budget", "0.02")
    with serving() as sim:
        name_judge(tmp_path, sim.base_url, price=[0.1, 0.05, 0.5])
        first, second = (("--shard", f"{n}/2", "--cache", f"m{n}", "--out", f"s{n}") for n in (1, 2))
        assert cli(*flags, *first)[0] == 0
        code, _, err = cli(*flags, *second, *capped)
        assert (code, "--max-calls 10 is reached" in err) == (4, True), err
        for _ in range(2):  # what a shard leaves it leaves once
            assert cli(*flags, *first, *capped, "--shared", server.url)[0] == 0
        fresh = (*second[:3], "m3", *second[4:])
        code, _, err = cli(*flags, *fresh, *capped, "--shared", server.url)
        assert code == 0, err
        with server.client() as client:
            left = [int(client.get(key) or b"0") for key in client.keys("svr:1:l:*:calls")]
            assert client.keys("svr:1:l:*:here") == []
    assert len(left) == 1
    assert 0 < left[0] < 10
    assert cli("merge", "s1", "s2", "--out", "merged")[0] == 0


async def test_machines_divide_the_rates_of_those_that_are_not_there(server: RedisServer) -> None:
    """One of three shards alone has all of the rate, two have half each; without a server each has its own third."""
    one, two = Paces(), Paces()
    async with lending(server.url, "run", (0, 3), Budget(), [one]):
        await until(lambda: one.times == [3.0])
        async with lending(server.url, "run", (1, 3), Budget(), [two]):
            await until(lambda: two.times == [1.5] and one.times[-1] == 1.5)
        await until(lambda: one.times[-1] == 3.0)
        server.kill()
        await until(lambda: one.times[-1] == 1.0)


async def test_a_purse_that_lies_lends_no_more_than_there_can_be(server: RedisServer) -> None:
    """Garbage in the purse is nothing, and a sum beyond the cap of the whole run is not taken."""
    budget = Budget(max_calls=10)
    async with lending(server.url, "run", (0, 3), budget, [Paces()]) as lender:
        assert lender is not None
        for amount, most in ((b"garbage", 10), (b"1000000", 30)):
            with server.client() as client:
                client.set("svr:1:l:run:calls", amount)
            for _ in range(40):
                budget.calls = budget.max_calls or 0
                await lender.borrow(budget)
            assert budget.max_calls == most


class Paces:
    """Takes down how many times the rates of the settings may leave."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def scale_rates(self, times: float) -> None:
        """Take it down, if it is another."""
        if self.times[-1:] != [times]:
            self.times.append(times)


def test_a_rate_that_changes_keeps_the_level() -> None:
    """A bucket goes on from the level that it has; what may leave in a minute is the new rate's from then on."""
    clock, bucket = 100.0, Bucket(10.0, cap=5.0)
    bucket.take(clock, 5.0)
    bucket.change(clock + 0.2, 20.0)
    assert bucket.level(clock + 0.2) == pytest.approx(2.0)
    assert bucket.opens_at(5.0) == pytest.approx(clock + 0.2 + 3.0 / 20.0)


@pytest.mark.soak
@pytest.mark.parametrize("what", ["flushed", "killed"])
def test_two_machines_end_alike_whatever_becomes_of_the_server(tmp_path: Path, server: RedisServer, what: str) -> None:
    """Two processes judge one run, each with its cache; the server forgets all: same bytes, nothing is paid twice."""
    log, flags = tmp_path / "log.jsonl", (*EVAL[:-1], "--concurrency", "8", "--shared", server.url)
    write_bench(tmp_path / "bench.jsonl", 60)
    with sim_process(tmp_path, "--latency-ms", "60", "--log", log) as url:
        name_judge(tmp_path, url)
        with (
            background(*flags, "--cache", "m1", "--out", "one", cwd=tmp_path) as one,
            background(*flags, "--cache", "m2", "--out", "two", cwd=tmp_path) as two,
        ):
            for count in (30, 80):
                wait_until(lambda count=count: len(read_lines(log)) > count)  # type: ignore[misc]
                if what == "killed":
                    server.kill()
                    server.start()
                with server.client() as client:
                    client.flushall()
            told = [process.communicate(timeout=100)[1] for process in (one, two)]
        assert (one.returncode, two.returncode) == (0, 0), told
        counts = paid(log)
        again = svr(*EVAL, "--cache", "m1", "--out", "alone", "--offline", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert run_items(tmp_path / "one") == run_items(tmp_path / "two") == run_items(tmp_path / "alone")
    assert len(counts) >= 120
    assert sum(counts.values()) - len(counts) <= 2 * 2 * 8
