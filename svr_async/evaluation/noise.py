"""A judge's own noise on byte-identical input: how often verdicts flip, kept in a file, and its part in a gap."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import NormalDist, fmean, pstdev
from typing import Any

import orjson

from svr_async.core.files import read_plain, reason, write_atomic
from svr_async.core.statistics import wilson_interval
from svr_async.core.verdict import is_number, is_whole
from svr_async.errors import ArtefactError, StorageError, UsageError
from svr_async.evaluation.items import Item

KIND = "svr judge noise"
Z95 = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """What `repeats` fresh askings of the same `pairs` showed.

    `flip_share` is the chance that two askings of a pair differ in their verdict (A, B or none), with Wilson's 95 %
    interval over pairs. `margin_sd` is the mean over pairs of the standard deviation of a pair's margins,
    `margin_spread` the mean of the largest minus the smallest; None where no pair had two margins.
    """

    judge: str
    label: str
    method: str
    pairs: int
    repeats: int
    flip_share: float
    flip_ci95: tuple[float, float]
    margin_sd: float | None
    margin_spread: float | None
    measured: str = ""
    models_seen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseEffect:
    """What noise does to one paired gap: pairs that were asked apart, discordant pairs to expect, least half width."""

    asked_apart: int
    expected_discordant: float
    half_width: float


def flips_of(passes: Sequence[Sequence[Item]]) -> tuple[float, ...]:
    """Return for each pair the chance that two of its askings differ: 1 − Σ c(c−1) / N(N−1) over verdict counts c."""
    n = len(passes)
    if n < 2:
        raise UsageError(f"noise needs two askings of each pair or more (got {n})", hint="--repeat 5")
    counts = [Counter(item.predicted for item in asked) for asked in zip(*passes, strict=True)]
    return tuple(1 - sum(c * (c - 1) for c in found.values()) / (n * (n - 1)) for found in counts)


def measured_noise(passes: Sequence[Sequence[Item]], **facts: Any) -> Noise:
    """Return the noise that several passes over the same pairs show; `facts` say who judged how, and when."""
    flips = flips_of(passes)
    margins = [[one.margin for one in asked if one.margin is not None] for asked in zip(*passes, strict=True)]
    several = [found for found in margins if len(found) > 1]
    low, high = wilson_interval(sum(flips), len(flips))
    return Noise(
        pairs=len(flips),
        repeats=len(passes),
        flip_share=round(fmean(flips), 6),
        flip_ci95=(round(low, 6), round(high, 6)),
        margin_sd=round(fmean(pstdev(found) for found in several), 6) if several else None,
        margin_spread=round(fmean(max(found) - min(found) for found in several), 6) if several else None,
        **facts,
    )


def noise_effect(noise: Noise, n: int, asked_apart: int) -> NoiseEffect:
    """Return what the noise does to the gap of two runs over n pairs, of which so many were asked apart.

    A judge that flips with chance f makes f·m of m pairs discordant by itself, and the gap of n pairs then has the
    standard deviation √(f·m)/n whatever the runs are: 1.96 of these is the least half width of a 95 % interval. A
    paired interval holds the noise of its pairs already, so this is a floor and nothing is added.
    """
    discordant = noise.flip_share * asked_apart
    return NoiseEffect(
        asked_apart=asked_apart, expected_discordant=discordant, half_width=Z95 * math.sqrt(discordant) / n
    )


def asked_apart(couples: Sequence[tuple[Item, Item]]) -> int:
    """Count the pairs whose two verdicts rest on askings of their own.

    The same cache keys mean the same reply where both runs share a cache. Where a pair has the same keys and other
    margins they do not share one: then every pair was asked apart.
    """
    same = [(a, b) for a, b in couples if a.requests == b.requests]
    if any(a.margins != b.margins for a, b in same):
        return len(couples)
    return len(couples) - len(same)


def write_noise(path: Path, noise: Noise) -> None:
    """Write the noise as JSON, whole or not at all."""
    write_atomic(path, orjson.dumps({"kind": KIND, **asdict(noise)}, option=orjson.OPT_INDENT_2))


def read_noise(path: Path) -> Noise:
    """Read what `write_noise` wrote; StorageError where it cannot be read, ArtefactError where it is something else."""
    try:
        value = orjson.loads(read_plain(path))
    except OSError as error:
        raise StorageError(f"cannot read {path}: {reason(error)}") from error
    except orjson.JSONDecodeError as error:
        raise _no_noise(path, f"not JSON ({error.msg})") from error
    if not isinstance(value, dict) or value.pop("kind", None) != KIND:
        raise _no_noise(path, "no record of a judge's noise")
    return _noise(path, value)


def _noise(path: Path, value: Mapping[str, Any]) -> Noise:
    share = value.get("flip_share")
    if not is_number(share) or not 0 <= share <= 1 or not is_whole(value.get("pairs")):
        raise _no_noise(path, "flip_share is no share, or pairs is no count")
    if not isinstance(value.get("judge"), str):
        raise _no_noise(path, "judge is no name")
    try:
        tuples = {name: tuple(value[name]) for name in ("flip_ci95", "models_seen")}
        return Noise(**{**value, **tuples})
    except (KeyError, TypeError) as error:
        raise _no_noise(path, "a field is missing or unknown") from error


def _no_noise(path: Path, problem: str) -> ArtefactError:
    return ArtefactError(f"{path}: {problem}", hint="svr doctor --judge J --repeat 5 --noise FILE writes one")
