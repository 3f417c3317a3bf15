"""`--shared redis://…` on the command line: machines are folders, the simulated endpoint's counts are the witness."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis_server import RedisServer, redis_server
from rig import name_judge, run_items, run_metrics, serving, write_bench

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
    """Shards, then the whole run with an empty memo: it sends nothing and has the same bytes; no password is kept."""
    write_bench(tmp_path / "bench.jsonl", 12)
    with server.client() as client:
        client.config_set("requirepass", "open-sesame-9")
    url = server.url.replace("://", "://:open-sesame-9@")
    with serving() as sim:
        name_judge(tmp_path, sim.base_url)
        for number in ("1", "2"):
            where = ("--memo", f"m{number}", "--out", f"s{number}")
            assert cli(*EVAL, "--shard", f"{number}/2", "--shared", url, *where)[0] == 0
        paid = len(sim.counts())
        code, _, err = cli(*EVAL, "--shared", url, "--memo", "m3", "--out", "whole")
        assert (code, err) == (0, "")
        assert cli(*EVAL, "--memo", "m3", "--out", "again", "--offline")[0] == 0
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
