"""How many groups of prompts there are: as many as tell best what is mined from prompts that were left out.

    log-likelihood = Σ_prompts Σ_{r mined} log p_r(x) − Σ_r p_r(x),    p(x) = gates(x) · rate

No label and no judgement takes part, so the number says how many kinds of prompts the words tell apart, whether or not
knowing them helps to decide. A likelihood of every rubric as an event of its own (Poisson), with the rates of groups
shrunk to those of all prompts.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from svr_async.fit.grouping import Association, Size, associate, groups_of, likely_groups, marks_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]

COUNTS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
PROMPTS_A_GROUP = 20  # no more groups than this allows
PARTS = 4
SHRINKAGE = 20.0  # prompts
MOST_PROMPTS = 8000  # tried on a sample of this many
WORSE = 2  # so many larger numbers in a row that tell less end the search
LEAST_RATE = 1e-6
BLOCK = 2048  # prompts that are dense at a time

ONE = Size(groups=1, directions=0)


def best_size(features: Any, mined: Any, *, most: int, seed: int) -> Size:
    """Return the number of groups, up to `most`, and of directions that tell best what is mined from unseen prompts.

    `features` (prompt, feature) and `mined` (prompt, rubric) are sparse; without `mined` there is one group.
    """
    if mined is None or features.shape[0] < 2 * PROMPTS_A_GROUP:
        return ONE
    rng = np.random.default_rng([seed, 11])
    rows = rng.permutation(features.shape[0])[:MOST_PROMPTS]
    parts = [_Part(features, mined, rows, held, seed) for held in range(PARTS)]
    best, most_told, worse = ONE, sum(part.told(ONE) for part in parts), 0
    for count in COUNTS:
        if count > min(most, len(rows) // PROMPTS_A_GROUP) or worse == WORSE:
            break
        sizes = [Size(groups=count, directions=q) for q in sorted({max(1, count // 2), count - 1})]
        told = [sum(part.told(size) for part in parts) for size in sizes]
        worse = 0 if max(told) > most_told else worse + 1
        if max(told) > most_told:
            best, most_told = sizes[int(np.argmax(told))], max(told)
    return best


def rates_of(gates: Floats, mined: Any) -> Floats:
    """Return how often each group's prompts give each rubric (group, rubric), shrunk to how often all prompts do."""
    usual = np.asarray(mined.sum(axis=0), np.float64).ravel() / max(1, mined.shape[0])
    given = np.asarray((mined.T @ gates).T)
    return cast("Floats", (given + SHRINKAGE * usual) / (gates.sum(axis=0)[:, None] + SHRINKAGE))


class _Part:
    """One part of the prompts, and what the others tell of it."""

    def __init__(self, features: Any, mined: Any, rows: Ints, held: int, seed: int) -> None:
        place = np.arange(len(rows)) % PARTS
        inside, outside = np.sort(rows[place != held]), np.sort(rows[place == held])
        self._features, self._mined = features[inside], marks_of(mined[inside])
        self._unseen, self._given, self._seed = features[outside], marks_of(mined[outside]), seed
        self._association: Association | None = associate(self._features, self._mined)

    def told(self, size: Size) -> float:
        """Return the log-likelihood of what was mined from the prompts that were left out."""
        groups = groups_of(self._association, self._features, self._mined, size, self._seed)
        rates = rates_of(likely_groups(groups.gates(self._features), self._mined), self._mined)
        gates = groups.gates(self._unseen)
        return sum(
            _likelihood(gates[first : first + BLOCK] @ rates, self._given[first : first + BLOCK])
            for first in range(0, len(gates), BLOCK)
        )


def _likelihood(expected: Floats, given: Any) -> float:
    entries = given.tocoo()
    told = np.log(np.maximum(expected[entries.row, entries.col], LEAST_RATE))
    return float(told.sum() - expected.sum())
