"""A fitted selector as a function of sparse features: the importance of every rubric for prompts of any source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from svr_async.fit.forward import Selector
from svr_async.fit.measure import importance_rows

Importance = Callable[[csr_matrix], np.ndarray]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Feature rows in the names that `fit.measure` reads them by."""

    feature_indptr: np.ndarray
    feature_index: np.ndarray
    feature_value: np.ndarray


def selector_importance(selector: Selector) -> Importance:
    """Return alpha · weight of a fitted selector."""

    def importance(features: csr_matrix) -> np.ndarray:
        rows = _Rows(features.indptr, features.indices, features.data)
        return np.concatenate(list(importance_rows(selector, rows, np.arange(features.shape[0]))))

    return importance


def sparse_rows(indptr: np.ndarray, index: np.ndarray, value: np.ndarray, width: int) -> csr_matrix:
    """Return CSR rows as a SciPy matrix."""
    return csr_matrix((value, index, indptr), shape=(len(indptr) - 1, width))
