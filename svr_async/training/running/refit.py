"""A bank from a feature store, with no judge and no network: fitted as a round of training is."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from svr_async.core.files import open_folder
from svr_async.errors import DegenerateFitError, UsageError
from svr_async.fit.learning_curve import LearningCurve
from svr_async.fit.mesh import on_devices
from svr_async.scoring.bank import RubricBank
from svr_async.scoring.provenance import write_provenance
from svr_async.training.rounds.config import TrainConfig
from svr_async.training.rounds.fit_terms import FitTerms, config_of
from svr_async.training.rounds.fits import fit_settings
from svr_async.training.running.learning_curve import learned_curve, require_solved
from svr_async.training.running.listener import FitListener, Silent
from svr_async.training.running.places import keep_bank
from svr_async.training.running.refit_bank import bank_of, dev_warnings, history_of, make_record, missing_warnings
from svr_async.training.running.refit_runs import FitRuns, Outcome, fit_stored
from svr_async.training.store.arrays import stored_round
from svr_async.training.store.reader import load_store
from svr_async.training.store.records import FeatureStore


@dataclass(frozen=True, slots=True, kw_only=True)
class FitSettings:
    """A fit of a feature store to a bank in `out`/bank; None where the store's own terms decide.

    `seeds` fits are made and the best is kept; `epochs` are those of the paper's preset. The default's pairs are shared
    out to so many `devices` of JAX, where it is solved (`fit.mesh`); None: one.
    """

    store: Path
    out: Path
    preset: str | None = None
    epochs: int | None = None
    seed: int | None = None
    seeds: int = 1
    top_k: int | None = None
    licence: str = ""
    learning_curve: bool = False
    devices: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoreFit:
    """What came of a fit: the bank that is in `out`/bank, and what is told of it."""

    bank: RubricBank
    record: Mapping[str, Any]
    learned: LearningCurve | None = None


def fit_store(settings: FitSettings, listener: FitListener | None = None) -> StoreFit:
    """Fit a store and write the bank; SvrError for a store that fails its checks, or has nothing to learn from.

    A fit that was stopped goes on.
    """
    listener = listener or Silent()
    store = open_store(settings.store)
    keep_bank(settings.out, "fit")
    open_folder(settings.out)
    terms = terms_for(settings, store.header.terms)
    config = with_epochs(config_of(terms), settings.epochs)
    require_solved(config, settings.learning_curve)
    fit = fit_settings(config)
    stored = stored_round(store, cutoff=config.redundancy_cutoff)
    watch = listener.fits(settings.seeds, fit.epochs)
    runs = FitRuns(out=settings.out, config=fit, seeds=settings.seeds, watch=watch)
    with shared_out(config, settings.devices):
        outcome = fit_stored(stored, config, runs)
        learned = learned_curve(stored.data.train, config, listener.say) if settings.learning_curve else None
    record = record_of(store, terms, runs, outcome)
    record |= {} if learned is None else {"learning_curve": learned.as_json()}
    bank = bank_of(store, stored, runs, outcome, history_of(store, terms, runs, record, learned), settings.licence)
    write_provenance(settings.out, bank.save(settings.out / "bank"))
    return StoreFit(bank=bank, record=record, learned=learned)


def shared_out(config: TrainConfig, devices: int | None) -> AbstractContextManager[None]:
    """Return what has the default's pairs shared out to so many devices; UsageError where a fit is descended."""
    if (devices or 1) > 1 and config.fit.kind != "topics":
        text = f"--devices {devices} shares out the pairs of the default fit, and --preset paper is none"
        raise UsageError(text, hint="leave --devices out")
    return on_devices(devices)


def open_store(folder: Path) -> FeatureStore:
    """Return a store that holds rubrics; SvrError for any other."""
    store = load_store(folder)
    if not store.rubrics:
        raise DegenerateFitError(f"{folder} holds 0 rubrics", hint="induce some: svr induce, then svr stages judge")
    return store


def record_of(store: FeatureStore, terms: FitTerms, runs: FitRuns, outcome: Outcome) -> dict[str, Any]:
    """Return what is reported of a fit, with what is to be warned of."""
    as_trained = terms.round > 0 and terms == store.header.terms
    complete = terms.free or as_trained  # then an entry that is missing is one that the judge abstained from
    return make_record(runs, outcome, [*dev_warnings(store), *([] if complete else missing_warnings(outcome))])


def terms_for(settings: FitSettings, terms: FitTerms) -> FitTerms:
    """Return the store's terms with what these settings say over it."""
    return replace(
        terms,
        preset=settings.preset or terms.preset,
        seed=terms.seed if settings.seed is None else settings.seed,
        top_k=settings.top_k or terms.top_k,
    )


def with_epochs(config: TrainConfig, epochs: int | None) -> TrainConfig:
    """Return the settings with another number of epochs, where one is given."""
    return config if epochs is None else replace(config, fit=replace(config.fit, epochs=epochs))
