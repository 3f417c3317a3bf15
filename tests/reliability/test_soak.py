"""The long runs behind the table of promises in docs/reliability.md: `make soak`, with every figure noted.

Wall-clock promises are asserted here only, with room for a slow machine; the figure itself goes into the report.
"""

from __future__ import annotations

import asyncio
import errno
import math
import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import pytest
from campaigns import faults, lag_while, outages, refused, smooth, stopped, together
from fuzzing import fuzz, inert, several
from hypothesis import HealthCheck, settings
from nursery import Ended, Nursery, Operation, Strike
from quoting import quoting
from rig import ask, engine_at, serving, sim_process, write_bank, write_bench
from serve_trials import serve_killed
from soak_report import note
from test_cache_machine import CacheMachine
from trials import KILLED, STORAGE, Site, Tally, killed_at_random, open_site, power_cuts, struck

from svr_async.engine.request import Question
from svr_async.engine.wires.registry import NAMES
from svr_async.simulation.config import SimConfig
from svr_async.simulation.faults import GROUPS

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]
ANYWHERE = Path("/")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> Iterator[Site]:
    """Serve an endpoint that takes a little time, with a small file of pairs."""
    with open_site(tmp_path_factory.mktemp("site"), nursery, config=SimConfig(latency_ms=10.0), pairs=12) as opened:
        yield opened


KILLS = int(os.environ.get("SOAK_KILLS", "200"))  # read when loaded: tests run in an environment of their own
SEED = int(os.environ.get("SOAK_SEED", "1000"))
CALLS = int(os.environ.get("SOAK_CALLS", "100000"))
FAULTS = int(os.environ.get("SOAK_FAULTS", "10000"))
FAULTS_A_QUESTION = 1.1  # where seven calls in ten are faulty, and at most two for one request
STATED = {"anthropic", "decisions", "systemone", "logprobs"}  # wires on which rubrics are judged; on others pairs are
QUESTIONS = {"logprobs": 10, "classify": 2, "pooling": 2, "score": 2}  # a pair, where there are more than one
QUICK_KINDS = tuple(kind for kind in GROUPS["mixed"] if kind not in {"429-date", "huge", "gzip-bomb"})


def test_kills_at_random_moments(site: Site) -> None:
    """P1, P2: killed at 200 random moments (SOAK_KILLS), no acknowledged reply is lost and none is paid for again."""
    tally, seeds = Tally(), count(SEED)
    while tally.killed < KILLS:  # a kill may come too late
        tally += killed_at_random(site, [next(seeds)], longest_s=0.5)
    note("P1", "kill -9 at random moments", killed=tally.killed, came_too_late=tally.untouched, lost=0, paid_again=0,
         cut_off_in_flight=tally.cut_off, allowed_in_flight=tally.killed * site.under_way)  # fmt: skip


def test_kills_of_a_server_at_random_moments(tmp_path: Path) -> None:
    """P1, P2: svr serve killed while clients ask: what it had answered it answers again, the same and unpaid."""
    with serving(SimConfig(latency_ms=10.0)) as sim:
        tally = serve_killed(sim, tmp_path, range(SEED, SEED + max(1, KILLS // 4)), longest_s=0.4, count=24)
    note("P1", "kill -9 of svr serve at random moments", killed=tally.killed, answered_before=tally.answered, lost=0,
         paid_again=tally.paid_again, cut_off_in_flight=tally.cut_off)  # fmt: skip


def test_two_hundred_power_cuts(site: Site) -> None:
    """P3: killed at 200 random moments, with all bytes since the last sync lost: the promises of a kill hold."""
    tally = power_cuts(site, range(3000, 3200), longest_s=0.5)
    note("P3", "power cuts: unsynced bytes dropped", trials=tally.trials, killed=tally.killed,
         bytes_dropped=tally.dropped, lost=0, paid_again=0, cut_off_in_flight=tally.cut_off)  # fmt: skip


@pytest.mark.parametrize("mode", ["die", "die after"])
def test_a_kill_at_every_commit_boundary(site: Site, mode: str) -> None:
    """P1: killed right before, and right after, each sync of a run: each time the next run completes."""
    many = counted(site, Operation.SYNC)
    strikes = [Strike(under=ANYWHERE, operation=Operation.SYNC, nth=nth, mode=mode) for nth in range(1, many + 1)]
    tally = struck(site, strikes, codes=[KILLED])
    note("P1", f"kill -9 at every commit boundary ({mode})", trials=tally.trials, killed=tally.killed, lost=0,
         paid_again=0, cut_off_in_flight=tally.cut_off)  # fmt: skip
    assert tally.killed >= 0.8 * many


def test_reproductions_that_are_killed_five_times(nursery: Nursery, tmp_path: Path) -> None:
    """P1, P2: killed at random moments and begun again, tables have the bytes of a run without kills, calls in time."""
    data = ("--data", f"rubricbench={write_bench(tmp_path / 'rubricbench.jsonl', 200)}")
    tables = ("gap", "error_overlap", "cost", *data, "--bank", str(write_bank(tmp_path / "bank")), "-q")
    moments, killed, again = random.Random(SEED), 0, 0
    with serving(SimConfig(latency_ms=10.0)) as sim:

        def made(name: str, kill_after_s: float = 0.0) -> Ended:
            places = ("--out", str(tmp_path / name), "--cache", str(tmp_path / f"cache-{name}"), "--concurrency", "16")
            asked = ("repro", *tables, "--base-url", sim.base_url, *places)
            return nursery.run(*asked, cwd=tmp_path, kill_after_s=kill_after_s)

        assert made("whole").code == 0
        whole = paid = sim.stats()["paid"]
        while killed < max(5, KILLS // 10):
            name = f"killed-{killed}"
            cut = sum(made(name, moments.uniform(0.2, 1.5)).code < 0 for _ in range(5))
            assert made(name).code == 0
            before, paid = paid, sim.stats()["paid"]
            assert whole <= paid - before <= whole + cut * 16
            killed, again = killed + cut, again + paid - before - whole
            _same_tables(tmp_path / "whole", tmp_path / name)
    note("P2", "kill -9 of svr repro, gone on with", killed=killed, calls=whole, paid_again=again, other_bytes=0)


def _same_tables(whole: Path, other: Path) -> None:
    """Check that a report and its tables have the bytes of those without a kill."""
    files = ["report.md", *(str(path.relative_to(whole)) for path in (whole / "tables").iterdir())]
    assert all((whole / name).read_bytes() == (other / name).read_bytes() for name in files)


def counted(site: Site, operation: Operation) -> int:
    """Return how many operations of a kind a whole run does."""
    place = site.place("counted")
    done = site.run(place, strike=Strike(under=place, operation=operation))
    assert done.code == 0, done.err
    return done.count


def test_a_full_disk_at_each_of_two_hundred_writes(site: Site) -> None:
    """P19: full from the Nth write on, for N from 1 to 200: exit 5, and the next run completes."""
    strikes = [Strike(under=ANYWHERE, operation=Operation.WRITE, nth=nth) for nth in range(1, 201)]
    tally = struck(site, strikes, codes=[STORAGE])
    note("P19", "disk full from the Nth write on, N = 1…200", trials=tally.trials, exit_5=tally.codes[STORAGE],
         came_to_its_end=tally.untouched, resumed=tally.trials, cut_off_in_flight=tally.cut_off)  # fmt: skip
    assert tally.codes[STORAGE] > 100


@pytest.mark.parametrize("operation", list(Operation), ids=str)
@pytest.mark.parametrize("times", [1, -1], ids=["once", "for good"])
def test_every_operation_fails_once(site: Site, operation: Operation, times: int) -> None:
    """P19: each open, write, sync and rename fails with EIO, once or from there on: exit 0 or 5, and no loss."""
    many = counted(site, operation)
    step = max(1, many // 60)
    strikes = [
        Strike(under=ANYWHERE, operation=operation, nth=nth, times=times, error=errno.EIO)
        for nth in range(1, many + 1, step)
    ]
    tally = struck(site, strikes, codes=[STORAGE])
    assert operation.name is not None
    note("P19", f"EIO at the Nth {operation.name.lower()}, {'once' if times == 1 else 'for good'}",
         operations=many, trials=tally.trials, exit_5=tally.codes[STORAGE], went_on=tally.untouched)  # fmt: skip


def test_a_hundred_thousand_calls_with_three_in_ten_faulty(tmp_path: Path) -> None:
    """P4, P18: byte-identical items after 100,000 calls of which 30 % are faulty in more than twelve ways."""
    kinds = ",".join(kind for kind in GROUPS["mixed"] if kind != "429-date")
    reference = smooth(tmp_path, 40_000, "self-rubric")
    begun = time.monotonic()
    found = faults(tmp_path, reference, method="self-rubric", rate=0.3, kinds=kinds, concurrency=1024)
    note("P4", "30 % mixed faults, items byte-identical", calls=found.calls, kinds=len(found.kinds), paid=found.paid,
         kept=found.kept, after_billing=found.after_billing, lost=found.cut_off, unscored=0,
         seconds=round(time.monotonic() - begun))  # fmt: skip
    assert found.calls >= 100_000
    assert len(found.kinds) >= 12
    assert (found.cut_off, found.paid_again) == (0, 0)


@pytest.mark.parametrize(("wire", "client"), [*((wire, "lean") for wire in NAMES), ("openai", "aiohttp")], ids=str)
def test_faults_on_each_wire(wire: str, client: str, tmp_path: Path) -> None:
    """P4, P18: SOAK_FAULTS faulty calls on each wire, and over the other client: no item changes, all accounted for."""
    method = "oracle" if wire in STATED else "vanilla"
    pairs = math.ceil(1.05 * FAULTS / (FAULTS_A_QUESTION * QUESTIONS.get(wire, 1)))
    reference = smooth(tmp_path, pairs, method, wire)
    begun = time.monotonic()
    found = faults(
        tmp_path, reference, method=method, rate=0.7, kinds=",".join(QUICK_KINDS), concurrency=512, wire=wire,
        SVR_HTTP=client,
    )  # fmt: skip
    note("P4", f"mixed faults on the wire {wire} over {client}", faulty=found.kinds.total(), calls=found.calls,
         kinds=len(found.kinds), paid=found.paid, kept=found.kept, after_billing=found.after_billing,
         lost=found.cut_off, paid_again=found.paid_again, seconds=round(time.monotonic() - begun))  # fmt: skip
    assert found.kinds.total() >= FAULTS
    assert (found.cut_off, found.paid_again) == (0, 0)


@pytest.mark.parametrize("wire", NAMES[1:])
def test_kills_on_each_other_wire(wire: str, tmp_path: Path, nursery: Nursery) -> None:
    """P1, P2 on each wire: sixty kills at random moments lose nothing that was kept and pay for nothing twice."""
    method = "oracle" if wire in STATED else "vanilla"
    with open_site(tmp_path, nursery, config=SimConfig(latency_ms=5.0), pairs=12, method=method, wire=wire) as site:
        tally = killed_at_random(site, range(60), longest_s=0.5)
    note("P1", f"kill -9 on the wire {wire}", trials=tally.trials, killed=tally.killed, lost=0, paid_again=0,
         cut_off_in_flight=tally.cut_off)  # fmt: skip


def test_an_outage_of_a_minute_and_a_rolling_restart(tmp_path: Path) -> None:
    """P5: away for a minute, then restarting five times: the run completes by itself with the same items."""
    reference = smooth(tmp_path, 4000, "vanilla")
    restarts = [f"{start}:2{end}" for start, end in ((68, ""), (73, ":503"), (78, ""), (83, ":503"), (88, ""))]
    took_s = outages(tmp_path, reference, method="vanilla", concurrency=64, at=["3:60", *restarts], latency_ms=800)
    note("P5", "60 s outage, then a rolling restart; byte-identical", seconds=round(took_s))


def test_a_stop_with_four_thousand_calls_in_flight(tmp_path: Path) -> None:
    """P13: SIGTERM with 4,096 calls in flight ends the process in about ten seconds, which the calls may use."""
    smooth(tmp_path, 4500, "vanilla")
    found = stopped(tmp_path, in_flight=4096, latency_ms=60_000)
    note("P13", "SIGTERM with 4,096 calls in flight to the exit", **found)
    assert found["seconds"] < 20


@pytest.mark.parametrize("kind", ["401", "quota"])
def test_a_refusal_stops_the_run(tmp_path: Path, kind: str) -> None:
    """P11: at most `concurrency` calls after the first refusal, and the process is gone soon after."""
    smooth(tmp_path, 1000, "vanilla")
    found = refused(tmp_path, kind, concurrency=64, paid=200, latency_ms=300, rate=0.005)
    note("P11", f"fatal {kind}: further calls, exit", **found)
    assert found["further_calls"] <= 64
    assert found["seconds"] < 6


def test_one_poisoned_pair_of_ten_thousand(tmp_path: Path) -> None:
    """P12: a question on which the endpoint always fails costs at most twenty calls and holds nobody up."""

    async def measured(poison: bool) -> tuple[float, int]:
        args = ("--latency-ms", "20", *(("--poison", "question 5000.") if poison else ()))
        questions = [ask(f"This is question {n}.") for n in range(10_000)]
        with sim_process(tmp_path, *args) as url:
            folder = tmp_path / f"cache-{poison}"
            async with engine_at(url, folder, concurrency=128, wait_s=0.5, max_wait_s=60.0) as engine:
                begun, others = time.monotonic(), 0.0
                async for index, done in engine.map(_model(question, url) for question in questions):
                    if index != 5000:
                        assert done.value is not None
                        others = time.monotonic() - begun
                return others, engine.stats().sent - 10_000

    clean_s, _ = asyncio.run(measured(False))
    poisoned_s, extra = asyncio.run(measured(True))
    note("P12", "1 poisoned of 10,000", calls=extra + 1, the_others_took_s=round(poisoned_s, 1),
         without_poison_s=round(clean_s, 1))  # fmt: skip
    assert extra + 1 <= 20


def _model(question: Question[str], url: str) -> Question[str]:
    """Return the question for a model that the simulated endpoint serves."""
    from dataclasses import replace

    request = replace(question.request, model="gpt-oss-120b", endpoint=url)
    return replace(question, request=request)


@pytest.mark.parametrize("locked", [False, True], ids=["", "cache locked for 10 s"])
def test_the_event_loop_stays_awake(tmp_path: Path, locked: bool) -> None:
    """P14: with 512 calls in flight, and also while a foreign program holds the cache's lock, the loop never lags."""

    async def measured() -> list[float]:
        with sim_process(tmp_path, "--latency-ms", "50") as url:
            async with engine_at(url, tmp_path / "cache", concurrency=512) as engine:
                engine.cache._patience_s = 60.0

                async def work() -> None:
                    async for _ in engine.map(_model(ask(f"question {n}"), url) for n in range(20_000)):
                        pass

                return await lag_while(work())

    holder = threading.Thread(target=_hold_lock, args=(tmp_path / "cache" / "cache.db", 10.0))
    if locked:
        holder.start()
    late = asyncio.run(measured())
    if locked:
        holder.join()
    p50, p99 = (late[int(len(late) * share)] for share in (0.5, 0.99))
    note("P14", f"event-loop lag, 512 in flight{', cache locked for 10 s' if locked else ''}", samples=len(late),
         p50_ms=round(p50, 1), p99_ms=round(p99, 1), max_ms=round(late[-1], 1))  # fmt: skip
    assert p99 < 250


def _hold_lock(database: Path, seconds: float) -> None:
    """Hold a cache's write lock from another connection, as another program may."""
    while not database.exists() or not database.stat().st_size:
        time.sleep(0.05)
    time.sleep(2.0)
    with closing(sqlite3.connect(database, isolation_level=None, timeout=30)) as other:
        other.execute("BEGIN IMMEDIATE")
        time.sleep(seconds)
        other.execute("ROLLBACK")


def test_memory_and_descriptors_over_a_long_day(tmp_path: Path) -> None:
    """P7: SOAK_CALLS calls, of which 5 % bring 256 KB of nothing, some late, many reconnects: neither grows."""
    seen: list[tuple[float, int]] = []

    async def measured(port: int) -> int:
        url = f"http://127.0.0.1:{port}/v1"
        async with engine_at(url, tmp_path / "cache", concurrency=128) as engine:
            asked = (_model(ask(f"question {n}"), url) for n in range(CALLS))
            async for index, done in engine.map(asked):
                assert done.value is not None
                if index % max(1, CALLS // 40) == 0:
                    seen.append(held())
            return engine.stats().sent

    with rough_server() as port:
        sent = asyncio.run(measured(port))
    rest = seen[len(seen) // 4 :]
    grown = max(mb for mb, _ in rest[-5:]) - min(mb for mb, _ in rest[:5])
    note("P7", "memory and descriptors over many calls", calls=sent, questions=CALLS, mb_first=round(rest[0][0]),
         mb_last=round(rest[-1][0]), mb_most=round(max(mb for mb, _ in seen)), fds_first=rest[0][1],
         fds_last=rest[-1][1], fds_most=max(fds for _, fds in seen))  # fmt: skip
    assert grown < 40 + 24e-6 * CALLS  # the keys of what was asked take up to 24 bytes each
    half = len(rest) // 2
    assert max(fds for _, fds in rest[half:]) <= max(fds for _, fds in rest[:half]) + 32


def held() -> tuple[float, int]:
    """Return the memory that this process holds of its own, in MB, and how many descriptors."""
    anon = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon"))
    return int(anon.split()[1]) / 1000, len(list(Path("/proc/self/fd").iterdir()))


@contextmanager
def rough_server() -> Iterator[int]:
    """Serve the rough endpoint in a process of its own; yields its port."""
    script = Path(__file__).with_name("rough_server.py")
    process = subprocess.Popen([sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.communicate(timeout=20)


def test_four_processes_on_one_cache(tmp_path: Path) -> None:
    """P2: four runs at once on one cache end with the same items and pay once for each question."""
    reference = smooth(tmp_path, 3000, "vanilla")
    found = together(tmp_path, reference, processes=4, concurrency=32)
    note("P2", "4 processes on one cache, byte-identical", calls=found.calls, paid=found.paid, kept=found.kept,
         paid_twice=found.paid - found.kept)  # fmt: skip


def test_a_million_broken_replies() -> None:
    """P17: a million made and broken replies, five readers each: nothing uncaught, nothing outside the closed sets."""
    tally = fuzz(1_000_000, 17)
    same, differed = inert(50_000, 18), several(50_000, 19)
    quoted, flipped = quoting(200_000, 20)
    assert not flipped, flipped[0]
    note("P17", "replies made and broken", replies=1_000_000, readings=sum(tally.values()), read=tally["read"],
         uncaught=0, forgeries_inert=same, several_that_differ=differed, quoted=quoted.total(), flipped=0)  # fmt: skip


def test_the_cache_against_a_dictionary_at_length() -> None:
    """Two hundred sequences of up to fifty steps: puts, kills, damage, second writers, clock jumps."""
    CacheMachine.TestCase.settings = settings(
        max_examples=200, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
    )
    CacheMachine.TestCase().runTest()
    note("P1", "cache as a state machine against a dictionary", sequences=200, steps_at_most=50, differences=0)
