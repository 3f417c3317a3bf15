"""Which rubrics are judged for a pair: those that its kind of prompts gave, and a few of all.

A judgement tells most where the rubric sets responses apart. Prompts are grouped by their words and by what was mined
from them (`fit.grouping`); a pool takes what the pair's groups gave most often, and draws the rest from the whole bank,
the often proposed and little judged first. With the rubrics that matter to a pair judged together, what one of them
explains is not noise to the others: the same number of judgements drawn from all over the bank teaches half as much.

A rubric that no other prompt gave is left out of the pool of the pair that gave it: judging it there is no evidence.
One that both this prompt and others gave may be in it; leaving it out just where it holds would keep only the evidence
against it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from svr_async.errors import UsageError

Indices = NDArray[np.int32]
USUAL_SIZE = 18
ENOUGH = 36_000  # judgements of all pairs that a round aims at
EXPLORED = 5  # a fifth of a pool is drawn from the whole bank


class PoolPolicy(StrEnum):
    """`cross`: rubrics of other prompts; `own`: those mined from the pair; `all`: the whole bank (for free judges)."""

    CROSS = "cross"
    OWN = "own"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolConfig:
    """Which rubrics, and how many a pair in a round; None for `USUAL_SIZE`, and more where pairs are few."""

    policy: PoolPolicy = PoolPolicy.CROSS
    size: int | None = None

    def __post_init__(self) -> None:
        if self.size is not None and self.size < 1:
            raise UsageError(f"pool size must be >= 1 (got {self.size})")

    def size_for(self, n_pairs: int) -> int:
        """Return how many rubrics each of so many pairs is judged on in a round.

        Where pairs are few, each is judged on more: `ENOUGH` judgements in all, up to three times the usual size.
        """
        return self.size or min(3 * USUAL_SIZE, max(USUAL_SIZE, ENOUGH // max(1, n_pairs)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolInputs:
    """What pools are planned from, one entry a pair. Indices are those of the bank.

    `likely` lists the rubrics that the pair's kind of prompts gives, the most often first; `mined` are those from the
    pair's own prompt, `own` those from it alone. `observed` counts how often each rubric was proposed, `judged` are the
    rubrics that are judged already, `preferred` the selector's favourites, best first.
    """

    pair_ids: Sequence[str]
    likely: Sequence[Indices]
    mined: Sequence[Indices]
    own: Sequence[Indices]
    observed: NDArray[np.int64]
    judged: Sequence[Indices]
    preferred: Sequence[Indices]
    n_rubrics: int


def choose_pools(inputs: PoolInputs, config: PoolConfig, *, round_number: int) -> list[Indices]:
    """Return the rubrics to judge now for each pair, in rising order; those judged already are left out.

    Deterministic: draws depend on (pair id, round) and on how often the pairs before it drew a rubric.
    """
    counts = np.zeros(inputs.n_rubrics, dtype=np.int64)
    for known in inputs.judged:
        counts[known] += 1
    pools = []
    for row in range(len(inputs.pair_ids)):
        pool = _pool_of(inputs, config, row, counts, round_number)
        fresh = np.setdiff1d(pool, inputs.judged[row]).astype(np.int32)
        counts[fresh] += 1
        pools.append(fresh)
    return pools


def _pool_of(inputs: PoolInputs, config: PoolConfig, row: int, counts: NDArray[np.int64], round_number: int) -> Indices:
    if config.policy is PoolPolicy.ALL:
        return np.arange(inputs.n_rubrics, dtype=np.int32)
    size = config.size_for(len(inputs.pair_ids))
    if config.policy is PoolPolicy.OWN:
        return np.unique(inputs.mined[row])[:size].astype(np.int32)
    barred = {int(index) for index in inputs.own[row]}
    drawn = -(-size // EXPLORED)
    chosen = _taken([*_halves(inputs.preferred[row], inputs.likely[row], size)], barred, size - drawn)
    rarity = (1.0 + counts) / np.sqrt(np.maximum(1, inputs.observed))
    explored = _explore(inputs.pair_ids[row], rarity, barred | set(chosen), size - len(chosen), round_number)
    return np.array(sorted({*chosen, *explored}), dtype=np.int32)


def _halves(preferred: Indices, likely: Indices, size: int) -> Sequence[int]:
    """Return the selector's favourites, up to half a pool of them, then what the kind of prompts gives."""
    return [*preferred[: size // 2].tolist(), *likely.tolist()]


def _taken(wanted: Sequence[int], barred: set[int], count: int) -> list[int]:
    """Return the first different ones that are not barred."""
    return list(dict.fromkeys(index for index in wanted if index not in barred))[:count]


def _explore(pair_id: str, slowness: NDArray[np.float64], taken: set[int], wanted: int, round_number: int) -> list[int]:
    """Draw rubrics without replacement with odds 1 / `slowness`, by exponential clocks."""
    if wanted <= 0:
        return []
    digest = hashlib.blake2b(f"pool\x1f{round_number}\x1f{pair_id}".encode("utf-8", "replace"), digest_size=8).digest()
    clocks = np.random.default_rng(int.from_bytes(digest, "big")).exponential(size=len(slowness)) * slowness
    clocks[list(taken)] = np.inf
    wanted = min(wanted, len(slowness) - len(taken))
    if wanted <= 0:
        return []
    return [int(index) for index in np.argpartition(clocks, wanted - 1)[:wanted]]
