"""Fit a selector and the weights: solved, or by epochs of which the best counts, with checkpoints and care for NaN."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from svr_async.errors import ArtefactError, DegenerateFitError
from svr_async.fit import batches
from svr_async.fit.arrays import FitArrays, require_signal
from svr_async.fit.batches import Rows, Steps, Table
from svr_async.fit.checkpoints import Progress, load_progress, save_progress
from svr_async.fit.choices import Choice
from svr_async.fit.config import PAPER, FitConfig
from svr_async.fit.device import device_label, is_out_of_memory
from svr_async.fit.epoch import State, StepLog, objective_of, run_epoch, run_margins, start_state
from svr_async.fit.forward import Selector
from svr_async.fit.history import EpochRecord, FitResult, better
from svr_async.fit.measure import accuracy, active_rubrics, fitted_margins
from svr_async.fit.selector import Params, random_params, to_params, to_selector
from svr_async.fit.sparse_margin import MOST_PAIRS
from svr_async.fit.topics import Solved, solve_topics

OnEpoch = Callable[[EpochRecord], None]
Margins = npt.NDArray[np.float32]

MAX_HALVINGS = 3
EVALUATION_BATCH = 512
COLLAPSED = 1e-3  # a largest weight below this has switched the whole bank off


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Data:
    """The data of a fit on the device, and the host's side of it."""

    table: Table
    rows: Rows
    dev: tuple[Table, Rows] | None
    dev_arrays: FitArrays
    has_negatives: bool = False


def fit(
    train: FitArrays,
    dev: FitArrays | None = None,
    config: FitConfig = PAPER,
    *,
    start: Selector | None = None,
    on_epoch: OnEpoch | None = None,
    checkpoint_dir: Path | None = None,
    resume: bool = False,
    solved: Solved | None = None,
) -> FitResult:
    """Fit on `train`, choose the epoch by `dev`, and return its selector with the history.

    Kind `topics` is solved: its history is one record, of epoch 0, and it keeps no checkpoint; `solved` is its solution
    where somebody has it (`topics.solve_each`). Kind `mlp` is descended:
    the best epoch is taken, which is read off the authors' public code (the paper names only how many there are),
    `start` goes on from a fitted selector instead of a fresh one, `on_epoch` is called after each epoch, with
    `checkpoint_dir` every epoch is stored, and `resume` goes on from there and ends with the same bytes as an
    uninterrupted fit. Raises `DegenerateFitError` (exit 8) where there is nothing to learn from, or where the numbers
    stay non-finite after three halvings of the learning rate.
    """
    train = train if config.use_own else train.without_own()
    require_signal(train)
    dev = None if dev is None or not dev.n_entries else (dev if config.use_own else dev.without_own())
    if dev is not None and (dev.n_rubrics, dev.n_features) != (train.n_rubrics, train.n_features):
        raise ArtefactError("train and dev differ in their numbers of rubrics or features", hint="rebuild the store")
    if config.kind == "topics":
        solved = solved or (solve_topics(train, config) if start is None else None)
        return _solved(train, dev, config, solved or cast("Selector", start), on_epoch)
    data = _load(train, dev, config)
    identity = _identity(train, dev, config, start)
    progress = load_progress(checkpoint_dir, identity=identity) if checkpoint_dir and resume else None
    progress = progress or _begin(train, data, config, start, on_epoch)
    while progress.epoch < config.epochs:
        progress = _next_epoch(progress, data, config)
        if checkpoint_dir:
            save_progress(progress, checkpoint_dir, identity=identity)
        if on_epoch:
            on_epoch(progress.history[-1])
    return _result(progress, train)


def calibrate(
    selector: Selector,
    train: FitArrays,
    dev: FitArrays | None = None,
    config: FitConfig = PAPER,
    *,
    on_epoch: OnEpoch | None = None,
    checkpoint_dir: Path | None = None,
    resume: bool = False,
) -> FitResult:
    """Go on for `calibration_epochs` at `calibration_rate` of the learning rate, after pruning.

    Kind `topics` stays as it was solved. The selector and the arrays must hold the kept rubrics only
    (`Selector.restrict`, `FitArrays.restrict_rubrics`).
    """
    settings = config.calibrating()
    return fit(train, dev, settings, start=selector, on_epoch=on_epoch, checkpoint_dir=checkpoint_dir, resume=resume)


def spread(results: Sequence[FitResult]) -> tuple[float, float]:
    """Return mean and sample standard deviation (0 for one fit) of the dev accuracies of several fits."""
    values = np.array([result.dev_accuracy for result in results], np.float64)
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0


def pair_margins(selector: Selector, arrays: FitArrays, config: FitConfig) -> Margins:
    """Return F of every pair as the fit computes it (pair,); 0 for a pair without a judged entry."""
    if selector.kind == "topics":
        return fitted_margins(selector, arrays, config)[0]
    out = np.zeros(arrays.n_pairs, np.float32)
    table, rows = batches.tabulate(arrays, pooled=config.pool == "judged")
    if rows.n_rows:
        out[rows.pair] = _margins(to_params(selector), jax.device_put(table), rows, config)[0]
    return out


def _solved(
    train: FitArrays, dev: FitArrays | None, config: FitConfig, found: Solved | Selector, on_epoch: OnEpoch | None
) -> FitResult:
    """Return the solution of kind `topics` with its dev numbers, or a start, as after pruning, as it is."""
    solved = found if isinstance(found, Solved) else None
    selector = _matching(found.selector if isinstance(found, Solved) else found, train, config)
    held_out = train if dev is None else dev
    judged = np.diff(held_out.z_indptr) > 0
    whole, best = fitted_margins(selector, held_out, config)
    record = _measured(selector, held_out, (whole[judged], best[judged]), config)
    if on_epoch:
        on_epoch(record)
    return FitResult(
        selector=selector,
        history=(record,),
        best_epoch=0,
        dev_accuracy=record.dev_accuracy,
        dev_loss=record.dev_loss,
        halvings=0,
        slices=1,
        device=device_label(),
        warnings=(*_warnings(selector, train), *_sampled(train), *(_doubts(solved.choice) if solved else ())),
        choice=solved.choice if solved else None,
    )


def _load(train: FitArrays, dev: FitArrays | None, config: FitConfig) -> _Data:
    pooled = config.pool == "judged"
    table, rows = batches.tabulate(train, pooled=pooled)
    held_out = None if dev is None else batches.tabulate(dev, pooled=pooled)
    on_device = None if held_out is None else (jax.device_put(held_out[0]), held_out[1])
    return _Data(
        table=jax.device_put(table),
        rows=rows,
        dev=on_device,
        dev_arrays=train if dev is None else dev,
        has_negatives=not train.originals.all(),
    )


def _identity(train: FitArrays, dev: FitArrays | None, config: FitConfig, start: Selector | None) -> str:
    """Return a digest of all that a fit's result depends on."""
    sha = hashlib.sha256(json.dumps(config.as_json(), sort_keys=True).encode())
    sha.update(train.digest().encode())
    sha.update(b"-" if dev is None else dev.digest().encode())
    for name, value in () if start is None else sorted(start.tensors().items()):
        sha.update(name.encode() + np.ascontiguousarray(value).tobytes())
    return sha.hexdigest()


def _begin(
    train: FitArrays, data: _Data, config: FitConfig, start: Selector | None, on_epoch: OnEpoch | None
) -> Progress:
    """Return the progress before the first epoch; an informed start is measured and may turn out the best."""
    if start is None:
        params = random_params(train.n_features, train.n_rubrics, config.hidden, config.seed)
        return Progress(state=start_state(params), best=params, best_epoch=0, epoch=0)
    params = to_params(_matching(start, train, config))
    record = _record(0, None, params, data, config, config.learning_rate)
    if on_epoch:
        on_epoch(record)
    return Progress(state=start_state(params), best=params, best_epoch=0, epoch=0, history=(record,))


def _matching(start: Selector, train: FitArrays, config: FitConfig) -> Selector:
    if (start.n_rubrics, start.n_features) != (train.n_rubrics, train.n_features) or start.kind != config.kind:
        raise ArtefactError(
            f"the start is a {start.kind} of {start.n_rubrics} rubrics and {start.n_features} features, the data want "
            f"a {config.kind} of {train.n_rubrics} and {train.n_features}",
            hint="restrict both to the kept rubrics",
        )
    return start


def _next_epoch(progress: Progress, data: _Data, config: FitConfig) -> Progress:
    """Run one epoch; where it meets a non-finite number, go back and try at half the rate, three times at most."""
    for halvings in range(progress.halvings, MAX_HALVINGS + 1):
        rate = config.learning_rate * 0.5**halvings
        state, log, slices = _run(progress, data, config, rate)
        bad = _first_bad_step(state, log)
        if bad is None:
            done = replace(progress, state=state, epoch=progress.epoch + 1, halvings=halvings, slices=slices)
            return _judged(done, log, data, config, rate)
    raise DegenerateFitError(
        f"loss or weights are not finite at epoch {progress.epoch + 1}, step {bad}, after {MAX_HALVINGS} halvings of "
        f"the learning rate {config.learning_rate:g}",
        hint="lower learning_rate, or look at the features of that batch",
    )


def _run(progress: Progress, data: _Data, config: FitConfig, rate: float) -> tuple[State, StepLog, int]:
    """Run the steps of one epoch; where memory runs out, cut each step into twice as many slices."""
    slices = progress.slices
    while True:
        try:
            return (*_run_sliced(progress, data, config, rate, slices), slices)
        except jax.errors.JaxRuntimeError as error:
            if not is_out_of_memory(error):
                raise
            if slices >= config.batch:
                raise DegenerateFitError(
                    f"memory ran out at epoch {progress.epoch + 1} even with one pair at a time",
                    hint="fit on the CPU (JAX_PLATFORMS=cpu) or with a smaller bank",
                ) from error
            slices = min(2 * slices, config.batch)


def _run_sliced(progress: Progress, data: _Data, config: FitConfig, rate: float, slices: int) -> tuple[State, StepLog]:
    """Run the steps of one epoch, each in `slices` slices, and wait for the end."""
    steps = _steps(data.rows, config, progress.epoch, slices)
    state, log = run_epoch(progress.state, data.table, steps, jnp.float32(rate), objective_of(config))
    jax.block_until_ready(log)  # type: ignore[no-untyped-call]  # JAX leaves it untyped
    return state, log


def _steps(rows: Rows, config: FitConfig, epoch: int, slices: int) -> Steps:
    """Return the steps of one epoch; the width fits every epoch, so that all share one compiled program."""
    orders = [batches.epoch_order(rows.n_rows, config.seed, number) for number in range(config.epochs)]
    batch = min(config.batch, rows.n_rows)
    width = batches.pieces_needed(rows, orders, batch, slices=slices)
    first = epoch * -(-rows.n_rows // batch)
    on_cpu = jax.default_backend() == "cpu"
    return batches.cut_steps(rows, orders[epoch], batch, slices=slices, width=width, first=first, transposed=on_cpu)


def _first_bad_step(state: State, log: StepLog) -> int | None:
    """Return the number of the first step whose loss is not finite, the last one where only the weights are not."""
    losses = np.asarray(log.preference) + np.asarray(log.diversity)
    bad = np.flatnonzero(~np.isfinite(losses))
    if len(bad):
        return int(bad[0])
    finite = all(bool(jnp.isfinite(value).all()) for value in jax.tree.leaves(state.params))
    return None if finite else len(losses) - 1


def _judged(progress: Progress, log: StepLog, data: _Data, config: FitConfig, rate: float) -> Progress:
    """Measure the epoch on dev and keep it where it is the best so far."""
    params = progress.state.params
    record = _record(progress.epoch, log, params, data, config, rate)
    champion = next((old for old in progress.history if old.epoch == progress.best_epoch), None)
    history = (*progress.history, record)
    if better(record, champion):
        return replace(progress, history=history, best=params, best_epoch=record.epoch)
    return replace(progress, history=history)


def _record(
    epoch: int, log: StepLog | None, params: Params, data: _Data, config: FitConfig, rate: float
) -> EpochRecord:
    table, rows = data.dev or (data.table, data.rows)
    margins = _margins(params, table, rows, config)
    record = _measured(to_selector(params), data.dev_arrays, margins, config)
    record = replace(record, epoch=epoch, learning_rate=rate)
    if log is None:
        return record
    preference, diversity, margin, accuracy, against = (float(np.asarray(p, np.float64).mean()) for p in log)
    return replace(
        record,
        preference_loss=preference,
        diversity_loss=diversity,
        train_margin=margin,
        train_accuracy=min(accuracy, 1.0),  # a mean in single precision may end a little above
        adversarial_loss=against if data.has_negatives else None,
    )


def _measured(
    selector: Selector, arrays: FitArrays, margins: tuple[Margins, Margins], config: FitConfig
) -> EpochRecord:
    """Return what dev says before a first epoch, which the numbers of training repeat.

    Margins are those of the pairs with a judged entry: over all their entries, and over the best `top_k`.
    """
    whole, best = margins
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
        active=active_rubrics(selector, arrays, config.top_k or 6),
        learning_rate=0.0,
    )


def _margins(params: Params, table: Table, rows: Rows, config: FitConfig) -> tuple[Margins, Margins]:
    """Return the margin of every row over all its judged entries, and over the best `top_k` of them."""
    order = np.arange(rows.n_rows)
    batch = min(EVALUATION_BATCH, rows.n_rows)
    width = batches.pieces_needed(rows, [order], batch, slices=1)
    steps = batches.cut_steps(rows, order, batch, slices=1, width=width, first=0)
    whole, best = run_margins(params, table, steps, objective_of(config))
    return np.asarray(whole).ravel()[: rows.n_rows], np.asarray(best).ravel()[: rows.n_rows]


def _result(progress: Progress, train: FitArrays) -> FitResult:
    selector = to_selector(progress.best)
    record = next((record for record in progress.history if record.epoch == progress.best_epoch), None)
    return FitResult(
        selector=selector,
        history=progress.history,
        best_epoch=progress.best_epoch,
        dev_accuracy=record.dev_accuracy if record else 0.5,
        dev_loss=record.dev_loss if record else float(np.log(2)),
        halvings=progress.halvings,
        slices=progress.slices,
        device=device_label(),
        warnings=_warnings(selector, train),
    )


def _sampled(train: FitArrays) -> list[str]:
    """Say that the default was solved on a sample of the pairs, where it was."""
    pairs = int(train.originals.sum())
    return [f"solved on a sample of {MOST_PAIRS:,} of the {pairs:,} pairs"] if pairs > MOST_PAIRS else []


def _doubts(choice: Choice) -> list[str]:
    """Say that too little was learned to decide by, where it was."""
    if choice.is_proven or choice.taken is None:
        return []
    share, error = 100 * choice.taken.accuracy, 100 * choice.taken.error
    return [
        f"{choice.left_out} that were left out were decided {share:.1f} % right, ± {error:.1f}: no better than a coin"
    ]


def _warnings(selector: Selector, train: FitArrays) -> tuple[str, ...]:
    """Say what a careful reader should know about the fit."""
    out = []
    if float(selector.weight.max()) < COLLAPSED:
        out.append(f"all weights fell below {COLLAPSED:g}: the bank does not separate the pairs")
    if bool((train.z_delta > 0).all()) or bool((train.z_delta < 0).all()):
        out.append(f"all {train.n_entries} judged entries are one-sided, so no rubric can be told from another")
    return tuple(out)
