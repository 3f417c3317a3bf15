"""A whole training, from settings to a bank in a folder; its stages by themselves, a batch, a count."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import orjson

from svr_async.adapters import Dataset
from svr_async.core.files import open_folder, write_atomic
from svr_async.core.integrity import Integrity
from svr_async.core.pair import split_by_prompt
from svr_async.engine.concurrency import run_whole
from svr_async.engine.money import Price
from svr_async.engine.shutdown import ShutdownController
from svr_async.engine.stats import EngineStats
from svr_async.errors import DegenerateFitError, UsageError
from svr_async.judges.batch import Opened, Unanswered, endpoints_of
from svr_async.judges.decision import STATED
from svr_async.judges.limits import WHOLE, refuse_one_price
from svr_async.judges.open_judge import OpenJudge, open_judge
from svr_async.judges.profiles import naming_keys
from svr_async.scoring.bank import BankHistory, BankRubric, RoundFacts, RubricBank
from svr_async.scoring.bank_card import accuracy_in_words, small_dev_warnings
from svr_async.scoring.dry_run import DryRunCount, total_count
from svr_async.scoring.provenance import training_fingerprint, write_provenance
from svr_async.training.bank.merge import merge
from svr_async.training.refit import learned_curve, require_solved
from svr_async.training.rounds.algorithm import NO_RUBRIC, better_than_bank, chosen_round, direct_hits, run_rounds
from svr_async.training.rounds.induction import counted, grouped, induced
from svr_async.training.rounds.pools import judge_pools
from svr_async.training.rounds.session import FittedRound, JudgedRound, Session, prepare
from svr_async.training.rounds.stages import (
    RUBRICS_PER_CALL,
    Outcomes,
    ShardEndsError,
    StageEndsError,
    Stages,
    TrainingJudges,
    digest_of,
    unanswered_lines,
)
from svr_async.training.rounds.store import (
    FeatureStore,
    Header,
    load_store,
    read_rubrics,
    round_store,
    rubric_lines,
    store_bank,
    store_exists,
    stored_round,
    write_store,
)
from svr_async.training.settings import (
    Contaminated,
    TrainingListener,
    TrainSettings,
    keep_bank,
    load_data,
    require_writer,
)

if TYPE_CHECKING:
    from svr_async.judges.profiles import Profile

T = TypeVar("T")
Work = Callable[[Session], Awaitable[Any]]
Used = Mapping[str, tuple[EngineStats, Price | None]]  # calls and price of the endpoints of `judge` and `author`
OFFLINE_WORKERS = 8
RUBRICS_PER_FREE_CALL = 65_536  # without an endpoint a call has no length to bound
STORES = "stores"  # in a training's folder: a feature store for each round


# ── a whole training ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainResult:
    """The result of a training: the bank in `folder`/bank and the record in `folder`/record.json; who was asked."""

    bank: RubricBank
    record: Mapping[str, Any]
    folder: Path
    used: Used


def train(settings: TrainSettings, listener: TrainingListener | None = None) -> TrainResult:
    """Run `atrain` on a new event loop."""
    return run_whole(atrain(settings, listener))


async def atrain(
    settings: TrainSettings, listener: TrainingListener | None = None, dataset: Dataset | None = None
) -> TrainResult:
    """Train a bank, or resume a stopped training; SvrError for what ends it.

    With a share of it (`settings.limits.share`) ShardEndsError ends it too, once that part of a stage is asked.
    Unanswered questions end nothing: they are in the result, and `stages.require_answers` refuses too many of them.
    """
    keep_bank(settings.out, "stages", "record.json")
    require_solved(settings.config, settings.learning_curve)
    (dataset, contaminated), listener = load_data(settings, dataset), listener or TrainingListener()
    if settings.author_spec is None:
        require_writer(settings.spec, "judge")
    async with open_run(settings, dataset, listener) as run:
        session = run.session
        asked = session.asker, session.judges.rubrics_per_call
        made_of = digest_of(session.material.digest, asdict(session.config), run.judge.label, *asked)
        keep_training(settings.out, made_of)
        warnings = small_dev_warnings(len(session.material.dev), len(dataset.pairs))
        for warning in warnings:
            listener.say(f"warning: {warning}")

        session.keep_round = lambda judged: write_store(
            _store_of(settings, judged), round_store(session, judged, run.header()), replace_other=True
        )
        rounds = await run_rounds(session)
        for later in {*(settings.out / STORES).iterdir()} - {_store_of(settings, one) for one in rounds}:
            shutil.rmtree(later)
        warnings += unanswered_lines(session.stages.outcomes)
        bank, record = await _published(run, rounds, warnings, contaminated)
        write_provenance(settings.out, bank.save(settings.out / "bank"))
        record["made_of"] = made_of
        write_atomic(settings.out / "record.json", orjson.dumps(record, option=orjson.OPT_INDENT_2))
        return TrainResult(bank=bank, record=record, folder=settings.out, used=run.used)


def _store_of(settings: TrainSettings, one: JudgedRound | FittedRound) -> Path:
    return settings.out / STORES / f"round-{one.number}"


async def _published(
    run: TrainingRun, rounds: Sequence[FittedRound], warnings: Sequence[str], contaminated: Contaminated
) -> tuple[RubricBank, dict[str, Any]]:
    """Return the bank of the round to publish, from its feature store, and what record.json holds."""
    settings, session, config = run.settings, run.session, run.session.config
    n_dev, source = len(session.material.dev), run.dataset.origin or settings.pairs.name
    best = chosen_round(rounds, n_dev, config.publish)
    place, last = _store_of(settings, best), _store_of(settings, rounds[-1])
    better = better_than_bank(best.dev_hits, {**best.baselines, **await direct_hits(session)}, str(place))
    learned = None
    if settings.learning_curve:
        train = stored_round(load_store(last), cutoff=config.redundancy_cutoff).train
        learned = learned_curve(train, config, session.say)
    dev = {"accuracy": best.dev_accuracy, "pairs": n_dev, "round": best.number}
    record = {
        "pairs": str(settings.pairs),
        "origin": run.dataset.origin,
        "readings": list(run.dataset.readings),
        "judge": run.judge.label,
        "preset": config.preset,
        "publish": config.publish,
        "train_pairs": len(session.material.train),
        "dev_pairs": n_dev,
        "ablate": list(config.ablate),
        "rounds": [dict(one.record) for one in rounds],
        "dev": dev,
        "headline": accuracy_in_words(best.dev_accuracy, n_dev),
        "outcomes": dict(session.stages.outcomes),
        "contaminated": [dict(hit) for hit in contaminated or ()],
        "warnings": list(warnings),
        "better": better,
        **({} if learned is None else {"learning_curve": learned.as_json()}),
    }
    bank = store_bank(
        load_store(place),
        best,
        config,
        source=source,
        contaminated=None if contaminated is None else len({hit["pair"] for hit in contaminated}),
        dev_metrics=dev,
        licence=settings.licence,
        history=BankHistory(
            curves=tuple(curve for one in rounds for curve in one.curves),
            rounds=tuple(msgspec.convert(one.record, RoundFacts) for one in rounds),
            warnings=(*warnings, *([better] if better else [])),
            learning_curve=learned,
        ),
    )
    return bank, record


# ── one stage ───────────────────────────────────────────────────────────────────────────────────────────────────────


def induce(
    settings: TrainSettings, file: Path, listener: TrainingListener | None = None
) -> tuple[Sequence[BankRubric], Outcomes]:
    """Induce rubrics from the training pairs, write them as JSON Lines, and return them with the questions' outcomes.

    Near-identical ones are merged, the most observed come first. The stage is kept in `settings.out`.
    DegenerateFitError without a single one.
    """
    candidates, outcomes = run_stage(settings, lambda run: ask_for_candidates(run.session), listener)
    if not candidates:
        why = "".join(f"; {line}" for line in unanswered_lines(outcomes))
        raise DegenerateFitError(f"no rubric was induced from {settings.pairs}{why}", hint=NO_RUBRIC)
    write_atomic(file, rubric_lines(candidates))
    return candidates, outcomes


async def ask_for_candidates(session: Session) -> tuple[BankRubric, ...]:
    """Induce rubrics from the training pairs of a session, merge near-identical ones, and group the criteria."""
    merged = merge(await induced(session, "induce", session.material.train, {}))
    return (await grouped(session, "criteria", merged, {}))[0]


def load_rubrics(bank: Path | None, candidates: Path | None) -> Sequence[BankRubric]:
    """Return the rubrics of a bank or of a file of candidates; UsageError unless one of them is named."""
    if bank is not None and candidates is None:
        return [entry for entry in RubricBank.load(bank).rubrics if not entry.disabled]
    if candidates is not None and bank is None:
        return counted([candidate for _, candidate in read_rubrics(candidates)])
    raise UsageError("svr stages judge needs rubrics", hint="give one of --bank DIR and --candidates FILE")


def judge(
    settings: TrainSettings, rubrics: Sequence[BankRubric], store: Path, listener: TrainingListener | None = None
) -> tuple[FeatureStore, Outcomes, Used]:
    """Judge pools of the rubrics on the pairs, write the feature store, and return it with the questions' outcomes.

    The stage is kept in `settings.out`. UsageError if the folder holds anything but this very store.
    """
    occupied = store.exists()

    def before_stage() -> None:
        if occupied:  # questions are left, so the store is of another command
            raise store_exists(store)

    async def work(run: TrainingRun) -> tuple[FeatureStore, Used]:
        session = run.session
        session.judges = replace(session.judges, before_stage=before_stage)
        await ask_for_entries(session, rubrics)
        judged = round_store(session, session.judged(session.indexed(rubrics)), run.header())
        write_store(store, judged)
        return judged, run.used

    (judged, used), outcomes = run_stage(settings, work, listener)
    return judged, outcomes, used


async def ask_for_entries(session: Session, rubrics: Sequence[BankRubric]) -> None:
    """Judge the pools of all pairs of a session."""
    bank = session.indexed(rubrics)
    if held_out := bank.held_out:
        among = len({place for places in held_out.values() for place in places})
        session.say(
            f"{among:,} of {len(rubrics):,} rubrics came from prompts that are held out here, as with another --seed "
            f"or --limit; no rubric is judged on a held-out prompt that it came from"
        )
    await judge_pools(session, "judge", 1, bank)


# ── judge and session ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """A training with its judge open."""

    settings: TrainSettings
    dataset: Dataset
    judge: OpenJudge
    session: Session

    def header(self) -> Header:
        """Return what a feature store says of this training; its marks are those of the systems that have answered."""
        return Header(
            judge=self.judge.label,
            marks=tuple(sorted(map(Integrity, self.judge.judge.marks))),
            prompts_digest=digest_of(dict(self.judge.prompts)) if self.judge.prompts else "",
            pairs_digest=self.session.material.digest,
            config=self.session.config,
        )

    @property
    def used(self) -> Used:
        """What this process has asked so far of the endpoints of the judge and of another author."""
        return {
            name: (one.engine.stats(), None if one.profile is None else one.profile.price)
            for name, one in zip(("judge", "author"), self.judge.judges, strict=False)
            if one.engine is not None
        }


@asynccontextmanager
async def open_run(settings: TrainSettings, dataset: Dataset, listener: TrainingListener) -> AsyncIterator[TrainingRun]:
    """Open the judge and a session of a training, and close the judge at the end."""
    judge = open_training_judge(settings)  # a judge that cannot be opened leaves no folder
    try:
        open_folder(settings.out)
        listener.opened(judge)
        with naming_keys(one.profile.key_env for one in judge.judges if one.profile):
            session = open_session(settings, dataset, judge, listener)
            yield TrainingRun(settings=settings, dataset=dataset, judge=judge, session=session)
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


def open_session(settings: TrainSettings, dataset: Dataset, judge: OpenJudge, listener: TrainingListener) -> Session:
    """Split the pairs by prompt, learn the features, and set up a session in the output folder.

    UsageError if a side of the split is empty.
    """
    config = settings.config
    train, dev = split_by_prompt(dataset.pairs, config.dev_share, salt=str(config.split_seed))
    if not train or not dev:
        raise UsageError(
            f"{len(dataset.pairs)} pairs give {len(train)} to train on and {len(dev)} to check with",
            hint="give pairs of at least two prompts: all pairs of a prompt fall on the same side",
        )
    if skipped := dataset.skipped:
        reasons = "; ".join(f"{count:,} × {reason}" for reason, count in skipped.items())
        listener.say(f"{sum(skipped.values()):,} rows left out: {reasons}")
    for reading in dataset.readings:
        listener.say(f"labels: {reading}")
    author = "" if judge.behind is None else f", author {judge.behind.label}"
    listener.say(f"judge {judge.label}{author}")
    listener.say(f"{len(train):,} pairs to train on, {len(dev):,} to check with")
    digest = training_fingerprint(dataset.digest, (pair.id for pair in dataset.pairs))
    fingerprints = judge.engine.fingerprints if judge.engine else set()
    return Session(
        judges=_training_judges(settings, judge, listener),
        config=config,
        stages=Stages(settings.out / "stages", fingerprints, retry=settings.limits.retry_errors),
        material=prepare(train, dev, digest=digest, pairs_of_words=config.fit.pairs_of_words),
        say=listener.say,
        asker=asker_of(judge),
        watch=listener,
    )


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
    dataset, _ = load_data(settings)

    async def main() -> tuple[T, Outcomes]:
        async with open_run(settings, dataset, listener or TrainingListener()) as run:
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
    staged: bool

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """The endpoints of the judge and of another author; UsageError if nothing is sent."""
        specs = self.settings.spec, self.settings.author_spec or self.settings.spec
        return endpoints_of(list({one.text: one.profile for one in specs}.values()), self.settings.judge)

    async def open(self) -> OpenJudge:
        """Open the judge, with the failures of an earlier run if there was one."""
        return open_training_judge(self.settings)

    async def ask(self, opened: Opened, unanswered: Unanswered) -> None:
        """Ask stage by stage, up to the first with questions that have no reply."""
        judge = opened.judges[0]
        dataset, _ = load_data(self.settings)

        def before_stage() -> None:
            if unanswered:
                raise StageEndsError

        with tempfile.TemporaryDirectory() as stages:
            session = open_session(replace(self.settings, out=Path(stages)), dataset, judge, TrainingListener())
            session.judges = replace(session.judges, before_stage=before_stage)
            with contextlib.suppress(StageEndsError, ShardEndsError):
                await self.work(session)
