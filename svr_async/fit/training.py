"""Fit a selector and the weights: kind `topics` is solved, kind `mlp` runs epochs of which the best is taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from svr_async.errors import ArtefactError, DegenerateFitError
from svr_async.fit.arrays import FitArrays, require_signal
from svr_async.fit.config import PAPER, Choice, FitConfig
from svr_async.fit.epoch import (
    Rows,
    State,
    StepLog,
    Table,
    cut_steps,
    epoch_order,
    objective_of,
    pieces_needed,
    run_epoch,
    run_margins,
    start_state,
    tabulate,
)
from svr_async.fit.evidence import pairs_solved_on
from svr_async.fit.forward import Selector, accuracy, active_rubrics, fitted_margins
from svr_async.fit.history import EpochRecord, FitResult, better
from svr_async.fit.mlp import Params, random_params, to_params, to_selector
from svr_async.fit.topics import solve_topics

OnEpoch = Callable[[EpochRecord], None]
Margins = npt.NDArray[np.float32]

EVALUATION_BATCH = 512
COLLAPSED = 1e-3  # a largest weight below this has switched the whole bank off


def _silent(_: EpochRecord) -> None:
    """Report no epoch."""


class _Data(NamedTuple):
    """Training rows and the rows that epochs are measured on, tabulated on the device."""

    table: Table
    rows: Rows
    dev_table: Table
    dev_rows: Rows
    dev: FitArrays
    has_negatives: bool


def fit(
    train: FitArrays,
    dev: FitArrays | None = None,
    config: FitConfig = PAPER,
    *,
    start: Selector | None = None,
    on_epoch: OnEpoch = _silent,
) -> FitResult:
    """Fit on `train`, choose the epoch by `dev`, and return its selector with the history.

    Kind `topics` is solved, so its history is one record, of epoch 0. Kind `mlp` runs epochs and takes the best, which
    is read off the authors' public code (the paper gives only their number). `start` continues from a fitted selector;
    `on_epoch` is called after each epoch.

    Raises:
        DegenerateFitError: nothing to learn from, or loss or weights became non-finite (exit 8).
    """
    train = train if config.use_own else train.without_own()
    require_signal(train)
    dev = None if dev is None or not dev.n_entries else (dev if config.use_own else dev.without_own())
    if dev is not None and (dev.n_rubrics, dev.n_features) != (train.n_rubrics, train.n_features):
        raise ArtefactError("train and dev differ in their numbers of rubrics or features", hint="rebuild the store")
    if start is not None:
        _check_start(start, train, config)
    if config.kind == "topics":
        return _fit_topics(train, dev, config, start, on_epoch)
    return _fit_mlp(train, dev, config, start, on_epoch)


def calibrate(
    selector: Selector,
    train: FitArrays,
    dev: FitArrays | None = None,
    config: FitConfig = PAPER,
    *,
    on_epoch: OnEpoch = _silent,
) -> FitResult:
    """Continue for `calibration_epochs` at `calibration_rate` of the learning rate, after pruning.

    Kind `topics` stays as it was solved. The selector and the arrays must hold the kept rubrics only
    (`Selector.restrict`, `FitArrays.restrict_rubrics`).
    """
    return fit(train, dev, config.calibrating(), start=selector, on_epoch=on_epoch)


def pair_margins(selector: Selector, arrays: FitArrays) -> Margins:
    """Return F of every pair as the fit computes it (pair,); 0 for a pair without a judged entry."""
    if selector.kind == "topics":
        return fitted_margins(selector, arrays, None)[0]
    out = np.zeros(arrays.n_pairs, np.float32)
    table, rows = tabulate(arrays)
    if rows.n_rows:
        out[rows.pair] = _margins(to_params(selector), jax.device_put(table), rows)
    return out


def devices_in_words() -> str:
    """Return all devices of JAX's platform, e.g. "gpu: 2 devices (NVIDIA H100 80GB HBM3, 59.4 GiB each), jax 0.10.2".

    The memory is what JAX may take of each, if its runtime reports it.
    """
    found: list[Any] = jax.devices()
    limit = (found[0].memory_stats() or {}).get("bytes_limit")
    memory = f", {limit / 2**30:.1f} GiB{' each' if len(found) > 1 else ''}" if limit else ""
    count = f"{len(found)} device{'s' if len(found) > 1 else ''}"
    return f"{found[0].platform}: {count} ({found[0].device_kind}{memory}), jax {jax.__version__}"


def _check_start(start: Selector, train: FitArrays, config: FitConfig) -> None:
    if (start.n_rubrics, start.n_features) != (train.n_rubrics, train.n_features) or start.kind != config.kind:
        raise ArtefactError(
            f"the start is a {start.kind} of {start.n_rubrics} rubrics and {start.n_features} features, the data want "
            f"a {config.kind} of {train.n_rubrics} and {train.n_features}",
            hint="restrict both to the kept rubrics",
        )


def _fit_topics(
    train: FitArrays,
    dev: FitArrays | None,
    config: FitConfig,
    start: Selector | None,
    on_epoch: OnEpoch,
) -> FitResult:
    """Return the solution with its dev numbers; a `start`, as after pruning, stays as it is."""
    selector, choice = start, None
    if selector is None:
        solved = solve_topics(train, config)
        selector, choice = solved.selector, solved.choice
    top_k = choice.structure.top_k if choice else None
    held_out = train if dev is None else dev
    judged = np.diff(held_out.z_indptr) > 0
    whole, best = fitted_margins(selector, held_out, top_k)
    record = _measured(selector, held_out, whole[judged], best[judged], top_k or config.top_k)
    on_epoch(record)
    return _result(selector, (record,), 0, (*_warnings(selector, train), *_doubts(train, choice)), choice)


def _fit_mlp(
    train: FitArrays, dev: FitArrays | None, config: FitConfig, start: Selector | None, on_epoch: OnEpoch
) -> FitResult:
    data = _load(train, dev)
    history: list[EpochRecord] = []
    if start is None:
        params = random_params(train.n_features, train.n_rubrics, config.hidden, config.seed)
    else:  # a start is measured, and may be the best
        params = to_params(start)
        history.append(_record(0, None, params, data, config))
        on_epoch(history[-1])
    state, best, champion = start_state(params), params, history[0] if history else None
    for epoch in range(config.epochs):
        state, log = _run_epoch(state, data, config, epoch)
        history.append(_record(epoch + 1, log, state.params, data, config))
        if better(history[-1], champion):
            best, champion = state.params, history[-1]
        on_epoch(history[-1])
    selector = to_selector(best)
    return _result(selector, tuple(history), champion.epoch if champion else 0, _warnings(selector, train))


def _load(train: FitArrays, dev: FitArrays | None) -> _Data:
    table, rows = tabulate(train)
    table = jax.device_put(table)
    dev_table, dev_rows = (table, rows) if dev is None else tabulate(dev)
    return _Data(table, rows, jax.device_put(dev_table), dev_rows, dev or train, not train.originals.all())


def _run_epoch(state: State, data: _Data, config: FitConfig, epoch: int) -> tuple[State, StepLog]:
    """Run the steps of one epoch; the width fits every epoch, so that all share one compiled program."""
    rows = data.rows
    orders = [epoch_order(rows.n_rows, config.seed, number) for number in range(config.epochs)]
    batch = min(config.batch, rows.n_rows)
    width = pieces_needed(rows, orders, batch)
    on_cpu = jax.default_backend() == "cpu"
    steps = cut_steps(rows, orders[epoch], batch, width=width, transposed=on_cpu)
    state, log = run_epoch(state, data.table, steps, jnp.float32(config.learning_rate), objective_of(config))
    losses = np.asarray(log.preference) + np.asarray(log.diversity)
    bad = np.flatnonzero(~np.isfinite(losses))
    if len(bad) or not all(bool(jnp.isfinite(value).all()) for value in jax.tree.leaves(state.params)):
        step = int(bad[0]) if len(bad) else len(losses) - 1
        raise DegenerateFitError(
            f"loss or weights are not finite at epoch {epoch + 1}, step {step}, with learning_rate "
            f"{config.learning_rate:g}",
            hint="lower learning_rate, or check the features of that batch",
        )
    return state, log


def _record(epoch: int, log: StepLog | None, params: Params, data: _Data, config: FitConfig) -> EpochRecord:
    margins = _margins(params, data.dev_table, data.dev_rows)
    record = _measured(to_selector(params), data.dev, margins, margins, config.top_k)
    record = replace(record, epoch=epoch, learning_rate=config.learning_rate)
    if log is None:
        return record
    preference, diversity, margin, right, against = (float(np.asarray(part, np.float64).mean()) for part in log)
    return replace(
        record,
        preference_loss=preference,
        diversity_loss=diversity,
        train_margin=margin,
        train_accuracy=min(right, 1.0),  # a mean in single precision may exceed 1 slightly
        adversarial_loss=against if data.has_negatives else None,
    )


def _measured(selector: Selector, arrays: FitArrays, whole: Margins, best: Margins, top_k: int | None) -> EpochRecord:
    """Return the dev numbers before a first epoch, which the training numbers repeat.

    Margins are those of the pairs with a judged entry: over all their entries, and over the best `top_k`.
    """
    dev_loss = float(np.logaddexp(0, -whole.astype(np.float64)).mean())
    dev_accuracy = accuracy(best)
    return EpochRecord(
        epoch=0,
        preference_loss=dev_loss,
        diversity_loss=0.0,
        train_margin=float(whole.mean()),
        train_accuracy=dev_accuracy,
        dev_loss=dev_loss,
        dev_margin=float(whole.mean()),
        dev_accuracy=dev_accuracy,
        active=active_rubrics(selector, arrays, top_k or 6),
        learning_rate=0.0,
    )


def _margins(params: Params, table: Table, rows: Rows) -> Margins:
    """Return the margin of every row over all its judged entries."""
    order = np.arange(rows.n_rows)
    batch = min(EVALUATION_BATCH, rows.n_rows)
    steps = cut_steps(rows, order, batch, width=pieces_needed(rows, [order], batch))
    return np.asarray(run_margins(params, table, steps)).ravel()[: rows.n_rows]


def _result(
    selector: Selector,
    history: tuple[EpochRecord, ...],
    best_epoch: int,
    warnings: tuple[str, ...],
    choice: Choice | None = None,
) -> FitResult:
    record = next((record for record in history if record.epoch == best_epoch), None)
    return FitResult(
        selector=selector,
        history=history,
        best_epoch=best_epoch,
        dev_accuracy=record.dev_accuracy if record else 0.5,
        dev_loss=record.dev_loss if record else float(np.log(2)),
        device=devices_in_words(),
        warnings=warnings,
        choice=choice,
    )


def _doubts(train: FitArrays, choice: Choice | None) -> list[str]:
    """Return warnings if the default was solved on a sample, or learned too little to decide by."""
    pairs, used = int(train.originals.sum()), pairs_solved_on(train)
    out = [f"solved on a sample of {used:,} of the {pairs:,} pairs"] if pairs > used else []
    if choice is not None and choice.taken is not None and not choice.is_proven:
        share, error = 100 * choice.taken.accuracy, 100 * choice.taken.error
        decided = f"held-out {choice.left_out} were decided {share:.1f} % right, ± {error:.1f}"
        out.append(f"{decided}: no better than guessing")
    return out


def _warnings(selector: Selector, train: FitArrays) -> tuple[str, ...]:
    """Return warnings of collapsed weights and of one-sided entries."""
    out = []
    if float(selector.weight.max()) < COLLAPSED:
        out.append(f"all weights fell below {COLLAPSED:g}: the bank does not separate the pairs")
    if bool((train.z_delta > 0).all()) or bool((train.z_delta < 0).all()):
        out.append(f"all {train.n_entries} judged entries are one-sided, so rubrics cannot be distinguished")
    return tuple(out)
