"""Sparse margin problems: which few rubrics decide per topic, and how much, for fixed mixture weights.

    min_{W, c >= 0}  Σ_pairs softplus(−Σ_k mixture_k V_k · z)  +  λ Σ W  +  λ₀ Σ c  +  μ/2 (Σ W² + Σ c²)
    V_k = W_k + c
    λ = sparsity · √(pairs / topics) · price,   λ₀ = common · √pairs

With fixed mixture weights the preference loss of the paper (sec:margin) is convex in the effects, so it is solved, not
descended. The L1 terms grow as the noise of a sum does: a rubric enters a topic if its evidence there exceeds chance.
c is the part that all topics share. `price` is lower for criteria that the topic's prompts gave. Accelerated projected
steps, many problems in one JAX program; shapes are padded to a few sizes, so that rounds and folds share it:

    X ← max(0, Y − ∇f(Y) / D),     Y ← X + β (X − previous X)
    D = τ · ¼ Σ_pairs (mixture z)²  +  μ

Effects are at least 0, so the L1 terms are linear: a proximal step is a gradient step and optax's projection, and
zeros are exact. D is each coordinate's own curvature, so large topics, small ones and the common part move at their own
pace. τ, how far coordinates act together, is found by backtracking: a step is undone if the loss bends more along it
than D allows, and τ falls after accepted steps.
β is FISTA's momentum (Beck and Teboulle 2009), restarted where it points uphill (O'Donoghue and Candès 2015).

Problems are solved one after another inside the program, each from 0 until it converges. CPU and GPU run the same code.
On a CPU the same inputs give the same bytes; a GPU adds in any order, so last digits may differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax  # type: ignore[import-untyped]  # it ships no types

from svr_async.fit import ragged
from svr_async.fit.ragged import in_threads, processors

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]

SLOTS = 16  # problems per call of the program
CANDIDATES = 4  # mixture weights that a batch has room for, at least
TOPICS_PER_PAIR = 1.75  # room for the mean, so that batches of the same pairs share one compiled program
BLOCK = 1024  # rows that a CPU processes at a time: they stay in cache, and blocks of padding are skipped
NOTHING = 1e30  # an L1 term that keeps the common part at 0
LEAST_WIDTH = 8  # of a piece
LEAST_ROOM, LEAST_RUBRICS = 1024, 64  # smallest padded sizes, so that small fits share programs
PIECE_COST = 2  # cost of a piece besides its places, in places
DENSE = 0.25  # share of judged entries from which matrix products are faster than lookups
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


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Mixture weights (pair, topic), few per row, rows of sum 1; L1 terms in units of noise; `price` (topic, rubric).

    `sparsity` is by topic, `common` of the common part (0: no common part). `price` None is 1 everywhere.
    """

    mixture: Floats
    sparsity: float
    common: float = 0.0
    price: Floats | None = None


def pad_to_bucket(size: int, *, least: int = 1) -> int:
    """Round a size up to three binary digits, so at most by a quarter; at least `least`."""
    step = 1 << max(0, size.bit_length() - 3)
    return max(least, -(-size // step) * step)


def solve(z: Any, problems: Sequence[Problem]) -> list[Floats]:
    """Return V >= 0 of each problem (topic, rubric), all on the same sparse `z` (pair, rubric), absent = 0.

    Problems that share the same `mixture` array share one copy of the data.
    """
    distinct = {id(each.mixture): each for each in problems}
    place = {key: number for number, key in enumerate(distinct)}
    candidates = list(distinct.values())
    room = (
        pad_to_bucket(z.shape[0], least=LEAST_ROOM),
        pad_to_bucket(max(each.mixture.shape[1] for each in candidates)),
        pad_to_bucket(z.shape[1], least=LEAST_RUBRICS),
    )
    design = jax.device_put(_design(z.tocsr(), candidates, room))
    sizes = dict(zip(("pairs", "topics", "rubrics"), room, strict=True))
    workers = processors() if jax.default_backend() == "cpu" else 1
    calls = max(1, min(len(problems), max(workers, -(-len(problems) // SLOTS))))
    out: list[Floats] = [np.zeros((0, 0))] * len(problems)

    def run(part: Sequence[Problem]) -> list[Floats]:
        tasks = _tasks(z.shape[0], part, [place[id(each.mixture)] for each in part])
        found = np.asarray(solve_tasks(design, tasks, jnp.int32(len(part)), **sizes), np.float64)
        return [found[row, : each.mixture.shape[1], : z.shape[1]] for row, each in enumerate(part)]

    parts = [problems[first::calls] for first in range(calls)]
    for first, found in enumerate(in_threads(run, parts)):
        out[first::calls] = found
    return out


def _tasks(pairs: int, problems: Sequence[Problem], mixture: Sequence[int]) -> Task:
    """Return λ and λ₀ of each problem: the L1 terms grow as the noise of a sum over the pairs does."""
    noise = pairs**0.5
    topics = np.array([each.mixture.shape[1] ** 0.5 for each in problems])
    own = np.array([each.sparsity for each in problems]) * noise / topics
    common = np.array([each.common for each in problems])
    spare = (0, SLOTS - len(problems))
    return Task(
        mixture=jnp.asarray(np.pad(np.array(mixture, np.int32), spare)),
        own=jnp.asarray(np.pad(own, spare), jnp.float32),
        common=jnp.asarray(np.pad(np.where(common > 0, common * noise, NOTHING), spare), jnp.float32),
    )


def _design(z: Any, candidates: Sequence[Problem], room: tuple[int, int, int]) -> Design:
    """Lay out the entries, and the mixture weights and prices of each candidate."""
    count = max(pad_to_bucket(len(candidates)), CANDIDATES)
    share, price = np.zeros((count, room[1]), np.float32), np.ones((count, *room[1:]), np.float32)
    for number, each in enumerate(candidates):
        share[number, : each.mixture.shape[1]] = each.mixture.sum(axis=0)
        if each.price is not None:
            price[number, : each.price.shape[0], : each.price.shape[1]] = each.price
    dense = z.nnz > DENSE * z.shape[0] * z.shape[1]
    entries = _dense(z, candidates, room, count) if dense else _pieces(z, candidates, room, count)
    return Design(entries, share, price)  # type: ignore[arg-type]  # NumPy's arrays, until they are on the device


def _dense(z: Any, candidates: Sequence[Problem], room: tuple[int, int, int], count: int) -> Dense:
    values, mixture = np.zeros((room[0], room[2]), np.float32), np.zeros((count, *room[:2]), np.float32)
    values[: z.shape[0], : z.shape[1]] = z.toarray()
    for number, each in enumerate(candidates):
        mixture[number, : each.mixture.shape[0], : each.mixture.shape[1]] = each.mixture
    return Dense(values, mixture)  # type: ignore[arg-type]


def _pieces(z: Any, candidates: Sequence[Problem], room: tuple[int, int, int], count: int) -> Pieces:
    """Cut the rows of z into pieces, and lay out one row per piece and mixture weight that is not 0."""
    width = _width(ragged.lengths(z.indptr))
    borders, per_pair = ragged.pieces(z.indptr, width)
    owner = np.repeat(np.arange(len(per_pair)), per_pair)
    spare = pad_to_bucket(len(owner), least=LEAST_ROOM) - len(owner)
    borders = np.append(borders, np.full(spare, borders[-1]))
    held = [_rows(each.mixture, per_pair) for each in candidates]
    most = max(len(piece) for piece, _, _ in held)
    rows = pad_to_bucket(max(most, int(TOPICS_PER_PAIR * len(owner)) if room[1] > 1 else 0), least=BLOCK)
    block = min(rows, BLOCK) if jax.default_backend() == "cpu" else rows
    size = count, -(-rows // block), block
    piece, topic = np.full(size, len(owner) - 1, np.int32), np.zeros(size, np.int32)
    mixture, blocks = np.zeros(size, np.float32), np.zeros(count, np.int32)
    for number, (own, topics, values) in enumerate(held):
        for whole, part in ((piece, own), (topic, topics), (mixture, values)):
            whole[number].ravel()[: len(own)] = part
        blocks[number] = -(-len(own) // block)
    laid: dict[str, Any] = {
        "rubric": ragged.padded(borders, z.indices.astype(np.int32), fill=0, width=width),
        "z": ragged.padded(borders, z.data.astype(np.float32), fill=0, width=width),
        "owner": np.append(owner, np.full(spare, room[0] - 1)).astype(np.int32),
        "piece": piece,
        "topic": topic,
        "mixture": mixture,
        "blocks": blocks,
    }
    return Pieces(**laid)


def _rows(mixture: Floats, per_pair: Ints) -> tuple[Ints, Ints, Floats]:
    """Return the piece, topic and weight of each piece and mixture weight that is not 0, in the order of pairs."""
    pair, topic = np.nonzero(mixture)
    first = np.cumsum(per_pair) - per_pair
    times = per_pair[pair]
    borders = ragged.indptr_of(times)
    within = np.arange(borders[-1]) - np.repeat(borders[:-1], times)
    row = np.repeat(np.arange(len(pair)), times)
    return first[pair][row] + within, topic[row], mixture[pair, topic][row]


def _width(counts: Ints) -> int:
    """Return the width of pieces that costs least: padding, plus `PIECE_COST` places for each piece."""
    longest = pad_to_bucket(int(counts.max(initial=LEAST_WIDTH)))
    widths = sorted({pad_to_bucket(width) for width in range(LEAST_WIDTH, longest + 1)})
    costs = [int(np.maximum(1, -(-counts // width)).sum()) * (width + PIECE_COST) for width in widths]
    return widths[int(np.argmin(costs))]


# ── the program ─────────────────────────────────────────────────────────────────────────────────────────────────────


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


_times = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)


def _folded(rows: jax.Array) -> jax.Array:
    """Return V: each topic's own effects plus the common ones."""
    return rows[:-1] + rows[-1:]
