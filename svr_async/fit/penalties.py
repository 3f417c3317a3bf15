"""Which penalties the data want: cross-validation on the training pairs, by prompts, with the gates held fixed.

Whether rubrics hold for every prompt alike or for each kind of prompt apart differs from data set to data set: on
planted types a part that all topics have in common only adds noise, on everyday preferences it carries most. The first
choice stands unless another is better on held-out pairs by more than one and a half standard errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from svr_async.fit.problems import Penalties, Problem, batch_of, margins, sparse_gates

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]

FOLDS = 3
MOST_WORK = 150_000  # pairs × topics
ENOUGH = (
    2000  # pairs; where topics are so many that the work allows fewer, nothing is tried and the first choice stands
)
SURE = 1.5  # standard errors


def choose(choices: Sequence[Penalties], z: Any, gates: Floats, prompt: Ints, *, alike: Any, seed: int) -> Penalties:
    """Return the choice that does best on pairs whose prompts were left out; `prompt` (pair,) keeps prompts together.

    A pair counts 1 where its margin over all that was judged is positive, and half where it is 0. All choices and
    folds are solved in one batch.
    """
    rng = np.random.default_rng([seed, 7])
    used = _sample(rng, len(gates), max(FOLDS, MOST_WORK // gates.shape[1]))
    if len(used) < min(len(gates), ENOUGH):
        return choices[0]
    prompt = prompt[used]
    fold = rng.integers(FOLDS, size=int(prompt.max(initial=0)) + 1)[prompt]
    inside = (fold != np.arange(FOLDS)[:, None]).astype(np.float64)
    batch = batch_of(z[used], [sparse_gates(gates[used])], inside, alike=alike)
    problems = [Problem(weights=held, penalties=each) for each in choices for held in range(FOLDS)]
    held_out = margins(batch, problems).reshape(len(choices), FOLDS, -1)[:, fold, np.arange(len(fold))]
    return choices[_best(0.5 + 0.5 * np.sign(held_out.astype(np.float64)))]


def _best(points: Floats) -> int:
    """Return the row to take: the best mean, where it beats the first beyond doubt."""
    best = int(points.mean(axis=1).argmax())
    gain = points[best] - points[0]
    return best if gain.mean() > SURE * gain.std() / np.sqrt(max(1, len(gain))) else 0


def _sample(rng: np.random.Generator, count: int, most: int) -> Ints:
    return np.arange(count) if count <= most else np.sort(rng.choice(count, most, replace=False))
