"""A training that is open: its judge, and the session that asks it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from svr_async.core.files import open_folder
from svr_async.core.pair import PreferencePair, split_by_prompt
from svr_async.core.rubric import Rubric
from svr_async.engine.concurrency import ShutdownController
from svr_async.engine.money import Budget, Price
from svr_async.engine.stats import EngineStats
from svr_async.errors import UsageError
from svr_async.judges.decision import STATED
from svr_async.judges.limits import WHOLE, refuse_one_price
from svr_async.judges.open_judge import OpenJudge, open_judge
from svr_async.judges.profiles import naming_keys
from svr_async.judges.protocol import Answer
from svr_async.scoring.provenance import training_fingerprint
from svr_async.training.rounds.config import PrefixOrder
from svr_async.training.rounds.fit_log import FitLog
from svr_async.training.rounds.fits import calibrate_round, fit_round, margins_with
from svr_async.training.rounds.judge_calls import RUBRICS_PER_CALL, Crew
from svr_async.training.rounds.session import Session, prepare
from svr_async.training.rounds.stages import Stages, digest_of
from svr_async.training.running.data import TrainingData
from svr_async.training.running.listener import Listener
from svr_async.training.running.settings import TrainSettings, train_config

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
    digest = training_fingerprint(data.digest, (pair.id for pair in data.pairs))
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
