"""The most similar prompts, against a slow reference."""

import numpy as np
import pytest
from scipy import sparse

from svr_async.training import neighbours
from svr_async.training.neighbours import nearest_prompts


def features(n, d=12, seed=0):
    """Return rows of few small whole numbers, so that products are exact and ties are many."""
    rng = np.random.default_rng(seed)
    dense = rng.integers(0, 3, (n, d)) * (rng.random((n, d)) < 0.3)
    return sparse.csr_matrix(dense.astype(np.float32))


def reference(rows, offered, count):
    """Return the same, one pair of rows at a time."""
    rows, offered = rows.toarray(), offered.toarray()
    found = np.full((len(rows), count), -1, np.int32)
    for a in range(len(rows)):
        scored = [(-float(rows[a] @ offered[b]), b) for b in range(len(offered)) if b != a]
        best = [b for score, b in sorted(scored) if score < 0][:count]
        found[a, : len(best)] = best
    return found


@pytest.mark.parametrize(("n", "count", "block"), [(1, 3, 256), (7, 24, 256), (60, 5, 16), (60, 60, 7), (33, 1, 33)])
def test_the_neighbours_are_those_of_a_slow_reference(n, count, block, monkeypatch):
    """With fewer rows than asked for, in blocks of any size; ties inside the list go to the lower row."""
    monkeypatch.setattr(neighbours, "BLOCK_ROWS", block)
    rng = np.random.default_rng(n)
    rows = features(n, seed=n)
    rows = sparse.diags(1 + rng.random(n).astype(np.float32)).astype(np.float32) @ rows
    found = nearest_prompts(rows.tocsr(), rows.tocsr(), count=count)
    scores = rows.toarray() @ rows.toarray().T
    np.fill_diagonal(scores, 0)
    expected = reference(rows, rows, count)
    assert found.shape == (n, count)
    assert found.dtype == np.int32
    for row in range(n):
        here, there = found[row][found[row] >= 0], expected[row][expected[row] >= 0]
        np.testing.assert_allclose(scores[row, here], scores[row, there], rtol=1e-5)
        assert len(set(here.tolist())) == len(here)


def test_ties_go_to_the_lower_row():
    """Equal rows are listed in their order, also where not all of them have room."""
    rows = sparse.csr_matrix(np.ones((9, 1), np.float32))
    found = nearest_prompts(rows, rows, count=3)
    assert found.tolist()[0] == [1, 2, 3]
    assert found.tolist()[8] == [0, 1, 2]


def test_no_prompt_is_its_own_neighbour_and_only_offered_rows_are_neighbours():
    """Rows that are not offered get neighbours and are none; what shares no word is no neighbour."""
    rows = features(50, seed=3)
    keep = np.arange(50) % 3 == 0
    offered = sparse.diags(keep.astype(np.float32)) @ rows
    found = nearest_prompts(rows, offered.tocsr(), count=8)
    assert all(row not in found[row] for row in range(50))
    assert keep[found[found >= 0]].all()
    assert (found[~keep] >= 0).any()
    lonely = sparse.csr_matrix(np.eye(3, dtype=np.float32))
    assert (nearest_prompts(lonely, lonely, count=2) == -1).all()


@pytest.mark.parametrize("n", [60, 700])
def test_of_many_equals_the_lower_rows_are_the_neighbours(n):
    """Also where far more rows tie than there is room for, at the border of the list and inside it."""
    rows = sparse.csr_matrix(np.ones((n, 1), np.float32))
    found = nearest_prompts(rows, rows, count=5).tolist()
    assert [found[0], found[3], found[n // 2]] == [[1, 2, 3, 4, 5], [0, 1, 2, 4, 5], [0, 1, 2, 3, 4]]
    mixed = features(n, d=3)
    assert nearest_prompts(mixed, mixed, count=24).tolist() == reference(mixed, mixed, 24).tolist()
