"""What is kept of a store's fit: the record, the history, and the bank itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from svr_async.fit.learning_curve import LearningCurve
from svr_async.fit.tfidf import Vocabulary
from svr_async.fit.training import spread
from svr_async.scoring.bank import RubricBank
from svr_async.scoring.bank_history import BankHistory, TrainedOn
from svr_async.scoring.dev_pairs import small_dev_warnings
from svr_async.training.rounds.fit_terms import FitTerms
from svr_async.training.rounds.prune import rated
from svr_async.training.rounds.round_bank import Features, assemble, describe
from svr_async.training.running.refit_runs import FitRuns, Outcome
from svr_async.training.store.arrays import StoredRound
from svr_async.training.store.records import FeatureStore

FEW_MISSING = 0.01  # a warning is due where more of the dev entries are missing that inference would need


def make_record(runs: FitRuns, outcome: Outcome, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """Return what a fit reports: dev accuracy as used and of the best seed's fit, the spread, the yardsticks."""
    best, beside = runs.results[runs.best], runs.yardsticks
    mean, deviation = spread(runs.results)
    return {
        "dev_accuracy": outcome.accuracy,
        "dev_pairs": outcome.dev_pairs,
        "fit_accuracy": round(best.dev_accuracy, 6),
        "rubrics": len(outcome.bank),
        "top_k": outcome.settings.top_k,
        "filler_weight": outcome.settings.filler_weight,
        "dev_unjudged": round(outcome.missing, 6),
        "best_epoch": best.best_epoch,
        "seeds": len(runs.results),
        "dev_accuracy_mean": round(mean, 6),
        "dev_accuracy_sd": round(deviation, 6),
        "vote_accuracy": None if beside is None else round(beside.vote_accuracy, 6),
        "linear_accuracy": None if beside is None else round(beside.linear_accuracy, 6),
        "device": best.device,
        "warnings": [*warnings, *best.warnings],
        "history": [record.as_json() for record in best.history],
    }


def missing_warnings(outcome: Outcome) -> list[str]:
    """Warn where the store lacks more than a few of the judgements that use would need."""
    if outcome.missing <= FEW_MISSING:
        return []
    share = f"{100 * outcome.missing:.0f} % of the judgements that the dev pairs need in use are not in the store"
    return [f"{share}, unasked or abstained from: they count 0, so the dev accuracy is rough"]


def dev_warnings(store: FeatureStore) -> list[str]:
    """Warn where the store has few dev pairs."""
    own = store.negative_of < 0  # a hard negative is no pair of the data
    n_dev = int((own & store.is_dev).sum())
    return small_dev_warnings(n_dev, int(own.sum())) if n_dev else []


def history_of(
    store: FeatureStore, terms: FitTerms, runs: FitRuns, record: Mapping[str, Any], learned: LearningCurve | None
) -> BankHistory:
    """Return the history of a fit's bank."""
    own = store.negative_of < 0  # a hard negative is no pair of the data
    n_train, n_dev = int((own & ~store.is_dev).sum()), int((own & store.is_dev).sum())
    return BankHistory(
        trained_on=TrainedOn(train_pairs=n_train, dev_pairs=n_dev, preset=terms.preset, ablate=terms.ablate),
        curves=tuple(runs.curves),
        chosen_seed=runs.chosen.seed,
        vote_accuracy=record["vote_accuracy"],
        linear_accuracy=record["linear_accuracy"],
        warnings=tuple(record["warnings"]),
        choice=runs.results[runs.best].choice,
        learning_curve=learned,
    )


def bank_of(
    store: FeatureStore, stored: StoredRound, runs: FitRuns, outcome: Outcome, history: BankHistory, licence: str
) -> RubricBank:
    """Return the bank of a fit."""
    vocabulary = Vocabulary(terms=dict(store.header.vocabulary), idf=np.asarray(store.header.idf))
    prompts, support = _training_prompts(store), stored.data.support
    rubrics = describe(outcome.bank, outcome.selector, prompts, support=support, domains=_training_domains(store))
    metrics = {"accuracy": outcome.accuracy, "pairs": stored.measured.n_pairs}
    return assemble(
        rubrics,
        outcome.selector,
        vocabulary,
        outcome.settings,
        fit_settings=runs.chosen.as_json(),
        dev_metrics={} if outcome.accuracy is None else metrics,
        judge=store.header.judge,
        marks=store.header.marks,
        licence=licence,
        prompts_digest=store.header.prompts_digest,
        data_digests=dict(store.header.data_digests),
        history=history,
    )


def _training_domains(store: FeatureStore) -> dict[str, str]:
    """Return the domain of each training pair; nothing where none has one."""
    if set(store.pairs["domain"].unique().to_pylist()) == {""}:
        return {}
    columns = store.pair_ids, store.pairs["domain"].to_pylist(), store.is_dev.tolist(), store.negative_of.tolist()
    return {pair: domain for pair, domain, dev, of in zip(*columns, strict=True) if not dev and of < 0}


def _training_prompts(store: FeatureStore) -> list[tuple[str, Features]]:
    """Return (first pair id, features) of each training prompt that is rated, in the order of their first pairs."""
    pairs = np.flatnonzero(~store.is_dev)
    first = pairs[np.sort(np.unique(store.prompt_row[pairs], return_index=True)[1])]
    first = first[rated(len(first))]
    names, rows = store.pairs["pair_id"].take(first).to_pylist(), store.prompt_row[first].tolist()
    index, value, borders = store.features.index, store.features.value, store.features.indptr
    spans = [slice(int(borders[row]), int(borders[row + 1])) for row in rows]
    return [(name, (index[span], value[span])) for name, span in zip(names, spans, strict=True)]
