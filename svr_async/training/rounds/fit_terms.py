"""How a feature store is to be fitted: the preset and the few settings beside it, as a training would have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from svr_async.core.verdict import is_whole
from svr_async.training.rounds.config import ABLATIONS, PRESETS, TrainConfig

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
