"""A sparse matrix times a dense one in JAX, by the processor's own kernel where it has one, with its gradient."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.sparse import BCSR, bcsr_dot_general

from svr_async.fit.rounding import roomy

LANES = 8  # columns that the CPU's kernel takes at once; other numbers of columns take several times as long


class Csr(NamedTuple):
    """A CSR matrix: `value` and `column` (entry,), and the borders of rows `start` (row + 1,); the rest is padding."""

    value: jax.Array
    column: jax.Array
    start: jax.Array


def csr_of(matrix: Any, rows: int) -> Csr:
    """Return a sparse SciPy matrix with empty rows below it up to `rows`, and room behind its entries."""
    spare = roomy(matrix.nnz) - matrix.nnz
    start = np.append(matrix.indptr, np.full(rows - matrix.shape[0], matrix.nnz))
    return Csr(
        jnp.asarray(np.pad(matrix.data, (0, spare)), jnp.float32),
        jnp.asarray(np.pad(matrix.indices, (0, spare)), jnp.int32),
        jnp.asarray(start, jnp.int32),
    )


@jax.custom_vjp
def product(matrix: Csr, transposed: Csr, dense: jax.Array) -> jax.Array:  # noqa: ARG001  (for the gradient)
    """Return matrix · dense (row, unit); the gradient is that of `dense` alone and takes the transposed matrix."""
    return times(matrix, dense)


def _forward(matrix: Csr, transposed: Csr, dense: jax.Array) -> tuple[jax.Array, Csr]:
    return times(matrix, dense), transposed


def _backward(transposed: Csr, slope: jax.Array) -> tuple[None, None, jax.Array]:
    return None, None, times(transposed, slope)


product.defvjp(_forward, _backward)


def times(matrix: Csr, dense: jax.Array) -> jax.Array:
    """Return matrix · dense (row, unit)."""
    spare = -dense.shape[1] % LANES
    wide = jnp.pad(dense, ((0, 0), (0, spare)))
    sparse = BCSR((matrix.value, matrix.column, matrix.start), shape=(len(matrix.start) - 1, len(dense)))
    contract: Any = (((1,), (0,)), ((), ()))
    return bcsr_dot_general(sparse, wide, dimension_numbers=contract)[:, : dense.shape[1]]
