"""Sparsemax: the Euclidean projection of logits onto the simplex, exact, with its closed-form derivative.

    sparsemax(v) = argmin_p |p − v|²  subject to  p >= 0, Σ p = 1        (Martins and Astudillo 2016)
                 = max(0, v − τ),  τ = (Σ_support v − 1) / |support|

The maximum is subtracted first: a common offset, however large, then changes nothing. An entry more than 1 below the
maximum is never in the support, so values are clipped there and −inf is a mask.
"""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import lax

Method = Literal["auto", "active_set", "sort"]

GROUP = 8  # entries of which the largest takes part in the first search for τ


def sparsemax(logits: jax.Array, *, axis: int = -1, method: Method = "auto") -> jax.Array:
    """Project `logits` onto the simplex along `axis`; −inf masks an entry.

    What is masked throughout gives zeros. `active_set` (Michelot) is the faster on CPUs and the choice of `auto`
    there, most of all along axis 0, which needs no transposition; `sort` elsewhere. Both are exact and agree to
    rounding. NaN in gives NaN out.
    """
    if method == "auto":
        method = "active_set" if jax.default_backend() == "cpu" else "sort"
    columns = jnp.moveaxis(logits, axis, 0)
    return jnp.moveaxis(_active_set(columns) if method == "active_set" else _sorted(columns), 0, axis)


@jax.custom_jvp
def _active_set(logits: jax.Array) -> jax.Array:
    return _project(logits, _threshold_by_active_set)


@jax.custom_jvp
def _sorted(logits: jax.Array) -> jax.Array:
    return _project(logits, _threshold_by_sort)


def _project(logits: jax.Array, threshold: Any) -> jax.Array:
    """Shift by the maximum, find τ ∈ [−1, 0), and cut; all along axis 0, where sums run over whole vectors."""
    highest = jnp.max(logits, axis=0, keepdims=True)
    masked = highest == -jnp.inf
    shifted = jnp.maximum(logits - jnp.where(masked, jnp.zeros_like(highest), highest), -2)
    out = jnp.maximum(shifted - threshold(shifted), 0)
    return jnp.where(masked, jnp.zeros_like(out), out / jnp.maximum(out.sum(axis=0, keepdims=True), 1e-30))


def _threshold_by_active_set(shifted: jax.Array) -> jax.Array:
    """Start Michelot's iteration from the τ of the groups' largest entries.

    Fewer entries never need a larger τ, so τ of a part is a lower bound of τ, near it where the part holds most of the
    support. Two or three passes over all entries then remain of five to nine.
    """
    whole = len(shifted) // GROUP
    start = jnp.full_like(shifted[:1], -1)
    if whole:
        largest = jnp.max(shifted[: whole * GROUP].reshape((GROUP, whole, *shifted.shape[1:])), axis=0)
        start = _michelot(largest, start)
    return _michelot(shifted, start)


def _michelot(shifted: jax.Array, start: jax.Array) -> jax.Array:
    """Average over the support, drop what falls below, until nothing falls; `start` must not exceed τ.

    τ only grows and each round drops at least one entry somewhere, so it ends. Starting from τ = −1 instead of all
    entries is exact too, since nothing more than 1 below the maximum is kept.
    """

    def refine(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        threshold, _ = state
        kept = shifted > threshold
        count = jnp.sum(kept, axis=0, keepdims=True, dtype=shifted.dtype)
        total = jnp.sum(jnp.where(kept, shifted, jnp.zeros_like(shifted)), axis=0, keepdims=True)
        higher = jnp.maximum((total - 1) / jnp.maximum(count, 1), threshold)
        return higher, jnp.any(higher > threshold)

    return lax.while_loop(lambda state: state[1], refine, refine((start, jnp.array(True))))[0]


def _threshold_by_sort(shifted: jax.Array) -> jax.Array:
    """Sort downwards; the support is the longest prefix whose last entry exceeds the prefix's own τ."""
    ordered = -jnp.sort(-shifted, axis=0)
    ranks = jnp.arange(1, len(shifted) + 1, dtype=shifted.dtype).reshape((-1,) + (1,) * (shifted.ndim - 1))
    thresholds = (jnp.cumsum(ordered, axis=0) - 1) / ranks
    size = jnp.sum(ordered > thresholds, axis=0, keepdims=True)
    return jnp.take_along_axis(thresholds, jnp.maximum(size - 1, 0), axis=0)


def _jvp(out: jax.Array, tangent: jax.Array) -> jax.Array:
    """Return J·v = s ⊙ (v − mean of v over the support), s the indicator of the support."""
    support = out > 0
    inside = jnp.where(support, tangent, jnp.zeros_like(tangent))
    count = jnp.maximum(jnp.sum(support, axis=0, keepdims=True, dtype=out.dtype), 1)
    mean = jnp.sum(inside, axis=0, keepdims=True) / count
    return jnp.where(support, inside - mean, jnp.zeros_like(inside))


@_active_set.defjvp
def _active_set_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    out = _active_set(primals[0])
    return out, _jvp(out, tangents[0])


@_sorted.defjvp
def _sorted_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    out = _sorted(primals[0])
    return out, _jvp(out, tangents[0])
