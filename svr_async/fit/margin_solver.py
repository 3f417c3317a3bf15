"""Solver of the default: the sparse margin loss by accelerated projected steps, many problems in one JAX program.

    X ← max(0, Y − ∇f(Y) / D),     Y ← X + β (X − previous X)
    D = τ · ¼ Σ_pairs (mixture z)²  +  μ

The problem is stated in `fit.margin_problems`. Effects are at least 0, so the L1 terms are linear: a proximal step is a
gradient step and optax's projection, and zeros are exact. D is each coordinate's own curvature, so topics with many
pairs, topics with few, and the common part move at their own pace. τ, how far coordinates act together, is found by
backtracking: a step is undone if the loss bends more along it than D allows, and τ falls after accepted steps.
β is FISTA's momentum (Beck and Teboulle 2009), restarted where it points uphill (O'Donoghue and Candès 2015).

Problems are solved one after another inside the program, each from 0 until it converges. CPU and GPU run the same code.
On a CPU the same inputs give the same bytes; a GPU adds in any order, so last digits may differ.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import optax  # type: ignore[import-untyped]  # it ships no types

RIDGE = 2.0  # μ
CONVERGED = 1e-6  # ½ dᵀ D d of a step d, per pair: effects are then within a hundredth of the best
ITERATIONS = 200
SLACK, RELIEF, LEAST = 1.05, 0.9, 0.2  # τ: above what a refused step needed; after a good step; lower limit
IN_BOUNDS = "promise_in_bounds"


class Pieces(NamedTuple):
    """Sparse entries in pieces of equal width, so that one long pair does not widen all others.

    `rubric`, `z` (piece, width), padded with z = 0; `owner` (piece,) is the pair of a piece. Each piece has one row per
    topic of its pair: `piece`, `topic`, `mixture` (candidate, block, row), padded with mixture 0. `blocks` (candidate,)
    says how many blocks hold more than padding.
    """

    rubric: jax.Array
    z: jax.Array
    owner: jax.Array
    piece: jax.Array
    topic: jax.Array
    mixture: jax.Array
    blocks: jax.Array


class Dense(NamedTuple):
    """Dense entries: `z` (pair, rubric) and `mixture` (candidate, pair, topic)."""

    z: jax.Array
    mixture: jax.Array


class Design(NamedTuple):
    """The data that problems choose from: entries and mixture weights, and by candidate the sums and prices.

    `share` (candidate, topic) sums the mixture weights of all pairs; `price` (candidate, topic, rubric) multiplies λ.
    """

    entries: Pieces | Dense
    share: jax.Array
    price: jax.Array


class Task(NamedTuple):
    """Problems, (problem,) each: which candidate's mixture weights, λ, and λ₀ (huge: no common part)."""

    mixture: jax.Array
    own: jax.Array
    common: jax.Array


class _Rows(NamedTuple):
    """One problem's pieces: `column` (block, row, width) into the flattened effects, and mixture · z there."""

    column: jax.Array
    value: jax.Array
    owner: jax.Array  # (block, row)
    blocks: jax.Array


class _Problem(NamedTuple):
    entries: _Rows | Dense  # a dense mixture is (pair, topic)
    nothing: jax.Array  # zeros (pair,)
    pairs: jax.Array  # number of pairs
    cost: jax.Array  # (topic + 1, rubric)
    bent: jax.Array  # ¼ Σ (mixture z)², (topic + 1, rubric)


class _State(NamedTuple):
    """X and Y (topic + 1, rubric), the common part last; their margins (pair,); FISTA's pace; τ; steps so far."""

    x: jax.Array
    margin_x: jax.Array
    y: jax.Array
    margin_y: jax.Array
    pace: jax.Array
    together: jax.Array
    steps: jax.Array
    done: jax.Array


@partial(jax.jit, static_argnames=("pairs", "topics", "rubrics"))
def solve_tasks(design: Design, tasks: Task, count: jax.Array, *, pairs: int, topics: int, rubrics: int) -> jax.Array:
    """Solve the first `count` tasks and return V of each (task, topic, rubric); the others stay 0."""

    def body(number: jax.Array, solved: jax.Array) -> jax.Array:
        task = jax.tree.map(lambda values: values[number], tasks)
        problem = _problem(design, task, jnp.zeros(pairs), topics, rubrics)
        return solved.at[number].set(_folded(_solved(problem).x))

    return cast("jax.Array", jax.lax.fori_loop(0, count, body, jnp.zeros((len(tasks.own), topics, rubrics))))


def _problem(design: Design, task: Task, nothing: jax.Array, topics: int, rubrics: int) -> _Problem:
    entries = design.entries
    chosen: _Rows | Dense
    if isinstance(entries, Dense):
        chosen = Dense(entries.z, entries.mixture[task.mixture])
        squares: _Rows | Dense = Dense(chosen.z**2, chosen.mixture**2)
        common = jnp.sum(entries.z**2, axis=0)
    else:
        piece, topic, mixture = entries.piece[task.mixture], entries.topic[task.mixture], entries.mixture[task.mixture]
        column = topic[..., None] * rubrics + entries.rubric[piece]
        value, owner = mixture[..., None] * entries.z[piece], entries.owner[piece]
        chosen = _Rows(column, value, owner, entries.blocks[task.mixture])
        squares = chosen._replace(value=value**2)
        common = jnp.zeros(rubrics).at[entries.rubric].add(entries.z**2)
    own = _slopes(squares, jnp.ones_like(nothing), topics, rubrics)
    return _Problem(
        entries=chosen,
        nothing=nothing,
        pairs=jnp.sum(design.share[task.mixture]),
        cost=jnp.concatenate([task.own * design.price[task.mixture], jnp.full((1, rubrics), task.common)]),
        bent=0.25 * jnp.concatenate([own, common[None]]),  # mixture weights sum to 1, so the common part sees all of z
    )


def _solved(problem: _Problem) -> _State:
    """Step from zero effects until a step is too short to matter."""
    nothing, margin = jnp.zeros_like(problem.cost), problem.nothing
    one = jnp.float32(1)
    start = _State(nothing, margin, nothing, margin, one, one, jnp.int32(0), jnp.bool_(False))
    return jax.lax.while_loop(lambda state: ~state.done & (state.steps < ITERATIONS), partial(_step, problem), start)


def _step(problem: _Problem, state: _State) -> _State:
    """Take a step from Y, or undo it if the loss bends more along it than τ allows."""
    bound = state.together * problem.bent + RIDGE
    moved = optax.apply_updates(state.y, -_gradient(problem, state) / bound)
    x = optax.projections.projection_non_negative(moved)
    margin = _margins(problem, _folded(x))
    away = x - state.y
    needed = _bending(state.margin_y, margin) / jnp.maximum(jnp.sum(problem.bent * away**2), 1e-30)
    uphill = jnp.sum(bound * away * (x - state.x)) < 0
    pace = jnp.where(uphill, 1.0, state.pace)
    next_pace = (1 + jnp.sqrt(1 + 4 * pace**2)) / 2
    momentum = jnp.where(uphill, 0.0, (pace - 1) / next_pace)
    taken = _State(
        x=x,
        margin_x=margin,
        y=x + momentum * (x - state.x),
        margin_y=margin + momentum * (margin - state.margin_x),
        pace=next_pace,
        together=jnp.maximum(RELIEF * state.together, LEAST),
        steps=state.steps + 1,
        done=jnp.sum(bound * away**2) / 2 <= CONVERGED * problem.pairs,
    )
    refused = state._replace(together=SLACK * needed, steps=state.steps + 1)
    return cast("_State", jax.tree.map(partial(jnp.where, needed <= state.together), taken, refused))


def _gradient(problem: _Problem, state: _State) -> jax.Array:
    """Return the gradient of the whole loss at Y (topic + 1, rubric), L1 terms included."""
    # The barrier computes this once per pair: fused, it would be computed again for every entry.
    each = jax.lax.optimization_barrier(-jax.nn.sigmoid(-state.margin_y))  # type: ignore[no-untyped-call]  # JAX's
    topics, rubrics = problem.cost.shape
    slope = _slopes(problem.entries, each, topics - 1, rubrics)
    whole = jnp.concatenate([slope, jnp.sum(slope, axis=0, keepdims=True)])  # the common part is in every topic
    return whole + problem.cost + RIDGE * state.y


def _bending(before: jax.Array, after: jax.Array) -> jax.Array:
    """Return an upper bound of the loss's curvature between two sets of margins: Σ max softplus'' · difference²."""
    nearest = jnp.where(before * after < 0, 0.0, jnp.minimum(jnp.abs(before), jnp.abs(after)))
    return jnp.sum(jax.nn.sigmoid(nearest) * jax.nn.sigmoid(-nearest) * (after - before) ** 2)


def _margins(problem: _Problem, effects: jax.Array) -> jax.Array:
    """Return Σ_k mixture_k V_k · z of each pair (pair,)."""
    entries = problem.entries
    if isinstance(entries, Dense):
        return jnp.sum(entries.mixture * _times(entries.z, effects.T), axis=1)
    flat, ones = effects.ravel(), jnp.ones(entries.column.shape[-1])

    def block(number: jax.Array, found: jax.Array) -> jax.Array:
        parts = flat.at[entries.column[number]].get(mode=IN_BOUNDS) * entries.value[number]
        sums = _times(parts, ones)  # on a CPU several times as fast as a sum
        return found.at[entries.owner[number]].add(sums, mode=IN_BOUNDS, indices_are_sorted=True)

    return cast("jax.Array", jax.lax.fori_loop(0, entries.blocks, block, problem.nothing))


def _slopes(entries: _Rows | Dense, slope: jax.Array, topics: int, rubrics: int) -> jax.Array:
    """Return Σ_pairs slope · mixture · z (topic, rubric): the transpose of `_margins`."""
    if isinstance(entries, Dense):
        return _times((entries.mixture * slope[:, None]).T, entries.z)

    def block(number: jax.Array, found: jax.Array) -> jax.Array:
        parts = slope[entries.owner[number]][:, None] * entries.value[number]
        return found.at[entries.column[number]].add(parts, mode=IN_BOUNDS)

    found = jax.lax.fori_loop(0, entries.blocks, block, jnp.zeros(topics * rubrics))
    return cast("jax.Array", found).reshape(topics, rubrics)


def _times(one: jax.Array, other: jax.Array) -> jax.Array:
    return jnp.matmul(one, other, precision=jax.lax.Precision.HIGHEST)


def _folded(rows: jax.Array) -> jax.Array:
    """Return V: each topic's own effects plus the common ones."""
    return rows[:-1] + rows[-1:]
