"""A training that is open: its judge, and the session that asks it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import orjson

from svr_async.adapters import refuse_benchmark_for_training
from svr_async.adapters.pair_files import taught_digest
from svr_async.core.dev_pairs import split_by_prompt
from svr_async.core.files import open_folder
from svr_async.core.pair import PreferencePair
from svr_async.core.prefixes import PrefixOrder
from svr_async.core.rubric import Rubric
from svr_async.engine.concurrency import ShutdownController, run_whole
from svr_async.engine.money import Budget, Price
from svr_async.engine.stats import EngineStats
from svr_async.errors import UsageError
from svr_async.fit.history import EpochRecord, FitCurve, FitWatch
from svr_async.judges.batch import Opened, Unanswered, endpoints_of
from svr_async.judges.decision import STATED
from svr_async.judges.limits import WHOLE, refuse_one_price
from svr_async.judges.open_judge import OpenJudge, open_judge
from svr_async.judges.profiles import naming_keys
from svr_async.judges.protocol import Answer
from svr_async.training.rounds.fits import FitLog, calibrate_round, fit_round, margins_with
from svr_async.training.rounds.judge_calls import RUBRICS_PER_CALL, Crew, ShardEndsError, StageEndsError
from svr_async.training.rounds.session import Session, prepare
from svr_async.training.rounds.stages import Outcomes, Stages, digest_of
from svr_async.training.running.data import TrainingData, load_data
from svr_async.training.running.settings import TrainSettings, train_config

if TYPE_CHECKING:
    from svr_async.judges.profiles import Profile


class FitListener(Protocol):
    """Told of the fit of a store."""

    def fits(self, seeds: int, epochs: int) -> FitWatch | None:
        """Return who is told of so many fits of so many epochs; of 0 where a fit is solved."""

    def say(self, text: str) -> None:
        """Take note of what happened, in a sentence."""


class Listener(FitWatch, Protocol):
    """Told of a training: its judge, its questions, its fits."""

    def opened(self, judge: OpenJudge) -> None:
        """Take note that the judge is open and that questions are about to begin."""

    def say(self, text: str) -> None:
        """Take note of what happened, in a sentence."""

    def stage(self, what: str, total: int) -> None:
        """Take note that a stage of so many questions begins, as `judging`."""

    def count(self, done: int) -> None:
        """Take note of how many of the stage's questions are answered."""

    def listening(self, shutdown: ShutdownController) -> AbstractContextManager[None]:
        """Return what is entered while questions are asked, to tell the shutdown of signals."""


class Silent:
    """Listens to nothing. Who listens to a part of it names this class as a base."""

    def opened(self, judge: OpenJudge) -> None:
        """Take no note."""

    def fits(self, _seeds: int, _epochs: int) -> FitWatch | None:
        """Have nobody told."""
        return None

    def say(self, text: str) -> None:
        """Take no note."""

    def stage(self, what: str, total: int) -> None:
        """Take no note."""

    def count(self, done: int) -> None:
        """Take no note."""

    def listening(self, _stopper: ShutdownController) -> AbstractContextManager[None]:
        """Leave signals to the program."""
        return nullcontext()

    def begin(self, curve: FitCurve) -> None:
        """Take no note."""

    def epoch(self, record: EpochRecord) -> None:
        """Take no note."""

    def end(self, curve: FitCurve) -> None:
        """Take no note."""


OFFLINE_WORKERS = 8
RUBRICS_PER_FREE_CALL = 65_536  # without an endpoint a call has no length to bound


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
        """A digest of the prompt templates that the judge is asked with; empty for one that reads none."""
        return digest_of(dict(self.judge.prompts)) if self.judge.prompts else ""

    @property
    def stats(self) -> EngineStats | None:
        """What this process has asked of the endpoint so far; None for a judge that sends nothing."""
        return None if self.judge.engine is None else self.judge.engine.stats()

    @property
    def written(self) -> tuple[EngineStats, Price | None] | None:
        """The same of who writes, with the price, where that is another endpoint."""
        behind = self.judge.behind
        if behind is None or behind.engine is None or behind.profile is None:
            return None
        return behind.engine.stats(), behind.profile.price

    @property
    def price(self) -> Price | None:
        """What the endpoint takes, where that is known."""
        return None if self.judge.profile is None else self.judge.profile.price


@asynccontextmanager
async def open_run(settings: TrainSettings, data: TrainingData, listener: Listener) -> AsyncIterator[TrainingRun]:
    """Open the judge and a session of a training, and close the judge at the end."""
    judge = open_training_judge(settings)
    try:
        listener.opened(judge)
        with naming_keys(one.profile.key_env for one in (judge, judge.behind) if one is not None and one.profile):
            log = FitLog(watch=listener)
            session = open_session(settings, data, judge, listener, log=log)
            yield TrainingRun(settings=settings, data=data, judge=judge, session=session, log=log)
    finally:
        await judge.close()


def require_author(settings: TrainSettings) -> None:
    """Raise UsageError if nothing can induce rubrics."""
    spec = settings.spec
    if spec.recording is not None or (settings.author_spec is None and spec.decides):
        raise _cannot_induce(settings.judge)


def _cannot_induce(judge: str) -> UsageError:
    hint = "name a text judge with --author, or train with rules or a text judge"
    return UsageError(f"--judge {judge} cannot induce rubrics", hint=hint)


@dataclass(frozen=True, slots=True)
class _NoAuthor:
    """Stands for the author where nothing is induced."""

    name: str

    async def induce(self, *_: Any, **__: Any) -> Answer[tuple[Rubric, ...]]:
        """Raise UsageError."""
        raise _cannot_induce(self.name)

    async def probe(self, *_: Any) -> Answer[str]:
        """Raise UsageError."""
        raise _cannot_induce(self.name)


def open_training_judge(settings: TrainSettings) -> OpenJudge:
    """Open the judge that trains, with its author."""
    spec, author = settings.spec, settings.author_spec
    open_folder(settings.out)
    limits = replace(settings.limits, failures=settings.out / "failures.jsonl")
    if author is None:
        return open_judge(spec, limits)
    refuse_one_price(limits.price, [one.name for one in (spec, author) if one.profile is not None])
    budget = Budget(max_calls=limits.max_calls, max_usd=limits.budget)
    judge = open_judge(spec, limits, budget=budget, engines=2)
    behind = open_judge(author, limits, budget=budget, engines=2)
    if judge.engine is not None and behind.engine is not None:
        behind.engine.fingerprints = judge.engine.fingerprints  # a bank is marked by all who answered for it
    return replace(judge, author=behind.author, behind=behind)


def open_session(
    settings: TrainSettings, data: TrainingData, judge: OpenJudge, listener: Listener, *, log: FitLog | None = None
) -> Session:
    """Split the pairs by prompt, learn the features, and set up a session in the output folder."""
    config = train_config(settings)
    train, dev = split_by_prompt(data.pairs, config.dev_share, salt=str(config.split_seed))
    _say_what_there_is(data, judge, train, dev, listener)
    digest = taught_digest(data.digest, (pair.id for pair in data.pairs))
    fingerprints = judge.engine.fingerprints if judge.engine else set()
    return Session(
        crew=_crew(settings, judge, listener),
        config=config,
        stages=Stages(settings.out / "stages", fingerprints, retry=settings.limits.retry_errors),
        material=prepare(train, dev, digest=digest, pairs_of_words=config.fit.pairs_of_words),
        fit_round=partial(fit_round, log=log),
        calibrate=partial(calibrate_round, log=log),
        margins=partial(margins_with, config.fit),
        say=listener.say,
        asker=asker_of(judge),
    )


def _say_what_there_is(
    data: TrainingData,
    judge: OpenJudge,
    train: Sequence[PreferencePair],
    dev: Sequence[PreferencePair],
    listener: Listener,
) -> None:
    """Say what is read, asked and split; UsageError where a side of the split is empty."""
    if not train or not dev:
        raise UsageError(
            f"{len(data.pairs)} pairs give {len(train)} to train on and {len(dev)} to check with",
            hint="give more pairs, of more prompts: all pairs of a prompt fall on the same side",
        )
    if data.skipped:
        reasons = "; ".join(f"{count:,} × {reason}" for reason, count in data.skipped.items())
        listener.say(f"{sum(data.skipped.values()):,} rows left out: {reasons}")
    for reading in data.readings:
        listener.say(f"labels: {reading}")
    listener.say(
        f"judge {judge.label}" if judge.behind is None else f"judge {judge.label}, author {judge.behind.label}"
    )
    listener.say(f"{len(train):,} pairs to train on, {len(dev):,} to check with")


def _crew(settings: TrainSettings, judge: OpenJudge, listener: Listener) -> Crew:
    engine = judge.engine
    shutdown = ShutdownController(engines=judge.engines)
    return Crew(
        judge=judge.judge,
        author=judge.author or _NoAuthor(judge.judge.name),
        workers=engine.config.concurrency if engine else OFFLINE_WORKERS,
        rubrics_per_call=_rubrics_per_call(settings, judge),
        prefix=PrefixOrder(settings.prefix),
        on_begin=listener.stage,
        on_done=listener.count,
        shutdown=shutdown,
        listening=partial(listener.listening, shutdown),
        share=settings.limits.share if judge.engines and not settings.limits.dry_run else WHOLE,
    )


def _rubrics_per_call(settings: TrainSettings, judge: OpenJudge) -> int:
    """Return how many rubrics are asked at a time: as many as fit where they cost less together than apart."""
    if judge.profile is None:
        return RUBRICS_PER_FREE_CALL
    return settings.rubrics_per_call or judge.profile.spoken.questions // len(STATED) or RUBRICS_PER_CALL


def asker_of(judge: OpenJudge) -> str:
    """Return a digest of all that replies depend on besides the questions; it is what a cache's keys are made of."""
    profile = judge.profile
    model = [] if profile is None else [profile.identity, profile.model, profile.max_tokens]
    params: list[Any] = [] if profile is None else [profile.params(structured=each) for each in (True, False)]
    behind = [] if judge.behind is None else [judge.behind.judge.name, asker_of(judge.behind)]
    return digest_of(model, params, dict(judge.prompts), *behind)


T = TypeVar("T")


def stages_beside(out: Path) -> Path:
    """Return the folder in which a stage that writes to `out` is kept, to go on after an end."""
    return out.with_name(f"{out.name}.stages")


def run_stage(
    settings: TrainSettings, work: Callable[[TrainingRun], Awaitable[T]], listener: Listener | None = None
) -> tuple[T, Outcomes]:
    """Return what the work returns, and what became of its questions; the stage is kept in `settings.out`."""
    data = load_data(settings)

    async def main() -> tuple[T, Outcomes]:
        async with open_run(settings, data, listener or Silent()) as run:
            return await work(run), run.session.stages.outcomes

    return run_whole(main())


def count_calls(settings: TrainSettings, work: Callable[[Session], Awaitable[Any]], listener: Listener) -> None:
    """Go through what a work would send, without sending it: the listener has the judge, and may count.

    The stage is kept nowhere.
    """
    with tempfile.TemporaryDirectory() as nowhere:
        dry = replace(settings, out=Path(nowhere), limits=replace(settings.limits, dry_run=True))
        run_stage(dry, lambda run: work(run.session), listener)


Work = Callable[[Session], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class OneJudge:
    """The judge of a training, open."""

    judges: tuple[OpenJudge]

    async def close(self) -> None:
        """Close its engine."""
        await self.judges[0].close()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTraining:
    """A stage of training, or all of them, without calls.

    Stages are computed in a folder that goes at the end, since what is computed without all replies must not be taken
    for a stage of the real run.
    """

    settings: TrainSettings
    work: Work
    profiles: tuple[Profile, ...]
    staged: bool

    async def open(self) -> OneJudge:
        """Open the judge; failures of an earlier run are known where there was one."""
        if self.settings.out.is_dir():
            return OneJudge((open_training_judge(self.settings),))
        with tempfile.TemporaryDirectory() as nothing:
            return OneJudge((open_training_judge(replace(self.settings, out=Path(nothing))),))

    async def ask(self, opened: Opened, unanswered: Unanswered) -> None:
        """Ask stage by stage, up to the first that has no replies to all of its questions."""
        (judge,) = opened.judges
        data, may_begin = load_data(self.settings), lambda: not unanswered
        with tempfile.TemporaryDirectory() as stages:
            session = open_session(replace(self.settings, out=Path(stages)), data, judge, Silent())
            session.crew = replace(session.crew, may_begin=may_begin)
            with contextlib.suppress(StageEndsError, ShardEndsError):
                await self.work(session)


def batch_training(settings: TrainSettings, work: Work, *, staged: bool) -> BatchTraining:
    """Return a training that asks what `work` asks; UsageError for a benchmark, and where nothing is sent."""
    refuse_benchmark_for_training(settings.pairs)
    refuse_benchmark_for_training(settings.adapter)
    profiles = endpoints_of([settings.spec.profile], settings.judge)
    return BatchTraining(settings=settings, work=work, profiles=profiles, staged=staged)


def keep_bank(out: Path, *traces: str) -> None:
    """Refuse, with UsageError, to replace the bank in `out` where none of this command's `traces` lies beside it."""
    bank = out / "bank"
    if (bank / "bank.json").exists() and not any((out / trace).exists() for trace in traces):
        raise UsageError(
            f"{bank} is a bank that another command made", hint="name another folder with --out, or remove it"
        )


def keep_training(out: Path, made_of: str) -> None:
    """Refuse, with UsageError, to go over a finished training of other pairs, settings or another judge in `out`.

    `made_of` is the digest of what this one is made of. A training without a record is not finished.
    """
    record = out / "record.json"
    try:
        held = orjson.loads(record.read_bytes())
        other = held["made_of"] != made_of
    except (OSError, ValueError, KeyError, TypeError):
        return
    if other:
        raise UsageError(
            f"{out} holds the finished bank of another training, of {held.get('pairs', 'other pairs')}",
            hint="name another folder with --out, or go over it with --replace",
        )
