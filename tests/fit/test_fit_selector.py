"""The selector: JAX equals NumPy, pooled equals restricted, pieces equal the dense product, storage round-trips."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from made_arrays import made_arrays

from svr_async.errors import ArtefactError
from svr_async.fit import mlp as module
from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import Kind
from svr_async.fit.epoch import Steps, cut_steps, pieces_needed, step_features, tabulate
from svr_async.fit.forward import (
    Selector,
    alpha_numpy,
    fitted_margins,
    importance,
    importance_matrix,
    logits_numpy,
    positive_numpy,
)
from svr_async.fit.mlp import Params, random_params, sparsemax, to_params, to_selector

KINDS: tuple[Kind, ...] = ("mlp", "topics")
# Compiled whole: one by one, dozens of small operations would each be compiled by itself.
hidden_units = jax.jit(module.hidden_units, static_argnums=2)
bank_columns = jax.jit(module.bank_columns)


def params_and_arrays(long: int = 1) -> tuple[Params, FitArrays]:
    """Return random parameters and arrays, the first prompt `long` times as long as the vocabulary."""
    arrays = made_arrays(n_pairs=20, n_features=24)
    if long > 1:  # one prompt of many pieces
        index = np.concatenate([np.tile(np.arange(24), long), arrays.feature_index])
        value = np.concatenate([np.full(24 * long, 0.05, np.float32), arrays.feature_value])
        indptr = np.concatenate([[0], arrays.feature_indptr + 24 * long])
        arrays = replace(arrays, feature_index=index, feature_value=value, feature_indptr=indptr)
    return random_params(24, 12, 8, 0), arrays


def whole_batch(arrays: FitArrays) -> Any:
    """Return the features of all pairs as one batch."""
    table, rows = tabulate(arrays)
    order = np.arange(rows.n_rows)
    width = pieces_needed(rows, [order], len(order))
    steps = cut_steps(rows, order, len(order), width=width)
    return table, step_features(jax.device_put(table), jax.tree.map(lambda part: jnp.asarray(part[0]), steps))


@pytest.mark.parametrize("long", [1, 5])
def test_sparse_pieces_equal_the_dense_product(long: int) -> None:
    """Gathering and summing pieces gives ReLU(W1 φ + b1), whatever the prompts' lengths."""
    params, arrays = params_and_arrays(long)
    dense = np.zeros((arrays.n_prompts, 24), np.float32)
    for p in range(arrays.n_prompts):
        a, b = arrays.feature_indptr[p], arrays.feature_indptr[p + 1]
        np.add.at(dense[p], arrays.feature_index[a:b], arrays.feature_value[a:b])
    before = dense[arrays.pair_prompt] @ np.asarray(params.hidden) + np.asarray(params.hidden_bias)

    _, features = whole_batch(arrays)
    np.testing.assert_allclose(hidden_units(params, features, arrays.n_pairs), np.maximum(before, 0), atol=1e-5)


@pytest.mark.parametrize("long", [1, 5])
@pytest.mark.parametrize("batch", [160, 60])
def test_the_sparse_product_equals_gathering(long: int, batch: int) -> None:
    """On CPUs W1 meets a batch, and its gradient is formed, by a sparse product: both equal the gathered form's."""
    params, arrays = params_and_arrays(long)
    table, rows = tabulate(arrays)
    order = np.arange(rows.n_rows)
    width = pieces_needed(rows, [order], batch)
    plain, transposed = (cut_steps(rows, order, batch, width=width, transposed=flag) for flag in (False, True))
    slope = jnp.asarray(np.random.default_rng(0).normal(size=(plain.row.shape[-1], 8)), jnp.float32)

    def total(params: Params, steps: Steps) -> jax.Array:
        one = jax.tree.map(lambda part: jnp.asarray(part[-1]), steps)
        features = step_features(jax.device_put(table), one)
        return jnp.sum(hidden_units(params, features, len(slope)) * slope)

    both = jax.jit(jax.value_and_grad(total))
    (one, slopes), (other, expectations) = both(params, transposed), both(params, plain)
    np.testing.assert_allclose(one, other, rtol=1e-5)
    for got, expected in zip(slopes, expectations, strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-5)


def test_numpy_forward_equals_jax() -> None:
    """What inference computes with NumPy equals what the fit computes with JAX, to 1e-6."""
    params, arrays = params_and_arrays()
    _, features = whole_batch(arrays)
    with jax.default_matmul_precision("highest"):  # else a GPU multiplies with fewer bits
        hidden = hidden_units(params, features, arrays.n_pairs)
        expected = np.asarray(sparsemax(bank_columns(params, hidden).T))
    selector = to_selector(params)
    rows = [
        alpha_numpy(selector, arrays.feature_index[4 * p : 4 * p + 4], arrays.feature_value[4 * p : 4 * p + 4])
        for p in arrays.pair_prompt
    ]

    np.testing.assert_allclose(rows, expected, atol=1e-6)
    matrix = importance_matrix(selector, arrays, arrays.pair_prompt)
    np.testing.assert_allclose(matrix, expected * selector.weight, atol=1e-6)


@pytest.mark.parametrize(
    ("logits", "expected"),
    [
        ([1.0, 3.0, -2.0], [0.25, 0.75, 0]),
        ([0.0, 0.0, -1.0], [0.5, 0.5, 0]),
        ([-5.0, -1.0, -np.inf], [0, 1, 0]),
        ([1e30, -1e30, 1e30], [0.5, 0, 0.5]),
    ],
)
def test_a_positive_share_is_on_the_simplex(logits: list[float], expected: list[float]) -> None:
    """The positive part is scaled to sum 1 and falls back to the largest; rows are as they are alone."""
    row = np.array(logits, np.float32)
    np.testing.assert_allclose(positive_numpy(row), expected, atol=1e-6)
    np.testing.assert_array_equal(positive_numpy(np.stack([row, row])), [positive_numpy(row)] * 2)


def test_margins_of_a_solved_fit_are_sums_over_each_pairs_entries() -> None:
    """F = Σ alpha · weight · z, alpha over the judged entries; a pair without one has 0."""
    params, arrays = params_and_arrays()
    arrays = replace(
        arrays,
        z_indptr=np.concatenate([arrays.z_indptr[:1], arrays.z_indptr]),
        pair_prompt=np.r_[0, arrays.pair_prompt],
    )
    selector = replace(to_selector(params), kind="topics", weight=np.linspace(0.5, 2, 12, dtype=np.float32))
    whole, best = fitted_margins(selector, arrays, 2)
    for pair, prompt in enumerate(arrays.pair_prompt.tolist()):
        entries = slice(*arrays.z_indptr[pair : pair + 2])
        logits = logits_numpy(selector, *arrays.features(prompt))
        rubric, z = arrays.z_rubric[entries], arrays.z_delta[entries]
        alpha = positive_numpy(logits[rubric]) if len(rubric) else np.zeros(0, np.float32)
        parts = alpha * selector.weight[rubric]
        np.testing.assert_allclose(whole[pair], parts @ z, atol=1e-5)
        top = np.argsort(-parts)[:2]
        np.testing.assert_allclose(best[pair], parts[top] @ z[top], atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_an_unseen_prompt_gets_alpha_from_the_biases(kind: Kind) -> None:
    """φ = 0 gives a finite alpha on the simplex (fault 105)."""
    selector = replace(to_selector(random_params(24, 12, 8, 0)), kind=kind)
    none = np.zeros(0, np.int32), np.zeros(0, np.float32)
    np.testing.assert_allclose(alpha_numpy(selector, *none).sum(), 1, atol=1e-6)
    assert importance(selector, *none).min() >= 0


def test_an_empty_vocabulary_works() -> None:
    """A selector over 0 features still ranks rubrics (fault 105)."""
    selector = to_selector(random_params(0, 4, 3, 0))
    np.testing.assert_allclose(alpha_numpy(selector, np.zeros(0, int), np.zeros(0, np.float32)).sum(), 1, atol=1e-6)


def test_weights_survive_the_way_back_to_parameters() -> None:
    """Softplus and its inverse cancel, from tiny weights to large ones."""
    selector = to_selector(random_params(3, 5, 2, 0))
    weight = np.array([1e-6, 1e-3, 0.5, 8.0, 60.0], np.float32)
    back = to_selector(to_params(replace(selector, weight=weight)))
    np.testing.assert_allclose(back.weight, weight, rtol=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "tree"},
        {"weight": np.array([-1, 1], np.float32)},
        {"weight": np.ones(3, np.float32)},
        {"output": np.full((2, 2), np.nan, np.float32)},
        {"hidden": np.zeros((3, 2))},
    ],
)
def test_a_damaged_selector_is_refused(change: dict[str, Any]) -> None:
    """Unknown kind, wrong shapes, NaN, negative weights and float64 are named, not used."""
    good: dict[str, Any] = {
        "kind": "mlp",
        "hidden": np.zeros((3, 2), np.float32),
        "hidden_bias": np.zeros(2, np.float32),
        "output": np.zeros((2, 2), np.float32),
        "output_bias": np.zeros(2, np.float32),
        "weight": np.ones(2, np.float32),
    }
    Selector(**good)
    with pytest.raises(ArtefactError):
        Selector(**(good | change))


def test_restricting_keeps_the_kept_rubrics() -> None:
    """A restricted selector's logits are the old ones at the kept rubrics."""
    selector = to_selector(random_params(24, 12, 8, 0))
    kept = np.array([7, 2, 5])
    np.testing.assert_array_equal(selector.restrict(kept).output, selector.output[kept])
    assert selector.restrict(kept).n_rubrics == 3
