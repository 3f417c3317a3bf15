"""The paper's selector in JAX, kind `mlp`: sparse features to logits over the bank, then sparsemax (app:selector).

    sparsemax(v) = argmin_p |p − v|²  subject to  p >= 0, Σ p = 1        (Martins and Astudillo 2016)
                 = max(0, v − τ),  τ = (Σ_support v − 1) / |support|

The maximum is subtracted first, so a common offset, however large, changes nothing. An entry more than 1 below the
maximum is never in the support, so values are clipped there and −inf is a mask. τ is found by Michelot's active-set
iteration, exact and on CPUs five times as fast as sorting, most of all along axis 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.sparse import BCSR, bcsr_dot_general

from svr_async.fit.forward import Selector

GROUP = 8  # entries of which the largest takes part in the first search for τ


class Params(NamedTuple):
    """The learned parameters; rows of `hidden` are features, rows of `output` rubrics, so both can be gathered."""

    hidden: jax.Array  # (feature, unit)
    hidden_bias: jax.Array  # (unit,)
    output: jax.Array  # (rubric, unit)
    output_bias: jax.Array  # (rubric,)
    raw_weight: jax.Array  # (rubric,), weight = softplus(raw_weight)


class Features(NamedTuple):
    """A batch of sparse prompts, each cut into pieces of equal width so that a long prompt widens no other.

    `number` and `value` (piece, width): features and their TF-IDF; padding has value 0.
    `owner` (piece,) is the row in the batch, sorted. The rest is for CPUs (see `epoch.Steps`), or absent.
    """

    number: jax.Array
    value: jax.Array
    owner: jax.Array
    start: jax.Array | None = None  # (row + 1,)
    by_feature: jax.Array | None = None  # (place,)
    border: jax.Array | None = None  # (feature + 1,)


def hidden_units(params: Params, features: Features, rows: int) -> jax.Array:
    """Return ReLU(W1 φ + b1), (rows, unit): gathers the rows of W1 that a prompt uses and sums them."""
    if params.hidden.shape[0] == 0:  # an empty vocabulary: only the biases count
        before = jnp.broadcast_to(params.hidden_bias[None], (rows, params.hidden.shape[1]))
    elif features.start is not None:
        before = _sparse_times_dense(features, params.hidden) + params.hidden_bias[None]
    else:
        taken = jnp.take(params.hidden, features.number, axis=0, mode="clip")
        gathered = jnp.einsum("pwh,pw->ph", taken, features.value)
        summed = jax.ops.segment_sum(gathered, features.owner, num_segments=rows, indices_are_sorted=True)
        before = summed + params.hidden_bias[None]
    return jax.nn.relu(before)


@jax.custom_vjp
def _sparse_times_dense(features: Features, dense: jax.Array) -> jax.Array:
    """Return Σ φ_f W1_f per row, (row, unit), by the CPU's own sparse product; its gradient is W1's alone."""
    assert features.start is not None
    return _product(features.value.ravel(), features.number.ravel(), features.start, dense)


def _sparse_forward(features: Features, dense: jax.Array) -> tuple[jax.Array, tuple[Features, jax.Array]]:
    return _sparse_times_dense(features, dense), (features, dense[:0])


def _sparse_backward(kept: tuple[Features, jax.Array], cotangent: jax.Array) -> tuple[None, jax.Array]:
    """Return the gradient of W1 (feature, unit): the same entries in the order of their features."""
    features, _ = kept
    assert features.by_feature is not None
    assert features.border is not None
    place = features.by_feature.astype(jnp.int32)
    row = features.owner[place // features.value.shape[1]]
    return None, _product(features.value.ravel()[place], row, features.border.astype(jnp.int32), cotangent)


_sparse_times_dense.defvjp(_sparse_forward, _sparse_backward)


def _product(value: jax.Array, column: jax.Array, start: jax.Array, dense: jax.Array) -> jax.Array:
    """Return the product of a CSR matrix, (row, column), and a dense one, (column, unit)."""
    sparse = BCSR((value, column, start), shape=(len(start) - 1, len(dense)))
    contract: Any = (((1,), (0,)), ((), ()))
    return bcsr_dot_general(sparse, dense, dimension_numbers=contract)


def bank_columns(params: Params, hidden: jax.Array) -> jax.Array:
    """Return the logits of every rubric, (rubric, rows): CPUs add up columns much faster than rows."""
    return _columns(params.output, hidden) + params.output_bias[:, None]


@jax.custom_vjp
def _columns(output: jax.Array, hidden: jax.Array) -> jax.Array:
    return output @ hidden.T


def _columns_forward(output: jax.Array, hidden: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return output @ hidden.T, (output, hidden)


def _columns_backward(kept: tuple[jax.Array, jax.Array], slope: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return both gradients; transposing the slope first is a third faster than a transposed product."""
    output, hidden = kept
    turned = cast("jax.Array", jax.lax.optimization_barrier(slope.T))  # type: ignore[no-untyped-call]  # JAX's
    return slope @ hidden, turned @ output


_columns.defvjp(_columns_forward, _columns_backward)


def weights(params: Params) -> jax.Array:
    """Return w = softplus(raw_weight) >= 0 (paper app:hparams)."""
    return jax.nn.softplus(params.raw_weight)


def random_params(n_features: int, n_rubrics: int, units: int, seed: int) -> Params:
    """Return small random parameters drawn on the host, so that they are equal on every device.

    Uniform in ± 1/√fan_in, as a linear layer is commonly started; weights start near 1.
    """
    rng = np.random.default_rng([seed, 1])

    def uniform(shape: tuple[int, ...], fan_in: int) -> jax.Array:
        bound = 1 / np.sqrt(max(1, fan_in))
        return jnp.asarray(rng.uniform(-bound, bound, shape), jnp.float32)

    return Params(
        hidden=uniform((n_features, units), n_features),
        hidden_bias=uniform((units,), n_features),
        output=uniform((n_rubrics, units), units),
        output_bias=uniform((n_rubrics,), units),
        raw_weight=jnp.full((n_rubrics,), np.log(np.expm1(1.0)), jnp.float32),
    )


def to_selector(params: Params) -> Selector:
    """Return the parameters as the plain arrays that inference reads."""
    arrays = {name: np.asarray(value) for name, value in params._asdict().items() if name != "raw_weight"}
    return Selector(kind="mlp", weight=np.asarray(weights(params)), **arrays)


def to_params(selector: Selector) -> Params:
    """Return the parameters of a stored selector, with raw_weight = log(exp(w) − 1) in its stable form."""
    weight = np.maximum(selector.weight.astype(np.float64), 1e-30)
    raw = (weight + np.log(-np.expm1(-weight))).astype(np.float32)
    kept = {name: jnp.asarray(value) for name, value in selector.tensors().items() if name != "weight"}
    return Params(raw_weight=jnp.asarray(raw), **kept)


# ── sparsemax ───────────────────────────────────────────────────────────────────────────────────────────────────────


def sparsemax(logits: jax.Array, *, axis: int = -1) -> jax.Array:
    """Project `logits` onto the simplex along `axis`; −inf masks an entry, and a fully masked row gives zeros.

    NaN in gives NaN out.
    """
    return jnp.moveaxis(_project(jnp.moveaxis(logits, axis, 0)), 0, axis)


@jax.custom_jvp
def _project(logits: jax.Array) -> jax.Array:
    """Shift by the maximum, find τ ∈ [−1, 0), and cut; all along axis 0, where sums run over whole vectors."""
    highest = jnp.max(logits, axis=0, keepdims=True)
    masked = highest == -jnp.inf
    shifted = jnp.maximum(logits - jnp.where(masked, jnp.zeros_like(highest), highest), -2)
    out = jnp.maximum(shifted - _threshold(shifted), 0)
    return jnp.where(masked, jnp.zeros_like(out), out / jnp.maximum(out.sum(axis=0, keepdims=True), 1e-30))


@_project.defjvp
def _project_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    """Return J·v = s ⊙ (v − mean of v over the support), s the indicator of the support."""
    out, (tangent,) = _project(primals[0]), tangents
    support = out > 0
    inside = jnp.where(support, tangent, jnp.zeros_like(tangent))
    count = jnp.maximum(jnp.sum(support, axis=0, keepdims=True, dtype=out.dtype), 1)
    mean = jnp.sum(inside, axis=0, keepdims=True) / count
    return out, jnp.where(support, inside - mean, jnp.zeros_like(inside))


def _threshold(shifted: jax.Array) -> jax.Array:
    """Start Michelot's iteration from the τ of the groups' largest entries.

    Fewer entries never need a larger τ, so τ of a part is a lower bound of τ, near it if the part holds most of the
    support. Two or three passes over all entries then remain of five to nine.
    """
    whole = len(shifted) // GROUP
    start = jnp.full_like(shifted[:1], -1)
    if whole:
        largest = jnp.max(shifted[: whole * GROUP].reshape((GROUP, whole, *shifted.shape[1:])), axis=0)
        start = _michelot(largest, start)
    return _michelot(shifted, start)


def _michelot(shifted: jax.Array, start: jax.Array) -> jax.Array:
    """Average over the support and drop what falls below, until nothing falls; `start` must not exceed τ.

    τ only grows and each round drops at least one entry, so it ends. Starting from τ = −1 instead of all entries is
    exact too, since nothing more than 1 below the maximum is kept.
    """

    def refine(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        threshold, _ = state
        kept = shifted > threshold
        count = jnp.sum(kept, axis=0, keepdims=True, dtype=shifted.dtype)
        total = jnp.sum(jnp.where(kept, shifted, jnp.zeros_like(shifted)), axis=0, keepdims=True)
        higher = jnp.maximum((total - 1) / jnp.maximum(count, 1), threshold)
        return higher, jnp.any(higher > threshold)

    return jax.lax.while_loop(lambda state: state[1], refine, refine((start, jnp.array(True))))[0]
