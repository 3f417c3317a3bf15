"""What was mined from each prompt, as columns that recur: rubrics, or their words where rubrics seldom come twice.

A language model seldom writes a rubric twice in the same words. Where less than half of what was mined recurs, the
content words of the rubrics stand for them: prompts that gave "cites a source" and "names the source of each figure"
have "source" in common.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from svr_async.fit.grouping import LEAST_PROMPTS, marks_of

RECURRING = 0.5  # of what was mined, at least, to be counted by rubric


def recurring_view(mined: Any, worded: Any) -> Any:
    """Return `mined` (prompt, rubric or criterion), or `worded`, the words of those rubrics (prompt, word).

    Both are sparse; None where nothing is known.
    """
    return mined if mined is None or worded is None or _recurs(mined) else marks_of(worded)


def _recurs(mined: Any) -> bool:
    prompts = np.asarray(marks_of(mined).sum(axis=0)).ravel()
    return bool(prompts[prompts >= LEAST_PROMPTS].sum() >= RECURRING * prompts.sum())
