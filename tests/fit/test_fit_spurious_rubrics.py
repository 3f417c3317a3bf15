"""Spurious rubrics: what only goes with the label is separated from what decides it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from svr_async.fit import spurious_rubrics as module
from svr_async.fit.paraphrase_clusters import judged_of
from svr_async.fit.spurious_rubrics import spurious_rubrics

WEIGHTS = np.array([4.0, 2.0, 2.0, 1.0, 1.0, 1.0, 0.0, 0.0])  # two of them decide nothing
STYLES = (6, 7)


def pairs(seed: int, *, lean: float = 0.2, halo: float = 0.0, wrong: float = 0.0, count: int = 4000) -> csr_matrix:
    """Return z of pairs whose chosen response has the larger weighed sum; styles lean with it, halo with everything."""
    rng = np.random.default_rng(seed)
    good = rng.normal(size=(count, 1)) * halo
    z = np.sign(rng.normal(size=(count, len(WEIGHTS))) + good) * 0.75 * (rng.random((count, len(WEIGHTS))) < 0.6)
    decided = z @ WEIGHTS + rng.normal(size=count) * 0.2
    z *= np.where(decided < 0, -1, 1)[:, None]
    styled = rng.random((count, len(STYLES)))
    z[:, STYLES] = np.where(styled < 0.3 + lean, 0.75, np.where(styled < 0.6, -0.75, 0.0))
    z *= np.where(rng.random(count) < wrong, -1, 1)[:, None]
    judged = rng.random(z.shape) < 0.8
    return csr_matrix(np.where(judged, np.where(z == 0, 1e-9, z), 0.0))


def found(z: csr_matrix, mixture: NDArray[np.float64] | None = None) -> list[int]:
    """Return what is found by effects as a fit of these labels has them: of the styles too."""
    mixture = np.ones((z.shape[0], 1)) if mixture is None else mixture
    effects = np.tile(WEIGHTS + 1.5 * np.isin(np.arange(len(WEIGHTS)), STYLES), (mixture.shape[1], 1))
    return spurious_rubrics(z, judged_of(z), mixture, effects)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("wrong", [0.0, 0.15])
def test_styles_that_go_with_the_label_are_found_and_nothing_else(seed: int, wrong: float) -> None:
    """With right labels and with some that are wrong, the two styles stand out, and no criterion does."""
    assert set(found(pairs(seed, wrong=wrong))) == set(STYLES)


@pytest.mark.parametrize("seed", range(6))
def test_where_nothing_leans_nothing_is_found(seed: int) -> None:
    """Criteria that decide are kept, however unlike their weights."""
    assert found(pairs(seed, lean=0.0, wrong=0.1)) == []


@pytest.mark.parametrize("seed", range(4))
def test_a_halo_is_no_reason(seed: int) -> None:
    """Where a judge's verdicts all go together, no criterion is left out for it."""
    assert not {0, 1, 2} & set(found(pairs(seed, lean=0.0, halo=1.5)))


def test_wordings_of_one_criterion_do_not_make_each_other_suspect() -> None:
    """Two texts that are judged alike go together, and are left out of each other's rest."""
    z = pairs(0, lean=0.0).toarray()
    z[:, 7] = z[:, 0]
    effects = np.where(np.arange(len(WEIGHTS)) == 7, 4.0, WEIGHTS)[None]
    twice = csr_matrix(z)
    assert spurious_rubrics(twice, judged_of(twice), np.ones((len(z), 1)), effects) == []


def test_many_criteria_are_weighed_in_blocks_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few pairs at a time: the same styles stand out."""
    monkeypatch.setattr(module, "MOST_CELLS", 8 * 300)
    assert set(found(pairs(1))) == set(STYLES)


def test_too_little_is_no_evidence() -> None:
    """With few pairs, or next to no criteria, nothing is left out."""
    assert found(pairs(0, count=60)) == []
    z = pairs(0)[:, :2]
    assert spurious_rubrics(z, judged_of(z), np.ones((z.shape[0], 1)), np.ones((1, 2))) == []
    assert spurious_rubrics(z, judged_of(z), np.ones((z.shape[0], 1)), np.zeros((1, 2))) == []
