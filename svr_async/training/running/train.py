"""A whole training: Algorithm 1 from settings to a bank in a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import orjson

from svr_async.adapters import Dataset
from svr_async.core.files import write_atomic
from svr_async.core.table import Line, to_html
from svr_async.engine.concurrency import run_whole
from svr_async.engine.money import Price
from svr_async.engine.stats import EngineStats
from svr_async.fit.learning_curve import LearningCurve
from svr_async.scoring.bank import RubricBank
from svr_async.scoring.bank_history import TrainedOn
from svr_async.scoring.bank_made import keep_made
from svr_async.scoring.bank_view import bank_sheet
from svr_async.scoring.dev_pairs import accuracy_in_words, small_dev_warnings
from svr_async.training.rounds.algorithm import run_rounds
from svr_async.training.rounds.answers import Outcomes, unanswered_lines
from svr_async.training.rounds.dev_choice import chosen_round
from svr_async.training.rounds.fit_log import training_history
from svr_async.training.rounds.round_bank import build_bank
from svr_async.training.rounds.session import FittedRound, JudgedRound, Session
from svr_async.training.rounds.stages import digest_of
from svr_async.training.running.data import TrainingData, load_data
from svr_async.training.running.learning_curve import learned_curve, require_solved
from svr_async.training.running.listener import Listener, Silent
from svr_async.training.running.places import keep_bank, keep_training
from svr_async.training.running.run import TrainingRun, open_run, require_author
from svr_async.training.running.settings import TrainSettings, train_config
from svr_async.training.store.round_stores import drop_rounds, keep_round

STORES = "stores"  # in a training's folder: a feature store for each round


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainResult:
    """What came of a training: the bank that is in `folder`/bank, and the record that is in `folder`/record.json.

    `rounds` are all of them, whichever is published. `stats` are what this process asked of an endpoint, and `price`
    what that costs; None for a judge that sends nothing, or has no price. `written` are both of an author of its own.
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

    def __repr__(self) -> str:
        return f"<TrainResult {self.record['headline']}, {self.bank!r}, in {self.folder}>"

    def _repr_html_(self) -> str:
        lines = [Line(str(self.record["headline"]), loud=True), Line(str(self.folder), label="folder")]
        told = [Line(warning, label="warning") for warning in self.warnings]
        return to_html(chain(lines, told, bank_sheet(self.bank)))

    @property
    def outcomes(self) -> Outcomes:
        """How many questions of each stage had which outcome."""
        found: Outcomes = self.record["outcomes"]
        return found


def train(settings: TrainSettings, listener: Listener | None = None) -> TrainResult:
    """Run `atrain` on a new event loop."""
    return run_whole(atrain(settings, listener))


async def atrain(
    settings: TrainSettings, listener: Listener | None = None, dataset: Dataset | None = None
) -> TrainResult:
    """Train a bank, or go on with a training that was stopped; SvrError for what ends it.

    With a share of it (`settings.limits.share`) ShardEndsError ends it too, once that part of a stage is asked.

    Questions without an answer are in the result, and end nothing: `answers.require_answers` refuses too many of them.
    """
    keep_bank(settings.out, "stages", "record.json")
    require_solved(train_config(settings), settings.learning_curve)
    data = load_data(settings, dataset)
    require_author(settings)
    return await _train(settings, data, listener or Silent())


async def _train(settings: TrainSettings, data: TrainingData, listener: Listener) -> TrainResult:
    async with open_run(settings, data, listener) as run:
        session, made_of = run.session, _made_of(run)
        if not settings.replace:
            keep_training(settings.out, made_of)
        warnings = small_dev_warnings(len(session.material.dev), len(data.pairs))
        for warning in warnings:
            listener.say(f"warning: {warning}")
        kept: list[JudgedRound] = []
        session.keep_round = partial(_keep_round, run, kept)
        rounds = await run_rounds(session)
        config, last = session.config, kept[-1].data.train
        learned = learned_curve(last, config, listener.say) if settings.learning_curve else None
        drop_rounds(settings.out / STORES, after=len(rounds))
        warnings += unanswered_lines(session.stages.outcomes)
        return _result(run, rounds, made_of, warnings, learned)


def _result(
    run: TrainingRun, rounds: Sequence[FittedRound], made_of: str, warnings: list[str], learned: LearningCurve | None
) -> TrainResult:
    """Write the bank of the chosen round and the record, and return them."""
    settings, session = run.settings, run.session
    best = chosen_round(rounds, len(session.material.dev), session.config.publish)
    record = make_record(run, rounds, best) | {"warnings": warnings, "made_of": made_of}
    record |= {} if learned is None else {"learning_curve": learned.as_json()}
    bank = build_bank(
        session,
        best,
        facts=_dev_facts(session, best),
        licence=settings.licence,
        judge=run.judge.label,
        prompts_digest=run.prompts_digest,
        history=training_history(run.log, rounds, best, _trained_on(run), warnings, learned),
    )
    digest = bank.save(settings.out / "bank")
    keep_made(settings.out, digest)
    write_atomic(settings.out / "record.json", orjson.dumps(record, option=orjson.OPT_INDENT_2))
    return TrainResult(
        bank=bank,
        digest=digest,
        record=record,
        folder=settings.out,
        warnings=tuple(warnings),
        rounds=tuple(rounds),
        learned=learned,
        stats=run.stats,
        price=run.price,
        written=run.written,
    )


def _keep_round(run: TrainingRun, kept: list[JudgedRound], session: Session, judged: JudgedRound) -> None:
    """Keep a round as a feature store, for `svr-fit` to fit it again without a call; the last one in memory too."""
    kept[:] = [judged]
    terms = replace(run.settings.terms, round=judged.number, last=judged.data.last)
    labels = {"judge": run.judge.label, "prompts_digest": run.prompts_digest}
    keep_round(session, judged, folder=run.settings.out / STORES, terms=terms, **labels)


def _made_of(run: TrainingRun) -> str:
    """Return a digest of all that the bank is made of: pairs, settings, judge, model, prompts, questions."""
    session = run.session
    asked = session.asker, session.crew.rubrics_per_call
    return digest_of(session.material.digest, session.config.as_json(), run.judge.label, *asked)


def _dev_facts(session: Session, best: FittedRound) -> dict[str, Any]:
    return {"accuracy": best.dev_accuracy, "pairs": len(session.material.dev), "round": best.number}


def _trained_on(run: TrainingRun) -> TrainedOn:
    settings, material = run.settings, run.session.material
    return TrainedOn(
        train_pairs=len(material.train),
        dev_pairs=len(material.dev),
        source=run.data.origin or settings.pairs.name,
        preset=settings.preset,
        ablate=tuple(sorted(settings.ablate)),
        contaminated=len({hit.pair_id for hit in run.data.contaminated}) if run.data.decontaminated else None,
    )


def make_record(run: TrainingRun, rounds: Sequence[FittedRound], best: FittedRound) -> dict[str, Any]:
    """Return what is kept of a training: each round's figures, the choice, and what was left out."""
    settings, session = run.settings, run.session
    found = run.data.contaminated
    return {
        "pairs": str(settings.pairs),
        "origin": run.data.origin,
        "readings": list(run.data.readings),
        "judge": run.judge.label,
        "preset": settings.preset,
        "publish": session.config.publish,
        "train_pairs": len(session.material.train),
        "dev_pairs": len(session.material.dev),
        "ablate": sorted(settings.ablate),
        "rounds": [dict(one.record) for one in rounds],
        "dev": _dev_facts(session, best),
        "headline": accuracy_in_words(best.dev_accuracy, len(session.material.dev)),
        "outcomes": dict(session.stages.outcomes),
        "contaminated": [{"pair": hit.pair_id, "benchmark": hit.benchmark, "item": hit.item} for hit in found],
    }
