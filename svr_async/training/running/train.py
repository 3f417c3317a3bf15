"""A whole training, from settings to a bank in a folder, and its first two stages by themselves."""

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
from svr_async.errors import DegenerateFitError, UsageError
from svr_async.scoring.bank import BankRubric, RubricBank, TrainedOn
from svr_async.scoring.bank_card import accuracy_in_words, small_dev_warnings
from svr_async.scoring.provenance import write_provenance
from svr_async.training.bank.merge import merge
from svr_async.training.rounds.algorithm import NO_RUBRIC, run_rounds
from svr_async.training.rounds.induction import counted, grouped, induced
from svr_async.training.rounds.pools import judge_pools
from svr_async.training.rounds.publish import baseline_hits, better_than_bank, chosen_round, direct_hits
from svr_async.training.rounds.session import FittedRound, JudgedRound, Session
from svr_async.training.rounds.stages import Outcomes, StageEndsError, digest_of, unanswered_lines
from svr_async.training.running.refit import fit_history, learned_curve, require_solved, store_bank
from svr_async.training.running.run import (
    TrainingListener,
    TrainingRun,
    Used,
    keep_bank,
    keep_training,
    open_run,
    run_stage,
)
from svr_async.training.running.settings import TrainSettings, load_data, require_writer, train_config
from svr_async.training.store.files import (
    FeatureStore,
    Header,
    judged_store,
    load_store,
    read_rubrics,
    round_store,
    rubric_lines,
    store_exists,
    stored_round,
    write_store,
)

STORES = "stores"  # in a training's folder: a feature store for each round


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
    require_solved(train_config(settings), settings.learning_curve)
    data, listener = load_data(settings, dataset), listener or TrainingListener()
    if settings.author_spec is None:
        require_writer(settings.spec, "judge")
    async with open_run(settings, data, listener) as run:
        session, stores = run.session, settings.out / STORES
        asked = session.asker, session.judges.rubrics_per_call
        made_of = digest_of(session.material.digest, session.config.as_json(), run.judge.label, *asked)
        keep_training(settings.out, made_of)
        warnings = small_dev_warnings(len(session.material.dev), len(data.pairs))
        for warning in warnings:
            listener.say(f"warning: {warning}")

        def keep_round(_: Session, judged: JudgedRound) -> None:
            """Write a round as a feature store, in place of one of an earlier run."""
            terms = replace(settings.terms, round=judged.number, last=judged.last)
            header = Header(judge=run.judge.label, prompts_digest=run.prompts_digest, terms=terms)
            folder = stores / f"round-{judged.number}"
            write_store(folder, round_store(session, judged, header), replace_other=True)

        session.keep_round = keep_round
        rounds = await run_rounds(session, run.log)
        for later in set(stores.glob("round-*")) - {stores / f"round-{one.number}" for one in rounds}:
            shutil.rmtree(later)
        warnings += unanswered_lines(session.stages.outcomes)
        bank, record = await _published(run, rounds, warnings)
        write_provenance(settings.out, bank.save(settings.out / "bank"))
        record["made_of"] = made_of
        write_atomic(settings.out / "record.json", orjson.dumps(record, option=orjson.OPT_INDENT_2))
        return TrainResult(bank=bank, record=record, folder=settings.out, used=run.used)


async def _published(
    run: TrainingRun, rounds: Sequence[FittedRound], warnings: Sequence[str]
) -> tuple[RubricBank, dict[str, Any]]:
    """Return the bank of the round to publish, from its feature store, and what record.json holds."""
    settings, session = run.settings, run.session
    best = chosen_round(rounds, len(session.material.dev), session.config.publish)
    place = settings.out / STORES / f"round-{best.number}"
    store, learned = load_store(place), None
    better = await _better(run, best, store, place)
    if settings.learning_curve:
        last = store if best is rounds[-1] else load_store(place.with_name(f"round-{len(rounds)}"))
        learned = learned_curve(_round(run, last).train, session.config, run.session.say)
    record = _record(run, rounds, best) | {"warnings": [*warnings], "better": better}
    record |= {} if learned is None else {"learning_curve": learned.as_json()}
    bank = store_bank(
        store,
        best.bank,
        best.selector,
        best.settings,
        fit_settings=session.config.as_json(),
        dev_metrics=record["dev"],
        licence=settings.licence,
        history=fit_history(
            run.log,
            best.number,
            trained_on=_trained_on(run),
            rounds=tuple(run.log.facts(one.record) for one in rounds),
            warnings=(*warnings, *([better] if better else [])),
            choice=best.choice,
            learning_curve=learned,
        ),
    )
    return bank, record


def _round(run: TrainingRun, store: FeatureStore) -> JudgedRound:
    return stored_round(store, cutoff=run.session.config.redundancy_cutoff)


async def _better(run: TrainingRun, best: FittedRound, store: FeatureStore, folder: Path) -> str:
    """Return a sentence if a simpler way decides the held-out pairs better than the bank; else ""."""
    place = {candidate.rubric.id: number for number, candidate in enumerate(store.rubrics)}
    kept = np.array([place[candidate.rubric.id] for candidate in best.bank])
    others = baseline_hits(run.log.baselines.get(best.number), _round(run, store).dev.restrict_rubrics(kept))
    return better_than_bank(best.dev_hits, others | await direct_hits(run.session), str(folder))


def _trained_on(run: TrainingRun) -> TrainedOn:
    settings, material, found = run.settings, run.session.material, run.data.contaminated
    return TrainedOn(
        train_pairs=len(material.train),
        dev_pairs=len(material.dev),
        source=run.data.dataset.origin or settings.pairs.name,
        preset=settings.preset,
        ablate=tuple(sorted(settings.ablate)),
        contaminated=None if found is None else len({hit.pair_id for hit in found}),
    )


def _record(run: TrainingRun, rounds: Sequence[FittedRound], best: FittedRound) -> dict[str, Any]:
    """Return record.json: each round's figures, the published round, and the pairs left out."""
    settings, session, data = run.settings, run.session, run.data
    n_dev = len(session.material.dev)
    return {
        "pairs": str(settings.pairs),
        "origin": data.dataset.origin,
        "readings": list(data.dataset.readings),
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
            {"pair": hit.pair_id, "benchmark": hit.benchmark, "item": hit.item} for hit in data.contaminated or ()
        ],
    }


# ── one stage ───────────────────────────────────────────────────────────────────────────────────────────────────────


def stages_beside(out: Path) -> Path:
    """Return the folder for the stage of a command that writes to `out`, from which a stopped one resumes."""
    return out.with_name(f"{out.name}.stages")


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

    async def work(run: TrainingRun) -> tuple[FeatureStore, Used]:
        session = run.session
        session.judges = replace(session.judges, may_begin=lambda: not occupied)
        try:
            await ask_for_entries(session, rubrics)
        except StageEndsError as error:  # questions are left, so the store that exists is of another command
            raise store_exists(store) from error
        header = Header(judge=run.judge.label, prompts_digest=run.prompts_digest, terms=settings.terms)
        judged = judged_store(session, rubrics, header)
        write_store(store, judged)
        return judged, run.used

    (judged, used), outcomes = run_stage(settings, work, listener)
    return judged, outcomes, used


async def ask_for_entries(session: Session, rubrics: Sequence[BankRubric]) -> None:
    """Judge the pools of all pairs of a session."""
    bank = session.indexed(rubrics)
    if held_out := bank.sources.held_out:
        among = len({place for places in held_out.values() for place in places})
        session.say(
            f"{among:,} of {len(rubrics):,} rubrics came from prompts that are held out here, as with another --seed "
            f"or --limit: none is judged on a held-out prompt that it came from"
        )
    await judge_pools(session, "judge", 1, bank)
