"""The cache: durable before hand-over, safe against hostile files, shared between processes."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest
from diskcache import Timeout
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rig import environment
from svr_async.engine.cache_disk import BytesDisk, pack, refuse_foreign_database, unpack

from svr_async.engine import cache as cache_module
from svr_async.engine import cache_disk
from svr_async.engine.cache import PROJECT, Cache
from svr_async.engine.reply import Reply, Usage
from svr_async.errors import StorageError

KEY = b"k" * 32


def cache_of(cache: Cache) -> Any:
    """Return the diskcache under a cache that is open for writing."""
    assert isinstance(cache._rows, cache_module._WritableRows)
    return cache._rows._cache


def key_of(number: int) -> bytes:
    """Return the key of row `number`."""
    return number.to_bytes(32, "big")


async def fill(folder: Path, count: int) -> None:
    """Write rows and close."""
    cache = Cache.open(folder)
    await asyncio.gather(*(cache.put(key_of(n), Reply(text=f"text {n}")) for n in range(count)))
    cache.close()


def rows_in(folder: Path) -> int:
    """Count committed rows with a connection of its own."""
    with closing(sqlite3.connect(folder / "cache.db")) as connection:
        return int(connection.execute("SELECT count(*) FROM Cache").fetchone()[0])


def files_in(folder: Path) -> list[str]:
    """Return the names of the files there."""
    return sorted(path.name for path in folder.iterdir())


def tamper(folder: Path, sql: str, *values: Any) -> None:
    """Change the database behind the cache's back."""
    with closing(sqlite3.connect(folder / "cache.db")) as connection, connection:
        connection.execute(sql, values)


async def test_a_reply_is_on_disk_when_put_returns(cache_folder: Path) -> None:
    """What `put` acknowledged can be read by another connection at once, with full synchronisation."""
    cache = Cache.open(cache_folder)
    reply = Reply(text="ä" * 2000, finish_reason="stop", usage=Usage(prompt_tokens=3), model="m", id="1", tries=2)
    await cache.put(KEY, reply)
    assert rows_in(cache_folder) == 1
    assert cache.get(KEY) == reply
    assert cache.get(b"x" * 32) is None
    assert cache_of(cache)._sql("PRAGMA synchronous").fetchone() == (2,)
    cache.close()


async def test_closing_folds_everything_into_one_file(cache_folder: Path) -> None:
    """After `close` the database file alone holds every row: no write-ahead log is left beside it."""
    await fill(cache_folder, 50)
    assert files_in(cache_folder) == ["cache.db"]
    assert rows_in(cache_folder) == 50


async def test_rows_that_gather_are_committed_together(cache_folder: Path) -> None:
    """Puts that wait while a commit is under way share the next one."""
    cache = Cache.open(cache_folder)
    batches: list[int] = []
    write = cache._rows.write

    def counted(rows: list[tuple[bytes, bytes]]) -> None:
        batches.append(len(rows))
        write(rows)

    cache._rows.write = counted  # type: ignore[method-assign]
    await asyncio.gather(*(cache.put(key_of(n), Reply(text="t")) for n in range(3000)))
    cache.close()
    assert sum(batches) == 3000
    assert max(batches) <= cache_module.BATCH_ROWS
    assert len(batches) < 300


async def test_a_reply_that_comes_while_the_cache_drains_is_kept(cache_folder: Path) -> None:
    """Behind the last commit stands another: whoever waits for a row that came in the meantime is told of it."""
    cache = Cache.open(cache_folder)
    late, write = asyncio.Event(), cache._rows.write
    loop = asyncio.get_running_loop()
    go_on = threading.Event()

    def slow(rows: list[tuple[bytes, bytes]]) -> None:
        loop.call_soon_threadsafe(late.set)
        go_on.wait(10)
        write(rows)

    cache._rows.write = slow  # type: ignore[method-assign]
    first = asyncio.create_task(cache.put(b"1" * 32, Reply(text="one")))
    await late.wait()
    draining = asyncio.create_task(asyncio.to_thread(cache.drain))
    while cache._queue.empty():  # noqa: ASYNC110  (another thread puts the mark of the drain there)
        await asyncio.sleep(0.001)
    second = asyncio.create_task(cache.put(b"2" * 32, Reply(text="two")))
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.wait_for(asyncio.gather(first, second, draining), 10)
    cache.close()
    assert Cache.open(cache_folder).stats().rows == 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_writer_that_dies_holds_up_no_end(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without memory for a commit the cache still closes: no other writer is tried again and again."""
    cache = Cache.open(cache_folder)
    monkeypatch.setattr(cache, "_commit", lambda _: (_ for _ in ()).throw(MemoryError()))
    waiting = [asyncio.create_task(cache.put(key_of(n), Reply(text="t"))) for n in range(3)]
    await asyncio.sleep(0)
    await asyncio.wait_for(asyncio.to_thread(cache.drain), 10)
    for task in waiting:
        task.cancel()
    cache.close()


async def test_closing_commits_what_nobody_waits_for(cache_folder: Path) -> None:
    """A put whose caller was cancelled is still committed: it was paid for."""
    cache = Cache.open(cache_folder)
    task = asyncio.create_task(cache.put(KEY, Reply(text="paid")))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    cache.close()
    assert rows_in(cache_folder) == 1


async def test_nothing_is_evicted_by_age_or_size(cache_folder: Path) -> None:
    """The settings that make diskcache forget rows are off, whatever its defaults are."""
    cache = Cache.open(cache_folder)
    cache = cache_of(cache)
    assert (cache.eviction_policy, cache.cull_limit, cache.statistics) == ("none", 0, 0)
    assert cache.size_limit >= 2**60
    cache.close()


# --- hostile and damaged files ---------------------------------------------------------------------------------------


class Bomb:
    """Unpickles to a side effect."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> Any:
        return (os.mkdir, (str(self.canary),))


async def test_pickled_values_are_misses_and_never_run(cache_folder: Path, tmp_path: Path) -> None:
    """A row that says "unpickle me" (mode 4) is a miss; its code does not run."""
    await fill(cache_folder, 2)
    bomb = pickle.dumps(Bomb(tmp_path / "canary"))
    tamper(cache_folder, "UPDATE Cache SET mode = 4, value = ? WHERE key = ?", bomb, key_of(0))
    cache = Cache.open(cache_folder)
    assert cache.get(key_of(0)) is None
    assert cache.stats().damaged == 1
    cache.close()
    assert not (tmp_path / "canary").exists()


async def test_pickled_keys_are_refused_and_never_run(cache_folder: Path, tmp_path: Path) -> None:
    """A key that says "unpickle me" (raw 0) ends a listing with StorageError; its code does not run."""
    await fill(cache_folder, 1)
    bomb = pickle.dumps(Bomb(tmp_path / "canary"))
    tamper(cache_folder, "INSERT INTO Cache(key, raw, store_time, mode, value) VALUES (?, 0, 0, 1, ?)", bomb, b"v")
    cache = Cache.open(cache_folder)
    with pytest.raises(StorageError, match="foreign key"):
        list(cache.keys())
    assert cache.get(key_of(0)) is not None
    cache.close()
    assert not (tmp_path / "canary").exists()


async def test_rows_that_name_files_neither_read_nor_delete_them(cache_folder: Path, tmp_path: Path) -> None:
    """A row with an absolute file name is a miss, and writing over it leaves that file alone."""
    await fill(cache_folder, 1)
    secret = tmp_path / "secret.txt"
    secret.write_text("private")
    for mode in (1, 2, 3):
        tamper(cache_folder, "UPDATE Cache SET mode = ?, filename = ? WHERE key = ?", mode, str(secret), key_of(0))
        cache = Cache.open(cache_folder)
        assert cache.get(key_of(0)) is None
        await cache.put(key_of(0), Reply(text="new"))
        assert cache.get(key_of(0)) == Reply(text="new")
        cache.close()
    assert secret.read_text() == "private"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("size_limit", 1000), ("eviction_policy", "least-recently-used"), ("cull_limit", 10),
        ("sqlite_synchronous", 0), ("disk_min_file_size", 1), ("sqlite_journal_mode", "delete"),
        ("sqlite_foreign_keys=1; PRAGMA evil", 1), ("disk_compress_level", 9),
    ],
)  # fmt: skip
async def test_hostile_settings_are_refused(cache_folder: Path, name: str, value: object) -> None:
    """A database whose own settings would lose replies or smuggle in SQL is refused before diskcache reads them."""
    await fill(cache_folder, 1)
    tamper(cache_folder, "INSERT OR REPLACE INTO Settings VALUES (?, ?)", name, value)
    before = (cache_folder / "cache.db").read_bytes()
    with pytest.raises(StorageError, match=r"setting|was opened with"):
        Cache.open(cache_folder)
    assert (cache_folder / "cache.db").read_bytes() == before


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TRIGGER loose AFTER INSERT ON Cache BEGIN DELETE FROM Cache; END",
        (
            "CREATE TRIGGER Settings_more AFTER INSERT ON Cache FOR EACH ROW BEGIN"
            " UPDATE Settings SET value = value + 1 WHERE key = 'count'; DELETE FROM Cache; END"
        ),
        "CREATE TABLE more(x)",
        "CREATE VIEW Cached AS SELECT * FROM Cache",
        "CREATE INDEX Cache_slow ON Cache(length(zeroblob(1000) || value))",
        "CREATE INDEX other ON Settings(value)",
        "ALTER TABLE Cache ADD COLUMN twice GENERATED ALWAYS AS (zeroblob(1000000))",
    ],
)
async def test_foreign_objects_are_refused(cache_folder: Path, sql: str) -> None:
    """A trigger, table, view, index or generated column that no cache has is refused with the file untouched."""
    await fill(cache_folder, 1)
    tamper(cache_folder, sql)
    with pytest.raises(StorageError, match="no cache has"):
        Cache.open(cache_folder)
    assert rows_in(cache_folder) == 1


def test_a_view_in_place_of_the_settings_is_never_evaluated(cache_folder: Path) -> None:
    """A `Settings` that is an endless view is refused by its kind, not by reading it."""
    cache_folder.mkdir(mode=0o700)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS key, i AS value FROM n"
    with closing(sqlite3.connect(cache_folder / "cache.db")) as connection, connection:
        connection.execute(f"CREATE VIEW Settings AS {endless}")
    with pytest.raises(StorageError, match="view 'Settings'"):
        Cache.open(cache_folder)


async def test_a_forged_row_with_a_right_digest_but_wrong_types_is_a_miss(cache_folder: Path) -> None:
    """Replies of other types than ours are damaged rows, not crashes later on."""
    await fill(cache_folder, 1)
    good = {"text": "t", "finish_reason": "stop", "usage": {}, "model": "", "fingerprint": "", "id": "", "tries": 1}
    forgeries: list[Any] = [
        good | {"text": 5}, good | {"model": ["m"]}, good | {"usage": 3}, good | {"usage": []},
        good | {"usage": {"prompt_tokens": "many"}}, good | {"more": 1}, {}, [], "text", None,
    ]  # fmt: skip
    for number, forged in enumerate(forgeries, 1):
        row = pack(key_of(0), orjson.dumps(forged))
        tamper(cache_folder, "UPDATE Cache SET mode = 1, value = ?, filename = NULL WHERE key = ?", row, key_of(0))
        cache = Cache.open(cache_folder)
        assert cache.get(key_of(0)) is None, forged
        assert cache.damaged == 1, number
        cache.close()


@settings(deadline=None, max_examples=60)
@given(data=st.data(), text=st.text(max_size=2000), model=st.text(max_size=5))
def test_any_flipped_bit_in_a_row_is_noticed(data: st.DataObject, text: str, model: str) -> None:
    """A row comes back whole or not at all, compressed or not."""
    payload = Reply(text=text.encode("utf-8", "replace").decode(), model=model.encode("utf-8", "replace").decode())
    row = pack(KEY, payload.to_bytes())
    assert Reply.from_bytes(unpack(KEY, row) or b"") == payload
    bit = data.draw(st.integers(0, 8 * len(row) - 1))
    broken = bytearray(row)
    broken[bit // 8] ^= 1 << bit % 8
    assert unpack(KEY, bytes(broken)) is None
    assert unpack(b"o" * 32, row) is None
    assert unpack(KEY, row[: data.draw(st.integers(0, len(row) - 1))]) is None


async def test_a_damaged_row_is_a_counted_miss_and_can_be_replaced(cache_folder: Path) -> None:
    """A flipped bit on disk means one question asked again, and is counted; other rows are unaffected."""
    await fill(cache_folder, 3)
    with closing(sqlite3.connect(cache_folder / "cache.db")) as connection, connection:
        (row,) = connection.execute("SELECT value FROM Cache WHERE key = ?", (key_of(1),)).fetchone()
        broken = row[:-1] + bytes([row[-1] ^ 1])
        connection.execute("UPDATE Cache SET value = ? WHERE key = ?", (broken, key_of(1)))
    cache = Cache.open(cache_folder)
    assert cache.get(key_of(1)) is None
    assert cache.damaged == 1
    assert cache.get(key_of(2)) == Reply(text="text 2")
    assert (cache.stats().rows, cache.stats().damaged) == (2, 1)
    await cache.put(key_of(1), Reply(text="again"))
    assert cache.get(key_of(1)) == Reply(text="again")
    cache.close()


def test_a_compressed_row_that_unpacks_to_gigabytes_is_not_unpacked(cache_folder: Path) -> None:
    """A decompression bomb in a row stops at the cap and is a miss."""
    packer = zlib.compressobj(9)
    bomb = b"".join(packer.compress(bytes(2**20)) for _ in range(80)) + packer.flush()
    assert unpack(KEY, cache_disk.ROW_VERSION + cache_disk._digest(KEY, b"z" + bomb) + b"z" + bomb) is None


async def test_garbage_in_the_middle_of_the_file_costs_some_rows_and_no_crash(cache_folder: Path) -> None:
    """Pages overwritten with garbage are misses, or refused on opening; nothing wrong is handed out."""
    await fill(cache_folder, 400)
    data = bytearray((cache_folder / "cache.db").read_bytes())
    data[40960:61440] = bytes(range(256)) * 80
    (cache_folder / "cache.db").write_bytes(data)
    cache = Cache.open(cache_folder)
    found = [cache.get(key_of(n)) for n in range(400)]
    cache.close()
    assert all(reply is None or reply.text == f"text {n}" for n, reply in enumerate(found))
    assert 0 < sum(reply is not None for reply in found) < 400


def test_a_file_that_is_no_database_is_refused_and_kept(cache_folder: Path) -> None:
    """Something else in the cache's place is named, and not a byte of it changes."""
    cache_folder.mkdir(mode=0o700)
    (cache_folder / "cache.db").write_text("my diary " * 100)
    with pytest.raises(StorageError, match="not a cache that can be read") as caught:
        Cache.open(cache_folder)
    assert str(cache_folder) in caught.value.one_line()
    assert (cache_folder / "cache.db").read_text() == "my diary " * 100


def test_an_empty_database_file_is_refused(cache_folder: Path) -> None:
    """Zero bytes mean that something cut the cache off; the cure is named instead of paying for everything again."""
    cache_folder.mkdir(mode=0o700)
    (cache_folder / "cache.db").touch()
    with pytest.raises(StorageError, match="empty") as caught:
        Cache.open(cache_folder)
    assert "delete it" in caught.value.hint


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_may_write_to_is_refused(cache_folder: Path, mode: int) -> None:
    """Anybody could have planted replies in a folder that is open to others; the line says how to close it."""
    cache_folder.mkdir()
    cache_folder.chmod(mode)
    with pytest.raises(StorageError, match="others may write") as caught:
        Cache.open(cache_folder)
    assert caught.value.hint == f"chmod go-w {cache_folder}"


def test_a_symbolic_link_a_file_and_a_foreign_owner_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache's folder is this user's; by a link only where a person named it, not where a project has it."""
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    Cache.open(tmp_path / "link").close()
    monkeypatch.chdir(tmp_path)
    PROJECT.parent.symlink_to("real")
    with pytest.raises(StorageError, match="symbolic link"):
        Cache.open(PROJECT)
    PROJECT.parent.unlink()
    PROJECT.parent.mkdir()
    PROJECT.symlink_to("../real")
    with pytest.raises(StorageError, match="symbolic link"):
        Cache.open(PROJECT)
    assert sorted(path.name for path in (tmp_path / "real").iterdir()) == ["cache.db"]
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="cannot use"):
        Cache.open(tmp_path / "file")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(StorageError, match="another user"):
        Cache.open(tmp_path / "real")


@pytest.mark.parametrize("name", ["cache.db", "cache.db-wal", "cache.db-shm", "claims", "refused.json"])
@pytest.mark.parametrize("there", [True, False])
def test_row_119_links_inside_a_cache_are_not_followed(
    cache_folder: Path, tmp_path: Path, name: str, there: bool
) -> None:
    """Whatever a link in a cache's folder stands for is left as it is: exit 5, and the link is named."""
    Cache.open(cache_folder).close()
    target = tmp_path / "elsewhere"
    if there and name == "cache.db":
        (cache_folder / name).rename(target)
    elif there:
        target.mkdir() if name == "claims" else target.write_bytes(b"mine")
    before = target.read_bytes() if target.is_file() else b""
    (cache_folder / name).unlink(missing_ok=True)
    (cache_folder / name).symlink_to(target)
    for use in (Cache.open, lambda folder: refuse_foreign_database(folder / "cache.db")):
        if use is Cache.open or name.startswith("cache.db"):
            with pytest.raises(StorageError, match=f"{name} is a symbolic link") as caught:
                use(cache_folder)
            assert caught.value.exit_code == 5
    assert (target.exists(), target.read_bytes() if target.is_file() else b"") == (there, before)


def test_a_new_cache_is_this_users_alone(cache_folder: Path) -> None:
    """The folder is made with no rights for others."""
    Cache.open(cache_folder).close()
    assert cache_folder.stat().st_mode & 0o077 == 0


def test_the_disk_takes_and_gives_bytes_only(tmp_path: Path) -> None:
    """Nothing but bytes can be stored, and no other form of row can be read or removed."""
    disk = BytesDisk(str(tmp_path))
    with pytest.raises(TypeError):
        disk.put("text")
    with pytest.raises(TypeError):
        disk.store("text", read=False)
    with pytest.raises(TypeError):
        disk.store(b"text", read=True)
    with pytest.raises(StorageError):
        disk.get("text", raw=True)
    assert disk.fetch(1, None, "text", read=False) is None
    assert disk.hash(KEY) == int.from_bytes(KEY[:8], "big")


# --- file systems that cannot be written -----------------------------------------------------------------------------


async def test_a_read_only_cache_serves_hits_and_says_why_it_keeps_nothing(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing can be written, what is there is served; keeping a new reply is a StorageError with two cures."""
    await fill(cache_folder, 3)
    monkeypatch.setattr(cache_module, "_can_write", lambda _: False)
    cache = Cache.open(cache_folder, patience_s=0.1)
    assert not cache.writable
    assert cache.get(key_of(2)) == Reply(text="text 2")
    assert cache.get(key_of(9)) is None
    assert cache.stats().rows == 3
    with pytest.raises(StorageError, match="read-only") as caught:
        await cache.put(KEY, Reply(text="new"))
    assert "--offline" in caught.value.hint
    cache.close()
    assert rows_in(cache_folder) == 3


async def test_a_read_only_cache_has_the_rows_that_a_killed_writer_left_in_the_log(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows still in SQLite's write-ahead log are hits on a read-only cache too."""
    await fill(cache_folder, 2)
    killed = "m = Cache.open(folder); asyncio.run(m.put(b'z' * 32, Reply(text='late'))); os._exit(9)"
    run_python(killed, cache_folder)
    assert (cache_folder / "cache.db-wal").stat().st_size > 0
    monkeypatch.setattr(cache_module, "_can_write", lambda _: False)
    cache = Cache.open(cache_folder)
    assert cache.get(b"z" * 32) == Reply(text="late")
    cache.close()


def test_only_refusals_to_write_make_a_cache_read_only(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EROFS and EACCES mean read-only; a full disk does not, since its cure is another."""
    cache_folder.mkdir()
    assert cache_module._can_write(cache_folder)
    assert list(cache_folder.iterdir()) == []
    for number, expected in ((13, False), (30, False), (28, True)):

        def fail(*_: object, number: int = number, **__: object) -> None:
            raise OSError(number, "no")

        monkeypatch.setattr(Path, "touch", fail)
        assert cache_module._can_write(cache_folder) is expected


READ_ONLY_MOUNT = """
mount -t tmpfs -o size=16m,mode=700 tmpfs "$1" && cp "$2"/cache.db "$1"/ && mount -o remount,ro "$1" || exit 90
exec "$3" -c "
import asyncio, sys
from pathlib import Path
from svr_async.engine.cache import Cache
cache = Cache.open(Path(sys.argv[1]))
assert not cache.writable and cache.get((2).to_bytes(32, 'big')).text == 'text 2'
cache.close()
" "$1"
"""
FULL_MOUNT = """
mount -t tmpfs -o size=1m,mode=700 tmpfs "$1" || exit 90
exec "$3" -c "
import asyncio, sys
from pathlib import Path
from svr_async.engine.cache import Cache
from svr_async.engine.reply import Reply
from svr_async.errors import StorageError
import os
async def main():
    folder = Path(sys.argv[1])
    cache, kept = Cache.open(folder, patience_s=0.3), 0
    try:
        for n in range(100000):
            await cache.put(n.to_bytes(32, 'big'), Reply(text=os.urandom(2000).hex()))
            kept += 1
    except StorageError as error:
        assert error.exit_code == 5 and 'full' in error.one_line(), error.one_line()
    else:
        raise SystemExit('never full')
    found = sum(cache.get(n.to_bytes(32, 'big')) is not None for n in range(kept))
    assert found == kept > 20, (found, kept)
    try:
        await cache.put(bytes(32), Reply(text='more'))
    except StorageError:
        pass
asyncio.run(main())
" "$1"
"""


@pytest.mark.parametrize("script", [READ_ONLY_MOUNT, FULL_MOUNT], ids=["read-only", "full"])
def test_real_mounts_behave_like_the_stand_ins(tmp_path: Path, script: str) -> None:
    """On a read-only file system hits are served; on a full one the run ends with exit code 5 and every row kept.

    Where this user may not mount anything, the stand-ins in the tests around this one are what is checked.
    """
    asyncio.run(fill(tmp_path / "source", 3))
    (tmp_path / "mount").mkdir(mode=0o700)
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", script, "sh"]
    arguments = [str(tmp_path / "mount"), str(tmp_path / "source"), sys.executable]
    try:
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, timeout=50, check=False, env=environment()
        )
    except FileNotFoundError:
        return
    may_not_mount = done.returncode == 90 or "unshare" in done.stderr
    assert may_not_mount or done.returncode == 0, done.stderr


# --- disks that are full, locks that are held ------------------------------------------------------------------------


class FlakyRows:
    """Real rows behind a disk that fails the first `failures` writes."""

    def __init__(self, rows: cache_module.Rows, failures: int, error: Exception) -> None:
        self.rows, self.failures, self.error = rows, failures, error

    def read(self, key: bytes) -> bytes | None:
        return self.rows.read(key)

    def write(self, rows: list[tuple[bytes, bytes]]) -> None:
        if self.failures > 0:
            self.failures -= 1
            raise self.error
        self.rows.write(rows)

    def read_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        return self.rows.read_many(keys)

    def keys(self) -> Iterator[bytes]:
        return self.rows.keys()

    def close(self) -> None:
        self.rows.close()


FULL = sqlite3.OperationalError("database or disk is full")


def flaky(folder: Path, failures: int, error: Exception, patience_s: float) -> Cache:
    """Return a cache on a disk that fails at first."""
    cache_disk.prepare_folder(folder)
    return Cache(
        folder, FlakyRows(cache_module._WritableRows(folder), failures, error), writable=True, patience_s=patience_s
    )


async def test_a_disk_that_has_room_again_loses_nothing(cache_folder: Path) -> None:
    """While the disk is full, puts wait; when there is room again, they succeed."""
    cache = flaky(cache_folder, 3, FULL, patience_s=30)
    await asyncio.gather(*(cache.put(key_of(n), Reply(text="t")) for n in range(10)))
    cache.close()
    assert rows_in(cache_folder) == 10


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (FULL, "is full"),
        (OSError(28, "No space left on device"), "is full"),
        (Timeout(), "another process holds it"),
        (sqlite3.OperationalError("disk I/O error"), "disk I/O error"),
    ],
)
async def test_a_disk_that_stays_broken_is_a_storage_error_that_says_why(
    cache_folder: Path, error: Exception, says: str
) -> None:
    """After its patience the cache gives up for good: exit code 5, with the reason, and no later put pretends."""
    cache = flaky(cache_folder, 10**9, error, patience_s=0.01)
    with pytest.raises(StorageError, match=says) as caught:
        await cache.put(KEY, Reply(text="t"))
    assert caught.value.exit_code == 5
    with pytest.raises(StorageError, match=says):
        await cache.put(KEY, Reply(text="t"))
    cache.close()


async def test_the_first_cause_is_named_when_the_rollback_fails_too(cache_folder: Path) -> None:
    """A failed ROLLBACK does not hide that the disk was full."""
    late = sqlite3.OperationalError("cannot rollback - no transaction is active")
    late.__context__ = FULL
    cache = flaky(cache_folder, 10**9, late, patience_s=0.01)
    with pytest.raises(StorageError, match="is full"):
        await cache.put(KEY, Reply(text="t"))
    cache.close()


async def test_a_lock_held_by_another_program_delays_and_does_not_lose(cache_folder: Path) -> None:
    """A foreign writer's lock holds puts up, not the event loop, and nothing is lost when it lets go."""
    await fill(cache_folder, 1)
    cache = Cache.open(cache_folder, patience_s=30)
    other = sqlite3.connect(cache_folder / "cache.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    task = asyncio.create_task(cache.put(KEY, Reply(text="t")))
    for _ in range(50):
        await asyncio.sleep(0)
        assert cache.get(key_of(0)) is not None
    assert not task.done()
    other.execute("COMMIT")
    other.close()
    await task
    cache.close()
    assert rows_in(cache_folder) == 2


def run_python(body: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run lines of Python that know `folder`, `Cache` and `Reply`."""
    head = f"""
        import asyncio, os, sys
        from pathlib import Path
        from svr_async.engine.cache import Cache
        from svr_async.engine.reply import Reply
        from svr_async.errors import StorageError
        folder = Path({str(folder)!r})
    """
    code = textwrap.dedent(head) + textwrap.dedent(body)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=False,
        env=environment(),
    )  # fmt: skip


WRITE_UNTIL_FULL = """
import resource, signal
resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
async def main():
    cache, kept = Cache.open(folder, patience_s=0.05), 0
    try:
        for n in range(10000):
            await cache.put(n.to_bytes(32, "big"), Reply(text=os.urandom(2000).hex()))
            kept += 1
    except StorageError as error:
        print(kept, error.exit_code, flush=True)
    os._exit(0)
asyncio.run(main())
"""


async def test_a_file_size_limit_ends_in_exit_five_and_a_later_run_goes_on(cache_folder: Path) -> None:
    """When the file can grow no further the writer stops with a StorageError; every row before is kept and usable."""
    done = run_python(WRITE_UNTIL_FULL, cache_folder)
    kept, code = map(int, done.stdout.split())
    assert code == 5
    cache = Cache.open(cache_folder)
    assert all(cache.get(key_of(n)) is not None for n in range(kept))
    assert kept > 20
    await cache.put(KEY, Reply(text="goes on"))
    cache.close()
    assert rows_in(cache_folder) >= kept + 1


# --- several processes, and one that dies ----------------------------------------------------------------------------

WRITE_MANY = """
async def main():
    cache, start = Cache.open(folder, patience_s=30), int(sys.stdin.readline())
    for block in range(10):
        numbers = range(start + 20 * block, start + 20 * block + 20)
        await asyncio.gather(*(cache.put(n.to_bytes(32, "big"), Reply(text=f"text {n}")) for n in numbers))
    cache.close()
asyncio.run(main())
"""


def start_python(body: str, folder: Path) -> subprocess.Popen[str]:
    """Start lines of Python that know `folder`, `Cache` and `Reply`, with pipes."""
    head = (
        "import asyncio, os, sys; from pathlib import Path; from svr_async.engine.cache import Cache; "
        f"from svr_async.engine.reply import Reply; folder = Path({str(folder)!r})\n"
    )
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", head + body], text=True, env=environment(), **pipes)


def test_processes_that_write_one_cache_at_once_all_succeed(cache_folder: Path) -> None:
    """Three processes create and fill the same cache together: the union of their rows is there and whole."""
    writers = [start_python(WRITE_MANY, cache_folder) for _ in range(3)]
    for number, process in enumerate(writers):
        assert process.stdin is not None
        process.stdin.write(f"{number * 150}\n")  # the ranges overlap
        process.stdin.flush()
    for process in writers:
        _, errors = process.communicate(timeout=50)
        assert process.returncode == 0, errors
    cache = Cache.open(cache_folder)
    assert [cache.get(key_of(n)) for n in range(500)] == [Reply(text=f"text {n}") for n in range(500)]
    assert cache.stats().rows == 500
    cache.close()


WRITE_FOR_EVER = r"""
async def one(cache, n):
    await cache.put(n.to_bytes(32, "big"), Reply(text=f"text {n}"))
    os.write(1, b"%d\n" % n)
async def main():
    cache, n = Cache.open(folder), int(sys.stdin.readline())
    while True:
        await asyncio.gather(*(one(cache, n + place) for place in range(8)))
        n += 8
asyncio.run(main())
"""


def kill_while_writing(folder: Path, kills: int) -> int:
    """Kill a writer again and again with SIGKILL; return how many rows it acknowledged. Each must be there."""
    acknowledged: set[int] = set()
    for round_ in range(kills):
        process = start_python(WRITE_FOR_EVER, folder)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{round_ * 1_000_000}\n")
        process.stdin.flush()
        for _ in range(1 + 13 * round_ % 60):  # the moment of the kill differs from round to round
            acknowledged.add(int(process.stdout.readline()))
        process.kill()
        rest, _ = process.communicate(timeout=50)
        acknowledged.update(int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n"))
        assert process.returncode == -signal.SIGKILL
    cache = Cache.open(folder)
    lost = [n for n in acknowledged if cache.get(key_of(n)) != Reply(text=f"text {n}")]
    assert not lost
    assert cache.stats().damaged == 0
    cache.close()
    return len(acknowledged)


def test_a_killed_writer_loses_no_acknowledged_row(cache_folder: Path) -> None:
    """After kill -9 at ten different moments every row whose `put` had returned is there."""
    assert kill_while_writing(cache_folder, 10) >= 10


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_killed_writer_loses_no_acknowledged_row_in_many_kills(cache_folder: Path) -> None:
    """The same after 200 kills."""
    assert kill_while_writing(cache_folder, 200) >= 200


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300))
def test_reading_a_reply_raises_only_what_the_cache_expects(data: bytes) -> None:
    """Any bytes are a reply or one of three exceptions."""
    try:
        assert isinstance(Reply.from_bytes(data), Reply)
    except (ValueError, KeyError, TypeError):
        return


# --- born whole, opened without a write, locked by others -------------------------------------------------------------


def test_a_kill_while_the_cache_is_being_made_leaves_nothing_in_the_way(cache_folder: Path) -> None:
    """Killed at any file operation of its birth, a cache is not there or whole; the next run opens it without help."""
    body = """
        left, events = [int(sys.stdin.readline())], {"open", "os.mkdir", "os.link", "os.remove", "sqlite3.connect"}
        def watch(event, args):
            if event in events and str(folder) in str(args):
                left[0] -= 1
                if not left[0]:
                    os.kill(os.getpid(), 9)
        sys.addaudithook(watch)
        Cache.open(folder).close()
    """
    for number in range(1, 60):
        process = start_python(textwrap.dedent(body), cache_folder)
        process.communicate(f"{number}\n", timeout=50)
        Cache.open(cache_folder).close()
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL
        (cache_folder / "cache.db").unlink()
    else:
        pytest.fail("the birth has no end")
    assert number > 5


FULL_BIRTH = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
refused = 0
for room in [0, 1000, *range(4096, 500_000, 20_000)]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    try:
        Cache.open(folder).close()
    except StorageError as error:
        assert error.exit_code == 5 and not (folder / "cache.db").exists(), error.one_line()
        refused += 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    cache = Cache.open(folder)
    asyncio.run(cache.put(b"k" * 32, Reply(text="kept")))
    cache.close()
    (folder / "cache.db").unlink()
print(refused, os.listdir(folder))
"""


def test_a_disk_without_room_for_a_new_cache_leaves_nothing_in_the_way(cache_folder: Path) -> None:
    """With room for so many bytes and no more, a cache is made whole or refused with exit 5; later it opens."""
    done = run_python(FULL_BIRTH, cache_folder)
    assert done.returncode == 0, done.stderr
    refused, left = done.stdout.split(maxsplit=1)
    assert 3 < int(refused) < 27
    assert left.strip() == "[]"


async def test_what_a_killed_birth_left_is_removed_later(cache_folder: Path) -> None:
    """Old remains go away when a cache is made; those of a birth under way stay."""
    cache_disk.prepare_folder(cache_folder)
    for name, age_s in ((".new-1-old", 1000), (".new-2-new", 0)):
        (cache_folder / name).mkdir(mode=0o700)
        (cache_folder / name / "cache.db").touch()
        os.utime(cache_folder / name, (time.time() - age_s,) * 2)
    await fill(cache_folder, 1)
    assert files_in(cache_folder) == [".new-2-new", "cache.db"]


async def test_opening_a_whole_cache_writes_nothing(cache_folder: Path) -> None:
    """A cache that has all its tables and settings is opened, read and closed with every byte as it was."""
    await fill(cache_folder, 3)
    before = (cache_folder / "cache.db").read_bytes()
    cache = Cache.open(cache_folder)
    assert cache.get(key_of(2)) == Reply(text="text 2")
    assert type(cache_of(cache)).__name__ == "_HeldCache"
    assert cache_of(cache)._sql("PRAGMA synchronous").fetchone() == (2,)
    assert cache_of(cache)._sql("PRAGMA journal_mode").fetchone() == ("wal",)
    cache.close()
    assert (cache_folder / "cache.db").read_bytes() == before


@pytest.mark.parametrize(
    "sql",
    ["DROP TRIGGER Settings_size_update", "DROP INDEX Cache_expire_time", "DELETE FROM Settings WHERE key = 'count'"],
)
async def test_a_cache_that_lacks_a_part_is_mended_on_opening(cache_folder: Path, sql: str) -> None:
    """A missing trigger, index or setting is put back by opening the cache, and no row is lost."""
    await fill(cache_folder, 3)
    tamper(cache_folder, sql)
    await fill(cache_folder, 4)
    assert rows_in(cache_folder) == 4
    cache = Cache.open(cache_folder)
    assert type(cache_of(cache)).__name__ == "_HeldCache"
    cache.close()


HOLD_LOCK = """
import sqlite3
connection = sqlite3.connect(folder / "cache.db", isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
"""


async def test_row_076_writes_queue_while_another_process_holds_the_lock(cache_folder: Path) -> None:
    """While a foreign process holds the write lock the loop turns and hits are served; then every write is kept."""
    await fill(cache_folder, 1)
    cache = Cache.open(cache_folder, patience_s=60)
    process = start_python(HOLD_LOCK, cache_folder)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    puts = [asyncio.create_task(cache.put(key_of(n), Reply(text=f"text {n}"))) for n in range(1, 200)]
    until = time.monotonic() + 1.0
    turns = 0
    while time.monotonic() < until:
        await asyncio.sleep(0.001)
        assert cache.get(key_of(0)) is not None
        turns += 1
    assert turns > 20
    assert not any(put.done() for put in puts)
    process.communicate("\n", timeout=50)
    await asyncio.gather(*puts)
    cache.close()
    assert rows_in(cache_folder) == 200
