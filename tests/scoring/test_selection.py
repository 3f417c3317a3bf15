"""Which rubrics are used for a prompt."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from svr_async.core.similarity import similarity
from svr_async.scoring.bank import InferenceSettings
from svr_async.scoring.selection import Active, select

TEXTS = (
    "Names the river",
    "Names the great river",
    "Cites a source for each figure",
    "Names the rivers",
    "Stays polite throughout",
    "Cites a good source for each figure",
    "Uses the units of the prompt",
)


def chosen(alphas: list[float], weights: list[int] | None = None, **settings_: Any) -> tuple[Active, ...]:
    """Select with these numbers; weights are 1 unless given."""
    alpha = np.array(alphas, np.float32)
    weight = np.ones_like(alpha) if weights is None else np.array(weights, np.float32)
    return select(alpha, weight, TEXTS, InferenceSettings(**settings_))


def test_free_slots_go_to_the_most_different() -> None:
    """Fillers are the least similar to those chosen, one by one, and weigh the filler weight."""
    found = chosen([1, 0, 0, 0, 0, 0, 0], top_k=4, filler_weight=0.25)
    fillers = {one.index for one in found[1:]}
    assert found[0].index == 0
    assert fillers >= {4, 6}
    assert len(fillers & {2, 5}) == 1, "one of two twins, and no other river"
    assert all(one.filler and one.importance == 0.25 for one in found[1:])


def plain_selection(
    alpha: tuple[Any, ...], weight: tuple[Any, ...], config: InferenceSettings
) -> tuple[list[int], int]:
    """Select by the words of the paper, in plain loops."""
    order = sorted(range(len(alpha)), key=lambda i: (-(alpha[i] * weight[i]), -weight[i], i))
    pool = order[: max(config.selection_pool, config.top_k)]
    picked = [i for i in pool if alpha[i] * weight[i] > 0][: config.top_k]
    n_best = len(picked)
    while config.filler_weight and len(picked) < min(config.top_k, len(pool)):
        rest = [i for i in pool if i not in picked]
        picked.append(
            min(rest, key=lambda i: (max((similarity(TEXTS[i], TEXTS[j]) for j in picked), default=0.0), pool.index(i)))
        )
    return picked, n_best


@given(
    rows=st.lists(
        st.tuples(st.sampled_from([0.0, 0.0, 0.125, 0.25, 0.5]), st.sampled_from([0.5, 1.0, 2.0])),
        min_size=1,
        max_size=7,
    ),
    top_k=st.integers(1, 12),
    pool=st.integers(1, 20),
    filler=st.sampled_from([0.0, 0.25, 1.0]),
)
@settings(deadline=None, max_examples=200)
def test_same_as_the_plain_loops_for_any_size(
    rows: list[tuple[float, float]], top_k: int, pool: int, filler: float
) -> None:
    """For banks of one rubric up to seven, k and pool larger than the bank included, the plain rule is followed."""
    alpha, weight = zip(*rows, strict=True)
    config = InferenceSettings(top_k=top_k, selection_pool=pool, filler_weight=filler)
    found = select(np.array(alpha, np.float32), np.array(weight, np.float32), TEXTS, config)
    picked, n_best = plain_selection(alpha, weight, config)
    assert [one.index for one in found] == picked
    assert [one.filler for one in found] == [place >= n_best for place in range(len(picked))]
    assert len(found) <= min(top_k, len(rows))
