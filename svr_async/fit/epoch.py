"""One epoch of the paper's learner as one compiled program: the loss of a step, AdamW, a scan over the steps.

L = mean softplus(−F) + diversity · mean Σ_ij S_ij α_i α_j        F = Σ alpha · weight · z (sec:margin)
with hard negatives, a pair's preference loss is the mean of its own and its negative's (sec:adv)
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax  # type: ignore[import-untyped]  # it ships no types

from svr_async.fit.batches import Steps, Table
from svr_async.fit.config import FitConfig, Pool
from svr_async.fit.mlp import Features, Params, bank_columns, hidden_units, pooled_logits, weights
from svr_async.fit.sparsemax import sparsemax


class State(NamedTuple):
    """State that an epoch changes: the parameters and AdamW's moments."""

    params: Params
    moments: optax.ScaleByAdamState


class Objective(NamedTuple):
    """The settings that a compiled step depends on; phases that differ only in their rate share one program."""

    pool: Pool
    diversity: float
    weight_decay: float
    top_k: int | None


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

    `alpha` (…, rubric); `i`, `j`, `value` (edge,) or, with alpha's leading axes, (…, edge). Zero without edges.
    """
    if value.shape[-1] == 0:
        return jnp.zeros(alpha.shape[:-1], alpha.dtype)
    if i.ndim == 1:
        return 2 * jnp.sum(alpha[..., i] * alpha[..., j] * value.reshape((1,) * (alpha.ndim - 1) + (-1,)), axis=-1)
    pick = jnp.take_along_axis
    return 2 * jnp.sum(pick(alpha, i, axis=-1) * pick(alpha, j, axis=-1) * value, axis=-1)


def objective_of(config: FitConfig) -> Objective:
    """Return the part of the settings that steps are compiled for."""
    return Objective(*(getattr(config, name) for name in Objective._fields))


def start_state(params: Params) -> State:
    """Return a state before the first step: AdamW's moments are zero."""
    moments = optax.scale_by_adam().init(params)
    assert isinstance(moments, optax.ScaleByAdamState)
    return State(params, moments)


def pair_alpha(
    params: Params, hidden: jax.Array, table: Table, row: jax.Array, config: Objective
) -> tuple[jax.Array, jax.Array]:
    """Return alpha at each row's judged entries (row, entry), and the diversity term per row (row,).

    Over the judged pool alpha is a distribution on the entries; over the bank it is one on all rubrics, read at them.
    """
    if config.pool == "judged":
        logits = pooled_logits(params, hidden, table.rubric[row])
        alpha = sparsemax(jnp.where(table.judged[row], logits, jnp.full_like(logits, -jnp.inf)))
        return alpha, diversity_loss(alpha, table.edge_i[row], table.edge_j[row], table.edge_value[row])
    whole = sparsemax(bank_columns(params, hidden), axis=0)
    edges = diversity_loss(whole.T, table.edge_i[0], table.edge_j[0], table.edge_value[0])
    return jnp.take_along_axis(whole, table.rubric[row].T, axis=0, mode="clip").T, edges


def margins(params: Params, alpha: jax.Array, table: Table, row: jax.Array) -> jax.Array:
    """Return F = Σ alpha · weight · z over the judged entries of each row (sec:margin)."""
    return jnp.sum(alpha * jnp.take(weights(params), table.rubric[row], mode="clip") * table.z[row], axis=-1)


def step_loss(
    params: Params, table: Table, row: jax.Array, share: jax.Array, features: Features, config: Objective
) -> tuple[jax.Array, StepLog]:
    """Return the loss of one step and its parts: sums over its rows, weighted by `share`."""
    hidden = hidden_units(params, features, row.shape[0])
    alpha, redundant = pair_alpha(params, hidden, table, row, config)
    margin = margins(params, alpha, table, row)
    parts = share * table.preference[row] * preference_loss(margin)
    preference, adversarial = jnp.sum(parts), jnp.sum(jnp.where(table.original[row] == 0, parts, 0))
    diversity = jnp.sum(share * table.original[row] * redundant)
    right = 0.5 + 0.5 * jnp.sign(margin)
    log = StepLog(preference, diversity, jnp.sum(share * margin), jnp.sum(share * right), adversarial)
    return preference + config.diversity * diversity, log


def step_features(table: Table, step: Steps) -> Features:
    """Return the features of a step's pieces; a number past the end is the empty last piece."""
    at = jnp.minimum(step.piece, table.piece_index.shape[0] - 1)
    transposed = (step.start, step.by_feature, step.border) if step.start.shape[-1] else ()
    return Features(table.piece_index[at], table.piece_value[at], step.owner, *transposed)


def adamw(state: State, gradient: Params, rate: jax.Array, decay: float) -> State:
    """Return the state after one step of optax's AdamW: decoupled decay towards zero."""
    descent = optax.adamw(rate, weight_decay=decay)
    with jax.numpy_dtype_promotion("standard"):  # optax raises whole numbers to powers
        before = (state.moments, *descent.init(())[1:])  # only Adam's part of a chain holds anything
        moves, after = descent.update(gradient, before, state.params)
        return State(optax.apply_updates(state.params, moves), after[0])


@partial(jax.jit, static_argnames="config")
def run_epoch(state: State, table: Table, steps: Steps, rate: jax.Array, config: Objective) -> tuple[State, StepLog]:
    """Go through all steps in one compiled scan; return the state after them and the log of each step."""

    def body(state: State, step: Steps) -> tuple[State, StepLog]:
        gradient_of = jax.grad(step_loss, has_aux=True)
        gradient, log = gradient_of(state.params, table, step.row, step.share, step_features(table, step), config)
        return adamw(state, gradient, rate, config.weight_decay), log

    return jax.lax.scan(body, state, steps)


@partial(jax.jit, static_argnames="config")
def run_margins(params: Params, table: Table, steps: Steps, config: Objective) -> tuple[jax.Array, jax.Array]:
    """Return per step and row the margin over all judged entries, and over the best `top_k` of them."""

    def body(_: None, step: Steps) -> tuple[None, tuple[jax.Array, jax.Array]]:
        row = step.row
        hidden = hidden_units(params, step_features(table, step), row.shape[0])
        alpha, _edges = pair_alpha(params, hidden, table, row, config)
        whole = margins(params, alpha, table, row)
        if config.top_k is None or config.top_k >= alpha.shape[-1]:
            return None, (whole, whole)
        ranked = alpha * jnp.take(weights(params), table.rubric[row], mode="clip")
        lowest = jax.lax.top_k(ranked, config.top_k)[0][:, -1:]
        best = jnp.where(ranked >= lowest, alpha, jnp.zeros_like(alpha))
        return None, (whole, margins(params, best, table, row))

    return jax.lax.scan(body, None, steps)[1]
