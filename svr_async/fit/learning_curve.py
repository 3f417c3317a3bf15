"""How accuracy grows with the pairs: the default fitted on an eighth, a quarter, a half and all training prompts.

A quarter of the prompts is held out in turn, and subsets of the others are fitted: structure, groups and weights all
anew, as they would be with so few pairs. The held-out pairs are decided as a bank decides (`structure.used_points`).
Nothing is judged again: the stored judgements are used, so the rubrics are those mined from all pairs. Subsets and
folds are drawn by a hash of the prompts' features; smaller subsets lie inside larger ones of the same draw, and small
ones are drawn several times. Intervals are over prompts, since pairs of one prompt are not independent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from svr_async.errors import DegenerateFitError
from svr_async.fit.arrays import FitArrays

if TYPE_CHECKING:
    from svr_async.fit.config import FitConfig

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]
Decide = Callable[[FitArrays, FitArrays], Floats]  # pairs to fit, pairs to decide: 1, ½ or 0 for each of these

FOLDS = 4
DRAWS = {0.125: 4, 0.25: 3, 0.5: 2, 1.0: 1}  # share of the prompts: draws of it
LEAST_PROMPTS = 64  # six in the smallest subset
BLOCK = 4096  # pairs that are decided at a time
NORMAL = 1.959964  # standard errors of a 95 % interval


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningPoint:
    """Accuracy with a share of the training prompts, over `pairs` pairs a fit in the mean, with its 95 % interval."""

    share: float
    pairs: int
    draws: int
    accuracy: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningCurve:
    """The points from few pairs to all, over `held_out` pairs, and what the last doubling brought (95 % interval)."""

    points: tuple[LearningPoint, ...]
    held_out: int
    gain: float
    gain_low: float
    gain_high: float

    def as_json(self) -> dict[str, Any]:
        """Return the curve as plain values."""
        return asdict(self)

    def in_words(self) -> str:
        """Return what the last doubling of the pairs brought, as a sentence."""
        before, last = self.points[-2:]
        gain, low, high = map(_points, (self.gain, self.gain_low, self.gain_high))
        chance = ", which may be chance" if self.gain_low <= 0 <= self.gain_high and self.gain else ""
        doubled = f"from {before.pairs:,} to {last.pairs:,} pairs"
        return f"The last doubling, {doubled}, brought {gain} points [{low}, {high}]{chance}."


def _points(value: float) -> str:
    text = f"{100 * value:+.1f}".replace("-", "−")
    return "0.0" if text in {"+0.0", "−0.0"} else text


def learning_curve(train: FitArrays, config: FitConfig) -> LearningCurve:
    """Return the curve of the default's settings; `train` holds all training pairs and what they were judged on.

    Raises `DegenerateFitError` below `LEAST_PROMPTS` prompts.
    """
    return curve_of(train if config.use_own else train.without_own(), lambda few, held: decided(few, held, config))


def curve_of(train: FitArrays, decide: Decide) -> LearningCurve:
    """Return the curve of a way to learn from pairs and to decide others."""
    train = replace(train.take_pairs(np.flatnonzero(train.originals)), negative_of=None)
    prompts = np.unique(train.pair_prompt)
    if len(prompts) < LEAST_PROMPTS:
        raise DegenerateFitError(
            f"{len(prompts)} training prompts are too few for a learning curve",
            hint=f"give at least {LEAST_PROMPTS}, or leave --learning-curve out",
        )
    points = np.zeros((len(DRAWS), train.n_pairs))
    pairs = np.zeros(len(DRAWS))
    order = _ordered(train, prompts, "folds")
    for held in (order[first::FOLDS] for first in range(FOLDS)):
        outside = np.isin(train.pair_prompt, held)
        target = train.take_pairs(np.flatnonzero(outside))
        for row, (share, draws) in enumerate(DRAWS.items()):
            for part in _parts(train, np.setdiff1d(prompts, held), share, draws):
                points[row, outside] += decide(part, target) / draws
                pairs[row] += part.n_pairs / draws / FOLDS
    return _curve(points, pairs, train.pair_prompt)


def decided(few: FitArrays, held: FitArrays, config: FitConfig) -> Floats:
    """Return 1, ½ or 0 for each held-out pair (pair,), decided by the default's fit on few."""
    from svr_async.fit.evidence import judged_z
    from svr_async.fit.forward import hidden_matrix
    from svr_async.fit.structure import used_points
    from svr_async.fit.topics import solve_topics

    solved = solve_topics(few, config)
    effects, top_k = solved.selector.output.T.astype(np.float64), solved.choice.structure.top_k
    out = np.zeros(held.n_pairs)
    for rows in np.split(np.arange(held.n_pairs), range(BLOCK, held.n_pairs, BLOCK)):
        block = held.take_pairs(rows)
        mixture = hidden_matrix(solved.selector, block, block.pair_prompt).astype(np.float64)
        out[rows] = used_points(mixture, effects, judged_z(block), [top_k])[0]
    return out


def _ordered(arrays: FitArrays, prompts: Ints, salt: str) -> Ints:
    """Return the prompts by a hash of their features, which does not depend on the order in which they come."""

    def key(place: int) -> tuple[bytes, int]:
        index, value = arrays.features(int(prompts[place]))
        content = index.astype("<i8").tobytes() + value.astype("<f4").tobytes()
        return hashlib.blake2b(content, salt=salt.encode()).digest(), place

    return prompts[sorted(range(len(prompts)), key=key)]


def _parts(train: FitArrays, prompts: Ints, share: float, draws: int) -> Iterator[FitArrays]:
    """Yield the pairs of a share of the prompts, once a draw; a draw's smaller shares lie inside its larger ones."""
    for draw in range(draws):
        chosen = _ordered(train, prompts, f"draw {draw}")[: max(1, round(share * len(prompts)))]
        yield train.take_pairs(np.flatnonzero(np.isin(train.pair_prompt, chosen)))


def _curve(points: Floats, pairs: Floats, prompt: Ints) -> LearningCurve:
    gain, low, high = _interval(points[-1] - points[-2], prompt)
    rows = []
    for (share, draws), count, values in zip(DRAWS.items(), pairs, points, strict=True):
        mean, least, most = _interval(values, prompt)
        interval = {"low": max(0.0, least), "high": min(1.0, most)}
        rows.append(LearningPoint(share=share, pairs=round(count), draws=draws, accuracy=mean, **interval))
    return LearningCurve(points=tuple(rows), held_out=points.shape[1], gain=gain, gain_low=low, gain_high=high)


def _interval(values: Floats, prompt: Ints) -> tuple[float, float, float]:
    """Return the mean and its 95 % interval, values of one prompt taken together (normal, linearised)."""
    mean = float(values.mean())
    _, place = np.unique(prompt, return_inverse=True)
    off = np.bincount(place, weights=values - mean)
    error = float(np.sqrt((off**2).sum())) / len(values)
    return round(mean, 6), round(mean - NORMAL * error, 6), round(mean + NORMAL * error, 6)
