"""One epoch of the paper's learner as one compiled program: the loss of a step, AdamW, a scan over the steps.

L = mean softplus(−F) + diversity · mean Σ_ij S_ij α_i α_j        F = Σ alpha · weight · z (sec:margin)
with hard negatives, a pair's preference loss is the mean of its own and its negative's (sec:adv)
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax  # type: ignore[import-untyped]  # it ships no types

from svr_async.fit.batches import Steps, Table
from svr_async.fit.config import FitConfig
from svr_async.fit.mlp import Features, Params, bank_columns, hidden_units, weights
from svr_async.fit.sparsemax import sparsemax


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
