"""A whole training: Algorithm 1 from settings to a bank in a folder."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from svr_async.adapters import Dataset
from svr_async.core.files import write_atomic
from svr_async.engine.concurrency import run_whole
from svr_async.engine.money import Price
from svr_async.engine.stats import EngineStats
from svr_async.fit.learning_curve import LearningCurve
from svr_async.scoring.bank import BankHistory, RubricBank, TrainedOn
from svr_async.scoring.bank_card import accuracy_in_words, small_dev_warnings
from svr_async.scoring.provenance import write_provenance
from svr_async.training.rounds.algorithm import run_rounds
from svr_async.training.rounds.publish import baseline_hits, better_than_bank, build_bank, chosen_round, direct_hits
from svr_async.training.rounds.session import FittedRound, JudgedRound, Session
from svr_async.training.rounds.stages import Outcomes, digest_of, unanswered_lines
from svr_async.training.running.data import TrainingData, load_data
from svr_async.training.running.refit import learned_curve, require_solved
from svr_async.training.running.run import (
    TrainingListener,
    TrainingRun,
    keep_bank,
    keep_training,
    open_run,
    require_author,
)
from svr_async.training.running.settings import TrainSettings, train_config
from svr_async.training.store.files import Header, round_store, write_store

STORES = "stores"  # in a training's folder: a feature store for each round


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainResult:
    """The result of a training: the bank in `folder`/bank, and the record in `folder`/record.json.

    `rounds` are all of them. `stats` is what this process asked of the endpoint and `price` its price; None for a judge
    that sends nothing or has no price. `written` is both of another endpoint that wrote.
    """

    bank: RubricBank
    digest: str
    record: Mapping[str, Any]
    folder: Path
    warnings: tuple[str, ...]
    rounds: tuple[FittedRound, ...]
    learned: LearningCurve | None = None
    stats: EngineStats | None = None
    price: Price | None = None
    written: tuple[EngineStats, Price | None] | None = None

    @property
    def outcomes(self) -> Outcomes:
        """How many questions of each stage had which outcome."""
        found: Outcomes = self.record["outcomes"]
        return found


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
    require_solved(train_config(settings), settings.learning_curve)
    data = load_data(settings, dataset)
    require_author(settings)
    return await _train(settings, data, listener or TrainingListener())


async def _train(settings: TrainSettings, data: TrainingData, listener: TrainingListener) -> TrainResult:
    async with open_run(settings, data, listener) as run:
        session = run.session
        asked = session.asker, session.judges.rubrics_per_call
        made_of = digest_of(session.material.digest, session.config.as_json(), run.judge.label, *asked)
        keep_training(settings.out, made_of)
        warnings = small_dev_warnings(len(session.material.dev), len(data.pairs))
        for warning in warnings:
            listener.say(f"warning: {warning}")
        kept: dict[int, JudgedRound] = {}

        def keep_round(_: Session, judged: JudgedRound) -> None:
            """Write a round as a feature store, and keep it for the comparison of the published one."""
            kept[judged.number] = judged
            terms = replace(settings.terms, round=judged.number, last=judged.data.last)
            header = Header(judge=run.judge.label, prompts_digest=run.prompts_digest, terms=terms)
            folder = settings.out / STORES / f"round-{judged.number}"
            write_store(folder, round_store(session, judged, header), replace_other=True)

        session.keep_round = keep_round
        rounds = await run_rounds(session, run.log)
        last = kept[rounds[-1].number].data.train
        learned = learned_curve(last, session.config, listener.say) if settings.learning_curve else None
        for later in set((settings.out / STORES).glob("round-*")) - {
            settings.out / STORES / f"round-{n}" for n in kept
        }:
            shutil.rmtree(later)
        warnings += unanswered_lines(session.stages.outcomes)
        best = chosen_round(rounds, len(session.material.dev), session.config.publish)
        better = await _better(run, best, kept[best.number])
        record = _record(run, rounds, best) | {"warnings": warnings, "made_of": made_of, "better": better}
        record |= {} if learned is None else {"learning_curve": learned.as_json()}
        history = _history(run, rounds, best, [*warnings, *([better] if better else [])], learned)
        return _result(run, rounds, best, record, history)


async def _better(run: TrainingRun, best: FittedRound, judged: JudgedRound) -> str:
    """Return a sentence if a simpler way decides the held-out pairs better than the bank; else ""."""
    place = {candidate.rubric.id: number for number, candidate in enumerate(judged.data.bank)}
    kept = np.array([place[candidate.rubric.id] for candidate in best.bank])
    dev = judged.data.dev.restrict_rubrics(kept)
    others = baseline_hits(run.log.baselines.get(best.number), dev)
    direct = {"the judge asked directly": await direct_hits(run.session)}
    return better_than_bank(best.dev_hits, others | direct, f"{run.settings.out / STORES}/round-{best.number}")


def _result(
    run: TrainingRun,
    rounds: Sequence[FittedRound],
    best: FittedRound,
    record: Mapping[str, Any],
    history: BankHistory,
) -> TrainResult:
    """Write the bank of the chosen round and the record, and return them."""
    settings = run.settings
    bank = build_bank(
        run.session,
        best,
        dev_metrics=record["dev"],
        licence=settings.licence,
        judge=run.judge.label,
        prompts_digest=run.prompts_digest,
        history=history,
    )
    digest = bank.save(settings.out / "bank")
    write_provenance(settings.out, digest)
    write_atomic(settings.out / "record.json", orjson.dumps(record, option=orjson.OPT_INDENT_2))
    return TrainResult(
        bank=bank,
        digest=digest,
        record=record,
        folder=settings.out,
        warnings=tuple(record["warnings"]),
        rounds=tuple(rounds),
        learned=history.learning_curve,
        stats=run.stats,
        price=run.price,
        written=run.written,
    )


def _history(
    run: TrainingRun,
    rounds: Sequence[FittedRound],
    best: FittedRound,
    warnings: Sequence[str],
    learned: LearningCurve | None,
) -> BankHistory:
    settings, material, log = run.settings, run.session.material, run.log
    last, (vote, linear) = log.last(best.number), log.accuracies(best.number)
    trained_on = TrainedOn(
        train_pairs=len(material.train),
        dev_pairs=len(material.dev),
        source=run.data.origin or settings.pairs.name,
        preset=settings.preset,
        ablate=tuple(sorted(settings.ablate)),
        contaminated=len({hit.pair_id for hit in run.data.contaminated}) if run.data.decontaminated else None,
    )
    return BankHistory(
        trained_on=trained_on,
        curves=tuple(log.curves),
        rounds=tuple(log.facts(one.record) for one in rounds),
        chosen_round=best.number,
        chosen_seed=last.seed if last else 0,
        vote_accuracy=vote,
        linear_accuracy=linear,
        warnings=tuple(warnings),
        choice=best.choice,
        learning_curve=learned,
    )


def _record(run: TrainingRun, rounds: Sequence[FittedRound], best: FittedRound) -> dict[str, Any]:
    """Return what is kept of a training: each round's figures, the choice, and what was left out."""
    settings, session = run.settings, run.session
    n_dev = len(session.material.dev)
    return {
        "pairs": str(settings.pairs),
        "origin": run.data.origin,
        "readings": list(run.data.readings),
        "judge": run.judge.label,
        "preset": settings.preset,
        "publish": session.config.publish,
        "train_pairs": len(session.material.train),
        "dev_pairs": n_dev,
        "ablate": sorted(settings.ablate),
        "rounds": [dict(one.record) for one in rounds],
        "dev": {"accuracy": best.dev_accuracy, "pairs": n_dev, "round": best.number},
        "headline": accuracy_in_words(best.dev_accuracy, n_dev),
        "outcomes": dict(session.stages.outcomes),
        "contaminated": [
            {"pair": hit.pair_id, "benchmark": hit.benchmark, "item": hit.item} for hit in run.data.contaminated
        ],
    }
