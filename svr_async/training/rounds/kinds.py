"""What a kind of prompts gives: the rubrics that were mined most often from prompts like each one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svr_async.fit.group_count import Views, best_size, rates_of
from svr_async.fit.grouping import associate, groups_of, likely_groups, marks_of

MOST_KINDS = 64
BLOCK = 4096  # prompts that are compared at a time, to bound memory
SEED = 0


def likely_rubrics(
    features: Any, mined: Any, words: Any, trained: Sequence[int], count: int
) -> list[NDArray[np.int32]]:
    """Return the `count` likeliest rubrics of each prompt, the likeliest first; of equals the first in the bank.

    `features` (prompt, feature), `mined` (prompt, rubric) and `words` (rubric, word; or None) are sparse, and nothing
    is mined from prompts that are not in `trained`. There are as many kinds as tell best what is mined
    (`fit.group_count`).
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    inside, given = features[trained], mined[trained]
    views: Views = {"rubrics": given} if words is None else {"rubrics": given, "words": marks_of(given @ words)}
    with threadpool_limits(1):  # matrices here are small: more threads wait for each other
        size = best_size(inside, views, most=MOST_KINDS, seed=SEED)
        view = views[size.view]
        kinds = groups_of(associate(inside, view), inside, view, size, SEED)
    held = kinds.gates(features)
    held[trained] = likely_groups(held[trained], view)
    rate = rates_of(held[trained], given)
    most = min(count, mined.shape[1])
    ranked: list[NDArray[np.int32]] = []
    for first in range(0, len(held), BLOCK):
        score = held[first : first + BLOCK] @ rate
        order = np.argsort(-score, axis=1, kind="stable")[:, :most]
        ranked += [row[score[place, row] > 0].astype(np.int32) for place, row in enumerate(order)]
    return ranked
