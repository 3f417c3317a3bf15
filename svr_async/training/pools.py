"""Which rubrics are judged for a pair: cross-fitted pools.

A rubric mined from a pair nearly always favours that pair's chosen side, so judging a pair on its own rubrics
teaches nothing and flatters the dev split. A pool is therefore chosen as if the pair had not been mined: from rubrics
of *other* prompts, some of the most similar ones, the rest drawn from the whole bank, the often proposed and little
judged ones first. A rubric that both this prompt and others gave may be in it; leaving it out just where it holds would
keep only the evidence against it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from svr_async.errors import UsageError

Indices = NDArray[np.int32]
NEAR = 8


class PoolPolicy(StrEnum):
    """`cross`: rubrics of other prompts; `own`: those mined from the pair; `all`: the whole bank (for free judges)."""

    CROSS = "cross"
    OWN = "own"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolConfig:
    """Sizes of a pool. `near` of `size` come from similar prompts; from round 2 the selector fills half of the rest."""

    policy: PoolPolicy = PoolPolicy.CROSS
    size: int = 18
    near: int = NEAR

    @classmethod
    def of_size(cls, policy: PoolPolicy, size: int) -> PoolConfig:
        """Return a pool of this size with the usual parts: as many of similar prompts as 8 of 18 are, at most 8."""
        return cls(policy=policy, size=size, near=min(NEAR, size * 4 // 9))

    def __post_init__(self) -> None:
        if self.size < 1:
            raise UsageError(f"pool size must be >= 1 (got {self.size})")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolInputs:
    """What pools are planned from, one entry a pair. Indices are those of the bank.

    `neighbours` lists the rows of similar prompts, best first, −1 for none. `mined_of` gives the rubrics that came from
    a prompt row; `mined` are those from the pair's own prompt, `own` those from it alone. `observed` counts how often
    each rubric was proposed, `judged` are the rubrics that are judged already, `preferred` the selector's favourites,
    best first.
    """

    pair_ids: Sequence[str]
    neighbours: Indices
    mined: Sequence[Indices]
    own: Sequence[Indices]
    observed: NDArray[np.int64]
    mined_of: Callable[[int], Indices]
    judged: Sequence[Indices]
    preferred: Sequence[Indices]
    n_rubrics: int


def plan_pools(inputs: PoolInputs, config: PoolConfig, *, round_number: int) -> list[Indices]:
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
    if config.policy is PoolPolicy.OWN:
        return np.unique(inputs.mined[row])[: config.size].astype(np.int32)
    own = {int(index) for index in inputs.own[row]}
    chosen = _near(inputs, row, own, min(config.near, config.size))
    taken = own | set(chosen)
    wanted = max(0, config.size - len(chosen))
    favourites = [int(index) for index in inputs.preferred[row] if int(index) not in taken][: wanted // 2]
    taken |= set(favourites)
    rarity = (1.0 + counts) / np.sqrt(np.maximum(1, inputs.observed))
    drawn = _explore(inputs.pair_ids[row], rarity, taken, wanted - len(favourites), round_number)
    return np.array(sorted({*chosen, *favourites, *drawn}), dtype=np.int32)


def _near(inputs: PoolInputs, row: int, own: set[int], wanted: int) -> list[int]:
    """Take rubrics mined from similar prompts, the most similar first."""
    chosen: dict[int, None] = {}
    for neighbour in inputs.neighbours[row]:
        if neighbour < 0 or len(chosen) >= wanted:
            break
        chosen |= dict.fromkeys(int(index) for index in inputs.mined_of(int(neighbour)) if int(index) not in own)
    return list(chosen)[:wanted]


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
