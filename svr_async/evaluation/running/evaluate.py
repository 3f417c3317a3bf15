"""An evaluation from its settings to its run folder, or to what it would ask."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

from svr_async.core.integrity import Integrity
from svr_async.engine.concurrency import ShutdownController, run_whole
from svr_async.errors import SvrError, UsageError
from svr_async.evaluation.items import Item
from svr_async.evaluation.run import Evaluation, judge_pairs, run_evaluation
from svr_async.evaluation.running.dry_run import DryRunCount, guessed_by, total_count
from svr_async.evaluation.running.ending import Asked, end_judging
from svr_async.evaluation.running.judge_pool import JudgePool, evaluation_of, open_judge_pool
from svr_async.evaluation.running.listener import EvalResult, Listener
from svr_async.evaluation.running.prepared import Prepared, prepare
from svr_async.evaluation.running.record import begin_run
from svr_async.evaluation.running.settings import EvalSettings
from svr_async.evaluation.running.shards import keep_shard, refuse_empty
from svr_async.judges.limits import WHOLE
from svr_async.judges.open_judge import OpenJudge
from svr_async.judges.profiles import naming_keys


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
    if folder.exists() and not run.settings.resume:
        hint = "name another with --out, or leave --no-resume out"
        raise UsageError(f"{folder} exists and --no-resume is set", hint=hint)
    with keys_named(run):
        return run_whole(_run(run, listener))


def count_calls(run: Prepared, before: set[str] | None = None) -> dict[str, Any] | None:
    """Return the calls, tokens and dollars of a run, sending nothing; None if no judge sends anything.

    Replies that the cache holds are used, so that what depends on them is exact. Questions in `before` are not counted,
    and those that are counted are added to it.
    """
    with keys_named(run):
        return run_whole(_count_calls(run, set() if before is None else before))


def keys_named(run: Prepared) -> AbstractContextManager[None]:
    """Return what is entered while a run's judges are asked: an error about a key names the key's variable."""
    return naming_keys(name for judge in run.judges.judges for name in judge.spec.key_variables)


async def _run(run: Prepared, listener: Listener) -> EvalResult:
    pool = await open_judge_pool(run)
    try:
        return await _judge_and_write(run, pool, evaluation_of(run, pool), listener)
    finally:
        await pool.close()


async def _count_calls(run: Prepared, before: set[str]) -> dict[str, Any] | None:
    limits = replace(run.settings.limits, dry_run=True)
    run = replace(run, settings=replace(run.settings, limits=limits))
    pool = await open_judge_pool(run)
    try:
        evaluation = evaluation_of(run, pool)
        planned = {
            judge.judge.name: DryRunCount(judge.engine, before=before)
            for judge in pool.sending
            if judge.engine is not None
        }
        if not planned:
            return None
        shutdown = ShutdownController()
        await judge_pairs(replace(evaluation, guessed=partial(guessed_by, tuple(planned.values()))), shutdown)
        shutdown.reraise()
        before.update(*(one.keys for one in planned.values()))
        own = run.method.facts.own
        method = {} if own is None else {"method_calls": own.counted([evaluation.tallied()]), "assumes": own.assumes}
        return total_count({name: one.price() for name, one in planned.items()}) | method
    finally:
        await pool.close()


async def _judge_and_write(run: Prepared, pool: JudgePool, evaluation: Evaluation, listener: Listener) -> EvalResult:
    begin_run(run.folder, run.record, _judge_facts(run, pool))
    shutdown, begun = ShutdownController(), time.monotonic()
    items = await judge_all(pool, evaluation, listener, shutdown)
    judged = [item for item in items if item is not None]
    if not judged and shutdown.error is not None:
        raise shutdown.error
    asked = Asked(
        judge=_judge_facts(run, pool),
        costs=pool.costs(),
        usd=pool.stats().usd if pool.sending else None,
        tallied=evaluation.tallied(),
        notes=_notes(pool),
        wall_s=time.monotonic() - begun,
    )
    metrics = end_judging(run, judged, [asked])
    if run.settings.limits.share != WHOLE:
        keep_shard(run, asked)
    result = EvalResult(folder=run.folder, metrics=metrics, items=judged, total=len(items), signal=shutdown.signal)
    listener.ended(result)
    if shutdown.error is not None:
        raise _with_progress(shutdown.error, result.left)
    return result


async def judge_all(
    pool: JudgePool, evaluation: Evaluation, listener: Listener, shutdown: ShutdownController
) -> list[Item | None]:
    """Judge all pairs, and report progress to the listener."""
    with listener.judging(len(evaluation.pairs), pool.stats if pool.sending else None, shutdown):
        for engine in evaluation.engines:
            engine.set_on_notice(listener.on_notice)
        return await run_evaluation(evaluation, shutdown, on_item=listener.done)


def _with_progress(error: SvrError, left: str) -> SvrError:
    return type(error)(f"{error.message}; {left}", hint=error.hint)


def _judge_facts(run: Prepared, pool: JudgePool) -> dict[str, Any]:
    if run.method.facts.asks_judge:
        return pool.facts()
    return {"name": "none", "label": "no judge (content-blind baseline)", "marks": [Integrity.CONTENT_BLIND]}


def _notes(pool: JudgePool) -> tuple[str, ...]:
    return tuple(dict.fromkeys(note for judge in pool.judges for note in _judge_notes(judge)))


def _judge_notes(judge: OpenJudge) -> tuple[str, ...]:
    notes = []
    if judge.engine is not None and judge.profile is not None:
        others = sorted(filter(None, judge.engine.models - {judge.profile.model}))
        if others and judge.profile.model:
            notes.append(f"the endpoint answered as {', '.join(others)}, not {judge.profile.model}")
        if judge.engine.cache.damaged:
            notes.append(f"{judge.engine.cache.damaged} damaged cache rows were asked again")
    return tuple(notes)
