"""Rows 59 to 86 of the fault table that no other test carries: process, host, storage. See `rows.py` for the rest."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import orjson
import pytest
from checker import check
from rig import (
    ask,
    background,
    completion,
    judge_at,
    name_judge,
    pairs,
    run_python,
    scripted_engine,
    serving,
    svr,
    wait_until,
    write_bench,
)

from svr_async.engine import cache as cache_module
from svr_async.engine.cache import Cache
from svr_async.engine.reply import Reply
from svr_async.errors import StorageError
from svr_async.simulation.config import SimConfig
from svr_async.simulation.faults import FaultConfig
from svr_async.simulation.server import SimServer
from svr_async.vocabulary.pair import Order, present

N = 40
FLAGS = ("eval", "rubricbench", "--data", "../bench.jsonl", "--judge", "sim", "--out", "run", "--cache", "cache", "-q")


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SimServer, Path]]:
    """Serve an endpoint that takes its time, with a finished run over some pairs to compare with."""
    folder = tmp_path_factory.mktemp("slow")
    write_bench(folder / "bench.jsonl", N)
    with serving(SimConfig(latency_ms=80.0)) as server:
        (folder / "smooth").mkdir()
        name_judge(folder / "smooth", server.base_url)
        done = svr(*FLAGS, cwd=folder / "smooth")
        assert done.returncode == 0, done.stderr
        yield server, folder


def place_for(slow: tuple[SimServer, Path], name: str) -> Path:
    """Return a folder for one more run over the same pairs."""
    server, folder = slow
    place = folder / name
    place.mkdir()
    name_judge(place, server.base_url)
    server.reset()
    return place


def test_row_062_a_closed_terminal_is_a_stop_like_any_other(slow: tuple[SimServer, Path]) -> None:
    """SIGHUP drains like SIGTERM: exit 129, a partial run, and the next run pays for nothing twice."""
    server, folder = slow
    place = place_for(slow, "hangup")
    with background(*FLAGS, "--concurrency", "4", cwd=place) as process:
        wait_until(lambda: server.stats()["completed"] >= 10)
        process.send_signal(signal.SIGHUP)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 129, errors
    metrics = orjson.loads((place / "run" / "metrics.json").read_bytes())
    assert (metrics["complete"], metrics["n_total"] >= 10) == (False, True)
    assert svr(*FLAGS, cwd=place).returncode == 0
    check(server.log(), place / "cache", place / "run", reference=folder / "smooth" / "run")


def test_row_064_stopped_and_continued(slow: tuple[SimServer, Path]) -> None:
    """A process that is suspended for longer than a call may take goes on by itself, with the same bytes in the end."""
    server, folder = slow
    place = place_for(slow, "suspended")
    with background(*FLAGS, "--concurrency", "4", "--timeout", "0.4", cwd=place) as process:
        wait_until(lambda: server.stats()["completed"] >= 8)
        process.send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        wait_until(lambda: time.monotonic() > begun + 0.8)
        process.send_signal(signal.SIGCONT)
        _, errors = process.communicate(timeout=50)
        assert process.returncode == 0, errors
    check(server.log(), place / "cache", place / "run", reference=folder / "smooth" / "run", in_flight_at_kills=12)


@pytest.mark.parametrize("more_mib", [0, 1, 8])
def test_row_065_no_more_memory(slow: tuple[SimServer, Path], more_mib: int) -> None:
    """However a process ends that is given no more memory, the next run has what it paid for, and the same bytes.

    One in ten stands still in the event loop's own clean-up and has to be killed, as an operator would.
    """
    server, folder = slow
    place = place_for(slow, f"memory-{more_mib}")
    with background(*FLAGS, "--concurrency", "4", cwd=place) as process:
        wait_until(lambda: server.stats()["completed"] >= 8)
        pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + more_mib * 2**20
        resource.prlimit(process.pid, resource.RLIMIT_AS, (most, most))
        try:
            process.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate(timeout=15)
    again = svr(*FLAGS, cwd=place)
    assert again.returncode == 0, again.stderr
    check(server.log(), place / "cache", place / "run", reference=folder / "smooth" / "run", in_flight_at_kills=12)


# --- the cache on disk ------------------------------------------------------------------------------------------------


def key_of(number: int) -> bytes:
    """Return the key of row `number`."""
    return number.to_bytes(32, "big")


def test_row_074_a_log_cut_at_any_place(tmp_path: Path) -> None:
    """A write-ahead log that ends anywhere, or has a torn byte, gives the rows committed before that place."""
    source = tmp_path / "source"
    sizes = asyncio.run(_write_and_leave(source, 8))
    whole = (source / "cache.db-wal").read_bytes()
    places = sorted({*sizes, *(size - 1 for size in sizes), *(size + 5 for size in sizes), *range(1, len(whole), 4999)})
    for place in places:
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(source, copy)
        (copy / "cache.db-shm").unlink(missing_ok=True)
        (copy / "cache.db-wal").write_bytes(whole[:place] + (b"\xff" if place % 2 else b""))
        cache = Cache.open(copy)
        there = [cache.get(key_of(n)) for n in range(8)]
        cache.close()
        kept = sum(size <= place for size in sizes)
        assert all(one == Reply(text=f"text {n}") for n, one in enumerate(there[:kept])), place
        assert {one for one in there[kept:] if one is not None} <= {Reply(text=f"text {n}") for n in range(8)}
        assert cache.damaged == 0


async def _write_and_leave(folder: Path, count: int) -> list[int]:
    """Commit rows one by one and leave the log as a kill does; return its size after each commit."""
    cache = Cache.open(folder)
    sizes = []
    for number in range(count):
        await cache.put(key_of(number), Reply(text=f"text {number}"))
        sizes.append((folder / "cache.db-wal").stat().st_size)
    left = folder.with_name("left")
    shutil.copytree(folder, left)
    cache.close()
    shutil.rmtree(folder)
    left.rename(folder)
    return sizes


def test_row_071_a_page_full_of_garbage(tmp_path: Path) -> None:
    """A damaged page costs rows, which are asked again, and no crash; whole rows are still served."""
    folder = tmp_path / "cache"
    asyncio.run(_fill(folder, 400))
    data = bytearray((folder / "cache.db").read_bytes())
    data[-8192:-4096] = os.urandom(4096)
    (folder / "cache.db").write_bytes(data)
    cache = Cache.open(folder)
    found = [cache.get(key_of(n)) for n in range(400)]
    cache.close()
    assert sum(one is not None for one in found) > 200
    assert all(one is None or one == Reply(text=f"text {n}") for n, one in enumerate(found))


def test_row_071_what_can_be_read_is_saved_into_a_new_file(slow: tuple[SimServer, Path]) -> None:
    """`svr cache repair` makes a cache of the rows that are whole: the run is the same and pays for the others only."""
    server, folder = slow
    place = place_for(slow, "damaged")
    assert svr(*FLAGS, cwd=place).returncode == 0
    database = place / "cache" / "cache.db"
    data = bytearray(database.read_bytes())
    leaf = next(start for start in range(8192, len(data), 4096) if data[start] == 13)
    data[:100] = os.urandom(100)  # the header: no database any more
    data[leaf : leaf + 4096] = os.urandom(4096)
    database.write_bytes(data)
    refused = svr(*FLAGS, cwd=place)
    assert (refused.returncode, "svr cache repair" in refused.stderr) == (5, True)
    done = svr("cache", "repair", "--cache", "cache", "--json", cwd=place)
    facts = orjson.loads(done.stdout)
    assert (place / facts["kept_as"]).read_bytes() == data
    server.reset()
    assert svr(*FLAGS, cwd=place).returncode == 0
    kept = svr("cache", "stats", "--cache", "cache", "--json", cwd=place)
    assert (server.stats()["completed"], facts["rows"] > 20) == (
        orjson.loads(kept.stdout)["rows"] - facts["rows"],
        True,
    )
    assert (place / "run" / "items.jsonl").read_bytes() == (folder / "smooth" / "run" / "items.jsonl").read_bytes()


def test_row_067_a_disk_too_small_is_told_before_the_first_call(slow: tuple[SimServer, Path]) -> None:
    """A run that may not fit is refused with exit 5 and what is missing; --force begins it; a dry run shows both."""
    server, folder = slow
    place = place_for(slow, "small")
    shell = (
        "import shutil, types; shutil.disk_usage = lambda _: types.SimpleNamespace(free=20 * 2**20); "
        "from svr_async.commands import main; main()"
    )
    refused = run_python(shell, *FLAGS, cwd=place)
    assert (refused.returncode, refused.stderr.count("\n")) == (5, 1), refused.stderr
    assert "MiB" in refused.stderr
    assert "20 MiB are free" in refused.stderr
    assert "--force" in refused.stderr
    assert server.stats()["completed"] == 0
    planned = run_python(shell, *FLAGS, "--dry-run", cwd=place)
    assert "on the disk, where 20 MiB are free" in planned.stdout
    forced = run_python(shell, *FLAGS, "--force", cwd=place)
    assert forced.returncode == 0, forced.stderr
    assert (place / "run" / "items.jsonl").read_bytes() == (folder / "smooth" / "run" / "items.jsonl").read_bytes()


def test_row_077_a_cache_on_a_network_is_warned_about(slow: tuple[SimServer, Path]) -> None:
    """A run whose cache lies on a network file system says so in a line, and goes on."""
    place = place_for(slow, "network")
    shell = (
        "from svr_async.evaluation.running import space; space.file_system_of = lambda _: 'nfs4'; "
        "from svr_async.commands import main; main()"
    )
    done = run_python(shell, *FLAGS, "--limit", "2", cwd=place)
    assert (done.returncode, done.stderr.count("locks are not safe")) == (0, 1), done.stderr


async def _fill(folder: Path, count: int) -> None:
    cache = Cache.open(folder)
    await asyncio.gather(*(cache.put(key_of(n), Reply(text=f"text {n}")) for n in range(count)))
    cache.close()


async def test_row_076_a_lock_that_stays(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A foreign program that holds the lock for longer than our patience ends the run with exit 5, nothing lost."""
    await _fill(cache_folder, 1)
    monkeypatch.setattr(cache_module, "_LOCK_TIMEOUT_S", 0.1)
    cache = Cache.open(cache_folder, patience_s=0.0)
    with closing(sqlite3.connect(cache_folder / "cache.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError) as caught:
            await cache.put(key_of(1), Reply(text="t"))
        other.execute("ROLLBACK")
    assert caught.value.exit_code == 5
    assert cache.get(key_of(0)) == Reply(text="text 0")
    cache.close()


async def test_row_078_a_clock_that_jumps(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wall clock that jumps by days, back and forth, at every look changes neither answers nor waits."""
    day, looks, real = 86_400.0, 0, time.time

    def jumping() -> float:
        nonlocal looks
        looks += 1
        return real() + (-day if looks % 2 else day)

    monkeypatch.setattr(time, "time", jumping)
    faults = FaultConfig(rate=0.5, kinds=("429", "429-bare", "503", "reset"), retry_after_s=0.01)
    async with SimServer(SimConfig(faults=faults)) as sim, judge_at(sim.base_url, cache_folder) as judge:
        found = await asyncio.gather(*(judge.prefer(present(pair, Order.AB)) for pair in pairs(20)))
    assert all(answer.value is not None for answer in found)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # the fork is what is tested
def test_row_079_a_forked_child(cache_folder: Path) -> None:
    """A child of a fork may read the cache; that it may not write is an error at once, not a wait without end."""
    cache = Cache.open(cache_folder)
    with asyncio.Runner() as runner:
        runner.run(cache.put(key_of(0), Reply(text="ours")))
        child = os.fork()
        if not child:
            os._exit(_in_child(cache))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert cache.get(key_of(0)) == Reply(text="ours")
        runner.run(cache.put(key_of(1), Reply(text="goes on")))
    cache.close()


def _in_child(cache: Cache) -> int:
    """Return 0 where reading works and writing is refused."""
    signal.alarm(20)
    try:
        if cache.get(key_of(0)) != Reply(text="ours"):
            return 1
        asyncio.run(asyncio.wait_for(cache.put(key_of(2), Reply(text="theirs")), 5))
    except (RuntimeError, StorageError):
        return 0
    except BaseException:  # noqa: BLE001  (whatever else it is, the parent is told)
        return 2
    return 3


def test_row_080_another_event_loop(cache_folder: Path) -> None:
    """An engine that is used on a second event loop says so at once."""
    opened: list[object] = []

    async def first() -> None:
        context = scripted_engine(cache_folder, lambda *_: completion("yes"))
        engine, _ = await context.__aenter__()
        opened.extend([context, engine])
        assert (await engine.complete(ask("a"))).value == "yes"

    async def second() -> None:
        with pytest.raises(RuntimeError, match="event loop"):
            await asyncio.wait_for(opened[1].complete(ask("b")), 20)  # type: ignore[attr-defined]

    with asyncio.Runner() as runner:
        runner.run(first())
        asyncio.run(second())
        runner.run(opened[0].__aexit__(None, None, None))  # type: ignore[attr-defined]


async def test_row_085_a_disk_slower_than_the_network(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While commits are slow no more calls leave than may be in flight: what is paid for waits in small numbers."""
    write, unwritten, most = cache_module._WritableRows.write, 0, 0

    def slowly(self: object, rows: list[tuple[bytes, bytes]]) -> None:
        nonlocal unwritten
        time.sleep(0.02)
        write(self, rows)  # type: ignore[arg-type]
        unwritten -= len(rows)

    monkeypatch.setattr(cache_module._WritableRows, "write", slowly)

    def answer(*_: object) -> object:
        nonlocal unwritten, most
        unwritten += 1
        most = max(most, unwritten)
        return completion("yes")

    async with scripted_engine(cache_folder, answer, concurrency=8) as (engine, _):
        async for _index, done in engine.map(ask(f"q{n}") for n in range(100)):
            assert done.value == "yes"
    assert most <= 16
