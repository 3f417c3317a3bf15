"""Losses: known values, stability at extremes, derivatives, the slow double sum."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from svr_async.fit.epoch import diversity_loss, preference_loss

EDGES = (jnp.array([0, 1]), jnp.array([2, 3]), jnp.array([0.5, 1.0]))


@pytest.mark.parametrize(("margin", "expected"), [(0.0, np.log(2)), (-200.0, 200.0), (200.0, 0.0), (-1e30, 1e30)])
def test_preference_loss_is_exact_and_finite(margin: float, expected: float) -> None:
    """A tie costs log 2, and a margin of −200 costs 200 where the naive form overflows."""
    np.testing.assert_allclose(preference_loss(jnp.float32(margin)), np.float32(expected), rtol=1e-6)


def test_preference_slope_is_minus_sigmoid() -> None:
    """The derivative is −σ(−F), in closed form and by finite differences in float64."""
    with jax.enable_x64(True):
        margin = jnp.linspace(-6, 6, 13, dtype=jnp.float64)
        slope = jax.vmap(jax.grad(preference_loss))(margin)
        step = (preference_loss(margin + 1e-6) - preference_loss(margin - 1e-6)) / 2e-6
        np.testing.assert_allclose(slope, -1 / (1 + np.exp(np.asarray(margin))), atol=1e-12)
        np.testing.assert_allclose(slope, step, atol=1e-8)


def test_diversity_equals_the_double_sum() -> None:
    """The edge list gives Σ_ij S_ij α_i α_j over the symmetric matrix, for one row and for many."""
    i, j, value = EDGES
    matrix = np.zeros((4, 4), np.float32)
    matrix[i, j] = matrix[j, i] = value
    alpha = np.random.default_rng(0).dirichlet(np.ones(4), 5).astype(np.float32)
    expected = np.einsum("pi,ij,pj->p", alpha, matrix, alpha)

    np.testing.assert_allclose(diversity_loss(jnp.asarray(alpha), i, j, value), expected, rtol=1e-5)


def test_diversity_gradient_is_two_s_alpha() -> None:
    """The gradient with respect to alpha is 2 S α."""
    i, j, value = EDGES
    alpha = jnp.array([0.1, 0.2, 0.3, 0.4])
    gradient = jax.grad(lambda a: diversity_loss(a, i, j, value))(alpha)
    np.testing.assert_allclose(gradient, [0.3, 0.8, 0.1, 0.4], rtol=1e-5)


def test_no_edges_cost_nothing() -> None:
    """Without edges the term is exactly 0."""
    none = jnp.zeros((0,), jnp.int32)
    assert float(diversity_loss(jnp.ones(3), none, none, jnp.zeros(0))) == 0
