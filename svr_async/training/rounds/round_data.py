"""What a round fits, whether it comes from a training under way or from a feature store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from svr_async.fit.arrays import FitArrays
from svr_async.training.bank.merge import Candidate


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoundData:
    """All that fit and prune read: a bank, what was judged on it, and how many boundary pairs each rubric decides.

    `support` counts, by rubric id, the support pairs and hard negatives on which the rubric favours the chosen
    response. `last` is whether no further round would judge more.
    """

    bank: tuple[Candidate, ...]
    train: FitArrays
    dev: FitArrays
    support: Mapping[str, int]
    last: bool
