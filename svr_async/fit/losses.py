"""The margin loss per example, as pure functions; reduction is the caller's (paper sec:margin, sec:adv)."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def preference_loss(margin: jax.Array) -> jax.Array:
    """Return softplus(−F) for each margin F: log(1 + exp(−F)), finite at any F; log 2 at 0 (sec:margin)."""
    return jax.nn.softplus(-margin)


def adversarial_loss(margin: jax.Array, negative_margin: jax.Array) -> jax.Array:
    """Return the mean of the losses of a triple and of the one with its hard negative (sec:adv)."""
    return (preference_loss(margin) + preference_loss(negative_margin)) * 0.5


def diversity_loss(alpha: jax.Array, i: jax.Array, j: jax.Array, value: jax.Array) -> jax.Array:
    """Return Σ_ij S_ij α_i α_j over symmetric S, given each edge i < j once: 2 Σ_edges S α_i α_j (sec:margin).

    `alpha` (…, rubric); `i`, `j`, `value` (edge,) or, with alpha's leading axes, (…, edge). Zero without edges.
    """
    if value.shape[-1] == 0:
        return jnp.zeros(alpha.shape[:-1], alpha.dtype)
    if i.ndim == 1:
        return 2 * jnp.sum(alpha[..., i] * alpha[..., j] * value.reshape((1,) * (alpha.ndim - 1) + (-1,)), axis=-1)
    pick = jnp.take_along_axis
    return 2 * jnp.sum(pick(alpha, i, axis=-1) * pick(alpha, j, axis=-1) * value, axis=-1)
