"""Runs an evaluation: opens the judges, judges every pair, writes the run folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svr_async.adapters.pair_files import usable
from svr_async.core.integrity import Integrity
from svr_async.core.pair import prompt_text
from svr_async.engine.concurrency import run_whole
from svr_async.engine.events import Notice
from svr_async.engine.shutdown import ShutdownController
from svr_async.engine.stats import EngineStats
from svr_async.errors import BudgetError, SvrError, UsageError
from svr_async.evaluation.items import Item, confident_mistakes
from svr_async.evaluation.judging import (
    Evaluation,
    JudgePool,
    evaluation_of,
    judge_pairs,
    open_judge_pool,
)
from svr_async.evaluation.metrics import costs_block
from svr_async.evaluation.results import RunFacts, begin_run, write_results
from svr_async.evaluation.run_folder import Run, Texts, reports
from svr_async.evaluation.settings import EvalSettings
from svr_async.evaluation.setup import PreparedRun, prepare
from svr_async.judges.limits import WHOLE, share_in_words
from svr_async.judges.open_judge import OpenJudge
from svr_async.judges.profiles import naming_keys
from svr_async.scoring.dry_run import DryRunCount, describe_stages, guessed_by, total_count
from svr_async.scoring.provenance import training_fingerprint

if TYPE_CHECKING:
    from svr_async.judges.batch import Opened, Unanswered
    from svr_async.judges.profiles import Profile


class Listener:
    """Receives the progress of an evaluation. Its methods do nothing; overrides have to return soon."""

    def judging(
        self,
        total: int,
        stats: Callable[[], EngineStats] | None,
        shutdown: ShutdownController,
    ) -> AbstractContextManager[object]:
        """Return the context in which `total` pairs are judged; `stats` is None if the judge sends nothing."""
        del total, stats, shutdown
        return nullcontext()

    def done(self, what: Item | int) -> None:
        """Count a judged pair."""

    def note(self, text: str) -> None:
        """Show a remark."""

    def on_notice(self, notice: Notice) -> None:
        """Receive a notice of an engine: a retry, a long wait, a one-time warning."""

    def ended(self, run: Run) -> None:
        """Receive the run, when its folder is written; an error that ended it is raised afterwards."""


def end_run(run: PreparedRun, items: Sequence[Item], facts: RunFacts, tallies: Sequence[Mapping[str, Any]]) -> Run:
    """Write the folder of a run and return it; `tallies` are the method's own counts, one for each machine."""
    own = run.method.facts.own
    counted = {} if own is None else own.counted(tallies)
    spent = {**facts.spent, **({"method_calls": dict(counted)} if counted else {})}
    if run.settings.limits.share != WHOLE:
        spent["tally"] = tallies[0]  # for svr merge
    notes = (*facts.notes, *_run_notes(run, items, counted))
    write_results(run, items, replace(facts, spent=spent, notes=notes))
    ended = Run.load(run.folder, items)
    surest = {item.id for item in confident_mistakes(items)}  # a page with all texts would be large: svr view makes it
    texts = {pair.id: Texts.of(pair) for pair in run.pairs if pair.id in surest}
    prompts = {pair.id: prompt_text(pair.prompt) for pair in run.pairs}
    reports().write_run_files(ended, prompts, texts)
    return ended


def _run_notes(run: PreparedRun, items: Sequence[Item], counted: Mapping[str, Any]) -> Iterator[str]:
    """Yield notes: rubrics not rephrased, the method's calls and reconstructed prompts, the shard, leaked pairs."""
    if run.settings.rephrase:
        rows = [row for item in items for row in item.rubrics]
        if unchanged := sum(row.rephrased is None for row in rows):
            yield f"{unchanged} of {len(rows)} rubrics kept their original text: the rephrasing skipped them"
    if (own := run.method.facts.own) is not None:
        from svr_async.judges.templates import load_templates

        if counted:
            yield f"asked by stage: {describe_stages(counted)}"
        shipped = load_templates(names=own.templates).digests
        if ours := [name for name, digest in shipped.items() if run.judges.prompts.get(name) == digest]:
            yield f"prompts reconstructed from the description of {run.method.name}, not its own: {', '.join(ours)}"
    if (share := run.settings.limits.share) != WHOLE:
        yield f"shard {share_in_words(share)} of a run: svr merge makes the run of all shards"
    taught_by, data = run.method.facts.taught_by, run.dataset
    if taught_by and training_fingerprint(data.digest, (pair.id for pair in data.pairs if usable(pair))) in taught_by:
        yield "the bank was trained on these very pairs: measure it on new ones (svr data split)"


def run_now(run: PreparedRun, listener: Listener) -> Run:
    """Run a prepared evaluation on a new event loop; an unfinished folder of the same run is completed.

    SvrError if the run ends early; the folder then holds the pairs judged so far.
    """
    return run_whole(run_prepared(run, listener))


async def run_prepared(run: PreparedRun, listener: Listener) -> Run:
    """Run a prepared evaluation; UsageError if it cannot begin."""
    limits = run.settings.limits
    if limits.dry_run:
        raise UsageError("a dry run judges nothing", hint="count_calls returns the planned calls")
    if not run.pairs:
        shard = share_in_words(limits.share)
        raise UsageError(
            f"--shard {shard} has no pairs: the run has fewer prompts than shards", hint="use fewer shards"
        )
    with keys_named(run):
        pool = await open_judge_pool(run)
        try:
            return await _judge_and_write(run, pool, evaluation_of(run, pool), listener)
        finally:
            await pool.close()


def count_calls(run: PreparedRun, before: set[str] | None = None) -> dict[str, Any] | None:
    """Return the calls, tokens and dollars of a run, sending nothing; None if no judge sends anything.

    Calls that depend on cached replies are counted exactly. Requests in `before` are not counted; those that are
    counted are added to it.
    """
    with keys_named(run):
        return run_whole(_count_calls(run, set() if before is None else before))


def keys_named(run: PreparedRun) -> AbstractContextManager[None]:
    """Return a context in which an error about an API key names its variable."""
    return naming_keys(name for judge in run.judges.judges for name in judge.spec.key_variables)


async def _count_calls(run: PreparedRun, before: set[str]) -> dict[str, Any] | None:
    limits = replace(run.settings.limits, dry_run=True)
    run = replace(run, settings=replace(run.settings, limits=limits))
    pool = await open_judge_pool(run)
    try:
        evaluation = evaluation_of(run, pool)
        planned = {
            judge.judge.name: DryRunCount(judge.engine, before=before)
            for judge in pool.judges
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


async def _judge_and_write(run: PreparedRun, pool: JudgePool, evaluation: Evaluation, listener: Listener) -> Run:
    before = _judged_before(run.folder)
    begin_run(run, _judge_facts(run, pool))
    if before:
        listener.note(f"resuming: {before:,} of {len(run.pairs):,} pairs already judged")
    shutdown, begun, items = ShutdownController(), time.monotonic(), dict[int, Item]()

    def keep(place: int, item: Item) -> None:
        items[place] = item
        listener.done(item)

    with listener.judging(len(evaluation.pairs), pool.stats if pool.engines else None, shutdown):
        for engine in evaluation.engines:
            engine.set_on_notice(listener.on_notice)
        await judge_pairs(evaluation, shutdown, keep)
    judged = [items[place] for place in sorted(items)]
    if not judged and shutdown.error is not None:
        raise shutdown.error
    facts = RunFacts(
        judge=_judge_facts(run, pool),
        spent=costs_block(pool.costs()),
        wall_s=time.monotonic() - begun,
        complete=len(judged) == len(evaluation.pairs),
        notes=tuple(dict.fromkeys(note for judge in pool.judges for note in _judge_notes(judge))),
    )
    ended = replace(end_run(run, judged, facts, [evaluation.tallied()]), signal=shutdown.signal)
    listener.ended(ended)
    if shutdown.error is not None:
        error, cost = shutdown.error, pool.budget.usd / len(judged)
        rest = f"the rest needs about ${cost * (len(run.pairs) - len(judged)):.2g}, with --limit less; " if cost else ""
        hint = f"{rest}{error.hint}" if isinstance(error, BudgetError) else error.hint
        raise type(error)(f"{error.message}; {ended.left}", hint=hint)
    return ended


def _judged_before(folder: Path) -> int:
    """Return how many pairs have a verdict in the folder of an unfinished run."""
    with suppress(SvrError):
        found = Run.load(folder)
        return 0 if found.complete else int(found.metrics["n_scored"])
    return 0


def _judge_facts(run: PreparedRun, pool: JudgePool) -> dict[str, Any]:
    if run.method.facts.asks_judge:
        return pool.facts()
    return {"name": "none", "label": "no judge (content-blind baseline)", "marks": [Integrity.CONTENT_BLIND]}


def _judge_notes(judge: OpenJudge) -> Iterator[str]:
    if judge.engine is not None and judge.profile is not None:
        others = sorted(filter(None, judge.engine.models - {judge.profile.model}))
        if others and judge.profile.model:
            yield f"the endpoint answered as {', '.join(others)}, not {judge.profile.model}"
        if judge.engine.cache.damaged:
            yield f"{judge.engine.cache.damaged} damaged cache rows were asked again"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEvaluation:
    """An evaluation whose calls are sent as a batch."""

    run: PreparedRun
    profiles: tuple[Profile, ...]

    @property
    def staged(self) -> bool:
        """Whether replies decide which other requests are needed."""
        settings = self.run.settings
        adaptive = settings.audit_below is not None or settings.escalate_to is not None
        return adaptive or self.run.method.facts.staged

    async def open(self) -> JudgePool:
        """Open the judges."""
        return await open_judge_pool(self.run)

    async def ask(self, opened: Opened, unanswered: Unanswered) -> None:
        """Judge every pair as far as the replies allow."""
        assert isinstance(opened, JudgePool)
        shutdown = ShutdownController()
        await judge_pairs(replace(evaluation_of(self.run, opened), guessed=unanswered.guessed), shutdown)
        shutdown.reraise()


def batch_evaluation(settings: EvalSettings) -> BatchEvaluation:
    """Prepare data, method and judges; UsageError if no judge sends anything."""
    from svr_async.judges.batch import endpoints_of

    run = prepare(settings)
    profiles = endpoints_of([judge.spec.profile for judge in run.judges.judges], settings.judge)
    return BatchEvaluation(run=run, profiles=profiles)
