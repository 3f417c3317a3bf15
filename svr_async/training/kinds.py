"""What a kind of prompts gives: the rubrics that were mined most often from prompts like each one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svr_async.fit.grouping import associate, likely_groups, softmax, word_scores

PROMPTS_A_KIND = 20
MOST_KINDS = 64
SHRINKAGE = 20.0  # prompts
BLOCK = 4096  # prompts at a time


def likely_rubrics(features: Any, mined: Any, trained: Sequence[int], count: int) -> list[NDArray[np.int32]]:
    """Return the `count` likeliest rubrics of each prompt, the likeliest first; of equals the first in the bank.

    `features` (prompt, feature) and `mined` (prompt, rubric) are sparse, and nothing is mined from prompts that are not
    in `trained`. How many kinds there are is read off the association of words and rubrics.
    """
    inside, given = features[trained], mined[trained]
    found = associate(inside, given)
    kinds = min(found.found + 1, MOST_KINDS, len(trained) // PROMPTS_A_KIND) if found else 1
    if found is None or kinds < 2:
        gates = np.ones((features.shape[0], 1))
    else:
        gates = softmax(features @ word_scores(found, inside, kinds, seed=0))
    held = gates.copy()
    held[trained] = likely_groups(gates[trained], given)
    rate = np.asarray((given.T @ held[trained]).T) / (held[trained].sum(axis=0)[:, None] + SHRINKAGE)
    most = min(count, mined.shape[1])
    ranked: list[NDArray[np.int32]] = []
    for first in range(0, len(held), BLOCK):
        score = held[first : first + BLOCK] @ rate
        order = np.argsort(-score, axis=1, kind="stable")[:, :most]
        ranked += [row[score[place, row] > 0].astype(np.int32) for place, row in enumerate(order)]
    return ranked
