"""Many fits of one store: every combination of some settings, of which dev pairs choose one.

Settings of the default that name a structure are solved as one batch (`fit.topics.solve_each`). Each candidate comes to
the bank that it would come to by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from svr_async.core.files import open_folder, write_atomic
from svr_async.errors import UsageError
from svr_async.fit.arrays import require_signal
from svr_async.fit.topics import Solved, solve_each
from svr_async.scoring.bank import RubricBank
from svr_async.scoring.dev_pairs import accuracy_in_words, enough
from svr_async.training.rounds.config import TrainConfig
from svr_async.training.rounds.fit_terms import FitTerms, config_of
from svr_async.training.rounds.fits import fit_settings
from svr_async.training.running.listener import FitListener, Silent
from svr_async.training.running.places import keep_bank
from svr_async.training.running.refit import FitSettings, open_store, record_of, shared_out, terms_for, with_epochs
from svr_async.training.running.refit_bank import bank_of, history_of
from svr_async.training.running.refit_runs import FitRuns, Outcome, fit_stored
from svr_async.training.running.sweep_space import NAMES_OF, candidates, name_of, read_sweep, with_structure
from svr_async.training.store.arrays import StoredRound, stored_round
from svr_async.training.store.records import FeatureStore

TABLE = "sweep.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One combination: its name, the settings that it sets, and the terms and settings of its fit."""

    name: str
    values: Mapping[str, Any]
    terms: FitTerms
    config: TrainConfig


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Swept:
    """What came of a sweep: a row for each candidate in the order asked for, and the best's name, bank and record."""

    rows: Sequence[Mapping[str, Any]]
    best: str
    bank: RubricBank
    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Ended:
    """A candidate's fit, what it came to and its record."""

    candidate: Candidate
    runs: FitRuns
    outcome: Outcome
    record: Mapping[str, Any]

    @property
    def rank(self) -> tuple[float, float]:
        """Dev accuracy, then the lower dev loss."""
        return float(self.outcome.accuracy or 0.0), -self.runs.results[0].dev_loss


def sweep_store(settings: FitSettings, sweep: Sequence[str], *, listener: FitListener | None = None) -> Swept:
    """Fit a store with every combination of `sweep`, and write the best's bank to `out`/bank and the table.

    The best is that with the highest accuracy on dev pairs, of equals that with the lower dev loss, then the first.
    SvrError for a sweep that cannot be done, or a store without dev pairs.
    """
    listener = listener or Silent()
    named = read_sweep(sweep)
    if settings.seeds > 1 or settings.learning_curve:
        flag = "--seeds" if settings.seeds > 1 else "--learning-curve"
        raise UsageError(f"{flag} does not go with --sweep", hint="--sweep seed=0..4 goes over seeds")
    store = open_store(settings.store)
    wanted = _candidates(settings, store.header.terms, named)
    if not (store.is_dev & (store.negative_of < 0)).any():
        raise UsageError(f"{settings.store} holds 0 dev pairs, by which a sweep chooses", hint="--seed fits once")
    keep_bank(settings.out, TABLE)
    open_folder(settings.out)
    stored = stored_round(store, cutoff=wanted[0].config.redundancy_cutoff)
    ended = []
    with shared_out(wanted[0].config, settings.devices):
        for number, (candidate, solution) in enumerate(zip(wanted, _solved(stored, wanted), strict=True), 1):
            ended.append(_ended(settings, store, stored, candidate, solution))
            listener.say(f"{number} of {len(wanted)}: {candidate.name}")
    best = max(ended, key=lambda one: one.rank)
    rows = [_row(one, is_best=one is best) for one in ended]
    bank = _bank(settings, store, stored, best)
    bank.save(settings.out / "bank")
    table = {"chosen_by": "dev accuracy", "best": best.candidate.name, "candidates": rows}
    write_atomic(settings.out / TABLE, orjson.dumps(table, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    return Swept(rows=rows, best=best.candidate.name, bank=bank, record={**best.record, "sweep": table})


def _candidates(settings: FitSettings, terms: FitTerms, named: Mapping[str, Sequence[Any]]) -> list[Candidate]:
    """Return every combination with the settings that a fit by itself would have."""
    found = []
    preset = settings.preset or terms.preset
    for values in candidates(named, NAMES_OF[preset], preset):
        own = replace(settings, **{name: values[name] for name in ("seed", "top_k") if name in values})
        fitted = terms_for(own, terms)
        config = with_epochs(config_of(fitted), settings.epochs)
        config = replace(config, fit=with_structure(config.fit, values))
        found.append(Candidate(name=name_of(values), values=values, terms=fitted, config=config))
    return found


def _solved(stored: StoredRound, wanted: Sequence[Candidate]) -> list[Solved] | list[None]:
    """Return the solutions of all candidates of the default; none of the paper's, which is descended."""
    configs = [fit_settings(candidate.config) for candidate in wanted]
    if configs[0].kind != "topics":
        return [None] * len(configs)
    train = stored.data.train if configs[0].use_own else stored.data.train.without_own()
    require_signal(train)
    return solve_each(train, configs)


def _ended(
    settings: FitSettings, store: FeatureStore, stored: StoredRound, candidate: Candidate, solved: Solved | None
) -> _Ended:
    folder = settings.out / "candidates" / candidate.name  # checkpoints of what is descended
    config = fit_settings(candidate.config)
    runs = FitRuns(out=folder, config=config, seeds=1, watch=None, solved=solved)
    outcome = fit_stored(stored, candidate.config, runs)
    record = record_of(store, candidate.terms, runs, outcome)
    return _Ended(candidate=candidate, runs=runs, outcome=outcome, record=record)


def _row(one: _Ended, *, is_best: bool) -> dict[str, Any]:
    """Return a candidate's row: accuracy on dev pairs and its standard error, a pair each."""
    accuracy, pairs = one.outcome.accuracy, one.outcome.dev_pairs
    error = None if accuracy is None else round((accuracy * (1 - accuracy) / max(1, pairs)) ** 0.5, 6)
    choice = one.runs.results[0].choice
    return {
        "name": one.candidate.name,
        **one.candidate.values,
        "dev_accuracy": accuracy,
        "standard_error": error,
        "dev_pairs": pairs,
        "rubrics": len(one.outcome.bank),
        "structure": None if choice is None else choice.in_words(),
        "best": is_best,
    }


def _bank(settings: FitSettings, store: FeatureStore, stored: StoredRound, one: _Ended) -> RubricBank:
    history = history_of(store, one.candidate.terms, one.runs, one.record, None)
    return bank_of(store, stored, one.runs, one.outcome, history, settings.licence)


def sweep_lines(table: Mapping[str, Any] | None) -> list[str]:
    """Return the table of a sweep as lines: each candidate with its accuracy and standard error, the best marked."""
    if table is None:
        return []
    rows = table["candidates"]
    wide = max(len(row["name"]) for row in rows)
    lines = [
        f"{'*' if row['best'] else ' '} {row['name']:<{wide}}  {_accuracy(row)}, {row['rubrics']} rubrics"
        for row in rows
    ]
    kept = f"* kept: the highest of {len(rows)} dev accuracies, so on new pairs it will be lower; no other data chose"
    return [*lines, kept if len(rows) > 1 else "* kept: the only one"]


def _accuracy(row: Mapping[str, Any]) -> str:
    if row["dev_accuracy"] is None:
        return "no dev pair was judged"
    told = accuracy_in_words(row["dev_accuracy"], row["dev_pairs"])
    return f"{told} ± {100 * row['standard_error']:.1f}" if enough(row["dev_pairs"]) else told
