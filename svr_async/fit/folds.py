"""What cross-validation leaves out: prompts, or whole sources where pairs come from enough of them.

A bank is asked about prompts that nobody has seen. Where its pairs come from several sources it is mostly asked about
other sources too, so what all of them have in common counts more there than what one of them has. Sources count the
same, however many pairs they have; a prompt that a left-out source asks is not learned from in another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from svr_async.fit.choices import LeftOut
from svr_async.fit.common import LEAST_SOURCES, large_sources

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]

FOLDS = 4  # more sources than that are left out several at a time
MOST_PAIRS = 8000  # tried on a sample of this many


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Folds:
    """The rows of the evidence that are tried (pair,), the prompt and source of each, and the fold that leaves it out.

    A fold of −1 is never left out. `source` is None where prompts are left out.
    """

    used: Ints
    prompt: Ints
    source: Ints | None
    fold: Ints

    @property
    def count(self) -> int:
        """Number of folds."""
        return int(self.fold.max()) + 1

    @property
    def left_out(self) -> LeftOut:
        """What is left out."""
        return "prompts" if self.source is None else "sources"

    def outside(self, held: int) -> Ints:
        """Return the places of the pairs that a fold leaves out."""
        return np.flatnonzero(self.fold == held)

    def inside(self, held: int) -> Ints:
        """Return the places of the pairs to learn from: none of a prompt that is left out."""
        kept = self.fold != held
        if self.source is not None:
            kept &= ~np.isin(self.prompt, self.prompt[~kept])
        return np.flatnonzero(kept)

    def by_prompt(self, prompts: Ints) -> Ints:
        """Return the fold that leaves out each of some prompts, −1 for those that are not tried."""
        fold = np.full(int(prompts.max(initial=0)) + 1, -1)
        fold[self.prompt] = self.fold
        return cast("Ints", fold[prompts])

    def averaged(self, points: Floats) -> Floats:
        """Return the points (candidate, pair) as they count: each pair, or the mean of each source that is left out."""
        if self.source is None:
            return points
        names = np.unique(self.source[self.fold >= 0])
        means = [points[:, self.source == name].mean(axis=1) for name in names]
        return cast("Floats", np.stack(means, axis=1))


def folds_of(prompt: Ints, source: Ints | None, rng: np.random.Generator) -> Folds:
    """Return folds of a sample of the pairs, by sources where at least `LEAST_SOURCES` are large enough."""
    large = large_sources(source)
    if source is None or len(large) < LEAST_SOURCES:
        return _by_prompts(prompt, rng)
    used = even_rows(source, MOST_PAIRS, rng)
    return Folds(used=used, prompt=prompt[used], source=source[used], fold=_dealt(source[used], large))


def even_rows(source: Ints, most: int, rng: np.random.Generator) -> Ints:
    """Return a sample of at most `most` pairs in which sources have the same share, as far as they have the pairs."""
    rows = [np.flatnonzero(source == name) for name in np.unique(source)]
    room, share = most, 1
    for place, size in enumerate(sorted(map(len, rows))):
        share = max(1, room // (len(rows) - place))
        room -= min(size, share)
    drawn = [part if len(part) <= share else rng.choice(part, share, replace=False) for part in rows]
    return np.sort(np.concatenate(drawn))


def _by_prompts(prompt: Ints, rng: np.random.Generator) -> Folds:
    count = len(prompt)
    used = np.arange(count) if count <= MOST_PAIRS else np.sort(rng.choice(count, MOST_PAIRS, replace=False))
    prompts = np.unique(prompt[used])
    fold = np.full(int(prompt.max(initial=0)) + 1, -1)
    fold[prompts] = rng.permutation(np.arange(len(prompts)) % FOLDS)
    return Folds(used=used, prompt=prompt[used], source=None, fold=fold[prompt[used]])


def _dealt(source: Ints, large: Ints) -> Ints:
    """Return the fold of each pair: sources are dealt, the largest first, to the fold that has the fewest pairs."""
    sizes = np.array([int((source == name).sum()) for name in large])
    held = np.zeros(min(FOLDS, len(large)), np.int64)
    out = np.full(len(source), -1)
    for place in np.argsort(-sizes, kind="stable"):
        taken = int(held.argmin())
        out[source == large[place]] = taken
        held[taken] += sizes[place]
    return out
