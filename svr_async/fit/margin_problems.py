"""Sparse margin problems: which few rubrics decide per topic, and how much, for fixed mixture weights.

    min_{W, c >= 0}  Σ_pairs softplus(−Σ_k mixture_k V_k · z)  +  λ Σ W  +  λ₀ Σ c  +  μ/2 (Σ W² + Σ c²)
    V_k = W_k + c
    λ = sparsity · √(pairs / topics) · price,   λ₀ = common · √pairs

With fixed mixture weights the preference loss of the paper (sec:margin) is convex in the effects, so it is solved, not
descended (`fit.margin_solver`). The L1 terms grow as the noise of a sum does: a rubric enters a topic if its evidence
there exceeds chance. c is the part that all topics share. `price` is lower for criteria that the topic's prompts gave.

Shapes are padded to a few sizes, so that rounds and folds share one compiled program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from svr_async.fit import ragged
from svr_async.fit.margin_solver import Dense, Design, Pieces, Task, solve_tasks
from svr_async.fit.threads import in_threads, processors

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Penalties:
    """L1 terms in units of noise: by topic, and of the common part (0: no common part)."""

    sparsity: float
    common: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """Mixture weights (pair, topic), few per row, rows of sum 1; penalties; `price` (topic, rubric), None for all 1."""

    mixture: Floats
    penalties: Penalties
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
    workers = processors() if jax.default_backend() == "cpu" else 1
    calls = max(1, min(len(problems), max(workers, -(-len(problems) // SLOTS))))
    out: list[Floats] = [np.zeros((0, 0))] * len(problems)

    def run(part: Sequence[Problem]) -> list[Floats]:
        tasks = _tasks(z.shape[0], part, [place[id(each.mixture)] for each in part])
        found = np.asarray(solve_tasks(design, tasks, jnp.int32(len(part)), **_named(room)), np.float64)
        return [found[row, : each.mixture.shape[1], : z.shape[1]] for row, each in enumerate(part)]

    parts = [problems[first::calls] for first in range(calls)]
    for first, found in enumerate(in_threads(run, parts)):
        out[first::calls] = found
    return out


def _named(room: tuple[int, int, int]) -> dict[str, int]:
    return dict(zip(("pairs", "topics", "rubrics"), room, strict=True))


def _tasks(pairs: int, problems: Sequence[Problem], mixture: Sequence[int]) -> Task:
    """Return λ and λ₀ of each problem: the L1 terms grow as the noise of a sum over the pairs does."""
    noise = pairs**0.5
    topics = np.array([each.mixture.shape[1] ** 0.5 for each in problems])
    own = np.array([each.penalties.sparsity for each in problems]) * noise / topics
    common = np.array([each.penalties.common for each in problems])
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
