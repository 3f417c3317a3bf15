"""One epoch of the paper's learner as one compiled program: the loss of a step, AdamW, a scan over the steps.

L = mean softplus(−F) + diversity · mean Σ_ij S_ij α_i α_j        F = Σ alpha · weight · z (sec:margin)
with hard negatives, a pair's preference loss is the mean of its own and its negative's (sec:adv)
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax  # type: ignore[import-untyped]  # it ships no types

from svr_async.fit import ragged
from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import FitConfig
from svr_async.fit.mlp import Features, Params, bank_columns, hidden_units, sparsemax, weights

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]

PIECE = 16  # features per piece: a few dozen features a prompt leave little padding
PAST_UINT16 = 2**16
PAST_THE_END = np.iinfo(np.int32).max  # a piece number that is clipped to the last piece, the empty one
ROUNDING = 64  # pieces per step are rounded up to this, so that epochs share one compiled program
BLOCK = 64  # steps whose places are sorted by feature at a time, so that memory stays small


class State(NamedTuple):
    """State that an epoch changes: the parameters and AdamW's moments."""

    params: Params
    optimiser: optax.OptState


class Objective(NamedTuple):
    """The settings that a compiled step depends on; phases that differ only in their rate share one program."""

    diversity: float
    weight_decay: float


class StepLog(NamedTuple):
    """Per step: the two terms of the loss, the mean margin, and the share of rows with F > 0 (a tie counts half).

    `adversarial` is the part of the preference term that rows of hard negatives gave.
    """

    preference: jax.Array
    diversity: jax.Array
    margin: jax.Array
    accuracy: jax.Array
    adversarial: jax.Array


def preference_loss(margin: jax.Array) -> jax.Array:
    """Return softplus(−F) for each margin F: log(1 + exp(−F)), finite at any F; log 2 at 0 (sec:margin)."""
    return jax.nn.softplus(-margin)


def diversity_loss(alpha: jax.Array, i: jax.Array, j: jax.Array, value: jax.Array) -> jax.Array:
    """Return Σ_ij S_ij α_i α_j over symmetric S, given each edge i < j once: 2 Σ_edges S α_i α_j (sec:margin).

    `alpha` (…, rubric); `i`, `j`, `value` (edge,). Zero without edges.
    """
    if value.shape[0] == 0:
        return jnp.zeros(alpha.shape[:-1], alpha.dtype)
    return 2 * jnp.sum(alpha[..., i] * alpha[..., j] * value.reshape((1,) * (alpha.ndim - 1) + (-1,)), axis=-1)


def objective_of(config: FitConfig) -> Objective:
    """Return the part of the settings that steps are compiled for."""
    return Objective(*(getattr(config, name) for name in Objective._fields))


def start_state(params: Params) -> State:
    """Return a state before the first step: AdamW's moments are zero."""
    return State(params, optax.adamw(0.0).init(params))


def bank_alpha(params: Params, hidden: jax.Array, table: Any, row: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return alpha over the whole bank at each row's judged entries (row, entry), and the diversity term (row,)."""
    whole = sparsemax(bank_columns(params, hidden), axis=0)
    edges = diversity_loss(whole.T, table.edge_i, table.edge_j, table.edge_value)
    return jnp.take_along_axis(whole, table.rubric[row].T, axis=0, mode="clip").T, edges


def margins(params: Params, alpha: jax.Array, table: Table, row: jax.Array) -> jax.Array:
    """Return F = Σ alpha · weight · z over the judged entries of each row (sec:margin)."""
    return jnp.sum(alpha * jnp.take(weights(params), table.rubric[row], mode="clip") * table.z[row], axis=-1)


def step_loss(
    params: Params, table: Table, row: jax.Array, share: jax.Array, features: Features, config: Objective
) -> tuple[jax.Array, StepLog]:
    """Return the loss of one step and its parts: sums over its rows, weighted by `share`."""
    hidden = hidden_units(params, features, row.shape[0])
    alpha, redundant = bank_alpha(params, hidden, table, row)
    margin = margins(params, alpha, table, row)
    parts = share * table.preference[row] * preference_loss(margin)
    preference, adversarial = jnp.sum(parts), jnp.sum(jnp.where(table.original[row] == 0, parts, 0))
    diversity = jnp.sum(share * table.original[row] * redundant)
    right = 0.5 + 0.5 * jnp.sign(margin)
    log = StepLog(preference, diversity, jnp.sum(share * margin), jnp.sum(share * right), adversarial)
    return preference + config.diversity * diversity, log


def step_features(table: Any, step: Any) -> Features:
    """Return the features of a step's pieces; a number past the end is the empty last piece."""
    at = jnp.minimum(step.piece, table.piece_index.shape[0] - 1)
    transposed = (step.start, step.by_feature, step.border) if step.start.shape[-1] else ()
    return Features(table.piece_index[at], table.piece_value[at], step.owner, *transposed)


def adamw(state: State, gradient: Params, rate: jax.Array, decay: float) -> State:
    """Return the state after one step of optax's AdamW: decoupled decay towards zero."""
    with jax.numpy_dtype_promotion("standard"):  # optax raises whole numbers to powers
        moves, optimiser = optax.adamw(rate, weight_decay=decay).update(gradient, state.optimiser, state.params)
        return State(optax.apply_updates(state.params, moves), optimiser)


@partial(jax.jit, static_argnames="config")
def run_epoch(state: State, table: Table, steps: Steps, rate: jax.Array, config: Objective) -> tuple[State, StepLog]:
    """Go through all steps in one compiled scan; return the state after them and the log of each step."""

    def body(state: State, step: Steps) -> tuple[State, StepLog]:
        gradient_of = jax.grad(step_loss, has_aux=True)
        gradient, log = gradient_of(state.params, table, step.row, step.share, step_features(table, step), config)
        return adamw(state, gradient, rate, config.weight_decay), log

    return jax.lax.scan(body, state, steps)


@jax.jit
def run_margins(params: Params, table: Table, steps: Steps) -> jax.Array:
    """Return the margin over all judged entries (step, row)."""

    def body(_: None, step: Any) -> tuple[None, jax.Array]:
        hidden = hidden_units(params, step_features(table, step), step.row.shape[0])
        return None, margins(params, bank_alpha(params, hidden, table, step.row)[0], table, step.row)

    return jax.lax.scan(body, None, steps)[1]


# ── tables and steps, made on the host from sparse arrays ───────────────────────────────────────────────────────────


class Table(NamedTuple):
    """All rows of a fit, padded to equal width. Rows without a judged entry are left out."""

    piece_index: Ints  # (piece + 1, PIECE); the last piece is empty, for padding
    piece_value: Floats
    rubric: Ints  # (row, entry)
    z: Floats  # (row, entry), 0 where padded
    preference: Floats  # (row,), share of the row in the preference loss, mean 1
    original: Floats  # (row,), share of the row in the diversity loss, mean 1; 0 for hard negatives
    edge_i: Ints  # (edge,) rubric numbers
    edge_j: Ints
    edge_value: Floats


class Steps(NamedTuple):
    """The steps of one epoch: rows, their weights, and the pieces of their prompts. Leading axis (step,)."""

    row: Ints
    share: Floats  # 1 / rows of the step; 0 for padding
    piece: Ints
    owner: Ints
    start: Ints  # (step, row + 1) places in front of each row; empty if nothing is to be transposed
    by_feature: npt.NDArray[np.integer]  # (step, place) the places in the order of their features
    border: npt.NDArray[np.integer]  # (step, feature + 1) how many of them come before each feature


class Rows(NamedTuple):
    """Host side of a table: where the pieces of each row's prompt lie."""

    piece_start: npt.NDArray[np.int64]
    piece_count: npt.NDArray[np.int64]
    pair: npt.NDArray[np.int64]
    feature: npt.NDArray[np.integer]  # (piece + 1, PIECE) which feature stands where; `n_features` where padded
    n_features: int

    @property
    def n_rows(self) -> int:
        """Number of rows that can be learned from."""
        return len(self.pair)


def tabulate(arrays: FitArrays) -> tuple[Table, Rows]:
    """Return the padded table of the pairs that have a judged entry, and where their prompts' pieces lie."""
    pair = np.flatnonzero(ragged.lengths(arrays.z_indptr))
    index, value, start, count = _pieces(arrays)
    borders, at = ragged.take_rows(arrays.z_indptr, pair)
    width = max(1, int(ragged.lengths(borders).max(initial=0)))
    rubric = ragged.padded(borders, arrays.z_rubric[at].astype(np.int32), fill=0, width=width)
    z = ragged.padded(borders, arrays.weighted[at], fill=0, width=width)
    preference = _mean_one(arrays.row_weights()[pair])
    original = _mean_one(arrays.originals[pair].astype(np.float32))
    prompt = np.asarray(arrays.pair_prompt)[pair]
    small = np.uint16 if arrays.n_features < PAST_UINT16 else np.int32
    feature: npt.NDArray[np.integer] = np.where(value != 0, index, arrays.n_features).astype(small)
    return Table(index, value, rubric, z, preference, original, *_edges(arrays)), Rows(
        start[prompt], count[prompt], pair, feature, arrays.n_features
    )


def cut_steps(rows: Rows, order: npt.NDArray[np.int64], batch: int, *, width: int, transposed: bool = False) -> Steps:
    """Cut `order` into steps of `batch` rows, each with `width` places for pieces.

    A piece has `PIECE` places for features. `transposed` adds their order by feature, for gradients of W1 on CPUs.
    """
    row, live = _padded_rows(order, batch)
    share = live / np.maximum(live.sum(axis=1, keepdims=True), 1)
    counts = np.where(live, rows.piece_count[row], 0)
    piece, owner = _place(rows.piece_start[row], counts, width)
    blank = np.zeros((len(row), 0), np.int32)
    start, places, border = _by_feature(rows, counts, piece) if transposed else (blank, blank, blank)
    return Steps(row.astype(np.int32), share.astype(np.float32), piece, owner, start, places, border)


def epoch_order(n_rows: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """Return the rows in the order of one epoch: a function of seed and epoch only, so that a fit can be resumed."""
    return np.random.default_rng([seed, 2, epoch]).permutation(n_rows)


def pieces_needed(rows: Rows, orders: list[npt.NDArray[np.int64]], batch: int) -> int:
    """Return the places for pieces that the fullest step of any of these epochs needs, rounded up."""
    most = 1
    for order in orders:
        row, live = _padded_rows(order, batch)
        most = max(most, int(np.where(live, rows.piece_count[row], 0).sum(axis=1).max(initial=1)))
    return -(-most // ROUNDING) * ROUNDING


def _padded_rows(order: npt.NDArray[np.int64], batch: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the rows of each step (step, batch), 0 where padded, and which are not padding."""
    row = np.full((-(-len(order) // batch), batch), -1, np.int64)
    row.flat[: len(order)] = order
    return np.maximum(row, 0), row >= 0


def _place(start: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], width: int) -> tuple[Ints, Ints]:
    """Lay the pieces of each step's rows side by side; the rest points at the empty piece of the last row."""
    steps, part = counts.shape
    piece = np.full((steps, width), PAST_THE_END, np.int32)
    owner = np.full((steps, width), part - 1, np.int32)
    flat = counts.ravel()
    within = np.arange(flat.sum()) - np.repeat(ragged.indptr_of(flat)[:-1], flat)
    in_step = (np.cumsum(counts, axis=1) - counts).ravel()
    step_of = np.repeat(np.repeat(np.arange(steps), part), flat)
    place = np.repeat(in_step, flat) + within
    piece[step_of, place] = np.repeat(start.ravel(), flat) + within
    owner[step_of, place] = np.repeat(np.tile(np.arange(part), steps), flat)
    return piece, owner


def _by_feature(
    rows: Rows, counts: npt.NDArray[np.int64], piece: Ints
) -> tuple[Ints, npt.NDArray[np.integer], npt.NDArray[np.integer]]:
    """Return `start`, `by_feature` and `border` of steps; in 16 bits where they fit, since an epoch holds many."""
    steps, width = piece.shape
    small = np.uint16 if width * PIECE < PAST_UINT16 else np.int32
    start = np.zeros((steps, counts.shape[1] + 1), np.int32)
    np.cumsum(counts * PIECE, axis=1, out=start[:, 1:])
    start[:, -1] = width * PIECE  # the last row owns the padding, which has value 0
    places = np.empty((steps, width * PIECE), small)
    border = np.zeros((steps, rows.n_features + 1), small)
    last = len(rows.feature) - 1
    for at in range(0, steps, BLOCK):
        feature = rows.feature[np.minimum(piece[at : at + BLOCK], last)].reshape(-1, width * PIECE)
        places[at : at + BLOCK] = np.argsort(feature, axis=1, kind="stable")
        keys = feature + np.arange(len(feature))[:, None] * (rows.n_features + 1)
        count = np.bincount(keys.ravel(), minlength=len(feature) * (rows.n_features + 1))
        border[at : at + BLOCK, 1:] = np.cumsum(count.reshape(len(feature), -1)[:, :-1], axis=1)
    return start, places, border


def _pieces(
    arrays: FitArrays,
) -> tuple[Ints, Floats, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Cut every prompt's features into pieces; return the padded pieces, and each prompt's first piece and count."""
    borders, per_prompt = ragged.pieces(np.asarray(arrays.feature_indptr), PIECE)
    index = ragged.padded(borders, arrays.feature_index.astype(np.int32), fill=0, width=PIECE)
    value = ragged.padded(borders, arrays.feature_value, fill=0, width=PIECE)
    blank = np.zeros((1, PIECE))
    index = np.concatenate([index, blank.astype(np.int32)])
    value = np.concatenate([value, blank.astype(np.float32)])
    return index, value, ragged.indptr_of(per_prompt)[:-1], per_prompt


def _mean_one(values: Floats) -> Floats:
    mean = float(values.mean()) if len(values) else 0.0
    return values / np.float32(mean) if mean > 0 else values


def _edges(arrays: FitArrays) -> tuple[Ints, Ints, Floats]:
    """Return the redundancy edges (edge,); possibly empty."""
    i, j, value = arrays.redundancy_i, arrays.redundancy_j, arrays.redundancy_value
    if i is None or j is None or value is None:
        return np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.float32)
    return i.astype(np.int32), j.astype(np.int32), value.astype(np.float32)
