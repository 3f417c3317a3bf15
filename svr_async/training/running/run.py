"""An open training: its judge, the session that asks it, who listens; a stage by itself, a batch, a count."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from svr_async.core.files import open_folder
from svr_async.core.pair import PreferencePair, split_by_prompt
from svr_async.engine.concurrency import ShutdownController, run_whole
from svr_async.engine.money import Price
from svr_async.engine.stats import EngineStats
from svr_async.errors import UsageError
from svr_async.fit.history import EpochRecord, FitCurve
from svr_async.judges.batch import Opened, Unanswered, endpoints_of
from svr_async.judges.decision import STATED
from svr_async.judges.limits import WHOLE, refuse_one_price
from svr_async.judges.open_judge import OpenJudge, open_judge
from svr_async.judges.profiles import naming_keys
from svr_async.scoring.dry_run import DryRunCount, total_count
from svr_async.scoring.provenance import training_fingerprint
from svr_async.training.rounds.fits import FitLog
from svr_async.training.rounds.session import Session, prepare
from svr_async.training.rounds.stages import (
    RUBRICS_PER_CALL,
    Outcomes,
    ShardEndsError,
    StageEndsError,
    Stages,
    TrainingJudges,
    digest_of,
)
from svr_async.training.running.settings import (
    TrainingData,
    TrainSettings,
    load_data,
    refuse_benchmark_for_training,
    train_config,
)

if TYPE_CHECKING:
    from svr_async.judges.profiles import Profile

T = TypeVar("T")
Work = Callable[[Session], Awaitable[Any]]
Used = Mapping[str, tuple[EngineStats, Price | None]]  # calls and price of the endpoints of `judge` and `author`
OFFLINE_WORKERS = 8
RUBRICS_PER_FREE_CALL = 65_536  # without an endpoint a call has no length to bound


# ── listeners ───────────────────────────────────────────────────────────────────────────────────────────────────────


class TrainingListener:
    """Follows a training or the fit of a store; each event does nothing unless a subclass handles it."""

    def opened(self, judge: OpenJudge) -> None:
        """Handle that the judge is open."""

    def say(self, text: str) -> None:
        """Handle an event in a sentence."""

    def stage(self, what: str, total: int) -> None:
        """Handle that a stage of `total` questions begins, as `judging`."""

    def count(self, done: int) -> None:
        """Handle how many of the stage's questions are answered."""

    def listening(self, _shutdown: ShutdownController) -> AbstractContextManager[None]:
        """Return the context of running questions, which may pass signals to the shutdown."""
        return nullcontext()

    def begin(self, curve: FitCurve) -> None:
        """Handle that a fit begins."""

    def epoch(self, record: EpochRecord) -> None:
        """Handle an epoch of a fit."""

    def end(self, curve: FitCurve) -> None:
        """Handle that a fit ended."""


# ── judge and session ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """A training with its judge open."""

    settings: TrainSettings
    data: TrainingData
    judge: OpenJudge
    session: Session
    log: FitLog

    @property
    def prompts_digest(self) -> str:
        """A digest of the judge's prompt templates; empty for a judge without any."""
        return digest_of(dict(self.judge.prompts)) if self.judge.prompts else ""

    @property
    def used(self) -> Used:
        """What this process has asked so far of the endpoints of the judge and of another author."""
        return {
            name: (one.engine.stats(), None if one.profile is None else one.profile.price)
            for name, one in zip(("judge", "author"), self.judge.judges, strict=False)
            if one.engine is not None
        }


@asynccontextmanager
async def open_run(
    settings: TrainSettings, data: TrainingData, listener: TrainingListener
) -> AsyncIterator[TrainingRun]:
    """Open the judge and a session of a training, and close the judge at the end."""
    judge = open_training_judge(settings)  # a judge that cannot be opened leaves no folder
    try:
        open_folder(settings.out)
        listener.opened(judge)
        with naming_keys(one.profile.key_env for one in judge.judges if one.profile):
            session = open_session(settings, data, judge, listener)
            yield TrainingRun(settings=settings, data=data, judge=judge, session=session, log=FitLog(watch=listener))
    finally:
        await judge.close()


def open_training_judge(settings: TrainSettings) -> OpenJudge:
    """Open the judge that trains, with its author."""
    spec, author = settings.spec, settings.author_spec
    limits = replace(settings.limits, failures=settings.out / "failures.jsonl")
    if author is None:
        return open_judge(spec, limits)
    refuse_one_price(limits.price, [one.name for one in (spec, author) if one.profile is not None])
    budget = limits.new_budget()
    judge = open_judge(spec, limits, budget=budget, engines=2)
    behind = open_judge(author, limits, budget=budget, engines=2)
    if judge.engine is not None and behind.engine is not None:
        behind.engine.fingerprints = judge.engine.fingerprints  # a bank is marked by all who answered for it
    return replace(judge, author=behind.author, behind=behind)


def open_session(settings: TrainSettings, data: TrainingData, judge: OpenJudge, listener: TrainingListener) -> Session:
    """Split the pairs by prompt, learn the features, and set up a session in the output folder."""
    config = train_config(settings)
    train, dev = split_by_prompt(data.pairs, config.dev_share, salt=str(config.split_seed))
    _report_data(data, judge, train, dev, listener)
    digest = training_fingerprint(data.dataset.digest, (pair.id for pair in data.pairs))
    fingerprints = judge.engine.fingerprints if judge.engine else set()
    return Session(
        judges=_training_judges(settings, judge, listener),
        config=config,
        stages=Stages(settings.out / "stages", fingerprints, retry=settings.limits.retry_errors),
        material=prepare(train, dev, digest=digest, pairs_of_words=config.fit.pairs_of_words),
        say=listener.say,
        asker=asker_of(judge),
    )


def _report_data(
    data: TrainingData,
    judge: OpenJudge,
    train: Sequence[PreferencePair],
    dev: Sequence[PreferencePair],
    listener: TrainingListener,
) -> None:
    """Report data, judges and split; UsageError if a side of the split is empty."""
    if not train or not dev:
        raise UsageError(
            f"{len(data.pairs)} pairs give {len(train)} to train on and {len(dev)} to check with",
            hint="give pairs of at least two prompts: all pairs of a prompt fall on the same side",
        )
    if skipped := data.dataset.skipped:
        reasons = "; ".join(f"{count:,} × {reason}" for reason, count in skipped.items())
        listener.say(f"{sum(skipped.values()):,} rows left out: {reasons}")
    for reading in data.dataset.readings:
        listener.say(f"labels: {reading}")
    author = "" if judge.behind is None else f", author {judge.behind.label}"
    listener.say(f"judge {judge.label}{author}")
    listener.say(f"{len(train):,} pairs to train on, {len(dev):,} to check with")


def _training_judges(settings: TrainSettings, judge: OpenJudge, listener: TrainingListener) -> TrainingJudges:
    shutdown = ShutdownController(engines=judge.engines)
    size = RUBRICS_PER_FREE_CALL
    if judge.profile is not None:  # as many as fit, if they cost less together than apart
        size = settings.rubrics_per_call or judge.profile.spoken.questions // len(STATED) or RUBRICS_PER_CALL
    return TrainingJudges(
        judge=judge.judge,
        author=judge.author,
        workers=judge.engine.config.concurrency if judge.engine else OFFLINE_WORKERS,
        rubrics_per_call=size,
        on_begin=listener.stage,
        on_done=listener.count,
        shutdown=shutdown,
        listening=partial(listener.listening, shutdown),
        share=settings.limits.share if judge.engines and not settings.limits.dry_run else WHOLE,
    )


def asker_of(judge: OpenJudge) -> str:
    """Return a digest of all that replies depend on besides the questions, as the cache's keys do."""
    profile = judge.profile
    model = [] if profile is None else [profile.identity, profile.model, profile.max_tokens]
    params: list[Any] = [] if profile is None else [profile.params(structured=each) for each in (True, False)]
    behind = [] if judge.behind is None else [judge.behind.judge.name, asker_of(judge.behind)]
    return digest_of(model, params, dict(judge.prompts), *behind)


# ── what may be replaced ────────────────────────────────────────────────────────────────────────────────────────────


def keep_bank(out: Path, *traces: str) -> None:
    """Raise UsageError if `out` holds a bank without the files that this command writes next to one."""
    bank = out / "bank"
    if (bank / "bank.json").exists() and not any((out / trace).exists() for trace in traces):
        raise UsageError(
            f"{bank} is a bank that another command made", hint="name another folder with --out, or remove it"
        )


def keep_training(out: Path, made_of: str) -> None:
    """Raise UsageError if `out` holds a finished training of other pairs, settings or another judge."""
    try:
        held = orjson.loads((out / "record.json").read_bytes())
        other = held["made_of"] != made_of
    except (OSError, ValueError, KeyError, TypeError):
        return
    if other:
        raise UsageError(
            f"{out} holds the finished bank of another training, of {held.get('pairs', 'other pairs')}",
            hint="name another folder with --out, or remove it",
        )


# ── a stage by itself, a batch, a count ─────────────────────────────────────────────────────────────────────────────


def run_stage(
    settings: TrainSettings, work: Callable[[TrainingRun], Awaitable[T]], listener: TrainingListener | None = None
) -> tuple[T, Outcomes]:
    """Return what the work returns, and the outcomes of its questions; the stage is kept in `settings.out`."""
    data = load_data(settings)

    async def main() -> tuple[T, Outcomes]:
        async with open_run(settings, data, listener or TrainingListener()) as run:
            return await work(run), run.session.stages.outcomes

    return run_whole(main())


def count_training(settings: TrainSettings, work: Work, *, before: set[str] | None = None) -> dict[str, Any] | None:
    """Return calls, tokens, dollars and seconds of a work without sending it; None if nothing is sent.

    Requests in `before` are not counted; those counted are added to it.
    """
    before = set() if before is None else before

    async def counted(run: TrainingRun) -> dict[str, DryRunCount]:
        asked = [(one.judge.name, one.engine) for one in run.judge.judges if one.engine is not None]
        counts = {name: DryRunCount(engine, before=before) for name, engine in asked}
        await work(run.session)
        return counts

    with tempfile.TemporaryDirectory() as nowhere:
        dry = replace(settings, out=Path(nowhere), limits=replace(settings.limits, dry_run=True))
        counts, _ = run_stage(dry, counted)
    before.update(*(one.keys for one in counts.values()))
    return total_count({name: one.price() for name, one in counts.items()}) if counts else None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTraining:
    """A stage of training, or all of them, for batch files: one stage of questions after another.

    Stages are computed in a temporary folder: without all replies they must not become stages of the real run.
    """

    settings: TrainSettings
    work: Work
    profiles: tuple[Profile, ...]
    staged: bool

    async def open(self) -> OpenJudge:
        """Open the judge, with the failures of an earlier run if there was one."""
        return open_training_judge(self.settings)

    async def ask(self, opened: Opened, unanswered: Unanswered) -> None:
        """Ask stage by stage, up to the first with questions that have no reply."""
        judge = opened.judges[0]
        data = load_data(self.settings)
        with tempfile.TemporaryDirectory() as stages:
            session = open_session(replace(self.settings, out=Path(stages)), data, judge, TrainingListener())
            session.judges = replace(session.judges, may_begin=lambda: not unanswered)
            with contextlib.suppress(StageEndsError, ShardEndsError):
                await self.work(session)


def batch_training(settings: TrainSettings, work: Work, *, staged: bool) -> BatchTraining:
    """Return a training that asks what `work` asks; UsageError for a benchmark, or if nothing is sent."""
    refuse_benchmark_for_training(settings.pairs)
    refuse_benchmark_for_training(settings.adapter)
    specs = settings.spec, settings.author_spec or settings.spec
    profiles = endpoints_of(list({one.text: one.profile for one in specs}.values()), settings.judge)
    return BatchTraining(settings=settings, work=work, profiles=profiles, staged=staged)
