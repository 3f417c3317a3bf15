"""Which penalties the data want: cross-validation on the training pairs, by prompts, with the gates held fixed.

Whether rubrics hold for every prompt alike or for each kind of prompt apart differs from data set to data set: on
planted types a part that all topics have in common only adds noise, on everyday preferences it carries most. The first
choice stands unless another is better on held-out pairs by more than one and a half standard errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from svr_async.fit.sparse_margin import Penalties, solve

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]
StartOf = Callable[[Any, Floats], Floats]  # z (pair, rubric) and gates (pair, topic) to the effects to start from

FOLDS = 3
ITERATIONS = 60
MOST_WORK = 150_000  # pairs × topics
ENOUGH = (
    2000  # pairs; where topics are so many that the work allows fewer, nothing is tried and the first choice stands
)
SURE = 1.5  # standard errors


def choose(
    choices: Sequence[Penalties], z: Any, gates: Floats, prompt: Ints, start_of: StartOf, *, alike: Any, seed: int
) -> Penalties:
    """Return the choice that does best on pairs whose prompts were left out; `prompt` (pair,) keeps prompts together.

    A pair counts 1 where its margin over all that was judged is positive, and half where it is 0.
    """
    rng = np.random.default_rng([seed, 7])
    used = _sample(rng, len(gates), max(FOLDS, MOST_WORK // gates.shape[1]))
    if len(used) < min(len(gates), ENOUGH):
        return choices[0]
    z, gates, prompt = z[used], gates[used], prompt[used]
    fold = rng.integers(FOLDS, size=int(prompt.max(initial=0)) + 1)[prompt]
    points = np.zeros((len(choices), len(used)))
    for held in range(FOLDS):
        inside, outside = np.flatnonzero(fold != held), np.flatnonzero(fold == held)
        if not len(inside) or not len(outside):
            continue
        start = start_of(z[inside], gates[inside])
        for row, penalties in enumerate(choices):
            effects = solve(z[inside], gates[inside], start, penalties, alike=alike, iterations=ITERATIONS)
            points[row, outside] = _points(z[outside], gates[outside], effects)
    return choices[_best(points)]


def _best(points: Floats) -> int:
    """Return the row to take: the best mean, where it beats the first beyond doubt."""
    best = int(points.mean(axis=1).argmax())
    gain = points[best] - points[0]
    return best if gain.mean() > SURE * gain.std() / np.sqrt(max(1, len(gain))) else 0


def _points(z: Any, gates: Floats, effects: Floats) -> Floats:
    return cast("Floats", 0.5 + 0.5 * np.sign(np.einsum("pk,pk->p", gates, z @ effects.T)))


def _sample(rng: np.random.Generator, count: int, most: int) -> Ints:
    return np.arange(count) if count <= most else np.sort(rng.choice(count, most, replace=False))
