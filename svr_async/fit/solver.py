"""The sparse margin loss solved in JAX: accelerated projected steps, many problems in one compiled program.

    X ← max(0, Y − ∇f(Y) / D),     Y ← X + β (X − X before)
    D = τ · ¼ Σ_pairs (gate z)²  +  μ  +  δ · share · Σ_j S_ij

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
from jax.sharding import Mesh

from svr_async.fit.mesh import AXIS, mapped

RIDGE = 2.0  # μ
CONVERGED = 1e-6  # ½ dᵀ D d of a step d, a pair: effects then differ from the best by a hundredth, less than by chance
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

    `rubric`, `z` (piece, width), padding has z = 0; `owner` (piece,) is the pair of a piece. Gates are rows, one for
    each piece and topic that its pair has: `piece`, `topic`, `gate` (candidate, block, row), padding has gate 0, and
    `blocks` (candidate,) hold more than padding. `share` (candidate, topic) sums the gates of all pairs, `price`
    (candidate, topic, rubric) multiplies λ. `alike` is S, as edges or, where they are many, whole (rubric, rubric).
    """

    rubric: jax.Array
    z: jax.Array
    owner: jax.Array
    piece: jax.Array
    topic: jax.Array
    gate: jax.Array
    blocks: jax.Array
    share: jax.Array
    price: jax.Array
    alike: Edges | jax.Array


BY_PAIR = (True, True, True, True, True, True, True, False, False, False)  # of a design: what is shared out


class Task(NamedTuple):
    """Problems, (problem,) each: which gates, λ, λ₀ (huge: no common part) and δ."""

    gates: jax.Array
    own: jax.Array
    common: jax.Array
    diversity: jax.Array


class _Problem(NamedTuple):
    """One problem, spread out: `column` (row, width) into the effects laid flat, and gate · z there.

    Rows lie in blocks, (block, row) each, of which those past `blocks` hold padding alone and are never looked at.
    """

    column: jax.Array
    value: jax.Array
    owner: jax.Array  # (block, row)
    blocks: jax.Array
    alike: Edges | jax.Array
    nothing: jax.Array  # a zero for each pair (pair,)
    pairs: jax.Array  # how many there are
    cost: jax.Array  # (topic + 1, rubric)
    apart: jax.Array  # δ · share (topic, 1)
    bent: jax.Array  # ¼ Σ (gate z)², (topic + 1, rubric)
    firm: jax.Array  # the part of D that does not depend on τ, (topic + 1, rubric)
    axis: str | None  # where pairs are shared out to several devices, that they are


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


@partial(jax.jit, static_argnames=("pairs", "topics", "rubrics", "mesh"))
def solve_tasks(
    design: Design, tasks: Task, count: jax.Array, *, pairs: int, topics: int, rubrics: int, mesh: Mesh | None = None
) -> jax.Array:
    """Solve the first `count` tasks and return V of each (task, topic, rubric); those past the count are 0.

    With a `mesh`, what a design has of pairs (`BY_PAIR`) has a row for each device, and `pairs` are those of one.
    """
    solve = partial(_all_solved, pairs=pairs, topics=topics, rubrics=rubrics)
    if mesh is None:
        return solve(design, tasks, count)
    parts = Design(*(jax.tree.map(lambda _, own=own: own, part) for own, part in zip(BY_PAIR, design, strict=True)))
    whole = jax.tree.map(lambda _: False, tasks)
    return cast("jax.Array", mapped(partial(solve, axis=AXIS), mesh, (parts, whole, False))(design, tasks, count))


def _all_solved(
    design: Design, tasks: Task, count: jax.Array, *, pairs: int, topics: int, rubrics: int, axis: str | None = None
) -> jax.Array:
    def body(number: jax.Array, found: jax.Array) -> jax.Array:
        task = jax.tree.map(lambda values: values[number], tasks)
        problem = _problem(design, task, jnp.zeros(pairs), topics, rubrics, axis)
        return found.at[number].set(_folded(_solved(problem).x))

    return cast("jax.Array", jax.lax.fori_loop(0, count, body, jnp.zeros((len(tasks.own), topics, rubrics))))


def _problem(design: Design, task: Task, nothing: jax.Array, topics: int, rubrics: int, axis: str | None) -> _Problem:
    piece, topic, gate = design.piece[task.gates], design.topic[task.gates], design.gate[task.gates]
    share = design.share[task.gates]
    apart = task.diversity * share[:, None]
    problem = _Problem(
        column=topic[..., None] * rubrics + design.rubric[piece],
        value=gate[..., None] * design.z[piece],
        owner=design.owner[piece],
        blocks=design.blocks[task.gates],
        alike=design.alike,
        nothing=nothing,
        pairs=jnp.sum(share),
        cost=jnp.concatenate([task.own * design.price[task.gates], jnp.full((1, rubrics), task.common)]),
        apart=apart,
        bent=jnp.zeros((topics, rubrics)),
        firm=RIDGE + _with_common(apart * _repeated(design.alike, jnp.ones((1, rubrics)))),
        axis=axis,
    )
    return problem._replace(bent=_bent(problem, design))


def _bent(problem: _Problem, design: Design) -> jax.Array:
    """Return ¼ Σ (gate z)², of the common part last; gates sum to 1."""
    squares = problem._replace(value=problem.value**2)
    common = _over_devices(problem, jnp.zeros(problem.bent.shape[1]).at[design.rubric].add(design.z**2))
    return 0.25 * jnp.concatenate([_slopes(squares, jnp.ones_like(problem.nothing)), common[None]])


def _solved(problem: _Problem) -> _State:
    """Step until a step is too short to matter, from no effects at all."""
    nothing, margin = jnp.zeros_like(problem.firm), problem.nothing
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
    bending = _over_devices(problem, _bending(state.margin_y, margin))
    needed = bending / jnp.maximum(jnp.sum(problem.bent * away**2), 1e-30)
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
    """Return the slope of the whole loss at Y (topic + 1, rubric), L1 terms included."""
    # Once a pair, not once an entry: a fused program would work it out again wherever it is looked up.
    each = jax.lax.optimization_barrier(-jax.nn.sigmoid(-state.margin_y))  # type: ignore[no-untyped-call]  # JAX's
    slope = _slopes(problem, each)
    slope = slope + problem.apart * _repeated(problem.alike, _folded(state.y))
    return _with_common(slope) + problem.cost + RIDGE * state.y


def _bending(before: jax.Array, after: jax.Array) -> jax.Array:
    """Return the most that the loss bends between two sets of margins: Σ max softplus'' · difference²."""
    nearest = jnp.where(before * after < 0, 0.0, jnp.minimum(jnp.abs(before), jnp.abs(after)))
    return jnp.sum(jax.nn.sigmoid(nearest) * jax.nn.sigmoid(-nearest) * (after - before) ** 2)


def _margins(problem: _Problem, effects: jax.Array) -> jax.Array:
    """Return Σ_k gate_k V_k · z of each pair (pair,)."""
    flat, ones = effects.ravel(), jnp.ones(problem.column.shape[-1])

    def block(number: jax.Array, found: jax.Array) -> jax.Array:
        parts = flat.at[problem.column[number]].get(mode=IN_BOUNDS) * problem.value[number]
        sums = _times(parts, ones)  # on a CPU several times as fast as a sum of what is looked up
        return found.at[problem.owner[number]].add(sums, mode=IN_BOUNDS, indices_are_sorted=True)

    return cast("jax.Array", jax.lax.fori_loop(0, problem.blocks, block, problem.nothing))


def _slopes(problem: _Problem, slope: jax.Array) -> jax.Array:
    """Return Σ_pairs slope · gate · z, (topic, rubric): the margins' transpose."""
    topics, rubrics = len(problem.apart), problem.firm.shape[1]

    def block(number: jax.Array, found: jax.Array) -> jax.Array:
        parts = slope[problem.owner[number]][:, None] * problem.value[number]
        return found.at[problem.column[number]].add(parts, mode=IN_BOUNDS)

    none = jnp.zeros(topics * rubrics)
    found = cast("jax.Array", jax.lax.fori_loop(0, problem.blocks, block, none)).reshape(topics, rubrics)
    return _over_devices(problem, found)


def _over_devices(problem: _Problem, own: jax.Array) -> jax.Array:
    """Return a sum over the pairs of all devices, of that over each one's own."""
    if problem.axis is None:
        return own
    return cast("jax.Array", jax.lax.psum(own, problem.axis))  # type: ignore[no-untyped-call]  # JAX's


def _repeated(alike: Edges | jax.Array, effects: jax.Array) -> jax.Array:
    """Return V S (topic, rubric)."""
    if isinstance(alike, Edges):
        rows = effects.T[alike.j] * alike.value[:, None]
        return jnp.zeros_like(effects.T).at[alike.i].add(rows, mode=IN_BOUNDS).T
    return _times(effects, alike)


def _times(one: jax.Array, other: jax.Array) -> jax.Array:
    return jnp.matmul(one, other, precision=jax.lax.Precision.HIGHEST)


def _folded(rows: jax.Array) -> jax.Array:
    """Return V: the topics' own effects, with the common ones added to each."""
    return rows[:-1] + rows[-1:]


def _with_common(slope: jax.Array) -> jax.Array:
    """Return slopes by V with those by the common part below: what every topic has moves with it."""
    return jnp.concatenate([slope, jnp.sum(slope, axis=0, keepdims=True)])
