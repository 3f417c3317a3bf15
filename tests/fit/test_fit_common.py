"""One weight a rubric in common to all sources: a squared loss solved, doubt where they disagree, λ by leaving out."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made_arrays import made_arrays
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from svr_async.fit.common import (
    LEAST_PAIRS,
    RIDGES,
    between_sources,
    chosen_ridge,
    moments_of,
    variance_of_mean,
    weights,
)

from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import DEFAULT
from svr_async.fit.training import fit


def judged(effects: list[list[float]], *, pairs: int = 400, seed: int = 0) -> tuple[Any, NDArray[Any], NDArray[Any]]:
    """Return z (pair, rubric), source and prompt of each pair; a row of `effects` is a source's P(right) · 2 − 1."""
    rng = np.random.default_rng(seed)
    chance = 0.5 + np.repeat(np.array(effects), pairs, axis=0) / 2
    z = np.where(rng.random(chance.shape) < chance, 1.25, -1.25)
    return csr_matrix(z), np.repeat(np.arange(len(effects)), pairs), np.arange(len(z)) // 2


def test_weights_solve_the_penalised_least_squares() -> None:
    """They are >= 0 and within rounding of what a general solver finds, for little and for much shrinking."""
    z, source, prompt = judged([[0.5, 0.4, -0.3, 0.1], [0.4, 0.4, -0.2, 0.0], [0.6, 0.1, -0.5, 0.2]])
    moments = moments_of(z, source, prompt)
    found = weights(moments, [0.03, 3.0])
    assert (found >= 0).all()
    assert found[:, 2].tolist() == [0, 0]
    for ridge, weight in zip([0.03, 3.0], found, strict=True):
        inner = moments.gram + ridge * np.diag(moments.doubt)
        best = minimize(lambda w, a=inner: w @ a @ w / 2 - moments.mean @ w, np.zeros(4), bounds=[(0, None)] * 4)
        np.testing.assert_allclose(weight, best.x, atol=1e-4)


def test_sources_count_the_same_however_many_pairs_they_have() -> None:
    """Ten times the pairs of one source leave the moments as they were."""
    z, source, prompt = judged([[0.5, 0.0], [0.0, 0.5], [0.2, 0.2]], pairs=200)
    rows = np.concatenate([*[np.arange(200)] * 10, np.arange(200, 600)])
    once, often = moments_of(z, source, prompt), moments_of(z[rows], source[rows], prompt[rows])
    np.testing.assert_allclose(once.mean, often.mean)
    np.testing.assert_allclose(once.gram, often.gram, rtol=1e-6)


def test_a_rubric_is_trusted_less_where_sources_disagree() -> None:
    """Of two rubrics with the same mean effect the one that differs between sources gets the smaller weight."""
    z, source, prompt = judged([[0.3, 0.8], [0.3, -0.2], [0.3, 0.7], [0.3, -0.1]], pairs=3000)
    doubting, plain = moments_of(z, source, prompt), moments_of(z, None, prompt)
    assert plain.doubt.tolist() == [1, 1]
    assert doubting.doubt[1] > 1.5 > doubting.doubt[0]
    assert weights(doubting, [1.0])[0, 1] < 0.8 * weights(plain, [1.0])[0, 1]


def test_small_sources_say_nothing_beside_larger_ones() -> None:
    """A source below the least number of pairs changes nothing."""
    z, source, prompt = judged([[0.5], [0.4], [0.3], [-0.9]], pairs=100)
    kept = np.arange(300 + LEAST_PAIRS - 1)
    with_small, without = (
        moments_of(z[kept], source[kept], prompt[kept]),
        moments_of(z[:300], source[:300], prompt[:300]),
    )
    np.testing.assert_allclose(with_small.mean, without.mean)


def test_the_variance_of_a_mean_counts_pairs_of_a_prompt_together() -> None:
    """With each pair twice under one prompt it is that of the pairs once, not half of it."""
    z, _, _ = judged([[0.3, 0.1]], pairs=200)
    once = variance_of_mean(z, np.arange(200))
    np.testing.assert_allclose(once, z.toarray().var(axis=0, ddof=1) / 200, rtol=1e-6)
    np.testing.assert_allclose(variance_of_mean(z[np.repeat(np.arange(200), 2)], np.repeat(np.arange(200), 2)), once)


def test_the_variance_between_sources_is_dersimonian_and_lairds() -> None:
    """Worked out by hand for three sources of equal precision: the excess of their spread; 0 where they agree."""
    mean, variance = np.array([[0.0, 0.1], [1.0, 0.1], [2.0, 0.1]]), np.full((3, 2), 0.25)
    np.testing.assert_allclose(between_sources(mean, variance), [1.0 - 0.25, 0.0])


def test_what_is_left_out_has_no_say() -> None:
    """A rubric that decides in one source alone is worth nothing there. λ comes with the scores of all."""
    z, source, prompt = judged([[0.9, 0.2], [0.0, 0.2], [0.0, 0.2], [0.0, 0.2]], pairs=1000)
    found = chosen_ridge(z, source, prompt, 0)
    assert len(found.accuracy) == len(found.error) == len(RIDGES)
    assert found.taken in RIDGES
    assert max(found.accuracy) < 0.8


def test_pairs_of_a_prompt_that_is_left_out_are_not_learned_from() -> None:
    """Where every source asks the same prompts nothing is left to learn from, and every λ scores a half."""
    z, source, _ = judged([[0.9], [0.9], [0.9]], pairs=100)
    assert set(chosen_ridge(z, source, np.tile(np.arange(100), 3), 0).accuracy) == {0.5}


@pytest.mark.parametrize("sources", [None, 2])
def test_few_sources_are_tried_in_parts_by_prompts(sources: int | None) -> None:
    """One source, or two, are cut by prompts, and a rubric that is right nine times in ten is found."""
    z, source, prompt = judged([[0.8, 0.0], [0.8, 0.0]], pairs=200)
    assert max(chosen_ridge(z, source if sources else None, prompt, 0).accuracy) == pytest.approx(0.9, abs=0.04)


def sourced(names: int) -> FitArrays:
    """Return arrays in which rubric 0 helps everywhere, and rubrics 1 to 4 each in a source of their own."""
    source = np.repeat(np.arange(names), 150)
    rng = np.random.default_rng(1)
    chance = np.full((len(source), 12), 0.5)
    chance[:, 0] = 0.7
    chance[np.arange(len(source)), 1 + source % 4] = 0.95
    z = np.where(rng.random(chance.shape) < chance, 1.25, -1.25).astype(np.float32)
    arrays = made_arrays(n_pairs=len(source), pool=12)
    return replace(arrays, z_rubric=np.tile(np.arange(12), len(source)), z_delta=z.ravel(), pair_source=source)


def test_the_default_leaves_out_sources_and_trusts_what_they_have_in_common() -> None:
    """The choice says that sources were left out, and rubrics of one source count less than those of all."""
    arrays = sourced(4)
    result = fit(arrays, None, replace(DEFAULT, top_ks=(12,), top_k=12))
    assert result.choice is not None
    assert result.choice.left_out == "sources"
    assert {trial.structure.solver for trial in result.choice.trials} == {"margin", "moments", "shrunken"}
    assert len(result.choice.ridges) == len(RIDGES)
    assert result.choice.structure.solver == "moments"
    weight = result.selector.output[:, 0]
    assert weight[0] > weight[1:].max()
    by_prompt = fit(replace(arrays, pair_source=None), None, replace(DEFAULT, top_ks=(12,), top_k=12))
    assert by_prompt.choice is not None
    assert by_prompt.choice.left_out == "prompts"
    assert by_prompt.choice.ridges == ()


def test_the_same_pairs_give_the_same_weights() -> None:
    """Two fits by sources have the same bytes."""
    first, second = (fit(sourced(3), None, replace(DEFAULT, top_ks=(12,), top_k=12)) for _ in range(2))
    assert first.selector.output.tobytes() == second.selector.output.tobytes()
    assert first.choice == second.choice
