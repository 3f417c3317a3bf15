"""An evaluation from its settings to its run folder, or to what it would ask."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

from svr_async.engine.loops import run_whole
from svr_async.engine.cache import local_folder
from svr_async.engine.shared.lending import lending
from svr_async.engine.stopper import Stopper
from svr_async.engine.words import About, Word
from svr_async.errors import SvrError, UsageError
from svr_async.evaluation.items import Item, WholeItems
from svr_async.evaluation.run import Evaluation, judge_pairs, run_evaluation
from svr_async.evaluation.running.bench import Bench, evaluation_of, open_bench
from svr_async.evaluation.running.cluster.start import need_ray
from svr_async.evaluation.running.dry_run import DryRunCount, guessed_by, total_count
from svr_async.evaluation.running.ending import Asked, end_judging
from svr_async.evaluation.running.listener import EvalResult, Listener
from svr_async.evaluation.running.prepared import Prepared, prepare
from svr_async.evaluation.running.processes import SharedBench, SharedRun, ask_in_processes, run_shared, share_out
from svr_async.evaluation.running.record import begin_run
from svr_async.evaluation.running.settings import EvalSettings
from svr_async.evaluation.running.shards import keep_shard, refuse_empty
from svr_async.evaluation.running.space import MOST_CALLS, free_bytes, network_note, room_at_most, room_for, shortage
from svr_async.judges.keys import naming_keys
from svr_async.judges.open_judge import OpenJudge
from svr_async.judges.shares import WHOLE
from svr_async.vocabulary.integrity import Integrity


def evaluate(settings: EvalSettings, listener: Listener | None = None) -> EvalResult:
    """Judge pairs and write the run folder; a folder with a part of the same run is completed.

    SvrError for what makes the run impossible, and for what ended it early: what was judged by then is in its folder.
    """
    return run_now(prepare(settings), listener or Listener())


def run_now(run: Prepared, listener: Listener) -> EvalResult:
    """Do what was prepared, on an event loop of its own."""
    limits, folder = run.settings.limits, run.folder
    if limits.dry_run:
        raise UsageError("a dry run judges nothing", hint="count_calls says what would be sent")
    refuse_empty(run)
    if run.settings.ray is not None and _sends(run):
        need_ray(run.settings.ray)
    if folder.exists() and not run.settings.resume:
        hint = "name another with --out, or leave --no-resume out"
        raise UsageError(f"{folder} exists and --no-resume is set", hint=hint)
    with keys_named(run):
        return run_whole(_run(run, listener))


def count_calls(run: Prepared, before: set[str] | None = None) -> dict[str, Any] | None:
    """Return calls, tokens, dollars and bytes to come, sending nothing; None where no judge sends anything.

    Replies that the cache holds are used, so that what depends on them is exact. Questions in `before` are not counted,
    and those that are counted are added to it.
    """
    with keys_named(run):
        plan = run_whole(_count_calls(run, set() if before is None else before))
    if plan is None:
        return None
    need, free = room_for(plan, len(run.record.pairs)).total, free_bytes(local_folder(run.settings.limits.cache))
    return plan | {"disk_bytes": need, "free_bytes": free}


def keys_named(run: Prepared) -> AbstractContextManager[None]:
    """Return what is entered while a run's judges are asked: an error about a key names the key's variable."""
    return naming_keys(name for judge in run.judges.judges for name in judge.spec.key_variables)


async def _run(run: Prepared, listener: Listener) -> EvalResult:
    await _look_around(run, listener)
    bench = await open_bench(run)
    try:
        evaluation, limits = evaluation_of(run, bench), run.settings.limits
        url = None if limits.offline else limits.shared
        async with lending(url, run.record.digest, limits.share, bench.budget, evaluation.engines) as lender:
            result = await _judge_and_write(run, bench, evaluation, listener)
            if lender is not None:
                lender.finished = result.complete
            return result
    finally:
        await bench.close()


def _sends(run: Prepared) -> int:
    """Return how many judges of a run may send anything."""
    return 0 if run.settings.limits.offline else sum(judge.profile is not None for judge in run.judges.judges)


async def _look_around(run: Prepared, listener: Listener) -> None:
    """Before the first call: say that the cache's disk is no good place; StorageError where it has too little room."""
    limits, pairs = run.settings.limits, len(run.record.pairs)
    sending = _sends(run)
    if not sending:
        return
    if note := network_note(local_folder(limits.cache)):
        listener.hear(Word(About.NOTE, note))
    own = run.method.facts.own
    most = MOST_CALLS if own is None else own.most_calls
    if run.settings.force or shortage(room_at_most(pairs, sending, most), local_folder(limits.cache), run.folder) is None:
        return
    counted = await _count_calls(run, set())
    error = None if counted is None else shortage(room_for(counted, pairs), local_folder(limits.cache), run.folder)
    if error is not None:
        raise error


async def _count_calls(run: Prepared, before: set[str]) -> dict[str, Any] | None:
    limits = replace(run.settings.limits, dry_run=True)
    run = replace(run, settings=replace(run.settings, limits=limits))
    bench = await open_bench(run)
    try:
        evaluation = evaluation_of(run, bench)
        planned = {
            judge.judge.name: DryRunCount(judge.engine, before=before)
            for judge in bench.sending
            if judge.engine is not None
        }
        if not planned:
            return None
        stopper = Stopper()
        await judge_pairs(replace(evaluation, guessed=partial(guessed_by, tuple(planned.values()))), stopper)
        stopper.reraise()
        before.update(*(one.keys for one in planned.values()))
        own = run.method.facts.own
        method = {} if own is None else {"method_calls": own.counted([evaluation.tallied()]), "assumes": own.assumes}
        return total_count({name: one.price() for name, one in planned.items()}) | method
    finally:
        await bench.close()


async def _judge_and_write(run: Prepared, bench: Bench, evaluation: Evaluation, listener: Listener) -> EvalResult:
    begin_run(run.folder, run.record, _judge_facts(run, bench))
    stopper, begun = Stopper(), time.monotonic()
    several = run.settings.processes > 1 or run.settings.ray is not None
    if several and bench.sending and not run.settings.limits.offline:
        bench = share_out(bench)
    items = await judge_all(run, bench, evaluation, listener, stopper)
    judged = [item for item in items if item is not None]
    if not judged and stopper.error is not None:
        raise stopper.error
    asked = Asked(
        judge=_judge_facts(run, bench),
        costs=bench.costs(),
        usd=bench.stats().usd if bench.sending else None,
        tallied=evaluation.tallied(),
        notes=_notes(bench),
        wall_s=time.monotonic() - begun,
    )
    metrics = end_judging(run, judged, [asked])
    if run.settings.limits.share != WHOLE:
        keep_shard(run, asked)
    result = EvalResult(
        folder=run.folder, metrics=metrics, items=WholeItems(judged), total=len(items), signal=stopper.signal
    )
    listener.ended(result)
    if stopper.error is not None:
        raise _with_progress(stopper.error, result.left)
    return result


async def judge_all(
    run: Prepared, bench: Bench, evaluation: Evaluation, listener: Listener, stopper: Stopper
) -> Sequence[Item | None]:
    """Judge all pairs, in other processes where the bench is shared out."""
    with listener.judging(len(evaluation.pairs), bench.stats if bench.sending else None, stopper):
        for engine in evaluation.engines:
            engine.tell(listener.hear)
        if not isinstance(bench, SharedBench):
            return await run_evaluation(evaluation, stopper, on_item=listener.done)
        shared = SharedRun(run=run, bench=bench, stopper=stopper, listener=listener)
        return await run_shared(shared, evaluation, ask_in_processes if run.settings.ray is None else _ask_on_ray)


async def _ask_on_ray(shared: SharedRun) -> None:
    from svr_async.evaluation.running.cluster.on_ray import ask_on_ray

    await ask_on_ray(shared)


def _with_progress(error: SvrError, left: str) -> SvrError:
    return type(error)(f"{error.message}; {left}", hint=error.hint)


def _judge_facts(run: Prepared, bench: Bench) -> dict[str, Any]:
    if run.method.facts.asks_judge:
        return bench.facts()
    return {"name": "none", "label": "no judge (content-blind baseline)", "marks": [Integrity.CONTENT_BLIND]}


def _notes(bench: Bench) -> tuple[str, ...]:
    return tuple(dict.fromkeys(note for judge in bench.judges for note in _judge_notes(judge)))


def _judge_notes(judge: OpenJudge) -> tuple[str, ...]:
    notes = []
    if judge.engine is not None and judge.profile is not None:
        others = sorted(filter(None, judge.engine.models - {judge.profile.model}))
        if others and judge.profile.model:
            notes.append(f"the endpoint answered as {', '.join(others)}, not {judge.profile.model}")
        if judge.engine.cache.damaged:
            notes.append(f"{judge.engine.cache.damaged} damaged cache rows were asked again")
    return tuple(notes)
