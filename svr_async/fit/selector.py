"""The selector in JAX: sparse features in, alpha over the bank or a pair's judged pool out (paper app:selector)."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from svr_async.fit.config import Kind
from svr_async.fit.forward import Selector
from svr_async.fit.sparsemax import sparsemax


class Params(NamedTuple):
    """What is learned; rows of `hidden` are features and rows of `output` rubrics, so that both can be gathered."""

    hidden: jax.Array  # (feature, unit)
    hidden_bias: jax.Array  # (unit,)
    output: jax.Array  # (rubric, unit)
    output_bias: jax.Array  # (rubric,)
    raw_weight: jax.Array  # (rubric,), weight = softplus(raw_weight)


class Features(NamedTuple):
    """A batch of sparse prompts, each cut into pieces of equal width so that a long prompt widens no other.

    `number` and `value` (piece, width): which features, and their TF-IDF; padding has value 0.
    `owner` (piece,) is the row in the batch, sorted.
    """

    number: jax.Array
    value: jax.Array
    owner: jax.Array


def hidden_units(params: Params, features: Features, rows: int, kind: Kind) -> jax.Array:
    """Return g(W1 φ + b1), (rows, unit): gathers the rows of W1 that a prompt uses and sums them."""
    if params.hidden.shape[0] == 0:  # an empty vocabulary: only the biases speak
        before = jnp.broadcast_to(params.hidden_bias[None], (rows, params.hidden.shape[1]))
    else:
        taken = jnp.take(params.hidden, features.number, axis=0, mode="clip")
        gathered = jnp.einsum("pwh,pw->ph", taken, features.value)
        summed = jax.ops.segment_sum(gathered, features.owner, num_segments=rows, indices_are_sorted=True)
        before = summed + params.hidden_bias[None]
    return jax.nn.relu(before) if kind == "mlp" else jax.nn.softmax(before, axis=-1)


def bank_logits(params: Params, hidden: jax.Array) -> jax.Array:
    """Return the logits of every rubric, (rows, rubric)."""
    return hidden @ params.output.T + params.output_bias[None]


def pooled_logits(params: Params, hidden: jax.Array, rubric: jax.Array) -> jax.Array:
    """Return the logits of each row's own entries (rows, entry) by gathering W2; nothing rows × rubrics is made."""
    gathered = jnp.take(params.output, rubric, axis=0, mode="clip")
    return jnp.einsum("beh,bh->be", gathered, hidden) + jnp.take(params.output_bias, rubric, mode="clip")


def positive_share(logits: jax.Array) -> jax.Array:
    """Scale each row's positive part to sum 1; −inf masks, and where nothing is positive the largest share it all."""
    kept = jnp.maximum(logits, 0)
    top = jnp.max(logits, axis=-1, keepdims=True)
    none = top <= 0
    shared = ((logits == top) & (logits > -jnp.inf)).astype(logits.dtype)
    kept = jnp.where(none, shared, kept / jnp.where(none, jnp.ones_like(top), top))
    return kept / jnp.maximum(jnp.sum(kept, axis=-1, keepdims=True), 1e-30)


def to_alpha(logits: jax.Array, kind: Kind) -> jax.Array:
    """Map logits to the simplex: sparsemax for `mlp`, the share of the positive part for `topics`."""
    return sparsemax(logits) if kind == "mlp" else positive_share(logits)


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


def to_selector(params: Params, kind: Kind) -> Selector:
    """Return the parameters as the plain arrays that inference reads."""
    arrays = {name: np.asarray(value) for name, value in params._asdict().items() if name != "raw_weight"}
    return Selector(kind=kind, weight=np.asarray(weights(params)), **arrays)


def to_params(selector: Selector) -> Params:
    """Return the parameters of a stored selector, with raw_weight = log(exp(w) − 1) in its stable form."""
    weight = np.maximum(selector.weight.astype(np.float64), 1e-30)
    raw = (weight + np.log(-np.expm1(-weight))).astype(np.float32)
    kept = {name: jnp.asarray(value) for name, value in selector.tensors().items() if name != "weight"}
    return Params(raw_weight=jnp.asarray(raw), **kept)
