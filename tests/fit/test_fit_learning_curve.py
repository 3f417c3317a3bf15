"""The learning curve: which pairs are fitted and decided, the intervals, and that it is the default's own fit."""

from dataclasses import replace

import numpy as np
import pytest
from made_arrays import made_arrays, with_negatives, with_sources
from numpy.typing import NDArray

from svr_async.errors import DegenerateFitError
from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import DEFAULT, Structure
from svr_async.fit.learning_curve import DRAWS, FOLDS, LearningCurve, LearningPoint, curve_of, learning_curve

FIXED = replace(DEFAULT, structure=Structure(sparsity=0.0, solver="shrunken"))


def watched(arrays: FitArrays, points: float = 0.5) -> tuple[LearningCurve, list[tuple[set[int], set[int]]]]:
    """Return the curve of a fit that learns nothing, and the prompts that were fitted and decided in each call."""
    calls = []

    def decide(few: FitArrays, held: FitArrays) -> NDArray[np.float64]:
        calls.append((set(few.pair_prompt.tolist()), set(held.pair_prompt.tolist())))
        return np.full(held.n_pairs, points)

    return curve_of(arrays, decide), calls


def test_no_pair_is_decided_by_a_fit_on_its_own_prompt() -> None:
    """Prompts that are fitted and decided are apart, and over the folds every prompt is decided once a draw."""
    arrays = made_arrays(160)
    arrays = replace(arrays, pair_prompt=arrays.pair_prompt // 2 * 2)  # two pairs a prompt
    _, calls = watched(arrays)
    assert len(calls) == FOLDS * sum(DRAWS.values())
    assert all(not few & held for few, held in calls)
    decided = [prompt for _, held in calls for prompt in held]
    assert sorted(decided) == sorted(np.unique(arrays.pair_prompt).tolist() * sum(DRAWS.values()))


def test_smaller_subsets_lie_inside_larger_ones_and_draws_differ() -> None:
    """An eighth is part of the same draw's quarter, half and whole; another draw's eighth holds other prompts."""
    _, calls = watched(made_arrays(160))
    per_fold = sum(DRAWS.values())
    for fold in range(FOLDS):
        parts = [few for few, _ in calls[fold * per_fold : (fold + 1) * per_fold]]
        eighths, quarters, halves, whole = parts[:4], parts[4:7], parts[7:9], parts[9]
        assert [len(part) for part in (eighths[0], quarters[0], halves[0], whole)] == [15, 30, 60, 120]
        for draw in range(2):
            assert eighths[draw] < quarters[draw] < halves[draw] < whole
        assert len({frozenset(part) for part in eighths}) == 4


def test_which_prompts_are_drawn_does_not_depend_on_their_order() -> None:
    """The subsets go by the prompts' features: the same prompts in another order are the same subsets."""
    arrays = made_arrays(80)
    _, calls = watched(arrays)
    _, turned = watched(arrays.take_pairs(np.arange(80)[::-1]))
    assert calls == turned


def test_hard_negatives_are_neither_fitted_nor_decided() -> None:
    """They were written to fail, so they are no sample of what a bank meets."""
    curve, _ = watched(with_negatives(made_arrays(160)))
    assert curve.held_out == 158
    assert curve.points[-1].pairs == round(158 * 3 / 4)


def test_intervals_are_over_prompts() -> None:
    """Two copies of each pair, of the same prompt, tell no more than one: the interval stays as wide."""

    def decide(few: FitArrays, held: FitArrays) -> NDArray[np.float64]:
        return np.equal(held.pair_prompt % 3, 0).astype(float)

    arrays = made_arrays(160)
    once = curve_of(arrays, decide).points[-1]
    twice = curve_of(arrays.take_pairs(np.repeat(np.arange(160), 2)), decide).points[-1]
    assert (twice.accuracy, twice.low, twice.high) == (once.accuracy, once.low, once.high)
    share = 54 / 160
    assert once.accuracy == pytest.approx(share)
    assert once.high - once.accuracy == pytest.approx(1.96 * (share * (1 - share) / 160) ** 0.5, rel=1e-3)


def test_accuracy_grows_with_the_pairs_of_a_planted_truth() -> None:
    """On planted rubrics all pairs do better than chance, and the gain is the difference of the last two points."""
    curve = learning_curve(with_sources(made_arrays(240)), FIXED)
    assert [point.draws for point in curve.points] == [4, 3, 2, 1]
    assert curve.points[-1].low > 0.5
    assert curve.gain == pytest.approx(curve.points[-1].accuracy - curve.points[-2].accuracy, abs=2e-6)
    assert curve == learning_curve(with_sources(made_arrays(240)), FIXED)


def test_own_entries_count_only_where_the_settings_say_so() -> None:
    """What was mined from a pair is left out of fit and decision: with nothing else judged, nothing is known."""
    arrays = made_arrays(80)
    own = replace(arrays, z_own=np.ones(arrays.n_entries, bool))
    assert {point.accuracy for point in learning_curve(own, FIXED).points} == {0.5}


def test_too_few_prompts_are_refused() -> None:
    """Sixty-three prompts have no learning curve; the line says how many it takes."""
    with pytest.raises(DegenerateFitError, match="63 training prompts are too few") as caught:
        learning_curve(made_arrays(63), FIXED)
    assert "64" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("gain", "told"),
    [
        ((0.012, 0.004, 0.02), "brought +1.2 points [+0.4, +2.0]."),
        ((-0.003, -0.01, 0.004), "brought −0.3 points [−1.0, +0.4], which may be chance."),
        ((0.0, 0.0, 0.0), "brought 0.0 points [0.0, 0.0]."),
    ],
)
def test_the_sentence_says_what_the_last_doubling_brought(gain: tuple[float, float, float], told: str) -> None:
    """From how many pairs to how many, the points with their interval, and whether that may be chance."""
    points = tuple(
        LearningPoint(share=share, pairs=int(2000 * share), draws=1, accuracy=0.7, low=0.6, high=0.8)
        for share in (0.5, 1.0)
    )
    names = dict(zip(("gain", "gain_low", "gain_high"), gain, strict=True))
    text = LearningCurve(points=points, held_out=2000, **names).in_words()
    assert text == f"The last doubling, from 1,000 to 2,000 pairs, {told}"
