"""Sparse margin problems over the same pairs, laid out for the compiled solver: gates, penalties, batches.

Shapes are rounded up to a few sizes, so that rounds and folds share one compiled program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, starmap
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.sharding import Mesh

from svr_async.fit import ragged
from svr_async.fit.mesh import LOCK, everywhere, mesh_in_use, shared_out
from svr_async.fit.sizes import roomy
from svr_async.fit.solver import BY_PAIR, Design, Edges, Task, solve_tasks
from svr_async.fit.threads import in_threads, processors

Floats = npt.NDArray[np.floating]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.integer]

SLOTS = 16  # problems that one call of the program has room for
CANDIDATES = 4  # gates that a batch has room for, at least
ROWS = 1.75  # and so many topics a pair in the mean, so that batches of the same pairs share one compiled program
BLOCK = 1024  # rows that a CPU goes through at a time: they stay near, and blocks of padding are passed over
LEAST_GATE = 0.02  # of a pair's largest; smaller ones are left out
NOTHING = 1e30  # an L1 term that keeps the common part at 0
LEAST_WIDTH = 8  # of a piece
LEAST_ROOM, LEAST_RUBRICS = 1024, 64  # pairs, pieces and edges, and rubrics, that there is room for: small fits alike
EDGE = 200  # what an edge of S costs, in places of a whole S
MOST_WHOLE = 8192  # rubrics, above which S is never whole
PIECE = 2  # what a piece costs beside its places, in places


@dataclass(frozen=True, slots=True, kw_only=True)
class Penalties:
    """What keeps the effects few and apart: L1 by topic, L1 of the common part (0: there is none), diversity δ."""

    sparsity: float
    common: float = 0.0
    diversity: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gates:
    """A few topics a pair: their numbers and gates, (pair, J) each, with rows of sum 1; an unused place has gate 0.

    `price` (topic, rubric) multiplies the L1 term of each effect (`fit.price`); None: all 1.
    """

    topic: Ints
    value: Floats
    topics: int
    price: Floats | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Which gates of a batch, and the penalties."""

    gates: int = 0
    penalties: Penalties


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """Pairs with all that problems on them choose from, on the device; sizes as they are, and as rounded up.

    With a `mesh` pairs are shared out to its devices.
    """

    design: Design
    pairs: int
    rubrics: int
    topics: tuple[int, ...]  # by gates
    room: tuple[int, int, int]  # pairs (of a device), topics and rubrics
    mesh: Mesh | None = None


def sparse_gates(dense: Floats, at_most: int | None = None, *, price: Floats | None = None) -> Gates:
    """Return the gates of each row of (pair, topic) that count, `at_most` so many, with rows of sum 1."""
    counts = dense >= np.maximum(LEAST_GATE * dense.max(axis=1, keepdims=True), np.finfo(np.float32).tiny)
    most = int(counts.sum(axis=1).max(initial=1))
    size = max(1, min(most, at_most or most))
    kept = np.where(counts, dense, 0)
    topic = np.argsort(-kept, axis=1, kind="stable")[:, :size].astype(np.int32)
    value = np.take_along_axis(kept, topic, axis=1)
    total = np.maximum(value.sum(axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return Gates(topic=topic, value=value / total, topics=dense.shape[1], price=price)


def batch_of(z: Any, gates: Sequence[Gates], *, alike: Any = None) -> Batch:
    """Lay out sparse z (pair, rubric), absent = 0, beside several gates.

    `alike` is S, sparse (rubric, rubric) with a zero diagonal; None for no diversity term.
    """
    pairs, rubrics = z.shape
    mesh = mesh_in_use(pairs)
    room = (
        roomy(pairs if mesh is None else -(-pairs // mesh.size), least=LEAST_ROOM),
        roomy(max(each.topics for each in gates)),
        roomy(rubrics, least=LEAST_RUBRICS),
    )
    price = _prices(gates, max(roomy(len(gates)), CANDIDATES), room[1:])
    whole = price, _likeness(alike, room[2])
    laid = partial(_laid_pairs, room=room[0], sizes=price.shape[:2])
    if mesh is None:
        arrays: tuple[Any, ...] = (*laid(z.tocsr(), gates), *whole)
        design = jax.device_put(Design(*arrays))
    else:
        design = _shared_out(mesh, laid, z.tocsr(), gates, whole)
    return Batch(
        design=design, pairs=pairs, rubrics=rubrics, topics=tuple(each.topics for each in gates), room=room, mesh=mesh
    )


def _laid_pairs(
    z: Any, gates: Sequence[Gates], *, room: int, sizes: tuple[int, ...], like: tuple[int, ...] = (0, 0, 0)
) -> tuple[Any, ...]:
    """Return what a design has of some pairs; `like` is a width of pieces, and how many pieces and rows at least."""
    rubric, value, owner, per_pair = _pieces(z, room, width=like[0], least=like[1])
    return rubric, value, owner, *_rows(gates, per_pair, sizes, least=like[2])


def _shared_out(mesh: Mesh, laid: Any, z: Any, gates: Sequence[Gates], whole: tuple[Any, ...]) -> Design:
    """Return the design with as many pairs in a row for each device, all in the shapes of the largest."""
    width = _width(ragged.lengths(z.indptr))
    borders = [number * z.shape[0] // mesh.size for number in range(mesh.size + 1)]
    cut = [(z[rows], [_gates_of(each, rows) for each in gates]) for rows in starmap(slice, pairwise(borders))]
    first = [laid(*part, like=(width, 0, 0)) for part in cut]
    like = width, max(len(part[0]) for part in first), max(part[3].shape[1] * part[3].shape[2] for part in first)
    by_device = [laid(*part, like=like) for part in cut]
    share = sum(part[-1] for part in by_device)
    by_pair = [np.stack([part[place] for part in by_device]) for place in range(sum(BY_PAIR))]
    return Design(
        *(jax.device_put(values, shared_out(mesh)) for values in by_pair),
        *(jax.device_put(values, everywhere(mesh)) for values in (share, *whole)),
    )


def _gates_of(gates: Gates, rows: slice) -> Gates:
    return replace(gates, topic=gates.topic[rows], value=gates.value[rows])


def compile_ahead(z: Any, topics: int, *, alike: Any = None) -> None:
    """Have the program compiled that problems on these pairs take, with so many topics (`batch_of`)."""
    pairs = z.shape[0]
    gates = Gates(topic=np.zeros((pairs, 1), np.int32), value=np.ones((pairs, 1)), topics=topics)
    _run(batch_of(z, [gates], alike=alike), [])


def solutions(batch: Batch, problems: Sequence[Problem]) -> list[Singles]:
    """Solve each problem; return V >= 0 of each, (topic, rubric) with the topics of its gates."""
    workers = processors() if jax.default_backend() == "cpu" and batch.mesh is None else 1
    calls = max(1, min(len(problems), max(workers, -(-len(problems) // SLOTS))))
    parts = [problems[first::calls] for first in range(calls)]
    out: list[Singles] = [np.zeros((0, 0), np.float32)] * len(problems)
    for first, found in enumerate(in_threads(lambda part: _run(batch, part), parts)):
        out[first::calls] = found
    return out


def _run(batch: Batch, problems: Sequence[Problem]) -> list[Singles]:
    """Solve up to `SLOTS` problems in one call of the program."""
    tasks = jax.tree.map(partial(_padded, slots=SLOTS), _tasks(batch, problems))
    pairs, topics, rubrics = batch.room
    sizes: dict[str, int] = {"pairs": pairs, "topics": topics, "rubrics": rubrics}
    if batch.mesh is None:
        held = np.asarray(solve_tasks(batch.design, tasks, jnp.int32(len(problems)), **sizes))
    else:
        with LOCK:
            held = np.asarray(solve_tasks(batch.design, tasks, jnp.int32(len(problems)), **sizes, mesh=batch.mesh))
    return [held[row, : batch.topics[each.gates], : batch.rubrics] for row, each in enumerate(problems)]


def _tasks(batch: Batch, problems: Sequence[Problem]) -> Task:
    """Return λ, λ₀ and δ of each problem: the L1 terms grow as the noise of a sum over the pairs does."""
    noise = batch.pairs**0.5
    parts = np.array([batch.topics[each.gates] ** 0.5 for each in problems])
    common = np.array([each.penalties.common for each in problems])
    numbers: dict[str, Any] = {
        "gates": np.array([each.gates for each in problems], np.int32),
        "own": np.array([each.penalties.sparsity for each in problems]) * noise / parts,
        "common": np.where(common > 0, common * noise, NOTHING),
        "diversity": np.array([each.penalties.diversity for each in problems]),
    }
    return Task(**numbers)


def _padded(values: npt.NDArray[Any], *, slots: int) -> npt.NDArray[Any]:
    """Return numbers of `slots` problems, those past the end 0 and never solved."""
    dtype = np.int32 if values.dtype.kind == "i" else np.float32
    return np.concatenate([values, np.zeros(slots - len(values))]).astype(dtype)


def _rows(
    gates: Sequence[Gates], per_pair: Ints, room: tuple[int, ...], *, least: int = 0
) -> tuple[Ints, Ints, Singles, Ints, Singles]:
    """Return piece, topic and gate of every gate that is not 0 (candidate, block, row), by pairs.

    The last two are how many blocks each candidate needs, and the sums of gates by topic (candidate, topic).
    `per_pair` is how many pieces each pair has, `room` how many candidates and topics there is room for, `least` how
    many rows there are at least.
    """
    held = [_laid_out(each, per_pair) for each in gates]
    pieces, most = int(per_pair.sum()), max(len(piece) for piece, _, _ in held)
    rows = roomy(max(most, least, int(ROWS * pieces) if room[1] > 1 else 0), least=BLOCK)
    block = min(rows, BLOCK) if jax.default_backend() == "cpu" else rows
    size = room[0], -(-rows // block), block
    piece, topic, gate = np.full(size, pieces - 1, np.int32), np.zeros(size, np.int32), np.zeros(size, np.float32)
    share, blocks = np.zeros(room, np.float32), np.zeros(room[0], np.int32)
    for number, (each, (own, topics, values)) in enumerate(zip(gates, held, strict=True)):
        for whole, part in ((piece, own), (topic, topics), (gate, values)):
            whole[number].ravel()[: len(own)] = part
        share[number, : each.topics] = np.bincount(each.topic.ravel(), each.value.ravel(), minlength=each.topics)
        blocks[number] = -(-len(own) // block)
    return piece, topic, gate, blocks, share


def _laid_out(gates: Gates, per_pair: Ints) -> tuple[Ints, Ints, Floats]:
    """Return the piece, topic and gate of each piece and gate that is not 0, in the order of pairs."""
    pair, place = np.nonzero(gates.value)
    first = np.cumsum(per_pair) - per_pair
    times = per_pair[pair]
    borders = ragged.indptr_of(times)
    within = np.arange(borders[-1]) - np.repeat(borders[:-1], times)
    row = np.repeat(np.arange(len(pair)), times)
    return first[pair][row] + within, gates.topic[pair, place][row], gates.value[pair, place][row]


def _prices(gates: Sequence[Gates], candidates: int, room: tuple[int, ...]) -> Singles:
    """Return the price of each effect by candidate (candidate, topic, rubric), 1 where none is known."""
    out = np.ones((candidates, *room), np.float32)
    for number, each in enumerate(gates):
        if each.price is not None:
            out[number, : each.price.shape[0], : each.price.shape[1]] = each.price
    return out


def _pieces(z: Any, pairs: int, *, width: int = 0, least: int = 0) -> tuple[Ints, Singles, Ints, Ints]:
    """Cut the rows of sparse z into pieces: rubric and z (piece, width), 0 where padded, and the pair of each.

    The last is how many pieces each pair has. A `width` of 0 is the one that costs least; there are `least` pieces.
    """
    width = width or _width(ragged.lengths(z.indptr))
    borders, per_row = ragged.pieces(z.indptr, width)
    owner = np.repeat(np.arange(len(per_row)), per_row)
    spare = roomy(max(least, len(owner)), least=LEAST_ROOM) - len(owner)
    borders = np.append(borders, np.full(spare, borders[-1]))
    rubric = ragged.padded(borders, z.indices.astype(np.int32), fill=0, width=width)
    value = ragged.padded(borders, z.data.astype(np.float32), fill=0, width=width)
    return rubric, value, np.append(owner, np.full(spare, pairs - 1)).astype(np.int32), per_row


def _width(counts: Ints) -> int:
    """Return the width of pieces that costs least: padding, and `PIECE` places for each piece."""
    longest = roomy(int(counts.max(initial=LEAST_WIDTH)))
    widths = sorted({roomy(width) for width in range(LEAST_WIDTH, longest + 1)})
    costs = [int(np.maximum(1, -(-counts // width)).sum()) * (width + PIECE) for width in widths]
    return widths[int(np.argmin(costs))]


def _likeness(alike: Any, rubrics: int) -> Edges | Singles:
    """Return S as edges, or whole where a product with all of it takes less time."""
    from scipy.sparse import coo_matrix

    found = coo_matrix((rubrics, rubrics)) if alike is None else alike.tocoo()
    if found.nnz * EDGE > rubrics**2 and rubrics <= MOST_WHOLE:
        spare = rubrics - found.shape[0]
        return cast("Singles", np.pad(found.toarray(), (0, spare)).astype(np.float32))
    spare = (0, roomy(found.nnz, least=LEAST_ROOM) - found.nnz)
    i, j, value = (np.pad(part, spare) for part in (found.row, found.col, found.data))
    parts: tuple[Any, ...] = (i.astype(np.int32), j.astype(np.int32), value.astype(np.float32))
    return Edges(*parts)
