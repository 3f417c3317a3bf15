"""The leading components of a sparse matrix, by the randomised method that scikit-learn uses, in less time.

    Q ← random;  four times  Q ← basis of Xᵀ X Q;  then the best directions of X projected on the basis of X Q

(Halko, Martinsson and Tropp 2011). Bases come from the eigenvectors of small Gram matrices in double precision instead
of a factorisation of tall matrices at every turn. Subspaces, and so the components, are scikit-learn's
`TruncatedSVD(size, n_iter=4)` but for rounding and signs.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from svr_async.fit.threads import in_threads, rows_of

Floats = npt.NDArray[np.float64]

TURNS = 4
SPARE = 10  # directions more than asked for, as in scikit-learn
BLOCK = 8192  # rows that one thread multiplies at a time
NOTHING = 1e-12  # squared length, relative to the longest, below which a direction is noise


def leading_components(view: Any, size: int, seed: int) -> Floats:
    """Return the rows of sparse `view` on its `size` leading directions (row, size); fewer where its rank is less."""
    rows = view.tocsr().astype(np.float64)
    blocks = [rows[part] for part in rows_of(rows.shape[0], BLOCK)]
    is_tall = rows.shape[0] >= rows.shape[1]
    product, back = (_product, _transposed_product) if is_tall else (_transposed_product, _product)
    basis = np.random.RandomState(seed).normal(size=(min(rows.shape), size + SPARE))
    for _ in range(TURNS):
        basis = _orthonormal(back(blocks, product(blocks, basis)))
    image = _orthonormal(product(blocks, basis))
    right = back(blocks, image)  # (column, direction): the transposed projection on `image`
    length, turn = np.linalg.eigh(right.T @ right)
    order = np.argsort(-length)[:size]
    order = order[length[order] > NOTHING * max(length.max(initial=0.0), NOTHING)]
    directions = right @ turn[:, order] / np.sqrt(length[order]) if is_tall else image @ turn[:, order]
    return _product(blocks, directions)


def _product(blocks: list[Any], dense: Floats) -> Floats:
    """Return X · dense, the rows of X in blocks."""
    return np.concatenate(in_threads(lambda block: block @ dense, blocks))


def _transposed_product(blocks: list[Any], dense: Floats) -> Floats:
    """Return Xᵀ · dense, the rows of X in blocks."""
    parts = rows_of(len(dense), BLOCK)
    return cast("Floats", sum(in_threads(lambda at: blocks[at].T @ dense[parts[at]], range(len(blocks)))))


def _orthonormal(columns: Floats) -> Floats:
    """Return an orthonormal basis of the columns' span; directions that are only rounding are dropped."""
    length, turn = np.linalg.eigh(columns.T @ columns)
    kept = length > NOTHING * max(length.max(initial=0.0), NOTHING)
    return cast("Floats", columns @ (turn[:, kept] / np.sqrt(length[kept])))
