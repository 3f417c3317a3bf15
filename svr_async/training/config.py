"""The settings of Algorithm 1; the paper's (table in `app:hparams`) unless a comment says otherwise."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from svr_async.errors import UsageError
from svr_async.fit.config import DEFAULT, FitConfig
from svr_async.training.merge import BANK_CAP, MERGE_CUTOFF
from svr_async.training.pools import PoolConfig
from svr_async.vocabulary.similarity import REDUNDANCY_CUTOFF

ABLATIONS = ("induction", "support", "probe", "diversity")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """Settings of a training run.

    `ablate` leaves parts out: `induction` describes good responses instead of contrasting two, `support` draws pairs
    at random instead of by margin, `probe` uses only the data's own responses, `diversity` drops that loss term.
    `top_k_choices` are compared on the dev split where there is more than one.
    """

    rounds: int = 3
    dev_share: float = 0.05  # read off the authors' public code
    split_seed: int = 42  # the same source
    fit: FitConfig = field(default_factory=lambda: DEFAULT)
    pools: PoolConfig = field(default_factory=PoolConfig)
    support_margin: float = 0.2
    max_support: int = 1024
    support_share: float = 0.1  # ours, for `topics`: at most this share of the pairs, or 64; each costs a probe
    min_weight: float = 0.08
    min_activation: float = 0.01
    enough_judged: int = 400  # ours: judgements before a rubric may be pruned in a round that is not the last
    several: int = 3  # ours: proposals that make a rubric worth that patience
    merge_cutoff: float = MERGE_CUTOFF
    redundancy_cutoff: float = REDUNDANCY_CUTOFF
    bank_cap: int = BANK_CAP
    same_response: float = 0.98  # ours: a probe this similar to the chosen response is discarded
    top_k_choices: tuple[int, ...] = (6,)
    selection_pool: int = 18
    filler_weights: tuple[float, ...] = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)  # ours: the paper has 1; chosen on dev
    ablate: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise UsageError(f"rounds must be >= 1 (got {self.rounds})")
        if not 0 < self.dev_share < 1:
            raise UsageError(f"dev_share must lie between 0 and 1 (got {self.dev_share:g})")
        if not 0 < self.support_share <= 1:
            raise UsageError(f"support_share must lie above 0 and at most at 1 (got {self.support_share:g})")
        unknown = sorted(self.ablate - set(ABLATIONS))
        if unknown:
            raise UsageError(f"there is no part {unknown[0]!r} to ablate", hint=f"there are {', '.join(ABLATIONS)}")

    def as_json(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return {**asdict(self), "ablate": sorted(self.ablate)}
