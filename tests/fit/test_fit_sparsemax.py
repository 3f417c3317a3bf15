"""Sparsemax: known values, invariants, a slow reference, derivatives, jit and vmap, extremes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from svr_async.fit import mlp as module
from svr_async.fit.forward import sparsemax_numpy

sparsemax = jax.jit(module.sparsemax)
slope_of_squares = jax.jit(jax.grad(lambda v: jnp.sum(module.sparsemax(v) ** 2)))
ROWS = st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=40)


def reference(row: NDArray[np.float32]) -> NDArray[np.float64]:
    """Project onto the simplex by trying every support size, in float64."""
    ordered = np.sort(np.asarray(row, np.float64))[::-1]
    for size in range(len(ordered), 0, -1):
        threshold = (ordered[:size].sum() - 1) / size
        if ordered[size - 1] > threshold:
            nearest: NDArray[np.float64] = np.maximum(np.asarray(row, np.float64) - threshold, 0)
            return nearest
    raise AssertionError


@pytest.mark.parametrize(
    ("logits", "expected"),
    [
        ([3.0], [1.0]),
        ([0.0, 0.0], [0.5, 0.5]),
        ([1.0, 0.5], [0.75, 0.25]),
        ([2.0, 0.0, 0.0], [1.0, 0.0, 0.0]),
        ([0.1, 0.0, -0.1, -5.0], [0.1 + 1 / 3, 1 / 3, 1 / 3 - 0.1, 0.0]),
        ([-np.inf, 0.0, 0.0], [0.0, 0.5, 0.5]),
        ([-np.inf, -np.inf], [0.0, 0.0]),
        ([1e30, -1e30], [1.0, 0.0]),
        ([-1e30, -1e30], [0.5, 0.5]),
    ],
)
def test_known_values(logits: list[float], expected: list[float]) -> None:
    """Cases worked out by hand come out exactly, masks, ties and ±1e30 included."""
    np.testing.assert_allclose(sparsemax(jnp.array(logits)), expected, atol=1e-6)


@given(row=ROWS)
@settings(deadline=None, max_examples=40)
def test_equals_the_slow_reference(row: list[float]) -> None:
    """Any row equals the projection found by trying every support size in float64."""
    padded = jnp.array([*row, *[-jnp.inf] * (40 - len(row))], jnp.float32)
    got = np.asarray(sparsemax(padded))[: len(row)]
    numbers = np.array(row, np.float32)
    np.testing.assert_allclose(got, reference(numbers), atol=2e-5)
    np.testing.assert_allclose(sparsemax_numpy(numbers), reference(numbers), atol=2e-5)


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 1e3, 1e9, 1e30])
def test_on_the_simplex_at_any_scale(scale: float) -> None:
    """Values are >= 0 and sum to 1 within 1e-6 at every scale, and gradients hold no NaN."""
    logits = jnp.asarray(np.random.default_rng(0).normal(size=(5, 257)) * scale, jnp.float32)
    alpha = sparsemax(logits)
    gradient = slope_of_squares(logits)

    assert np.asarray(alpha).min() >= 0
    np.testing.assert_allclose(np.asarray(alpha).sum(axis=-1), 1, atol=1e-6)
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("size", [7, 131])
def test_columns_equal_rows(size: int) -> None:
    """Along axis 0 the answer and its derivative are those along the last axis, transposed."""
    rows, slopes = jnp.asarray(np.random.default_rng(6).normal(size=(2, 5, size)), jnp.float32)

    def weighed(logits: jax.Array, axis: int) -> tuple[jax.Array, jax.Array]:
        alpha = module.sparsemax(logits, axis=axis)
        return jnp.sum(alpha * (slopes if axis else slopes.T)), alpha

    both = jax.jit(jax.grad(weighed, has_aux=True), static_argnums=1)
    by_row, alpha = both(rows, -1)
    by_column, columns = both(rows.T, 0)
    np.testing.assert_allclose(by_row.T, by_column, atol=1e-6)
    np.testing.assert_allclose(alpha.T, columns, atol=1e-6)
    np.testing.assert_allclose(columns.T, [reference(row) for row in np.asarray(rows)], atol=1e-6)


def test_a_common_offset_changes_nothing() -> None:
    """A power of two added to all logits leaves every bit of the answer as it was."""
    logits = jnp.asarray(np.random.default_rng(1).integers(-64, 64, 100) / 64, jnp.float32)
    shifted = logits + jnp.float32(2.0**16)
    np.testing.assert_array_equal(sparsemax(shifted), sparsemax(logits))


def test_jacobian_meets_finite_differences() -> None:
    """Central differences in float64 agree with the derivative away from a change of support."""
    with jax.enable_x64(True):
        logits, step = np.random.default_rng(4).normal(size=9), 1e-6 * np.eye(9)
        ahead, behind = (np.asarray(sparsemax(logits + steps)) for steps in (step, -step))
        jacobian = jax.jit(jax.jacobian(sparsemax))(logits)
        np.testing.assert_allclose(jacobian, (ahead - behind).T / 2e-6, atol=1e-8)


def test_masked_entries_get_no_gradient() -> None:
    """A −inf entry is 0 forwards and its gradient is 0, not NaN."""
    logits = jnp.array([[0.3, -jnp.inf, 0.1], [-jnp.inf] * 3])
    gradient = jax.jit(jax.grad(lambda v: jnp.sum(sparsemax(v) * jnp.arange(6.0).reshape(2, 3))))(logits)
    np.testing.assert_allclose(gradient, [[-1, 0, 1], [0, 0, 0]])
