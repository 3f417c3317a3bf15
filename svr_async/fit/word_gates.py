"""Gates by words alone for groups that were found by more than words: logistic regression on soft groups.

    min_{W, b}  −Σ_prompts Σ_k held_k log softmax(Wᵀ φ + b)_k  +  ρ/2 Σ W²

EM's own word shares weigh each word as if the others were not there; where the groups are known for the training
prompts, the regression tells better which words give them away. A few steps of optax's L-BFGS from the shares are
enough, in one compiled program. Shapes are rounded up, so that rounds share it.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax  # type: ignore[import-untyped]  # it ships no types

from svr_async.fit.csr import Csr, csr_of, product
from svr_async.fit.rounding import roomy

Floats = npt.NDArray[np.float64]

RIDGE = 0.3  # ρ
ITERATIONS = 30


class Gate(NamedTuple):
    """W (feature, topic) and b (topic,)."""

    words: jax.Array
    share: jax.Array


def gates_by_words(features: Any, held: Floats, words: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Return W (feature, topic) and b (topic,) that tell groups `held` (prompt, topic) by sparse `features`.

    The search begins at `words` and `share`, which have the shapes of the result.
    """
    prompts, terms = (roomy(size) for size in features.shape)
    sides = csr_of(features, prompts), csr_of(features.T.tocsr(), terms)
    start = Gate(_padded(words, terms), jnp.asarray(share, jnp.float32))
    solved = _solved(sides, _padded(held, prompts), start)
    found = np.asarray(solved.words, np.float64)[: len(words)], np.asarray(solved.share, np.float64)
    return found if all(np.isfinite(part).all() for part in found) else (words, share)


def _padded(rows: Floats, size: int) -> jax.Array:
    return jnp.asarray(np.pad(rows, ((0, size - len(rows)), (0, 0))), jnp.float32)


@jax.jit
def _solved(sides: tuple[Csr, Csr], held: jax.Array, start: Gate) -> Gate:
    """Return the gate after the steps of L-BFGS."""
    search = optax.lbfgs()

    def loss(gate: Gate) -> jax.Array:
        return _mismatch(sides, held, gate)

    def step(_: jax.Array, at: tuple[Gate, Any]) -> tuple[Gate, Any]:
        value, slope = optax.value_and_grad_from_state(loss)(at[0], state=at[1])
        move, state = search.update(slope, at[1], at[0], value=value, grad=slope, value_fn=loss)
        return optax.apply_updates(at[0], move), state

    begin = start, search.init(start)
    return cast("Gate", jax.lax.fori_loop(0, ITERATIONS, step, begin)[0])


def _mismatch(sides: tuple[Csr, Csr], held: jax.Array, gate: Gate) -> jax.Array:
    """Return the cross-entropy of the groups plus the ridge; a padded prompt is in no group and adds nothing."""
    scores = product(*sides, gate.words) + gate.share[None]
    return jnp.sum(optax.losses.softmax_cross_entropy(scores, held)) + RIDGE / 2 * jnp.sum(gate.words**2)
