"""The settings of Algorithm 1 and its two presets: the paper's, and one that measured better.

A number without a comment is the paper's (table in `app:hparams`); docs/fit.md has the whole table.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from svr_async.core.similarity import REDUNDANCY_CUTOFF
from svr_async.errors import UsageError
from svr_async.fit import config as fits
from svr_async.fit.config import FitConfig
from svr_async.training.bank.merge import BANK_CAP, MERGE_CUTOFF

MOST_SEED = (1 << 32) - 1
Preset = Literal["default", "paper"]
Ablation = Literal["induction", "support", "probe", "diversity"]
Pool = Literal["cross", "own", "all"]
Publish = Literal["auto", "last", "best"]
SameCriterion = Literal["author", "text", "off"]
USUAL_POOL = 18
ENOUGH = 36_000  # judgements of all pairs that a round aims at
FREE_TOP_K = 256  # a free judge may use all that have a weight; that were some 230 of 492 (docs/fit.md)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """Settings of a training and of its fits. Where a comment says "ours", `PAPER` has what the text says instead.

    `ablate` leaves parts out: `induction` describes good responses instead of contrasting two, `support` does not
    choose pairs by margin, `probe` uses only the data's own responses, `diversity` drops that loss term. A `pool` holds
    rubrics of other prompts (`cross`), those mined from the pair (`own`), or the whole bank (`all`, for free judges).
    `publish` says which round's bank is published (`algorithm.chosen_round`).

    These parts of the preset `default` are ours; `paper` does what stands behind each:
    support pairs of the prompt clusters that fail most often come first (the hardest do); support mining that is left
    out takes as many pairs at random (every pair); all candidates with margin <= tau are hard negatives, and those of
    earlier rounds stay (the hardest alone, of the last round); a weight keeps no rubric that is never active (it does);
    different criteria (`bank.criteria`) stay two, however alike their texts are (similarity decides).
    """

    preset: Preset = "default"
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
    min_weight: float = 0.08
    min_activation: float = 0.01
    enough_judged: int = 400  # ours: judgements before a rubric may be pruned in a round that is not the last
    several: int = 3  # ours: proposals of a rubric from which on that holds for it
    merge_cutoff: float = MERGE_CUTOFF
    redundancy_cutoff: float = REDUNDANCY_CUTOFF
    same_criterion: SameCriterion = "text"  # ours; `TrainSettings` has `author` where a model writes
    bank_cap: int = BANK_CAP
    same_response: float = 0.98  # ours: a probe this similar to the chosen response is discarded
    top_k: int = 6  # the default's fit chooses its own, by cross-validation among `fit.top_ks`
    selection_pool: int = 18
    filler_weight: float = 0.0  # ours: places that no rubric is due stay empty; the paper has 1
    ablate: tuple[Ablation, ...] = ()

    def __post_init__(self) -> None:
        for name in ("rounds", "pool_size", "top_k"):
            if (value := getattr(self, name)) is not None and not 1 <= value <= MOST_SEED:
                raise UsageError(f"{name} must be >= 1 (got {value})")
        if not 0 < self.dev_share < 1:
            raise UsageError(f"dev_share must lie between 0 and 1 (got {self.dev_share:g})")
        if not 0 <= self.split_seed <= MOST_SEED:
            raise UsageError(f"seed must be a whole number in 0..{MOST_SEED} (got {self.split_seed})")

    @property
    def is_paper(self) -> bool:
        """Whether everything is done as the paper's text says."""
        return self.preset == "paper"

    def pool_size_for(self, n_pairs: int) -> int:
        """Return how many rubrics each of `n_pairs` is judged on in a round.

        Where pairs are few, each is judged on more: `ENOUGH` judgements in all, up to three times the usual size.
        """
        return self.pool_size or min(3 * USUAL_POOL, max(USUAL_POOL, ENOUGH // max(1, n_pairs)))

    def refitted(self, *, seed: int | None = None, top_k: int | None = None) -> TrainConfig:
        """Return the settings with another seed, and another number of rubrics a prompt; None keeps the one it has."""
        fit = self.fit if seed is None else replace(self.fit, seed=seed)
        if top_k is not None:
            fit = replace(fit, top_ks=(top_k,), top_k=None if fit.top_k is None else top_k)
        seed = self.split_seed if seed is None else seed
        return replace(self, fit=fit, split_seed=seed, top_k=self.top_k if top_k is None else top_k)


PRESETS = MappingProxyType(
    {
        "default": TrainConfig(),
        "paper": TrainConfig(
            preset="paper",
            all_rounds=True,
            publish="last",
            fit=fits.PAPER,
            support_share=1.0,
            enough_judged=0,
            same_criterion="off",
            filler_weight=1.0,
        ),
    }
)


def config_of(
    preset: str, *, seed: int = 42, top_k: int | None = None, free: bool = False, **changes: Any
) -> TrainConfig:
    """Return a preset with changes; None leaves a setting to the preset.

    `free` is whether judging costs nothing: then the default's bank may use up to `FREE_TOP_K` rubrics a prompt.
    """
    config = replace(PRESETS[preset], **{name: value for name, value in changes.items() if value is not None})
    fit = config.fit
    if not config.is_paper and config.same_criterion == "off":
        fit = replace(fit, by_answers=False)
    if "diversity" in config.ablate:
        fit = replace(fit, diversity=0.0)
    if top_k is None and free and not config.is_paper:
        top_k = FREE_TOP_K
    return replace(config, fit=fit).refitted(seed=seed, top_k=top_k)
