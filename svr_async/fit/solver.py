"""The sparse margin loss solved in JAX: accelerated projected steps, many problems in one compiled program.

    X ← max(0, Y − ∇f(Y) / D),     Y ← X + β (X − X before)
    D = τ · ¼ Σ_pairs weight (gate z)²  +  μ  +  δ · share · Σ_j S_ij

The problem is that of `fit.sparse_margin`. Where effects are at least 0 the L1 terms are linear, so a proximal step is
a gradient step and optax's projection, and zeros are exact. D takes each coordinate's own curvature, so topics with
many pairs, topics with few and the common part move at their own pace; τ says how far coordinates act together. It is
found on the way: a step is undone where the loss bends more along it than D allows, and τ falls again after good ones.
β is FISTA's momentum (Beck and Teboulle 2009), begun anew where it points uphill (O'Donoghue and Candès 2015).

Problems are solved one after another inside the program, each until it has converged, from 0. One code for CPU and
GPU. On a CPU the same inputs give the same bytes, whatever the number of threads; a GPU adds up in any order.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import optax  # type: ignore[import-untyped]  # it ships no types

RIDGE = 2.0  # μ
CONVERGED = 1e-7  # ½ dᵀ D d of a step d, a pair: the loss is then within some 1e-6 of the least
ITERATIONS = 200
SLACK, RELIEF, LEAST = 1.05, 0.9, 0.2  # τ: above what a failed step needed; after a good one; and never below

IN_BOUNDS = "promise_in_bounds"


class Edges(NamedTuple):
    """The entries of a sparse S (edge,), each direction by itself; padding has value 0."""

    i: jax.Array
    j: jax.Array
    value: jax.Array


class Design(NamedTuple):
    """What problems choose from. Entries lie in pieces of equal width, so that one long pair widens no other.

    `rubric`, `z` (piece, width), padding has z = 0; `owner` (piece,) is the pair of a piece. `topic`, `gate`
    (candidate, J, pair) are the gates, of which the first `used` (candidate,) hold any; `price` (candidate, topic,
    rubric) multiplies λ; `weight` (row, pair). `alike` is S, as edges or, where they are many, whole (rubric, rubric).
    """

    rubric: jax.Array
    z: jax.Array
    owner: jax.Array
    topic: jax.Array
    gate: jax.Array
    used: jax.Array
    price: jax.Array
    weight: jax.Array
    alike: Edges | jax.Array


class Task(NamedTuple):
    """Problems, (problem,) each: which gates and which row of weights, λ, λ₀ (huge: no common part) and δ."""

    gates: jax.Array
    weight: jax.Array
    own: jax.Array
    common: jax.Array
    diversity: jax.Array


class _Problem(NamedTuple):
    """One problem, spread out: `column` (J, piece, width) into the effects laid flat, `gate` (J, piece)."""

    design: Design
    column: jax.Array
    gate: jax.Array
    used: jax.Array
    weight: jax.Array  # (pair,)
    cost: jax.Array  # (topic + 1, rubric)
    apart: jax.Array  # δ · share (topic, 1)
    bent: jax.Array  # ¼ Σ weight (gate z)², (topic + 1, rubric)
    firm: jax.Array  # the part of D that does not depend on τ, (topic + 1, rubric)


class _State(NamedTuple):
    """X and Y (topic + 1, rubric), the common part last; their margins (pair,); FISTA's pace, τ, steps so far."""

    x: jax.Array
    margin_x: jax.Array
    y: jax.Array
    margin_y: jax.Array
    pace: jax.Array
    together: jax.Array
    steps: jax.Array
    done: jax.Array


@partial(jax.jit, static_argnames=("topics", "rubrics"))
def solve_tasks(design: Design, tasks: Task, count: jax.Array, *, topics: int, rubrics: int) -> jax.Array:
    """Solve the first `count` tasks and return V of each (task, topic, rubric); those past the count are 0."""

    def body(number: jax.Array, found: jax.Array) -> jax.Array:
        problem = _problem(design, jax.tree.map(lambda values: values[number], tasks), topics, rubrics)
        return found.at[number].set(_folded(_solved(problem).x))

    return cast("jax.Array", jax.lax.fori_loop(0, count, body, jnp.zeros((len(tasks.own), topics, rubrics))))


def _problem(design: Design, task: Task, topics: int, rubrics: int) -> _Problem:
    topic, gate, weight = design.topic[task.gates], design.gate[task.gates], design.weight[task.weight]
    column = topic[:, design.owner, None] * rubrics + design.rubric[None]
    share = jnp.zeros(topics).at[topic].add(gate * weight[None])
    apart = task.diversity * share[:, None]
    problem = _Problem(
        design=design,
        column=column,
        gate=gate[:, design.owner],
        used=design.used[task.gates],
        weight=weight,
        cost=jnp.concatenate([task.own * design.price[task.gates], jnp.full((1, rubrics), task.common)]),
        apart=apart,
        bent=jnp.zeros((topics, rubrics)),
        firm=RIDGE + _with_common(apart * _repeated(design, jnp.ones((1, rubrics)))),
    )
    return problem._replace(bent=_bent(problem))


def _bent(problem: _Problem) -> jax.Array:
    """Return ¼ Σ weight (gate z)², of the common part last; gates sum to 1."""
    design = problem.design
    squares = problem._replace(gate=problem.gate**2, design=design._replace(z=design.z**2))
    common = jnp.zeros(problem.bent.shape[1]).at[design.rubric].add(problem.weight[design.owner, None] * design.z**2)
    return 0.25 * jnp.concatenate([_slopes(squares, problem.weight), common[None]])


def _solved(problem: _Problem) -> _State:
    """Step until a step is too short to matter, from no effects at all."""
    nothing, margin = jnp.zeros_like(problem.bent), jnp.zeros_like(problem.weight)
    one = jnp.float32(1)
    start = _State(nothing, margin, nothing, margin, one, one, jnp.int32(0), jnp.bool_(False))
    more = lambda state: ~state.done & (state.steps < ITERATIONS)  # noqa: E731  (a line for a line)
    return jax.lax.while_loop(more, partial(_step, problem), start)


def _step(problem: _Problem, state: _State) -> _State:
    """Take a step from Y, or take it back where the loss bends more along it than τ allows."""
    bound = state.together * problem.bent + problem.firm
    moved = optax.apply_updates(state.y, -_gradient(problem, state) / bound)
    x = optax.projections.projection_non_negative(moved)
    margin = _margins(problem, _folded(x))
    away = x - state.y
    needed = _bending(problem, state.margin_y, margin) / jnp.maximum(jnp.sum(problem.bent * away**2), 1e-30)
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
        done=jnp.sum(bound * away**2) / 2 <= CONVERGED * jnp.sum(problem.weight),
    )
    refused = state._replace(together=SLACK * needed, steps=state.steps + 1)
    return cast("_State", jax.tree.map(partial(jnp.where, needed <= state.together), taken, refused))


def _gradient(problem: _Problem, state: _State) -> jax.Array:
    """Return the slope of the whole loss at Y (topic + 1, rubric), L1 terms included."""
    slope = _slopes(problem, -problem.weight * jax.nn.sigmoid(-state.margin_y))
    slope = slope + problem.apart * _repeated(problem.design, _folded(state.y))
    return _with_common(slope) + problem.cost + RIDGE * state.y


def _bending(problem: _Problem, before: jax.Array, after: jax.Array) -> jax.Array:
    """Return the most that the loss bends between two sets of margins: Σ weight · max softplus'' · difference²."""
    nearest = jnp.where(before * after < 0, 0.0, jnp.minimum(jnp.abs(before), jnp.abs(after)))
    return jnp.sum(problem.weight * jax.nn.sigmoid(nearest) * jax.nn.sigmoid(-nearest) * (after - before) ** 2)


def _margins(problem: _Problem, effects: jax.Array) -> jax.Array:
    """Return Σ_k gate_k V_k · z of each pair (pair,)."""
    flat, design = effects.ravel(), problem.design

    def add(j: jax.Array, sums: jax.Array) -> jax.Array:
        picked = flat.at[problem.column[j]].get(mode=IN_BOUNDS)
        return sums + problem.gate[j] * jnp.sum(picked * design.z, axis=1)

    sums = jax.lax.fori_loop(0, problem.used, add, jnp.zeros(len(design.owner)))
    return jnp.zeros_like(problem.weight).at[design.owner].add(sums, mode=IN_BOUNDS, indices_are_sorted=True)


def _slopes(problem: _Problem, slope: jax.Array) -> jax.Array:
    """Return Σ_pairs slope · gate · z, (topic, rubric): the margins' transpose."""
    design, by_piece = problem.design, slope[problem.design.owner]

    def add(j: jax.Array, flat: jax.Array) -> jax.Array:
        return flat.at[problem.column[j]].add((by_piece * problem.gate[j])[:, None] * design.z, mode=IN_BOUNDS)

    topics, rubrics = len(problem.apart), problem.firm.shape[1]
    flat: jax.Array = jax.lax.fori_loop(0, problem.used, add, jnp.zeros(topics * rubrics))
    return flat.reshape(topics, rubrics)


def _repeated(design: Design, effects: jax.Array) -> jax.Array:
    """Return V S (topic, rubric)."""
    if isinstance(design.alike, Edges):
        rows = effects.T[design.alike.j] * design.alike.value[:, None]
        return jnp.zeros_like(effects.T).at[design.alike.i].add(rows, mode=IN_BOUNDS).T
    return jnp.matmul(effects, design.alike, precision=jax.lax.Precision.HIGHEST)


def _folded(rows: jax.Array) -> jax.Array:
    """Return V: the topics' own effects, with the common ones added to each."""
    return rows[:-1] + rows[-1:]


def _with_common(slope: jax.Array) -> jax.Array:
    """Return slopes by V with those by the common part below: what every topic has moves with it."""
    return jnp.concatenate([slope, jnp.sum(slope, axis=0, keepdims=True)])
