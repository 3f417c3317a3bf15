"""A run in several processes that share the cache: they ask, this process reads the replies back and writes the run.

Each worker judges its share of the pairs and tells when done; what it learns is in the cache. So a worker that dies
is replaced, what is left of its share is done here, and the run folder is that of a run in one process.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

import svr_async.errors
from svr_async.adapters.pair_shelf import pairs_at
from svr_async.engine.concurrency import DRAIN_AFTER_SIGNAL_S, ShutdownController
from svr_async.engine.events import Notice, tell_whole_run
from svr_async.engine.stats import EngineStats
from svr_async.errors import BudgetError, SvrError
from svr_async.evaluation.costs import CALLS, JudgeCost, joined
from svr_async.evaluation.items import Item
from svr_async.evaluation.run import Evaluation, run_evaluation
from svr_async.evaluation.running.bench import Bench
from svr_async.evaluation.running.listener import Listener
from svr_async.evaluation.running.prepared import Prepared
from svr_async.evaluation.running.settings import EvalSettings, to_plain
from svr_async.evaluation.running.shares import places_in
from svr_async.judges.open_judge import OpenJudge
from svr_async.judges.shares import Share

LIVES = 3  # how often a worker that is killed is started
LOOK_S = 0.05
GRACE_S = 2.0  # after the drain, until a worker that does not end is killed
LINE_BYTES = 2**24
TOLD = (*CALLS, "in_flight", "waiting")
SPENT = ("calls", "usd", "answered", "lost", "untold_usd")  # of a worker's part of the caps
DRAIN, QUICKLY = b"drain\n", b"quickly\n"
LAUNCH = (  # a bug is told by the parent, which meets it too; SVR_TRACE=1 shows it in the worker
    "import os, sys; os.environ.get('SVR_TRACE') or setattr(sys, 'excepthook', lambda *_: None); "
    "sys.path.append(sys.argv[1]); from svr_async.evaluation.running.worker import main; main()"
)


@dataclass(slots=True)
class Told:
    """What the workers have told: for each life of a worker its last report, and all pairs that are done."""

    reports: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    replayed: list[int] = field(default_factory=list)

    def count(self, place: int, name: str) -> Any:
        """Return a count of one judge over all workers."""
        return sum(facts[name] for facts in self.facts(place))

    def facts(self, place: int) -> list[dict[str, Any]]:
        """Return the last facts that each worker told of one judge; none from those that had not opened it."""
        held = [report["judges"][place] for report in self.reports.values() if report["judges"]]
        return [facts for facts in held if facts is not None]

    def end(self, who: tuple[int, int]) -> None:
        """Note that a worker has gone: nothing of it is under way."""
        for facts in self.reports.get(who, {}).get("judges", []):
            if facts is not None:
                facts.update(in_flight=0, waiting=0)

    def total(self, name: str) -> Any:
        """Return what all workers together called or paid."""
        return sum(report[name] for report in self.reports.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedBench(Bench):
    """The judges of a run whose questions are asked by worker processes: their counts are added to those from here."""

    told: Told

    def stats(self) -> EngineStats:
        """Return the facts of all engines, here and in the workers, as one."""
        found = [cost.stats for cost in self.costs() if cost.stats is not None]
        return joined(found, None if Bench.stats(self).usd is None else self.budget.usd)

    def costs(self) -> tuple[JudgeCost, ...]:
        """Return what each judge was asked, here and by the workers, and its price."""
        return tuple(replace(cost, stats=self._with_told(n, cost.stats)) for n, cost in enumerate(Bench.costs(self)))

    def _with_told(self, place: int, own: EngineStats | None) -> EngineStats | None:
        if own is None:
            return None
        sums = {name: getattr(own, name) + self.told.count(place, name) for name in TOLD}
        sums["cache_hits"] -= self.told.replayed[place] if self.told.replayed else 0
        usd = None if own.usd is None else own.usd + self.told.count(place, "usd")
        last = next((one["last_failure"] for one in self.told.facts(place) if one["last_failure"]), own.last_failure)
        return replace(own, **sums, usd=usd, last_failure=last)


def share_out(bench: Bench) -> SharedBench:
    """Return the judges as those of a run in several processes."""
    return SharedBench(settled=bench.settled, plan=bench.plan, judges=bench.judges, budget=bench.budget, told=Told())


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRun:
    """What the processes of a run have in common."""

    run: Prepared
    bench: SharedBench
    shutdown: ShutdownController
    listener: Listener


async def run_shared(
    shared: SharedRun, evaluation: Evaluation, ask: Callable[[SharedRun], Awaitable[None]]
) -> list[Item | None]:
    """Have every pair judged by those whom `ask` starts; return items as `run_evaluation` does."""
    bench, shutdown, told = shared.bench, shared.shutdown, shared.bench.told
    shutdown.engines = evaluation.engines
    await ask(shared)
    _carry_over(bench)
    items = await _replay(evaluation, sorted(told.done), shutdown)
    told.replayed = [0 if judge.engine is None else judge.engine.stats().cache_hits for judge in bench.judges]
    left = [place for place, item in enumerate(items) if item is None]
    if left and not shutdown.stopped:
        rest = replace(evaluation, pairs=pairs_at(evaluation.pairs, left))
        _put(items, left, await run_evaluation(rest, shutdown, on_item=shared.listener.done))
    tell_whole_run(bench.stats(), _model_of(bench), closing=True)
    return items


def _model_of(bench: Bench) -> str:
    return next((judge.profile.model for judge in bench.judges if judge.profile is not None), "")


def _carry_over(bench: SharedBench) -> None:
    """Take over what the workers spent, what failed for good and what was damaged."""
    for name in SPENT:
        setattr(bench.budget, name, bench.told.total(name))
    for place, judge in enumerate(bench.judges):
        if judge.engine is not None:
            judge.engine.reload_failures()
            judge.engine.cache.damaged += bench.told.count(place, "damaged")


async def _replay(evaluation: Evaluation, done: list[int], shutdown: ShutdownController) -> list[Item | None]:
    """Read back from the cache what the workers have done."""
    items: list[Item | None] = [None] * len(evaluation.pairs)
    reader = ShutdownController()
    pairs = pairs_at(evaluation.pairs, done)
    _put(items, done, await run_evaluation(replace(evaluation, pairs=pairs), reader))
    if reader.error is not None:
        shutdown.fail(reader.error)
    return items


def _put(items: list[Item | None], places: Iterable[int], found: Iterable[Item | None]) -> None:
    for place, item in zip(places, found, strict=True):
        items[place] = item


async def ask_in_processes(shared: SharedRun) -> None:
    """Have all shares done by processes; a worker that dies is replaced, and what ends one of them ends all."""
    count = min(shared.run.settings.processes, len(shared.run.record.pairs))
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(_do_share(shared, (number, count)))


async def _do_share(shared: SharedRun, share: Share) -> None:
    for life in range(LIVES):
        try:
            code = await _live(shared, share, life)
        except OSError as error:  # no memory, or no further process: this one judges the share
            shared.listener.note(f"worker {share[0] + 1} of {share[1]} cannot be started: {error.strerror}")
            return
        if code is None or shared.shutdown.stopped:
            return
        shared.listener.note(f"worker {share[0] + 1} of {share[1]} ended ({_ending(code)}); its share goes on")
        if code > 0:  # an exit code would come again: this process judges the share, or says why it cannot
            return


def _ending(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"


async def _live(shared: SharedRun, share: Share, life: int) -> int | None:
    """Run a worker to its end; return None where it has done what it could, else the code it died with."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", LAUNCH, str(Path(svr_async.errors.__file__).parents[1])),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=LINE_BYTES,
        start_new_session=True,  # Ctrl-C is passed on by this process, once
    )
    assert process.stdout is not None
    ear = asyncio.create_task(_stop_with(shared.shutdown, process))
    try:
        job = {"settings": to_plain(_settings_left(shared, share)), "folder": str(shared.run.folder)}
        _tell(process, orjson.dumps(job) + b"\n")
        places, ended = places_in(shared.run.record.pairs, share), False
        async for line in process.stdout:
            report = _report_in(line)
            ended = (report is not None and hear_report(shared, (share[0], life), report, places)) or ended
        code = await process.wait()
    finally:
        ear.cancel()
        shared.bench.told.end((share[0], life))
        _kill(process)
    return None if ended else code


def _settings_left(shared: SharedRun, share: Share) -> EvalSettings:
    """Return the settings of a share, its caps less what earlier lives of its worker have told to have spent."""
    told = [report for (number, _), report in shared.bench.told.reports.items() if number == share[0]]
    calls, usd = sum(report["calls"] for report in told), sum(report["usd"] + report["untold_usd"] for report in told)
    settings = shared.run.settings
    return replace(settings, limits=settings.limits.part(share, calls=calls, usd=usd), processes=1)


def _tell(process: asyncio.subprocess.Process, word: bytes) -> None:
    """Write to a worker; to one that is gone, nothing (event loops differ in what they raise then)."""
    assert process.stdin is not None
    with contextlib.suppress(RuntimeError, OSError):
        process.stdin.write(word)


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        if process.returncode is None:
            process.kill()


async def _stop_with(shutdown: ShutdownController, process: asyncio.subprocess.Process) -> None:
    """Tell a worker when the run stops, and kill it when it does not end."""
    while not shutdown.stopped:  # noqa: ASYNC110  (signal handlers and errors set it)
        await asyncio.sleep(LOOK_S)
    _tell(process, DRAIN if shutdown.error is None else QUICKLY)
    await asyncio.sleep(DRAIN_AFTER_SIGNAL_S + GRACE_S)
    _kill(process)


def _report_in(line: bytes) -> dict[str, Any] | None:
    """Return what a worker reports; None for half a line, and for what a library printed before the worker began."""
    try:
        found = orjson.loads(line) if line.endswith(b"\n") else None
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) and found.keys() & {"word", "ended"} else None


def hear_report(shared: SharedRun, who: tuple[int, int], message: dict[str, Any], places: Sequence[int]) -> bool:
    """Take a report of a worker, which counts the pairs of its share; return whether it was its last."""
    told = shared.bench.told
    if "word" in message:
        about, text = message["word"]
        shared.listener.hear(Notice(NoticeKind(about), text))
        return False
    told.reports[who] = message
    for place in {places[one] for one in message["done"]} - told.done:
        told.done.add(place)
        shared.listener.done(place)
    shared.bench.budget.usd = told.total("usd")
    tell_whole_run(shared.bench.stats(), _model_of(shared.bench))
    error = error_from(message["error"])
    if error is not None and not isinstance(
        error, BudgetError
    ):  # a worker has spent its part of the cap only: what is left is spent from here
        shared.shutdown.fail(error)
    return bool(message["ended"])


def report_of(bench: Bench | None, done: Sequence[int], error: SvrError | None, *, ended: bool) -> dict[str, Any]:
    """Return a worker's report: which pairs are done, what it has asked and spent so far, how it has ended."""
    judges = [] if bench is None else [_facts(judge) for judge in bench.judges]
    spent = {name: 0 if bench is None else getattr(bench.budget, name) for name in SPENT}
    return {"done": done, "judges": judges, **spent, "error": error_to_json(error), "ended": ended}


def _facts(judge: OpenJudge) -> dict[str, Any] | None:
    if judge.engine is None:
        return None
    stats = judge.engine.stats()
    facts = {name: getattr(stats, name) for name in TOLD}
    return facts | {
        "usd": stats.usd or 0.0,
        "damaged": judge.engine.cache.damaged,
        "last_failure": stats.last_failure,
    }


def error_to_json(error: SvrError | None) -> dict[str, str] | None:
    """Return an error as values that JSON has."""
    return None if error is None else {"kind": type(error).__name__, "message": error.message, "hint": error.hint}


def error_from(value: dict[str, str] | None) -> SvrError | None:
    """Read what `error_to_json` returned."""
    if value is None:
        return None
    kind = getattr(svr_async.errors, value["kind"], SvrError)
    error: SvrError = kind(value["message"], hint=value["hint"])
    return error
