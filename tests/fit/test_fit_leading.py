"""Leading components: scikit-learn's, but for signs and rounding, at any shape and rank."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random
from sklearn.decomposition import TruncatedSVD

from svr_async.fit import threads
from svr_async.fit.leading import leading_components


@pytest.mark.parametrize("shape", [(300, 80), (60, 200)])
def test_components_are_those_of_scikit_learn(shape):
    """Tall or wide, each component equals that of `TruncatedSVD` with the same seed, up to its sign."""
    view = random(*shape, density=0.2, format="csr", random_state=0)
    expected = TruncatedSVD(8, n_iter=4, random_state=3).fit_transform(view)

    np.testing.assert_allclose(np.abs(leading_components(view, 8, 3)), np.abs(expected), atol=1e-8)


def test_a_low_rank_gives_fewer_components():
    """Of a matrix of rank 2 two components are found, which hold all of it."""
    left, right = np.random.default_rng(0).normal(size=(2, 40, 2))
    found = leading_components(csr_matrix(left @ right.T), 6, 0)

    assert found.shape == (40, 2)
    np.testing.assert_allclose(found @ found.T, left @ right.T @ right @ left.T, atol=1e-9)


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    """Blocks are summed in their order, whoever worked on them."""
    view = random(500, 60, density=0.2, format="csr", random_state=1)
    monkeypatch.setattr("svr_async.fit.leading.BLOCK", 64)
    found = []
    for count in (1, 3):
        monkeypatch.setattr(threads, "processors", lambda count=count: count)
        found.append(leading_components(view, 5, 0))

    np.testing.assert_array_equal(*found)
