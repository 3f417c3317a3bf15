"""Claims: of all processes on a cache one asks a question, the others wait for its reply; it ends with its process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rig import ask, completion, environment, read_lines, refusal, scripted_engine, sim_process, wait_until

from svr_async.engine import claims as claims_module
from svr_async.engine.claims import FileClaims, NoClaims, open_claims
from svr_async.engine.config import EngineConfig
from svr_async.engine.engine import LaneStoppedError
from svr_async.engine.filelocks import LockFile

ASKER = Path(__file__).with_name("asker.py")


def key_of(number: int) -> bytes:
    """Return a key whose every part depends on the number, as a digest's does."""
    return random.Random(number).randbytes(32)


def never() -> bool:
    """Do not stop."""
    return False


@contextlib.asynccontextmanager
async def claiming(folder: Path, count: int) -> AsyncIterator[list[FileClaims]]:
    """Open the claims of one cache several times, as several processes do."""
    opened = [FileClaims(folder) for _ in range(count)]
    try:
        yield opened
    finally:
        for one in opened:
            await one.close()


async def claim(claims: FileClaims, key: bytes) -> None:
    """Claim as an engine does."""
    assert claims.hold(key) or await claims.obtain(key, never)


async def test_a_question_is_never_claimed_twice_at_a_time(tmp_path: Path) -> None:
    """Four users that take and leave claims at random, alone and among others, never hold the same one together."""
    held: Counter[bytes] = Counter()
    taken = 0

    async def user(claims: FileClaims, draw: random.Random) -> None:
        nonlocal taken
        for _ in range(40):
            key = key_of(draw.randrange(6))
            await claim(claims, key)
            held[key] += 1
            taken += 1
            assert held[key] == 1
            await asyncio.sleep(draw.choice([0, 0, 0.001, 0.03]))
            held[key] -= 1
            claims.release(key)
            await asyncio.sleep(draw.choice([0, 0.001, 0.05]))

    async with claiming(tmp_path, 4) as opened:
        await asyncio.gather(*(user(one, random.Random(seed)) for seed, one in enumerate(opened * 2)))
    assert taken == 320


async def test_who_is_alone_claims_without_asking_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While no other process is about, claims beyond the first touch no file; the last release lets go of all."""
    async with claiming(tmp_path, 2) as (one, other):
        await claim(one, key_of(0))
        with monkeypatch.context() as patch:
            patch.setattr(LockFile, "take", None)
            patch.setattr(LockFile, "free", None)
            for number in range(1, 50):
                assert one.hold(key_of(number))
                one.release(key_of(number))
        one.release(key_of(0))
        assert await other.obtain(key_of(0), never)
        assert other.hold(key_of(1))


async def test_among_others_a_lock_outlives_its_release_by_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who misses a question in the cache just before its reply is kept cannot claim it without looking again."""
    async with claiming(tmp_path, 2) as (one, other):
        await claim(one, key_of(0))
        await claim(other, key_of(1))
        assert one.hold(key_of(2))
        one.release(key_of(2))
        assert not other.hold(key_of(2))
        assert one.hold(key_of(2))
        one.release(key_of(2))
        assert await other.obtain(key_of(2), never)
        assert other.hold(key_of(3))
        monkeypatch.setattr(claims_module, "LINGER_S", 0.0)
        assert not other.hold(key_of(4)), "the miss may be old"


async def test_who_is_alone_lets_others_in_and_is_alone_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second process gets other questions at once and waits only for those that are being asked."""
    monkeypatch.setattr(claims_module, "RENEW_S", 0.05)
    async with claiming(tmp_path, 2) as (one, other):
        for number in range(20):
            await claim(one, key_of(number))
        assert await other.obtain(key_of(99), never)
        waiting = asyncio.create_task(other.obtain(key_of(7), never))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        assert one.hold(key_of(50))
        assert not other.hold(key_of(50))
        one.release(key_of(7))
        assert await waiting
        for number in (7, 99):
            other.release(key_of(number))
        while one._mode.name != "ALONE":  # noqa: ASYNC110  (it is told of by no event)
            await asyncio.sleep(0.01)
        monkeypatch.setattr(LockFile, "take", lambda *_: False)
        assert one.hold(key_of(52))
        monkeypatch.undo()
        assert not await claimed_by(tmp_path, key_of(19))


async def claimed_by(folder: Path, key: bytes) -> bool:
    """Whether a third process could claim a question at once."""
    async with claiming(folder, 1) as (third,):
        waiting = asyncio.create_task(third.obtain(key, never))
        await asyncio.sleep(0.1)
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            return await waiting
    return False


async def test_who_has_nothing_left_lets_go_of_the_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that asks nothing any more stands in nobody's way, even if its event loop is busy with other things."""
    monkeypatch.setattr(claims_module, "RENEW_S", 0.0)
    async with claiming(tmp_path, 2) as (one, other):
        await claim(one, key_of(0))
        await claim(other, key_of(1))
        one.release(key_of(0))
        other.release(key_of(1))
        while one._timer is not None or other._timer is not None:  # noqa: ASYNC110  (it is told of by no event)
            await asyncio.sleep(0.01)
        third = FileClaims(tmp_path)
        assert await third.obtain(key_of(2), never)
        assert third._mode.name == "ALONE"
        await third.close()


async def test_what_is_released_after_the_end_touches_no_file(tmp_path: Path) -> None:
    """A call that is cancelled when its engine is closed already releases and claims nothing."""
    claims = FileClaims(tmp_path)
    await claim(claims, key_of(0))
    await claims.close()
    claims.release(key_of(0))
    assert not claims.hold(key_of(0))
    assert not await claims.obtain(key_of(0), never)


async def test_waiting_ends_when_the_run_stops_and_when_it_is_cancelled(tmp_path: Path) -> None:
    """A stop ends the wait without a claim; a wait that is cancelled leaves nothing behind."""
    stopped = asyncio.Event()
    async with claiming(tmp_path, 2) as (one, other):
        await claim(one, key_of(0))
        waiting = [asyncio.create_task(other.obtain(key_of(0), stopped.is_set)) for _ in range(2)]
        await asyncio.sleep(0.02)
        waiting[0].cancel()
        stopped.set()
        assert await waiting[1] is False
        one.release(key_of(0))
        assert await one.obtain(key_of(0), never)


HOLD = """
import asyncio, sys
from pathlib import Path
from svr_async.engine.claims import FileClaims
async def main():
    claims = FileClaims(Path(sys.argv[1]))
    await claims.obtain(bytes.fromhex(sys.argv[2]), lambda: False)
    print("held", flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


@contextlib.contextmanager
def holder(folder: Path, key: bytes) -> Iterator[subprocess.Popen[str]]:
    """Run a process that claims a question and keeps it."""
    command = [sys.executable, "-c", HOLD, str(folder), key.hex()]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


async def test_the_claims_of_a_killed_process_are_free_at_once(tmp_path: Path) -> None:
    """After kill -9 nothing has to run out or to be cleaned up."""
    with holder(tmp_path, key_of(0)) as process:
        async with claiming(tmp_path, 1) as (claims,):
            waiting = asyncio.create_task(claims.obtain(key_of(0), never))
            await asyncio.sleep(0.1)
            assert not waiting.done()
            process.kill()
            assert await waiting


@pytest.mark.parametrize("among", [False, True])
async def test_the_claims_of_a_process_that_hangs_end_with_its_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, among: bool
) -> None:
    """A stopped process keeps its claims for a lease; then others go on without them. One that works keeps its own."""
    monkeypatch.setattr(claims_module, "LEASE_S", 3.0)
    with holder(tmp_path, key_of(0)) as process:
        async with claiming(tmp_path, 1) as (claims,):
            if among:
                assert await claims.obtain(key_of(1), never)
            waiting = asyncio.create_task(claims.obtain(key_of(0), never))
            done, _ = await asyncio.wait([waiting], timeout=3.5)
            assert not done, "it gives signs of life"
            process.send_signal(signal.SIGSTOP)
            assert await waiting is False


async def test_a_full_disk_costs_the_lease_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no sign of life can be written, claims are taken and left as ever."""

    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", fail)
    async with claiming(tmp_path, 1) as (claims,):
        await claim(claims, key_of(0))
        claims.release(key_of(0))


async def test_without_such_locks_each_process_asks_by_itself(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On another system, or a file system without locks, an engine works as if it were the only one."""

    def fail(*_: object) -> None:
        raise OSError(37, "No locks available")

    with monkeypatch.context() as patch:
        patch.setattr(claims_module, "available", never)
        async with scripted_engine(cache_folder, lambda *_: completion("yes")) as (engine, _):
            assert (await engine.complete(ask())).value == "yes"
            assert isinstance(engine._claims, NoClaims)
    monkeypatch.setattr(LockFile, "holder", fail)
    claims = open_claims(cache_folder)
    assert isinstance(claims, NoClaims)
    assert claims.hold(key_of(0))
    assert not await claims.obtain(key_of(0), never)
    claims.release(key_of(0))
    await claims.close()


# --- engines ---------------------------------------------------------------------------------------------------------


def answering(gate: asyncio.Event, reply: Any) -> Callable[..., Any]:
    """Answer when the gate opens."""

    async def answer() -> Any:
        await gate.wait()
        return reply

    return lambda *_: answer()


async def test_engines_of_one_process_on_one_cache_share_claims_and_calls(cache_folder: Path) -> None:
    """Two engines of one program pay once for the same question, and stay alone on the cache."""
    gate = asyncio.Event()
    script = answering(gate, completion("yes"))
    async with (
        scripted_engine(cache_folder, script) as (one, first),
        scripted_engine(cache_folder, script) as (other, second),
    ):
        both = asyncio.gather(one.complete(ask()), other.complete(ask()), other.complete(ask("more")))
        await asyncio.sleep(0.05)
        assert one._claims is other._claims
        gate.set()
        values = [done.value for done in await both]
        assert values == ["yes", "yes", "yes"]
        assert len(first.sent) + len(second.sent) == 2
    assert one._claims is None


async def test_a_failure_elsewhere_is_not_an_answer_here(cache_folder: Path) -> None:
    """Who waited for a question that failed elsewhere asks it."""
    gate = asyncio.Event()
    async with (
        scripted_engine(cache_folder, answering(gate, refusal(400, "no"))) as (one, _),
        scripted_engine(cache_folder, lambda *_: completion("yes")) as (other, second),
    ):
        first = asyncio.create_task(one.complete(ask()))
        await asyncio.sleep(0.02)
        then = asyncio.create_task(other.complete(ask()))
        await asyncio.sleep(0.05)
        assert not then.done()
        gate.set()
        assert (await first).value is None
        assert (await then).value == "yes"
        assert len(second.sent) == 1


async def test_a_stop_turns_away_who_waits_for_a_claim(cache_folder: Path) -> None:
    """A run that stops does not wait for what another process is asking."""
    gate = asyncio.Event()
    script = answering(gate, completion("yes"))
    async with (
        scripted_engine(cache_folder, script) as (one, _),
        scripted_engine(cache_folder, script) as (other, sent),
    ):
        first = asyncio.create_task(one.complete(ask()))
        await asyncio.sleep(0.02)
        then = asyncio.create_task(other.complete(ask()))
        await asyncio.sleep(0.02)
        other.stop()
        with pytest.raises(LaneStoppedError):
            await then
        gate.set()
        assert (await first).value == "yes"
        assert sent.sent == []


async def test_an_engine_refuses_a_second_event_loop(cache_folder: Path) -> None:
    """Used from another thread's loop, an engine says so instead of hanging; its own loop goes on."""
    async with scripted_engine(cache_folder, lambda *_: completion("yes")) as (engine, _):
        await engine.complete(ask())

        def elsewhere() -> None:
            with pytest.raises(RuntimeError, match="another event loop or thread"):
                asyncio.run(use(engine))

        await asyncio.to_thread(elsewhere)
        assert (await engine.complete(ask("more"))).value == "yes"


async def use(engine: Any) -> None:
    """Ask something."""
    await engine.complete(ask("elsewhere"))


FORK = """
import asyncio, os, sys, warnings
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from rig import ask, completion, scripted_engine
from svr_async.engine.reply import Reply

async def child(engine):
    for what, use in (("engine", engine.complete(ask("b"))), ("cache", engine.cache.put(b"k" * 32, Reply(text="t")))):
        try:
            await asyncio.wait_for(use, 10)
        except RuntimeError as error:
            print(what, error, flush=True)

async def main():
    async with scripted_engine(Path(sys.argv[1]), lambda *_: completion("yes")) as (engine, _):
        assert (await engine.complete(ask("a"))).value == "yes"
        pid = os.fork()
        if not pid:
            asyncio.events._set_running_loop(None)
            asyncio.run(child(engine))
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        assert (await engine.complete(ask("b"))).value == "yes"

asyncio.run(main())
"""


def test_row_079_a_fork_after_opening_is_noticed(cache_folder: Path) -> None:
    """In a forked child engine and cache say what is wrong; nothing hangs, and the parent goes on."""
    command = [sys.executable, "-c", FORK, str(cache_folder), str(ASKER.parents[1])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False, env=environment())
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert [line.split()[0] for line in said] == ["engine", "cache"]
    assert all("fork" in line for line in said)


# --- several processes -----------------------------------------------------------------------------------------------


def start_asker(url: str, cache: Path, concurrency: int, first: int, count: int, seed: int) -> subprocess.Popen[str]:
    """Start a process that asks questions; it waits for its start."""
    command = [sys.executable, str(ASKER), url, str(cache), *map(str, (concurrency, first, count, seed))]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, env=environment(), **pipes)


def set_off(processes: list[subprocess.Popen[str]]) -> None:
    """Let all processes begin at once."""
    for process in processes:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.communicate()[1]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()


def paid(log: Path) -> Counter[str]:
    """Count the paid calls by request."""
    return Counter(line["key"] for line in read_lines(log) if line["paid"])


@pytest.mark.parametrize("concurrency", [pytest.param(1, marks=pytest.mark.soak), 16])
def test_row_075_four_processes_pay_once_for_each_question(tmp_path: Path, concurrency: int) -> None:
    """Four processes with overlapping questions, each in an order of its own: every key is paid exactly once."""
    log = tmp_path / "log.jsonl"
    with sim_process(tmp_path, "--latency-ms", "4", "--log", log) as url:
        askers = [start_asker(url, tmp_path / "cache", concurrency, 12 * seed, 36, seed) for seed in range(4)]
        set_off(askers)
        answered = [process.communicate(timeout=50) for process in askers]
    assert [process.returncode for process in askers] == [0] * 4, answered
    for seed, (told, _) in enumerate(answered):
        assert sorted(map(int, told.split())) == list(range(12 * seed, 12 * seed + 36))
    counts = paid(log)
    assert len(counts) == 72
    assert set(counts.values()) == {1}


def test_row_075_a_killed_holder_costs_what_it_had_in_flight(tmp_path: Path) -> None:
    """After kill -9 of one of three processes the others go on; at most its questions under way are paid twice."""
    log, concurrency = tmp_path / "log.jsonl", 8
    with sim_process(tmp_path, "--latency-ms", "60", "--log", log) as url:
        askers = [start_asker(url, tmp_path / "cache", concurrency, 0, 120, seed) for seed in range(3)]
        set_off(askers)
        wait_until(lambda: len(read_lines(log)) > 30)
        askers[0].kill()
        answered = [process.communicate(timeout=50) for process in askers]
    assert [process.returncode for process in askers] == [-signal.SIGKILL, 0, 0], answered
    assert all(len(told.split()) == 120 for told, _ in answered[1:])
    counts = paid(log)
    assert len(counts) == 120
    assert sum(counts.values()) - 120 <= EngineConfig(concurrency=concurrency).workers  # sent, or not yet committed
    assert max(counts.values()) <= 2


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_row_075_many_kills_cost_no_more_than_was_in_flight(tmp_path: Path) -> None:
    """Twelve kills among three processes, each replaced at once: every question is answered, little is paid twice."""
    log, concurrency, kills, count = tmp_path / "log.jsonl", 8, 12, 600
    with sim_process(tmp_path, "--latency-ms", "150", "--log", log) as url:
        askers = [start_asker(url, tmp_path / "cache", concurrency, 0, count, seed) for seed in range(3)]
        set_off(askers)
        for kill in range(kills):
            wait_until(lambda share=(kill + 1) / (kills + 1): len(read_lines(log)) > share * count)  # type: ignore[misc]
            victim = kill % 3
            askers[victim].kill()
            askers[victim].communicate()
            askers[victim] = start_asker(url, tmp_path / "cache", concurrency, 0, count, kill)
            set_off([askers[victim]])
        answered = [process.communicate(timeout=200) for process in askers]
    assert [process.returncode for process in askers] == [0] * 3, answered
    assert all(len(told.split()) == count for told, _ in answered)
    counts = paid(log)
    assert len(counts) == count
    assert sum(counts.values()) - count <= kills * EngineConfig(concurrency=concurrency).workers
    assert max(counts.values()) <= 3
