"""The sparse margin loss: its optimum, its zeros, and what happens where nothing is decisive."""

from typing import Any

import numpy as np
import pytest
from made_arrays import solve
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from svr_async.fit.sparse_margin import RIDGE, Penalties


def _problem(n_pairs: int = 400, seed: int = 0) -> tuple[NDArray[Any], NDArray[np.float64]]:
    rng = np.random.default_rng(seed)
    z = rng.choice([-1.25, -0.25, 0.25, 1.25], size=(n_pairs, 6))
    z[:, 0] = rng.choice([1.25, 1.25, 1.25, -1.25], size=n_pairs)
    gates = np.eye(2)[np.arange(n_pairs) % 2]
    return z, gates


def test_the_optimum_is_stationary() -> None:
    """At the optimum the gradient is 0 where W is positive, and not negative where W is 0."""
    z, gates = _problem()
    sparsity = 0.3
    weight = solve(csr_matrix(z), gates, np.full((2, 6), 0.1), Penalties(sparsity=sparsity))
    margin = np.einsum("pk,kr,pr->p", gates, weight, z)
    slope = 1 / (1 + np.exp(margin))
    gradient = -(gates * slope[:, None]).T @ z + sparsity * np.sqrt(200) + RIDGE * weight

    assert weight.min() >= 0
    assert np.abs(gradient[weight > 1e-6]).max() < 0.1
    assert gradient[weight <= 1e-6].min() > -0.1


def test_what_is_no_more_than_chance_stays_out() -> None:
    """The rubric that decides is found in both topics; most of the noise is left out."""
    z, gates = _problem()
    weight = solve(csr_matrix(z), gates, np.full((2, 6), 0.1), Penalties(sparsity=1.0))

    assert (weight[:, 0] > 0.1).all()
    assert (weight[:, 1:] == 0).sum() >= 8


def test_what_all_topics_have_in_common_is_found_where_a_topic_has_few_pairs() -> None:
    """Ten pairs teach a topic nothing of its own; with a common part it has the rubric that decides everywhere."""
    z, _ = _problem()
    gates = np.eye(2)[(np.arange(400) >= 390).astype(int)]
    apart, shared = (
        solve(csr_matrix(z), gates, np.full((2, 6), 0.1), Penalties(sparsity=0.6, common=common))
        for common in (0.0, 0.3)
    )

    assert apart[0, 0] > 0.1
    assert apart[1, 0] == 0
    assert shared[1, 0] > 0.1
    assert (shared[1, 1:] < shared[1, 0] / 2).all()


def test_an_empty_solution_gives_the_start_back() -> None:
    """Where the L1 term leaves nothing, the shrunken means are kept: an empty bank decides nothing."""
    z, gates = _problem(n_pairs=20)
    start = np.full((2, 6), 0.1)

    np.testing.assert_array_equal(solve(csr_matrix(z), gates, start, Penalties(sparsity=1e6)), start)


@pytest.mark.parametrize("scale", [1e-6, 1e3])
def test_extreme_judgements_stay_finite(scale: float) -> None:
    """Judgements a million times smaller or a thousand times larger than usual neither overflow nor warn."""
    z, gates = _problem()
    weight = solve(csr_matrix(z * scale), gates, np.full((2, 6), 0.1), Penalties(sparsity=0.3))

    assert np.isfinite(weight).all()
