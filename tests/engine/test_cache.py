"""The cache: replies survive kills and full disks, foreign rows run nothing, and files carry replies elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis_server import RedisServer, redis_server
from rig import pairs, profile

from svr_async.core.pair import Order, present
from svr_async.engine.cache import DATABASE, Cache, cache_place, pack, unpack, user_cache
from svr_async.engine.cache_files import clear_cache, export_cache, import_cache
from svr_async.engine.reply import Reply, Usage
from svr_async.engine.request import Question
from svr_async.errors import StorageError
from svr_async.judges.limits import JudgeLimits
from svr_async.judges.questions import QuestionWriter
from svr_async.judges.templates import load_templates

PUT_AND_DIE = """
import asyncio, os, signal, sys
from svr_async.engine.cache import Cache
from svr_async.engine.reply import Reply
async def main():
    cache = Cache.open(sys.argv[1])
    async def put(n):
        await cache.put(bytes([n]) * 32, Reply(text=str(n)))
        os.write(1, b"%d\\n" % n)
        if n == 20:
            os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.gather(*(put(n) for n in range(40)))
asyncio.run(main())
"""


def key_of(number: int) -> bytes:
    """Return a key; larger numbers have later keys."""
    return number.to_bytes(32, "big")


def reply_of(number: int) -> Reply:
    """Return a reply; every third one is long enough to be compressed, and has a cost."""
    usage = Usage(prompt_tokens=number, completion_tokens=2, cost_usd=0.5 if number % 3 == 0 else None)
    return Reply(text=f"answer {number} “é” " * (200 if number % 3 == 0 else 1), usage=usage, model="m")


def filled(place: Path | str, numbers: range) -> Path | str:
    """Store the replies of these numbers and close the cache."""

    async def put_all() -> None:
        cache = Cache.open(place)
        await asyncio.gather(*(cache.put(key_of(n), reply_of(n)) for n in numbers))
        cache.close()

    asyncio.run(put_all())
    return place


def held(place: Path | str, numbers: range) -> list[Reply | None]:
    """Return what a new process would find."""
    with contextlib.closing(Cache.open(place)) as cache:
        return [cache.get(key_of(n)) for n in numbers]


def run_sql(folder: Path, sql: str, *values: object) -> None:
    """Change the database behind the cache's back."""
    with contextlib.closing(sqlite3.connect(folder / DATABASE)) as connection, connection:
        connection.execute(sql, values)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Run a real Redis server."""
    with redis_server(tmp_path_factory.mktemp("redis")) as running:
        yield running


def test_a_reply_is_handed_over_after_its_commit(tmp_path: Path) -> None:
    """A process killed right after storing a reply loses no reply that it had reported."""
    done = subprocess.run(
        [sys.executable, "-c", PUT_AND_DIE, str(tmp_path / "cache")], capture_output=True, check=False
    )
    reported = [int(line) for line in done.stdout.split()]
    assert 20 in reported
    with contextlib.closing(Cache.open(tmp_path / "cache")) as cache:
        assert [cache.get(bytes([n]) * 32) for n in reported] == [Reply(text=str(n)) for n in reported]


@pytest.mark.parametrize("kind", ["folder", "redis"])
def test_what_is_stored_is_found_by_the_next_process(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    """Whole replies with usage and cost, in a folder and on a real Redis server; keys come in order."""
    place = str(request.getfixturevalue("server").url) if kind == "redis" else tmp_path / "cache"
    filled(place, range(30))
    assert held(place, range(31)) == [*map(reply_of, range(30)), None]
    with contextlib.closing(Cache.open(place)) as cache:
        assert [key for key, _ in cache.rows()] == [key_of(n) for n in range(30)]
        stats = cache.stats()
        assert (stats["rows"], stats["damaged"]) == (30, 0)
        assert asyncio.run(cache.find(key_of(3))) == reply_of(3)


def test_two_open_caches_see_each_others_replies(tmp_path: Path) -> None:
    """Two engines, or two processes, may use one folder."""
    with contextlib.closing(Cache.open(tmp_path)) as first:
        assert first.get(key_of(1)) is None
        filled(tmp_path, range(3))
        assert first.get(key_of(1)) == reply_of(1)


class Trap:
    """Unpickling it would create a file."""

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (Path("trapped"),)


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("UPDATE Cache SET mode = 4, value = ?", pickle.dumps(Trap())),
        ("UPDATE Cache SET mode = 2, filename = ?, value = NULL", "/etc/passwd"),
        ("UPDATE Cache SET value = ?", "text"),
        ("UPDATE Cache SET value = ?", b"\x02" + b"0" * 40),
        ("UPDATE Cache SET value = ?", pack(key_of(9), reply_of(9))),
    ],
    ids=["pickle", "file", "text", "wrong digest", "another key's reply"],
)
def test_a_foreign_row_is_a_miss_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str, value: object
) -> None:
    """It counts as damaged; a new reply takes its place."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "cache"
    filled(folder, range(1))
    run_sql(folder, sql, value)
    with contextlib.closing(Cache.open(folder)) as cache:
        assert (cache.get(key_of(0)), cache.get(key_of(0)), cache.damaged) == (None, None, 1)
        assert cache.stats()["damaged"] == 1
    assert not Path("trapped").exists()
    filled(folder, range(1))
    assert held(folder, range(1)) == [reply_of(0)]


def test_a_packed_row_survives_and_a_changed_one_does_not() -> None:
    """Any single changed byte is noticed, in short rows and compressed ones."""
    for number in (1, 3):
        row = pack(key_of(number), reply_of(number))
        assert unpack(key_of(number), row) == reply_of(number)
        for place in range(0, len(row), 7):
            changed = row[:place] + bytes([row[place] ^ 1]) + row[place + 1 :]
            assert unpack(key_of(number), changed) is None


@pytest.mark.parametrize("name", ["replies.jsonl", "replies.jsonl.gz"])
def test_replies_travel_as_a_file(tmp_path: Path, name: str) -> None:
    """Equal caches give equal files; an import adds missing replies and keeps present ones."""
    filled(tmp_path / "one", range(20))
    filled(tmp_path / "two", range(5))
    assert export_cache(tmp_path / "one", tmp_path / name) == (20, 0)

    async def load() -> tuple[int, int]:
        with contextlib.closing(Cache.open(tmp_path / "two")) as cache:
            return await import_cache(cache, tmp_path / name)

    assert asyncio.run(load()) == (15, 5)
    assert held(tmp_path / "two", range(20)) == list(map(reply_of, range(20)))
    (tmp_path / "again").mkdir()
    export_cache(tmp_path / "two", tmp_path / "again" / name)
    assert (tmp_path / "again" / name).read_bytes() == (tmp_path / name).read_bytes()


def test_a_damaged_file_says_how_to_save_and_reset_it(tmp_path: Path) -> None:
    """`export` saves what SQLite can still read, `clear` makes a new file."""
    folder = tmp_path / "cache"
    filled(folder, range(400))
    database = folder / DATABASE
    data = bytearray(database.read_bytes())
    assert len(data) > 30 * 4096
    data[12 * 4096 : 16 * 4096] = b"\xff" * 4 * 4096
    database.write_bytes(data)
    with pytest.raises(StorageError) as caught, contextlib.closing(Cache.open(folder)) as cache:
        cache.stats()
    assert "svr cache export" in caught.value.hint
    assert "svr cache clear" in caught.value.hint
    rows, _ = export_cache(folder, tmp_path / "saved.jsonl")
    assert 100 < rows < 400
    clear_cache(folder)
    assert held(folder, range(2)) == [None, None]


# --- where the cache is ----------------------------------------------------------------------------------------------


def test_there_is_one_cache_for_each_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Unless something says otherwise, it is in the user's cache folder, wherever a command runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "mine"))
    assert cache_place() == JudgeLimits().cache == tmp_path / "mine" / "svr-async" / "replies"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert user_cache() == Path.home() / ".cache" / "svr-async"


def test_a_cache_in_the_working_folder_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where an earlier version made one, or a project says so, replies stay there; SVR_CACHE goes over all."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cache").mkdir()
    assert Path(cache_place()).is_absolute()  # a folder of that name may be anything
    (tmp_path / "cache" / ".svr").touch()
    assert cache_place() == Path("cache/replies")
    (tmp_path / "cache" / ".svr").unlink()
    (tmp_path / "cache" / "replies").mkdir()
    assert cache_place() == Path("cache/replies")
    monkeypatch.setenv("SVR_CACHE", str(tmp_path / "named"))
    assert cache_place() == tmp_path / "named"


def asked(host: str, **settings: Any) -> Question[Any]:
    """Return a question to a port of this machine by one of its names."""
    writer = QuestionWriter(profile(f"http://{host}:8000/v1", **settings), load_templates())
    return writer.direct(present(pairs(1)[0], Order.AB))


def test_this_machine_has_one_name() -> None:
    """localhost, ::1 and 127.0.0.1 are one endpoint in the cache; another port, host or wire is another."""
    one = asked("127.0.0.1").request
    assert asked("localhost").request.key == asked("[::1]").request.key == one.key
    others = {asked(host).request.key for host in ("localhost.example.org", "127.0.0.2", "h")}
    assert one.key not in others
    assert len(others) == 3
    assert asked("localhost", identity="lab").request.endpoint == "lab"
    assert asked("localhost", wire="anthropic").request.endpoint == "http://127.0.0.1:8000/v1#anthropic"
