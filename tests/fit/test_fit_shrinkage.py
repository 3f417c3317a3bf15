"""One shrunken weight a rubric: what it is, when it is taken, and what the selector is then."""

from dataclasses import replace

import numpy as np
import pytest
from made_arrays import made_arrays, with_sources
from scipy.sparse import csr_matrix
from svr_async.fit.shrinkage import SHRINKAGE, one_weight

from svr_async.fit.choices import Structure
from svr_async.fit.config import DEFAULT
from svr_async.fit.forward import importance
from svr_async.fit.structure import _chosen
from svr_async.fit.topics import solve_topics

SHRUNKEN = Structure(sparsity=0.0, solver="shrunken")


def test_a_weight_is_the_mean_drawn_towards_nothing() -> None:
    """The sum of z over its judgements and κ; a rubric that fails more often than it holds weighs nothing."""
    z = csr_matrix(np.array([[1.25, 0, -0.75], [0.25, 0.75, -0.25], [0, 0.25, 0]]))
    weights = one_weight(z)
    assert weights.shape == (1, 3)
    assert weights[0] == pytest.approx([1.5 / (2 + SHRINKAGE), 1.0 / (2 + SHRINKAGE), 0.0])


def test_a_selector_of_shrunken_weights_is_the_same_for_every_prompt() -> None:
    """No group, no word: importance goes by the shrunken mean alone."""
    arrays = with_sources(made_arrays(120))
    selector = solve_topics(arrays, replace(DEFAULT, structure=SHRUNKEN)).selector
    first, second = (importance(selector, *arrays.features(row)) for row in (0, 1))
    assert first.tolist() == second.tolist()
    means = one_weight(csr_matrix((arrays.z_delta, arrays.z_rubric, arrays.z_indptr), shape=(120, 12)))[0]
    assert np.allclose(first / first.sum(), means / means.sum(), atol=1e-6)


def test_it_is_among_the_candidates_and_taken_where_data_are_few() -> None:
    """Of sixty pairs nothing beats it by a standard error; it has a row for each number of rubrics."""
    choice = solve_topics(with_sources(made_arrays(60)), replace(DEFAULT, seed=1)).choice
    assert choice.structure.solver == "shrunken"
    assert [trial.structure.top_k for trial in choice.trials if trial.structure.solver == "shrunken"] == list(
        DEFAULT.top_ks
    )
    assert choice.structure.in_words() == f"one shrunken weight a rubric, top {choice.structure.top_k}"


@pytest.mark.parametrize("few", [True, False])
def test_of_equals_it_is_the_simplest_only_where_pairs_are_few(few: bool) -> None:
    """With the same accuracy, few pairs take the shrunken weights and more the solved ones."""
    points = np.tile((np.arange(90) % 3 > 0).astype(float), (2, 1))
    taken = _chosen([Structure(), SHRUNKEN], points, "prompts", few=few).structure
    assert (taken.solver == "shrunken") is few


def test_what_is_better_by_more_than_chance_is_taken_however_few_the_pairs_are() -> None:
    """The same cross-validation decides: sixty pairs all won against half of them."""
    points = np.stack([np.arange(60) % 2, np.ones(60)]).astype(float)
    assert _chosen([SHRUNKEN, Structure()], points, "prompts", few=True).structure.solver == "margin"
