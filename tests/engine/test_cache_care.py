"""Repairing and clearing a cache: every row that is whole is saved wherever it lies, and only what was named goes."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from svr_async.engine.cache import Cache
from svr_async.engine.cache_corrupt import refuse_corrupt
from svr_async.engine.cache_gc import Rule, collect_garbage
from svr_async.engine.cache_repair import repair_cache
from svr_async.engine.reply import Reply
from svr_async.errors import StorageError

PAGE = 4096


def key_of(number: int) -> bytes:
    """Return the key of row `number`, spread like a digest."""
    return random.Random(number).randbytes(32)


def reply_of(number: int) -> Reply:
    """Return a reply; every seventh needs overflow pages, every hundredth many."""
    size = 60_000 if number % 100 == 50 else 6000 if number % 7 == 0 else 40
    return Reply(text=random.Random(number).randbytes(size).hex(), model="old" if number % 3 else "new")


def fill(folder: Path, count: int) -> None:
    """Write a cache."""

    async def write() -> None:
        cache = Cache.open(folder)
        await asyncio.gather(*(cache.put(key_of(number), reply_of(number)) for number in range(count)))
        cache.close()

    asyncio.run(write())


def there(folder: Path, count: int) -> list[bool]:
    """Say of each row whether it is there; one that is must be its own."""
    cache = Cache.open(folder)
    found = [cache.get(key_of(number)) for number in range(count)]
    cache.close()
    assert all(one is None or one == reply_of(number) for number, one in enumerate(found))
    return [one is not None for one in found]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache of 300 rows."""
    folder = tmp_path_factory.mktemp("whole") / "cache"
    fill(folder, 300)
    return folder


def copy_of(whole: Path, place: Path) -> Path:
    """Return a copy of a cache in a folder of its own."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(whole, place)
    return place


def test_a_whole_cache_is_left_alone(whole: Path, tmp_path: Path) -> None:
    """Nothing to mend: the same bytes, no other file, and all rows are counted."""
    folder = copy_of(whole, tmp_path / "cache")
    before = (folder / "cache.db").read_bytes()
    done = repair_cache(folder)
    assert (done.rows, done.lost, done.kept_as) == (300, 0, None)
    assert (folder / "cache.db").read_bytes() == before
    assert not list(folder.glob("*corrupt*"))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_pages_cost_the_rows_on_them(whole: Path, tmp_path: Path, data: st.DataObject) -> None:
    """With any pages full of garbage, the new file opens, is sound, and has all rows of which no byte was hit."""
    folder = copy_of(whole, tmp_path / "cache")
    database = folder / "cache.db"
    held = bytearray(database.read_bytes())
    hit = data.draw(st.sets(st.integers(0, len(held) // PAGE - 1), min_size=1, max_size=6))
    for page in hit:
        held[page * PAGE : (page + 1) * PAGE] = random.Random(page).randbytes(PAGE)
    database.write_bytes(held)
    done = repair_cache(folder)
    assert done.kept_as is not None
    assert done.kept_as.read_bytes() == held
    found = there(folder, 300)
    assert sum(found) == done.rows
    assert 300 - sum(found) <= 80 * len(hit)  # the smallest rows are 130 bytes with all that SQLite adds
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_the_tree_above_the_rows_is_not_needed(whole: Path, tmp_path: Path) -> None:
    """Where all but the rows' own pages are gone, header included, each row that those held is saved."""
    folder = copy_of(whole, tmp_path / "cache")
    database = folder / "cache.db"
    held = bytearray(database.read_bytes())
    for start in range(0, len(held), PAGE):
        if start == 0 or held[start] in {2, 5, 10}:  # the inner pages of trees, and all of the indexes
            held[start : start + PAGE] = bytes(PAGE)
    database.write_bytes(held)
    with pytest.raises(StorageError, match="not a cache that can be read") as caught:
        Cache.open(folder)
    assert "svr cache repair" in caught.value.one_line()
    done = repair_cache(folder)
    assert (done.rows, all(there(folder, 300))) == (300, True)


def test_rows_in_the_log_are_saved_and_the_newest_version_counts(tmp_path: Path) -> None:
    """A kill leaves rows in the write-ahead log; they are in the new file, each as it was last kept."""
    folder = tmp_path / "cache"

    async def write() -> None:
        cache = Cache.open(folder)
        for number in range(60):
            await cache.put(key_of(number), reply_of(number or 1))
        await cache.put(key_of(0), reply_of(0))
        shutil.copytree(folder, tmp_path / "left")
        cache.close()

    asyncio.run(write())
    left = tmp_path / "left"
    held = bytearray((left / "cache.db").read_bytes())
    held[PAGE:] = os.urandom(len(held) - PAGE)
    (left / "cache.db").write_bytes(held)
    assert repair_cache(left).rows == 60
    assert all(there(left, 60))
    assert (left / "cache.db.corrupt-wal").exists()


def test_a_bad_sector_costs_what_is_on_it(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the disk refuses to give a page, the rows on all others are saved."""
    folder = copy_of(whole, tmp_path / "cache")
    held = bytearray((folder / "cache.db").read_bytes())
    held[:PAGE] = bytes(PAGE)
    (folder / "cache.db").write_bytes(held)
    leaves = [start for start in range(PAGE, len(held), PAGE) if held[start] == 13]
    read = os.pread

    def failing(handle: int, size: int, start: int) -> bytes:
        if start == leaves[-1]:
            raise OSError(errno.EIO, "made to fail")
        return read(handle, size, start)

    monkeypatch.setattr(os, "pread", failing)
    done = repair_cache(folder)
    assert 220 <= done.rows < 300
    assert sum(there(folder, 300)) == done.rows


def test_nothing_to_save_changes_nothing(tmp_path: Path) -> None:
    """Where no row can be read the file is left as it is, and the line says so."""
    (tmp_path / "cache").mkdir(mode=0o700)
    database = tmp_path / "cache" / "cache.db"
    for data in (b"", b"no database", os.urandom(5 * PAGE), b"SQLite format 3\x00" + os.urandom(4 * PAGE)):
        database.write_bytes(data)
        with pytest.raises(StorageError, match="no reply in") as caught:
            repair_cache(tmp_path / "cache")
        assert caught.value.exit_code == 5
        assert database.read_bytes() == data
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.name != "claims"] == ["cache.db"]


def test_a_second_repair_keeps_the_first_ones_file(whole: Path, tmp_path: Path) -> None:
    """No old file is ever overwritten."""
    folder = copy_of(whole, tmp_path / "cache")
    names = []
    for _ in range(3):
        held = bytearray((folder / "cache.db").read_bytes())
        held[-PAGE:] = os.urandom(PAGE)
        (folder / "cache.db").write_bytes(held)
        done = repair_cache(folder)
        names.append(done.kept_as and done.kept_as.name)
    assert names == ["cache.db.corrupt", "cache.db.corrupt.2", "cache.db.corrupt.3"]


@pytest.mark.parametrize("state", ["open", "asking"])
def test_a_cache_in_use_is_refused(whole: Path, tmp_path: Path, state: str) -> None:
    """While another process has the cache open, or holds its claims, neither repair nor clearing touches it."""
    folder = copy_of(whole, tmp_path / "cache")
    with subprocess.Popen(
        [sys.executable, "-c", _OTHER, str(folder), state], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        for work in (lambda: repair_cache(folder), lambda: collect_garbage(folder, Rule(), remove=True)):
            with pytest.raises(StorageError, match="in use by another process"):
                work()
        other.communicate(b"\n", timeout=30)
    assert other.returncode == 0
    assert repair_cache(folder).rows == 300


_OTHER = """
import asyncio, pathlib, sys
from svr_async.engine.claims import open_claims
from svr_async.engine.cache import Cache

async def main():
    folder = pathlib.Path(sys.argv[1])
    if sys.argv[2] == "open":
        held = Cache.open(folder)
    else:
        held = open_claims(folder)
        assert await held.obtain(b"k" * 32, lambda: False)
    print("ready", flush=True)
    sys.stdin.readline()
    if sys.argv[2] == "open":
        held.close()

asyncio.run(main())
"""


# --- clearing --------------------------------------------------------------------------------------------------------


def test_only_what_all_conditions_name_goes(whole: Path, tmp_path: Path) -> None:
    """Age and model each narrow the choice; what is counted first is what is removed then."""
    folder = copy_of(whole, tmp_path / "cache")
    with closing(sqlite3.connect(folder / "cache.db")) as connection, connection:
        for number in range(0, 300, 2):
            connection.execute("UPDATE Cache SET store_time = 1000 WHERE key = ?", (key_of(number),))
    goes = [number % 2 == 0 and number % 3 != 0 for number in range(300)]
    rule = Rule(before=2000.0, models=("old", "other"))
    counted = collect_garbage(folder, rule, remove=False)
    assert (counted.removed, counted.rows, counted.damaged) == (sum(goes), 300 - sum(goes), 0)
    assert all(there(folder, 300))
    done = collect_garbage(folder, rule, remove=True)
    assert (done.removed, done.rows) == (counted.removed, counted.rows)
    assert done.bytes_after < done.bytes_before
    assert there(folder, 300) == [not one for one in goes]


def test_without_a_condition_only_waste_goes(whole: Path, tmp_path: Path) -> None:
    """Damaged rows and what a killed process left are removed; every whole reply stays, and can be added to."""
    folder = copy_of(whole, tmp_path / "cache")
    cache = Cache.open(folder)
    cache._rows.write([(key_of(1), b"damaged"), (key_of(2), b"")])
    cache.close()
    (folder / ".new-99999-0a0b").mkdir()
    (folder / ".new-99999-0a0b" / "cache.db").write_bytes(b"half")
    done = collect_garbage(folder, Rule(), remove=True)
    assert (done.removed, done.damaged, done.files, done.rows) == (0, 2, 1, 298)
    assert not list(folder.glob(".new-*"))
    fill(folder, 3)
    assert all(there(folder, 300))
    assert collect_garbage(folder, Rule(), remove=True).damaged == 0


def test_a_damaged_file_is_not_cleared(whole: Path, tmp_path: Path) -> None:
    """Where pages are damaged, clearing says how to mend it first."""
    folder = copy_of(whole, tmp_path / "cache")
    held = bytearray((folder / "cache.db").read_bytes())
    for start in range(PAGE, len(held), PAGE):
        held[start : start + PAGE] = random.Random(start).randbytes(PAGE)
    (folder / "cache.db").write_bytes(held)
    with pytest.raises(StorageError) as caught:
        collect_garbage(folder, Rule(before=1e12), remove=True)
    assert "svr cache repair" in caught.value.one_line()


def zeroed(whole: Path, folder: Path, pages: list[int]) -> Path:
    """Copy a cache and write zeros over some pages."""
    shutil.copytree(whole, folder)
    with (folder / "cache.db").open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * PAGE)
            file.write(bytes(PAGE))
    return folder


def last_leaf(folder: Path) -> int:
    """Return the page that the next row goes to: the last leaf of the rows' own tree."""
    with closing(sqlite3.connect(folder / "cache.db")) as connection:
        root = int(connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'Cache'").fetchone()[0])
    data = (folder / "cache.db").read_bytes()
    page = root
    while data[(page - 1) * PAGE] == 0x05:  # an inner page: its right-most child
        page = int.from_bytes(data[(page - 1) * PAGE + 8 : (page - 1) * PAGE + 12], "big")
    return page


@pytest.mark.parametrize("found", ["reading", "writing"])
def test_a_corrupt_file_keeps_nothing_and_says_so_before_a_call_is_paid(
    whole: Path, tmp_path: Path, found: str
) -> None:
    """After the first error nothing is asked for, in later runs from the start, until the cache is repaired."""
    every_third = list(range(8, (whole / "cache.db").stat().st_size // PAGE, 3))
    folder = zeroed(whole, tmp_path / "cache", every_third if found == "reading" else [last_leaf(whole)])

    async def first() -> None:
        cache = Cache.open(folder, patience_s=60)  # a corrupt file is not waited for
        assert cache.refuse_to_keep() is None
        if found == "reading":
            there_are = [cache.get(key_of(number)) is not None for number in range(300)]
            assert 0 < sum(there_are) < 300
        else:
            with pytest.raises(StorageError, match="damaged and keeps nothing new"):
                await asyncio.wait_for(cache.put(key_of(300 + 1), reply_of(1)), 30)
        assert cache.refuse_to_keep() is not None
        cache.close()

    asyncio.run(first())
    later = Cache.open(folder)
    refused = later.refuse_to_keep()
    later.close()
    assert refused is not None
    assert "svr cache repair" in refused.hint
    assert repair_cache(folder).rows > 0
    after = Cache.open(folder)
    assert after.refuse_to_keep() is None
    after.close()


def test_a_corrupt_file_is_one_line_for_who_looks(whole: Path, tmp_path: Path) -> None:
    """Counting, verifying and the doctor end in a line that says how to go on, and leave the mark."""
    every_third = list(range(8, (whole / "cache.db").stat().st_size // PAGE, 3))
    folder = zeroed(whole, tmp_path / "cache", every_third)
    with pytest.raises(StorageError, match="damaged"):
        refuse_corrupt(folder)
    cache = Cache.open(folder)
    with pytest.raises(StorageError, match="damaged"):
        cache.stats()
    cache.close()
    refuse_corrupt(whole)
