"""The settings of Algorithm 1 and its two presets: what the paper says, and what measured better.

A number without a comment is the paper's (table in `app:hparams`); docs/fit.md has the whole table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal

from svr_async.core.similarity import REDUNDANCY_CUTOFF
from svr_async.core.verdict import is_whole
from svr_async.errors import UsageError
from svr_async.fit import config as fits
from svr_async.fit.config import FitConfig
from svr_async.training.bank.merge import BANK_CAP, MERGE_CUTOFF

ABLATIONS = ("induction", "support", "probe", "diversity")
Publish = Literal["auto", "last", "best"]
Unmined = Literal["random", "every"]


USUAL_SIZE = 18
ENOUGH = 36_000  # judgements of all pairs that a round aims at


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
class TrainConfig:
    """Settings of a training run.

    `ablate` leaves parts out: `induction` describes good responses instead of contrasting two, `support` does not
    choose pairs by margin, `probe` uses only the data's own responses, `diversity` drops that loss term.
    `without_support` says what stands for the support pairs then: as many at `random`, or `every` training pair.
    `publish` says which round's bank is published (`dev_choice.chosen_round`). `top_k_choices` are compared on the dev
    split where there is more than one. Where a comment says "ours", `PAPER` has what the text says instead.
    """

    rounds: int = 3
    all_rounds: bool = False  # ours: training ends early where a round finds nothing new; Algorithm 1 does not
    publish: Publish = "auto"  # ours; Algorithm 1 returns the bank of its last round
    dev_share: float = 0.05  # sec:exp
    split_seed: int = 42  # read off the authors' public code
    fit: FitConfig = field(default_factory=lambda: fits.DEFAULT)
    pools: PoolConfig = field(default_factory=PoolConfig)
    support_margin: float = 0.2
    max_support: int = 1024
    support_share: float = 0.1  # ours: at most this share of the pairs, or 64; each costs a probe
    support_by_kind: bool = True  # ours: pairs of the kinds of prompts that fail most often come first
    without_support: Unmined = "random"  # ours; the paper's ablation takes every pair (sec:analysis_ablation)
    every_near: bool = True  # ours: all candidates with margin <= tau are hard negatives, not the hardest alone
    keep_negatives: bool = True  # ours: hard negatives of earlier rounds stay; in Algorithm 1 they are replaced
    min_weight: float = 0.08
    min_activation: float = 0.01
    idle_weight_counts: bool = False  # ours: a weight keeps no rubric that is never active
    enough_judged: int = 400  # ours: judgements before a rubric may be pruned in a round that is not the last
    several: int = 3  # ours: proposals of a rubric from which on that holds for it
    merge_cutoff: float = MERGE_CUTOFF
    redundancy_cutoff: float = REDUNDANCY_CUTOFF
    by_text_alone: bool = False  # ours: different criteria (`distinct`) stay two, however alike their texts are
    bank_cap: int = BANK_CAP
    same_response: float = 0.98  # ours: a probe this similar to the chosen response is discarded
    top_k_choices: tuple[int, ...] = (6,)
    selection_pool: int = 18
    filler_weights: tuple[float, ...] = (0.0,)  # ours: places that no rubric is due stay empty; the paper has 1
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


PAPER = TrainConfig(
    all_rounds=True,
    publish="last",
    fit=fits.PAPER,
    support_share=1.0,
    support_by_kind=False,
    without_support="every",
    every_near=False,
    keep_negatives=False,
    idle_weight_counts=True,
    enough_judged=0,
    by_text_alone=True,
    filler_weights=(1.0,),
)
PRESETS = MappingProxyType({"paper": PAPER, "default": TrainConfig()})


FREE_TOP_K = 256  # a free judge may use all that have a weight; that were some 230 of 492 (docs/fit.md)


@dataclass(frozen=True, slots=True, kw_only=True)
class FitTerms:
    """What decides, beside the data, which bank comes of a fit: `svr train` and `svr-fit` take it from here alike.

    `top_k` of None is what the preset says, or 256 where judging is `free`. `round` is the round of a training, 0 where
    there was none; `last` whether no further round would judge more (what is pruned before the last round does not
    come back).
    ValueError for a value that no training has.
    """

    preset: str = "default"
    seed: int = 42
    top_k: int | None = None
    free: bool = False
    ablate: tuple[str, ...] = ()
    round: int = 0
    last: bool = True

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise ValueError(f"preset must be one of {', '.join(PRESETS)} (got {str(self.preset)[:40]!r})")
        _require_whole("seed", self.seed, 0)
        _require_whole("round", self.round, 0)
        if self.top_k is not None:
            _require_whole("top_k", self.top_k, 1)
        if not isinstance(self.free, bool) or not isinstance(self.last, bool):
            raise ValueError("free and last must be true or false")
        if unknown := sorted(set(self.ablate) - set(ABLATIONS)):
            raise ValueError(f"ablate must name some of {', '.join(ABLATIONS)} (got {unknown[0][:40]!r})")

    def as_json(self) -> dict[str, Any]:
        """Return the terms as plain values."""
        return {**asdict(self), "ablate": list(self.ablate)}


def _require_whole(name: str, value: Any, least: int, most: int = (1 << 32) - 1) -> None:
    if not is_whole(value, least) or value > most:
        raise ValueError(f"{name} must be a whole number in {least}..{most} (got {str(value)[:40]!r})")


def terms_from_json(value: Any) -> FitTerms:
    """Read what `as_json` wrote; ValueError says what is wrong with it."""
    if not isinstance(value, Mapping):
        raise ValueError("the plan must be an object")
    known = {field.name for field in fields(FitTerms)}
    if unknown := sorted(set(map(str, value)) - known):
        raise ValueError(f"the plan has an unknown setting {unknown[0][:40]!r}")
    ablate = value.get("ablate", [])
    if not isinstance(ablate, list) or not all(isinstance(name, str) for name in ablate):
        raise ValueError("the plan's ablate must be a list of texts")
    return FitTerms(**{**value, "ablate": tuple(ablate)})


def config_of(terms: FitTerms) -> TrainConfig:
    """Return the settings of fit, prune, calibration and choice that the terms stand for."""
    preset = PRESETS[terms.preset]
    ours = terms.free and preset.fit.kind == "topics"  # what is ours for a free judge is in the default preset only
    top_k = terms.top_k or (FREE_TOP_K if ours else None)
    fit = replace(preset.fit, seed=terms.seed)
    if top_k is not None:
        fit = replace(fit, top_ks=(top_k,), top_k=None if fit.top_k is None else top_k)
    return replace(
        preset,
        split_seed=terms.seed,
        fit=fit,
        top_k_choices=preset.top_k_choices if top_k is None else (top_k,),
        ablate=frozenset(terms.ablate),
    )
