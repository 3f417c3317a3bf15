"""The expected Δ of a judge's probabilities: in [−1.25, 1.25], and the paper's Δ where they are sure."""

from __future__ import annotations

from itertools import product

import pytest

from svr_async.core.pair import Side
from svr_async.core.verdict import Chances, RubricComparison, Verdict, delta


@pytest.mark.parametrize(("a", "b", "better"), [*product((0.0, 1.0), repeat=3)])
def test_sure_probabilities_give_the_papers_score(a: float, b: float, better: float) -> None:
    """With probabilities of 0 and 1 the expected Δ is that of the verdicts."""
    verdicts = [Verdict.PASS if chance else Verdict.FAIL for chance in (a, b)]
    side = Side.A if better else Side.B
    row = RubricComparison.likely("r", Chances(a, b, better))
    assert row.delta == delta(verdicts[0], verdicts[1], side)
    assert (row.a, row.b, row.better) == (*verdicts, side)


def test_the_expected_score_is_real_valued_and_turns_with_the_pair() -> None:
    """(0.9 − 0.6) + 0.25 (2 · 0.7 − 1) = 0.4, and −0.4 with the responses exchanged."""
    row = RubricComparison.likely("r", Chances(0.9, 0.6, 0.7))
    assert row.delta == pytest.approx(0.4)
    assert row.swapped().delta == pytest.approx(-0.4)
    assert not row.inconsistent
