"""The work behind `svr train`: flags in, a bank folder out. Loaded only when a training runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import orjson

from svr_async.adapters import Dataset, get_adapter, refuse_benchmark_for_training
from svr_async.adapters.selection import select_pairs
from svr_async.commands.coverage import require_coverage
from svr_async.commands.places import keep_bank, keep_training, open_folder
from svr_async.commands.report import write_bank_report
from svr_async.commands.stopping import draining
from svr_async.commands.terminal import calls_in_words
from svr_async.commands.train.learning import learned_curve, print_learning, require_solved
from svr_async.commands.train.screen import TrainScreen
from svr_async.commands.train.table import print_rounds
from svr_async.engine.loops import loop_factory
from svr_async.engine.stopper import Stopper
from svr_async.errors import UsageError
from svr_async.evaluation.costs import engine_block
from svr_async.fit.learning_curve import LearningCurve
from svr_async.judges import opening
from svr_async.judges.keys import naming_keys
from svr_async.judges.limits import JudgeLimits
from svr_async.judges.opening import OpenJudge
from svr_async.judges.spec import JudgeSpec
from svr_async.scoring.bank import RubricBank
from svr_async.scoring.bank_history import BankHistory, TrainedOn
from svr_async.training.answers import Outcomes, coverage_counts, unanswered_lines
from svr_async.training.asking import RUBRICS_PER_CALL, Crew
from svr_async.training.banking import build_bank
from svr_async.training.build import refuse_long_names
from svr_async.training.choosing import chosen_round
from svr_async.training.config import Publish, TrainConfig
from svr_async.training.decontaminate import Contamination, find_contaminated
from svr_async.training.fit_log import FitLog, training_history
from svr_async.training.fitting import calibrate_round, fit_round, margins_with
from svr_async.training.plans import FitPlan, config_of
from svr_async.training.pools import PoolConfig, PoolPolicy
from svr_async.training.round_stores import drop_rounds, keep_round
from svr_async.training.rounds import run_rounds
from svr_async.training.session import FittedRound, JudgedRound, Session, prepare
from svr_async.training.stages import Stages, digest_of
from svr_async.vocabulary.atomic import write_atomic
from svr_async.vocabulary.dev_pairs import accuracy_in_words, small_dev_warnings
from svr_async.vocabulary.pair import PreferencePair
from svr_async.vocabulary.prefixes import PrefixOrder
from svr_async.vocabulary.splits import split_by_prompt

OFFLINE_WORKERS = 8
STORES = "stores"  # in a training's folder: a feature store for each round
RUBRICS_PER_FREE_CALL = 65_536  # without an endpoint a call has no length to bound


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainFlags:
    """The flags of `svr train`, by name."""

    pairs: Path
    adapter: str
    judge: str
    base_url: str
    out: Path
    rounds: int
    preset: str
    pool: str | None
    pool_size: int | None
    top_k: int | None
    ablate: tuple[str, ...]
    decontaminate: tuple[str, ...]
    limit: str | None
    seed: int
    limits: JudgeLimits
    licence: str
    quiet: bool
    as_json: bool
    lenient: bool = False
    prefix: str = "leader"
    rubrics_per_call: int = RUBRICS_PER_CALL
    replace: bool = False
    min_coverage: float = 1.0
    publish: Publish | None = None
    learning_curve: bool = False


def run_command(flags: TrainFlags) -> int:
    """Train and return the exit code; SvrError for what stops the run."""
    keep_bank(flags.out, "stages", "record.json")
    refuse_benchmark_for_training(flags.pairs)
    refuse_benchmark_for_training(flags.adapter)
    dataset = get_adapter(flags.adapter).load(flags.pairs, lenient=flags.lenient)
    pairs = training_pairs(dataset, flags)
    kept, dropped = decontaminated(pairs, flags.decontaminate)
    if not kept:
        raise UsageError(
            f"all {len(pairs)} pairs overlap with {', '.join(flags.decontaminate)}", hint="train on other pairs"
        )
    config = train_config(flags)
    require_solved(config, flags.learning_curve)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_train(flags, config, dataset, kept, dropped))


def training_pairs(dataset: Dataset, flags: TrainFlags) -> list[PreferencePair]:
    """Return the pairs that the flags select and that can teach anything; UsageError where there are none."""
    pairs = [pair for pair in select_pairs(dataset.pairs, flags.limit, ()) if usable(pair)]
    if not pairs:
        raise UsageError(
            f"0 of {len(dataset.pairs)} pairs in {flags.pairs} can be learned from",
            hint="a pair needs a preference between two different responses",
        )
    refuse_long_names(pairs)
    return pairs


def usable(pair: PreferencePair) -> bool:
    """Whether a pair can teach anything: a preference between two different responses."""
    return pair.has_preference and pair.chosen != pair.rejected


def train_config(flags: TrainFlags) -> TrainConfig:
    """Return the settings that the flags name."""
    plan = plan_of(flags)
    config, policy = config_of(plan), PoolPolicy(flags.pool or ("all" if plan.free else "cross"))
    return replace(
        config,
        rounds=flags.rounds,
        publish=flags.publish or config.publish,
        pools=PoolConfig(policy=policy, size=flags.pool_size),
    )


def plan_of(flags: TrainFlags) -> FitPlan:
    """Return the part of the settings that `svr-fit` needs to fit what this run judges as this run does."""
    return FitPlan(
        preset=flags.preset,
        seed=flags.seed,
        top_k=flags.top_k,
        free=flags.judge == "rules",
        ablate=tuple(sorted(flags.ablate)),
    )


def decontaminated(
    pairs: Sequence[PreferencePair], named: Sequence[str]
) -> tuple[list[PreferencePair], list[Contamination]]:
    """Return the pairs without those that overlap with the named benchmarks, and what was found."""
    benchmarks = []
    for entry in named:
        name, mark, path = entry.partition("=")
        if not mark or not path:
            raise UsageError(f"--decontaminate {entry} names no file", hint="write it as rubricbench=PATH")
        benchmarks.append((name, get_adapter(name).load(Path(path)).pairs))
    found = find_contaminated(pairs, benchmarks) if benchmarks else []
    gone = {hit.pair_id for hit in found}
    return [pair for pair in pairs if pair.id not in gone], found


async def _train(
    flags: TrainFlags,
    config: TrainConfig,
    dataset: Dataset,
    pairs: Sequence[PreferencePair],
    dropped: Sequence[Contamination],
) -> int:
    begun = time.monotonic()
    judge = open_judge(flags)
    try:
        with screen_of(flags, judge) as screen, naming_keys(key_variables(judge)):
            log = FitLog(watch=screen)
            session = open_session(flags, config, dataset, pairs, judge, screen=screen, log=log)
            made_of = made_of_what(session, judge)
            if not flags.replace:
                keep_training(flags.out, made_of)
            warnings = small_dev_warnings(len(session.material.dev), len(pairs))
            for warning in warnings:
                screen.say(f"warning: {warning}")
            kept: list[JudgedRound] = []
            session.keep_round = partial(_keep_round, flags, judge, kept)
            rounds = await run_rounds(session)
            learned = learned_curve(kept[-1].data.train, config, screen.say) if flags.learning_curve else None
            drop_rounds(flags.out / STORES, after=len(rounds))
        warnings += unanswered_lines(session.stages.outcomes)
        best = chosen_round(rounds, len(session.material.dev), config.publish)
        record = make_record(flags, session, rounds, best, judge, dropped) | {"warnings": warnings, "made_of": made_of}
        record |= {} if learned is None else {"learning_curve": learned.as_json()}
        history = training_history(log, rounds, best, _trained_on(flags, session, dropped), warnings, learned)
        digest = _bank(flags, session, best, judge, history).save(flags.out / "bank")
        write_atomic(flags.out / "record.json", orjson.dumps(record, option=orjson.OPT_INDENT_2))
        write_bank_report(flags.out / "bank", flags.out / "report.html")
    finally:
        await judge.close()
    _print_end(flags, record, digest, time.monotonic() - begun, learned, asked_block(judge))
    require_answers(session.stages.outcomes, flags.min_coverage, flags.out / "failures.jsonl")
    return 0


def _print_end(
    flags: TrainFlags,
    record: dict[str, Any],
    digest: str,
    seconds: float,
    learned: LearningCurve | None,
    asked: dict[str, Any],
) -> None:
    """Print what came of a training, as JSON or as tables."""
    if flags.as_json:
        click.echo(orjson.dumps({**record, "bank_digest": digest, **asked}, option=orjson.OPT_INDENT_2))
        return
    print_rounds(record, flags.out, digest, seconds)
    print_learning(learned)
    if asked:
        click.echo(f"calls     {calls_in_words(asked)}")


def _keep_round(
    flags: TrainFlags, judge: OpenJudge, kept: list[JudgedRound], session: Session, judged: JudgedRound
) -> None:
    """Keep a round as a feature store, for `svr-fit` to fit it again without a call; the last one in memory too."""
    kept[:] = [judged]
    plan = replace(plan_of(flags), round=judged.number, last=judged.data.last)
    labels = {"judge": judge.label, "prompts_digest": prompts_digest_of(judge)}
    keep_round(session, judged, folder=flags.out / STORES, plan=plan, **labels)


def _bank(flags: TrainFlags, session: Session, best: FittedRound, judge: OpenJudge, history: BankHistory) -> RubricBank:
    return build_bank(
        session,
        best,
        facts=_dev_facts(session, best),
        licence=flags.licence,
        judge=judge.label,
        prompts_digest=prompts_digest_of(judge),
        history=history,
    )


def _dev_facts(session: Session, best: FittedRound) -> dict[str, Any]:
    return {"accuracy": best.dev_accuracy, "pairs": len(session.material.dev), "round": best.number}


def require_answers(outcomes: Outcomes, least: float, failures: Path, *, before: str = "") -> None:
    """Raise CoverageError where too few questions got an answer; `before` is to be done before they are asked again."""
    missing, total = coverage_counts(outcomes)
    hint = f"{failures} says why; {before}--retry-errors asks again, --min-coverage accepts it"
    require_coverage(missing, total, least, lack="questions have no answer", hint=hint)


def made_of_what(session: Session, judge: OpenJudge) -> str:
    """Return a digest of all that a training's bank is made of: pairs, settings, judge, model, prompts, questions."""
    asked = session.asker, session.crew.rubrics_per_call
    return digest_of(session.material.digest, session.config.as_json(), judge.label, *asked)


def prompts_digest_of(judge: OpenJudge) -> str:
    """Return a digest of the prompt templates that a judge is asked with; empty for one that reads none."""
    return digest_of(dict(judge.prompts)) if judge.prompts else ""


def screen_of(flags: TrainFlags, judge: OpenJudge) -> TrainScreen:
    """Return the screen that tells of this run and of its judge's engine."""
    return TrainScreen(judge.engine.stats if judge.engine else None, quiet=flags.quiet)


def _trained_on(flags: TrainFlags, session: Session, dropped: Sequence[Contamination]) -> TrainedOn:
    return TrainedOn(
        train_pairs=len(session.material.train),
        dev_pairs=len(session.material.dev),
        source=flags.pairs.name,
        preset=flags.preset,
        ablate=tuple(sorted(flags.ablate)),
        contaminated=len({hit.pair_id for hit in dropped}) if flags.decontaminate else None,
    )


def open_judge(flags: TrainFlags) -> OpenJudge:
    """Open the judge that trains; a recording cannot, since it induces nothing."""
    spec = JudgeSpec.parse(flags.judge, base_url=flags.base_url)
    if spec.recording is not None:
        raise UsageError(f"--judge {flags.judge} cannot induce rubrics", hint="train with rules or an endpoint")
    open_folder(flags.out)
    return opening.open_judge(spec, replace(flags.limits, failures=flags.out / "failures.jsonl"))


def key_variables(judge: OpenJudge) -> tuple[str, ...]:
    """Return the variable that holds the key of a judge, where it is behind an endpoint."""
    return () if judge.profile is None else (judge.profile.key_env,)


def _crew(flags: TrainFlags, judge: OpenJudge, screen: TrainScreen) -> Crew:
    engine = judge.engine
    assert judge.author is not None
    stopper = Stopper(engines=(engine,) if engine else ())
    return Crew(
        judge=judge.judge,
        author=judge.author,
        workers=engine.config.concurrency if engine else OFFLINE_WORKERS,
        rubrics_per_call=flags.rubrics_per_call if engine else RUBRICS_PER_FREE_CALL,
        prefix=PrefixOrder(flags.prefix),
        on_begin=screen.stage,
        on_done=screen.count,
        stopper=stopper,
        listening=partial(draining, stopper, screen.say),
    )


def open_session(
    flags: TrainFlags,
    config: TrainConfig,
    dataset: Dataset,
    pairs: Sequence[PreferencePair],
    judge: OpenJudge,
    *,
    screen: TrainScreen,
    log: FitLog | None = None,
) -> Session:
    """Split the pairs by prompt, learn the features, and set up a run in the output folder."""
    train, dev = split_by_prompt(pairs, config.dev_share, salt=str(config.split_seed))
    if not train or not dev:
        raise UsageError(
            f"{len(pairs)} pairs give {len(train)} to train on and {len(dev)} to check with",
            hint="give more pairs, of more prompts: all pairs of a prompt fall on the same side",
        )
    if dataset.skipped:
        reasons = "; ".join(f"{count:,} × {reason}" for reason, count in dataset.skipped.items())
        screen.say(f"{sum(dataset.skipped.values()):,} rows left out: {reasons}")
    screen.say(f"judge {judge.label}")
    screen.say(f"{len(train):,} pairs to train on, {len(dev):,} to check with")
    return Session(
        crew=_crew(flags, judge, screen),
        config=config,
        stages=Stages(
            flags.out / "stages", judge.engine.fingerprints if judge.engine else set(), retry=flags.limits.retry_errors
        ),
        material=prepare(
            train,
            dev,
            digest=digest_of(dataset.digest, [pair.id for pair in pairs]),
            pairs_of_words=config.fit.pairs_of_words,
        ),
        fit_round=partial(fit_round, log=log),
        calibrate=partial(calibrate_round, log=log),
        margins=partial(margins_with, config.fit),
        say=screen.say,
        asker=asker_of(judge),
    )


def asked_block(judge: OpenJudge) -> dict[str, Any]:
    """Return the calls, tokens and dollars of this process; nothing for a judge that sends nothing."""
    if judge.engine is None:
        return {}
    return engine_block(judge.engine.stats(), judge.profile.price if judge.profile else None)


def asker_of(judge: OpenJudge) -> str:
    """Return a digest of all that replies depend on besides the questions; it is what a memo's keys are made of."""
    profile = judge.profile
    model = [] if profile is None else [profile.identity, profile.model, profile.max_tokens]
    params = [] if profile is None else [profile.params(structured=structured) for structured in (True, False)]
    return digest_of(model, params, dict(judge.prompts))


def make_record(
    flags: TrainFlags,
    session: Session,
    rounds: Sequence[FittedRound],
    best: FittedRound,
    judge: OpenJudge,
    dropped: Sequence[Contamination],
) -> dict[str, Any]:
    """Return what is kept of a training: each round's figures, the choice, and what was left out."""
    return {
        "pairs": str(flags.pairs),
        "judge": judge.label,
        "preset": flags.preset,
        "publish": session.config.publish,
        "train_pairs": len(session.material.train),
        "dev_pairs": len(session.material.dev),
        "ablate": sorted(flags.ablate),
        "rounds": [dict(one.record) for one in rounds],
        "dev": _dev_facts(session, best),
        "headline": accuracy_in_words(best.dev_accuracy, len(session.material.dev)),
        "outcomes": dict(session.stages.outcomes),
        "contaminated": [{"pair": hit.pair_id, "benchmark": hit.benchmark, "item": hit.item} for hit in dropped],
    }
