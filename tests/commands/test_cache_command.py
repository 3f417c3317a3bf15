"""`svr cache stats | export | import | clear`, on folders and on a Redis server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from redis_server import redis_server
from rig import name_judge, serving, steady_metrics, write_bench

from svr_async.engine.cache import Cache
from svr_async.engine.reply import Reply

Cli = Callable[..., tuple[int, str, str]]
EVAL = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--audit", "0", "-q")


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """Return a cache of three replies and a damaged row, next to the working folder of `cli`."""
    cache = Cache.open(tmp_path / "cache")

    async def fill() -> None:
        for number in range(3):
            await cache.put(bytes([number]) * 32, Reply(text=f"text {number}"))

    asyncio.run(fill())
    cache.close()
    damaged = Cache.open(tmp_path / "cache")
    damaged._store.write([(b"d" * 32, b"damaged")])
    damaged.close()
    return tmp_path / "cache"


def test_stats_count_replies_and_damaged_rows(cli: Cli, filled: Path) -> None:
    """As a line and as JSON."""
    code, out, _ = cli("cache", "stats", "--cache", "cache")
    assert (code, "cache: 3 replies" in out, "1 damaged row" in out) == (0, True, True)
    code, out, _ = cli("cache", "stats", "--cache", "cache", "--json")
    found = orjson.loads(out)
    assert (code, found["rows"], found["damaged"], found["bytes"] > 0) == (0, 3, 1, True)


@pytest.mark.parametrize("command", [("stats",), ("export", "out.jsonl"), ("clear", "--yes")])
def test_a_missing_cache_is_exit_two_and_is_not_created(cli: Cli, command: tuple[str, ...]) -> None:
    """Only `import` creates a cache."""
    code, _, err = cli("cache", *command, "--cache", "none")
    assert (code, "no cache in none" in err, Path("none").exists()) == (2, True, False)


@pytest.mark.parametrize(
    ("options", "expected", "says"),
    [
        ((), 2, "--yes"),
        (("--older-than", "soon", "--yes"), 2, "30d"),
        (("--older-than", "30d", "--yes"), 0, "0 replies deleted"),
        (("--yes",), 0, "4 replies deleted"),
    ],
)
def test_clear_asks_first(cli: Cli, filled: Path, options: tuple[str, ...], expected: int, says: str) -> None:
    """Without a terminal --yes is needed; other replies stay."""
    code, out, err = cli("cache", "clear", *options, "--cache", "cache")
    assert (code, says in out + err) == (expected, True), out + err
    assert len(list(Cache.open(filled).rows())) == (0 if options == ("--yes",) else 4)


@pytest.mark.parametrize("name", ["replies.jsonl", "replies.jsonl.gz"])
def test_a_run_replays_from_an_imported_file(cli: Cli, tmp_path: Path, name: str) -> None:
    """Export, import elsewhere, and the same run offline: the same bytes. A second import adds nothing."""
    write_bench(tmp_path / "bench.jsonl", 8)
    with serving() as sim:
        name_judge(tmp_path, sim.base_url)
        assert cli(*EVAL, "--cache", "one", "--out", "first")[0] == 0
    code, out, _ = cli("cache", "export", name, "--cache", "one", "--json")
    assert (code, orjson.loads(out)) == (0, {"rows": 8, "damaged": 0})
    for expected in ({"added": 8, "known": 0}, {"added": 0, "known": 8}):
        code, out, _ = cli("cache", "import", name, "--cache", "two", "--json")
        assert (code, orjson.loads(out)) == (0, expected)
    assert cli(*EVAL, "--cache", "two", "--out", "second", "--offline")[0] == 0
    assert steady_metrics(Path("second")) == steady_metrics(Path("first"))
    assert Path("second/items.jsonl").read_bytes() == Path("first/items.jsonl").read_bytes()


def test_a_second_machine_sends_nothing_with_a_shared_redis_cache(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs share a Redis server and no folder: the second has the same bytes, and stats counts the replies."""
    write_bench(tmp_path / "bench.jsonl", 8)
    with redis_server(tmp_path) as server, serving() as sim:
        name_judge(tmp_path, sim.base_url)
        for out in ("first", "second"):
            monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"home of {out}"))
            assert cli(*EVAL, "--cache", server.url, "--out", out)[0] == 0
        calls = [orjson.loads(Path(out, "metrics.json").read_bytes())["calls"] for out in ("first", "second")]
        assert [(call["sent"], call["cache_hits"]) for call in calls] == [(8, 0), (0, 8)]
        assert Path("second/items.jsonl").read_bytes() == Path("first/items.jsonl").read_bytes()
        code, out, _ = cli("cache", "stats", "--cache", server.url, "--json")
        assert (code, orjson.loads(out)["rows"]) == (0, 8)
        code, out, _ = cli("cache", "export", "replies.jsonl", "--cache", server.url, "--json")
        assert (code, orjson.loads(out)["rows"]) == (0, 8)
        code, _, err = cli("cache", "clear", "--yes", "--cache", server.url)
        assert (code, "works on a cache in a folder" in err) == (2, True)
        assert cli("explain", "first", "sim-test-00000", "--calls")[0] == 0  # with the manifest's cache


def test_a_password_in_a_redis_address_is_refused(cli: Cli, tmp_path: Path) -> None:
    """The address stands in manifests, so the password belongs into the environment; the message does not name it."""
    write_bench(tmp_path / "bench.jsonl", 1)
    for command in (("cache", "stats"), (*EVAL, "--out", "run")):
        code, _, err = cli(*command, "--cache", "redis://:secret-word@127.0.0.1:9/0")
        assert (code, "SVR_REDIS_PASSWORD" in err, "secret-word" in err) == (2, True, False)
