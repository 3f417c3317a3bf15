"""The work behind `svr-fit`: a feature store in, a bank out. Loaded only when a fit runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import orjson

from svr_async.commands.places import keep_bank, open_folder
from svr_async.commands.report import write_bank_report
from svr_async.commands.train.epochs import fit_screen
from svr_async.commands.train.run import small_dev_warnings
from svr_async.errors import ArtefactError, DegenerateFitError
from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import PRESETS, FitConfig
from svr_async.fit.history import FitCurve, FitResult, FitWatch, watched
from svr_async.fit.linear import Baselines
from svr_async.fit.tfidf import Vocabulary
from svr_async.fit.training import OnEpoch, fit, spread
from svr_async.scoring.bank import InferenceSettings, RubricBank
from svr_async.scoring.bank_history import BankHistory, TrainedOn
from svr_async.training.banking import Features, assemble, describe
from svr_async.training.fit_log import empty_curve, yardsticks_of
from svr_async.training.prune_redundant import redundancy_edges
from svr_async.training.store import FeatureStore
from svr_async.training.store_arrays import fit_arrays


@dataclass(frozen=True, slots=True, kw_only=True)
class FitFlags:
    """The flags of `svr-fit`, by name."""

    store: Path
    out: Path
    preset: str
    epochs: int | None
    seed: int
    seeds: int
    top_k: int
    licence: str
    quiet: bool
    as_json: bool


def run_command(flags: FitFlags) -> int:
    """Fit and return the exit code; SvrError for a store that fails its checks, or has nothing to learn from."""
    store = FeatureStore.load(flags.store)
    active = [entry for entry in store.rubrics if entry.active]
    if not active:
        raise DegenerateFitError(f"{flags.store} holds 0 rubrics", hint="induce some: svr induce, then svr judge")
    keep_bank(flags.out, "fit")
    open_folder(flags.out)
    edges = redundancy_edges([entry.candidate.rubric.text for entry in active])
    train, _ = fit_arrays(store, split="train", redundancy=edges)
    dev, _ = fit_arrays(store, split="dev", redundancy=edges)
    config = PRESETS[flags.preset]
    config = config if config.top_k is None else replace(config, top_k=flags.top_k)  # as in training
    if flags.epochs is not None:
        config = replace(config, epochs=flags.epochs)
    with fit_screen(seeds=flags.seeds, epochs=config.epochs, quiet=flags.quiet or flags.as_json) as watch:
        fits = [_fit_once(flags, replace(config, seed=flags.seed + n), train, dev, watch) for n in range(flags.seeds)]
    results = [result for result, _ in fits]
    best = max(results, key=lambda result: (result.dev_accuracy, -result.dev_loss))
    yardsticks = yardsticks_of(train, dev)
    own = store.negative_of < 0  # a hard negative is no pair of the data
    n_dev = int((own & store.is_dev).sum())
    record = make_record(best, results, yardsticks, small_dev_warnings(n_dev, int(own.sum())) if n_dev else ())
    history = _history(store, flags, fits, best, record)
    bank = _bank(flags, store, best, config, history)
    bank.save(flags.out / "bank")
    write_bank_report(flags.out / "bank", flags.out / "report.html")
    if flags.as_json:
        click.echo(orjson.dumps(record, option=orjson.OPT_INDENT_2))
    else:
        _print_record(record, flags.out)
    return 0


def _fit_once(
    flags: FitFlags, config: FitConfig, train: FitArrays, dev: FitArrays, watch: FitWatch | None
) -> tuple[FitResult, FitCurve]:
    folder = flags.out / "fit" / f"seed-{config.seed}"

    def run(on_epoch: OnEpoch) -> FitResult:
        return fit(train, dev, config, on_epoch=on_epoch, checkpoint_dir=folder, resume=True)

    try:
        return watched(run, empty_curve(config, dev), watch)
    except ArtefactError as error:
        hint = f"name another folder with --out, or remove {folder}"
        raise ArtefactError(error.message, hint=hint) from error


def make_record(
    best: FitResult, results: Sequence[FitResult], yardsticks: Baselines | None, warnings: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what a fit reports: the best seed's dev accuracy, the spread over seeds, and the yardsticks beside it."""
    mean, deviation = spread(results)
    return {
        "dev_accuracy": round(best.dev_accuracy, 6),
        "best_epoch": best.best_epoch,
        "seeds": len(results),
        "dev_accuracy_mean": round(mean, 6),
        "dev_accuracy_sd": round(deviation, 6),
        "vote_accuracy": None if yardsticks is None else round(yardsticks.vote_accuracy, 6),
        "linear_accuracy": None if yardsticks is None else round(yardsticks.linear_accuracy, 6),
        "device": best.device,
        "warnings": [*warnings, *best.warnings],
        "history": [record.as_json() for record in best.history],
    }


def _history(
    store: FeatureStore,
    flags: FitFlags,
    fits: Sequence[tuple[FitResult, FitCurve]],
    best: FitResult,
    record: Mapping[str, Any],
) -> BankHistory:
    own = store.negative_of < 0  # a hard negative is no pair of the data
    n_train, n_dev = int((own & ~store.is_dev).sum()), int((own & store.is_dev).sum())
    return BankHistory(
        trained_on=TrainedOn(train_pairs=n_train, dev_pairs=n_dev, preset=flags.preset),
        curves=tuple(curve for _, curve in fits),
        chosen_seed=next(curve.seed for result, curve in fits if result is best),
        vote_accuracy=record["vote_accuracy"],
        linear_accuracy=record["linear_accuracy"],
        warnings=tuple(record["warnings"]),
    )


def _bank(flags: FitFlags, store: FeatureStore, best: FitResult, config: FitConfig, history: BankHistory) -> RubricBank:
    vocabulary = Vocabulary(terms=dict(store.header.vocabulary), idf=np.asarray(store.header.idf))
    active = [entry.candidate for entry in store.rubrics if entry.active]
    domains = dict(zip(store.pair_ids, store.pairs["domain"].to_pylist(), strict=True))
    rubrics = describe(active, best.selector, _training_prompts(store), support={}, domains=domains)
    return assemble(
        rubrics,
        best.selector,
        vocabulary,
        InferenceSettings(
            top_k=flags.top_k,
            selection_pool=max(18, flags.top_k),
            filler_weight=1.0 if flags.preset == "paper" else 0.0,  # app:topk
        ),
        fit_settings=replace(config, seed=history.chosen_seed).as_json(),
        dev_metrics={"accuracy": round(best.dev_accuracy, 6)},
        judge=store.header.judge,
        licence=flags.licence,
        prompts_digest=store.header.prompts_digest,
        data_digests=dict(store.header.data_digests),
        history=history,
    )


def _training_prompts(store: FeatureStore) -> list[tuple[str, Features]]:
    """Return (first pair id, features) of each training prompt."""
    first: dict[int, str] = {}
    for pair_id, row, dev in zip(store.pair_ids, store.prompt_row.tolist(), store.is_dev.tolist(), strict=True):
        if not dev:
            first.setdefault(row, pair_id)
    features = store.features
    borders = features.indptr
    return [
        (pair_id, (features.index[borders[row] : borders[row + 1]], features.value[borders[row] : borders[row + 1]]))
        for row, pair_id in first.items()
    ]


def _print_record(record: dict[str, Any], out: Path) -> None:
    taken = f"epoch {record['best_epoch']}" if record["best_epoch"] else "the start, before any epoch"
    click.echo(f"dev accuracy {100 * record['dev_accuracy']:.1f} % ({taken}, {record['device']})")
    if record["seeds"] > 1:
        mean, deviation = 100 * record["dev_accuracy_mean"], 100 * record["dev_accuracy_sd"]
        click.echo(f"over {record['seeds']} seeds {mean:.1f} % ± {deviation:.1f}")
    if record["linear_accuracy"] is not None:
        click.echo(f"beside it  unweighted vote {100 * record['vote_accuracy']:.1f} %")
        click.echo(f"           one weight per rubric for all prompts {100 * record['linear_accuracy']:.1f} %")
    for warning in record["warnings"]:
        click.echo(f"warning    {warning}")
    click.echo(f"bank       {out / 'bank'}")
    click.echo(f"report     {out / 'report.html'}")
