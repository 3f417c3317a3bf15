"""The settings of Algorithm 1 and its two presets: the paper's, and one that measured better.

A number without a comment is the paper's (table in `app:hparams`); docs/fit.md has the whole table.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from svr_async.core.similarity import REDUNDANCY_CUTOFF
from svr_async.errors import UsageError
from svr_async.fit import config as fits
from svr_async.fit.config import FitConfig
from svr_async.training.bank.merge import BANK_CAP, MERGE_CUTOFF

MOST_SEED = (1 << 32) - 1
ABLATIONS = ("induction", "support", "probe", "diversity")
Pool = Literal["cross", "own", "all"]
Publish = Literal["auto", "last", "best"]
SameCriterion = Literal["author", "text", "off"]
USUAL_POOL = 18
ENOUGH = 36_000  # judgements of all pairs that a round aims at


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """Settings of a training run. Where a comment says "ours", `PAPER` has what the text says instead.

    `ablate` leaves parts out: `induction` describes good responses instead of contrasting two, `support` does not
    choose pairs by margin, `probe` uses only the data's own responses, `diversity` drops that loss term.
    `without_support` says what stands for the support pairs then: as many at `random`, or `every` training pair. A
    `pool` holds rubrics of other prompts (`cross`), those mined from the pair (`own`), or the whole bank (`all`, for
    free judges). `publish` says which round's bank is published (`publish.chosen_round`).
    """

    rounds: int = 3
    all_rounds: bool = False  # ours: training ends early where a round finds nothing new; Algorithm 1 does not
    publish: Publish = "auto"  # ours; Algorithm 1 returns the bank of its last round
    dev_share: float = 0.05  # sec:exp
    split_seed: int = 42  # read off the authors' public code
    fit: FitConfig = field(default_factory=lambda: fits.DEFAULT)
    pool: Pool = "cross"
    pool_size: int | None = None  # rubrics a pair in a round; None for `USUAL_POOL`, and more where pairs are few
    support_margin: float = 0.2
    max_support: int = 1024
    support_share: float = 0.1  # ours: at most this share of the pairs, or 64; each costs a probe
    support_by_cluster: bool = True  # ours: pairs of the prompt clusters that fail most often come first
    without_support: Literal["random", "every"] = "random"  # ours; the paper takes every pair (sec:analysis_ablation)
    every_near: bool = True  # ours: all candidates with margin <= tau are hard negatives, not the hardest alone
    keep_negatives: bool = True  # ours: hard negatives of earlier rounds stay; in Algorithm 1 they are replaced
    min_weight: float = 0.08
    min_activation: float = 0.01
    idle_weight_counts: bool = False  # ours: a weight keeps no rubric that is never active
    enough_judged: int = 400  # ours: judgements before a rubric may be pruned in a round that is not the last
    several: int = 3  # ours: proposals of a rubric from which on that holds for it
    merge_cutoff: float = MERGE_CUTOFF
    redundancy_cutoff: float = REDUNDANCY_CUTOFF
    same_criterion: SameCriterion = "text"  # ours; `TrainSettings` has `author` where a model writes
    by_text_alone: bool = False  # ours: different criteria (`bank.criteria`) stay two, however alike their texts are
    bank_cap: int = BANK_CAP
    same_response: float = 0.98  # ours: a probe this similar to the chosen response is discarded
    top_k: int = 6  # the default's fit chooses its own, by cross-validation among `fit.top_ks`
    selection_pool: int = 18
    filler_weight: float = 0.0  # ours: places that no rubric is due stay empty; the paper has 1
    ablate: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name in ("rounds", "pool_size"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise UsageError(f"{name} must be >= 1 (got {value})")
        if not 0 < self.dev_share < 1:
            raise UsageError(f"dev_share must lie between 0 and 1 (got {self.dev_share:g})")

    def pool_size_for(self, n_pairs: int) -> int:
        """Return how many rubrics each of `n_pairs` is judged on in a round.

        Where pairs are few, each is judged on more: `ENOUGH` judgements in all, up to three times the usual size.
        """
        return self.pool_size or min(3 * USUAL_POOL, max(USUAL_POOL, ENOUGH // max(1, n_pairs)))

    def as_json(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return {**asdict(self), "ablate": sorted(self.ablate)}


PAPER = TrainConfig(
    all_rounds=True,
    publish="last",
    fit=fits.PAPER,
    support_share=1.0,
    support_by_cluster=False,
    without_support="every",
    every_near=False,
    keep_negatives=False,
    idle_weight_counts=True,
    enough_judged=0,
    same_criterion="off",
    by_text_alone=True,
    filler_weight=1.0,
)
PRESETS = MappingProxyType({"paper": PAPER, "default": TrainConfig()})
FREE_TOP_K = 256  # a free judge may use all that have a weight; that were some 230 of 492 (docs/fit.md)


@dataclass(frozen=True, slots=True, kw_only=True)
class FitTerms:
    """What decides, together with the data, which bank a fit gives: `svr train` and `svr-fit` both take it from here.

    `top_k` of None is the preset's, or 256 if judging is `free`. `round` is the round of a training, 0 outside of one;
    `last` is whether no further round would judge more. ValueError for a value that no training has.
    """

    preset: str = "default"
    seed: int = 42
    top_k: int | None = None
    free: bool = False
    ablate: tuple[str, ...] = ()
    same_criterion: SameCriterion | None = None  # the preset's
    round: int = 0
    last: bool = True

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise ValueError(f"preset must be one of {', '.join(PRESETS)} (got {self.preset[:40]!r})")
        for name, least in (("seed", 0), ("round", 0), ("top_k", 1)):
            value = getattr(self, name)
            if value is not None and not least <= value <= MOST_SEED:
                raise ValueError(f"{name} must be a whole number in {least}..{MOST_SEED} (got {value})")
        if unknown := sorted(set(self.ablate) - set(ABLATIONS)):
            raise ValueError(f"ablate must name some of {', '.join(ABLATIONS)} (got {unknown[0][:40]!r})")


def config_of(terms: FitTerms) -> TrainConfig:
    """Return the settings of fit, prune, calibration and choice that the terms stand for."""
    preset = PRESETS[terms.preset]
    ours = preset.fit.kind == "topics"
    top_k = terms.top_k or (FREE_TOP_K if terms.free and ours else None)
    fit = replace(preset.fit, seed=terms.seed)
    same_criterion = terms.same_criterion or preset.same_criterion
    if ours and same_criterion == "off":
        fit = replace(fit, by_answers=False)
    if "diversity" in terms.ablate:
        fit = replace(fit, diversity=0.0)
    if top_k is not None:
        fit = replace(fit, top_ks=(top_k,), top_k=None if fit.top_k is None else top_k)
    return replace(
        preset,
        split_seed=terms.seed,
        fit=fit,
        top_k=top_k or preset.top_k,
        same_criterion=same_criterion,
        ablate=frozenset(terms.ablate),
    )
