"""Cross-validation of the penalties, gates fitted by words alone, and the likeness of rubrics over a whole bank."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from svr_async.fit.overlap import SHRINKAGE, alike
from svr_async.fit.penalties import choose
from svr_async.fit.sparse_margin import RIDGE, Penalties, solve
from svr_async.fit.word_gates import RIDGE as WORD_RIDGE
from svr_async.fit.word_gates import gates_by_words

APART = Penalties(sparsity=0.3)
IN_COMMON = Penalties(sparsity=0.3, common=0.1)


def _world(*, shared, n_pairs=1200, topics=40, rubrics=80, seed=0):
    """Pairs of forty kinds; what decides is the same for all, or two rubrics of each kind's own."""
    rng = np.random.default_rng(seed)
    kind = np.arange(n_pairs) % topics
    z = rng.choice([-1.25, -0.25, 0.25, 1.25], size=(n_pairs, rubrics))
    deciding = np.tile([0, 1], (n_pairs, 1)) if shared else np.stack([2 * kind, 2 * kind + 1], axis=1)
    signs = rng.choice([1.25, 1.25, 1.25, -1.25], size=(n_pairs, 2))
    np.put_along_axis(z, deciding, signs, axis=1)
    return csr_matrix(z), np.eye(topics)[kind]


@pytest.mark.parametrize(("shared", "wanted"), [(True, IN_COMMON), (False, APART)])
def test_the_data_say_whether_topics_have_a_part_in_common(shared, wanted):
    """One cause for all kinds asks for a common part; a cause for each kind leaves the first choice."""
    z, gates = _world(shared=shared)
    found = choose([APART, IN_COMMON], z, gates, np.arange(len(gates)), alike=None, seed=0)

    assert found == wanted


def test_too_little_data_leaves_the_first_choice():
    """Three pairs prove nothing, and a single prompt cannot be split."""
    z, gates = _world(shared=True, n_pairs=3, topics=2, rubrics=4)

    assert choose([APART, IN_COMMON], z, gates, np.arange(3), alike=None, seed=0) == APART
    assert choose([APART, IN_COMMON], z, gates, np.zeros(3, int), alike=None, seed=0) == APART


def test_so_many_topics_that_few_pairs_could_be_asked_leave_the_first_choice():
    """With 160 topics the work allows fewer than the pairs that would tell, so nothing is tried."""
    z, gates = _world(shared=True, n_pairs=2400, topics=160, rubrics=320)
    assert choose([APART, IN_COMMON], z, gates, np.arange(len(gates)), alike=None, seed=0) == APART


def test_a_common_part_reaches_a_topic_without_pairs():
    """What holds in every kind is expected of a kind that was never seen; without the common part nothing is."""
    z, gates = _world(shared=True, topics=3, rubrics=6)
    unseen = np.column_stack([gates, np.zeros(len(gates))])
    start = np.zeros((4, z.shape[1]))
    common = solve(z, unseen, start, Penalties(sparsity=1.0, common=0.5))
    apart = solve(z, unseen, start, Penalties(sparsity=0.3))

    assert common[3, :2].min() > 0.1
    assert apart[3].max() == 0


def test_the_diversity_term_leaves_one_of_two_that_say_the_same():
    """Of two copies of the deciding rubric both are used without the term, and a single one with it."""
    rng = np.random.default_rng(0)
    z = rng.choice([-1.25, -0.25, 0.25, 1.25], size=(600, 4))
    z[:, 0] = rng.choice([1.25, 1.25, 1.25, -1.25], size=600)
    z[:, 1] = np.where(rng.random(600) < 0.9, z[:, 0], 0.25)
    gates = np.ones((600, 1))
    likeness = alike(csr_matrix(z), csr_matrix(np.ones_like(z)))
    start = np.full((1, 4), 0.1)
    without = solve(csr_matrix(z), gates, start, Penalties(sparsity=0.1))
    varied = solve(csr_matrix(z), gates, start, Penalties(sparsity=0.1, diversity=0.1), alike=likeness)

    assert without[0, :2].min() > 0.05
    assert varied[0, :2].max() > 0.1
    assert varied[0, :2].min() == pytest.approx(0, abs=1e-3)


def test_the_optimum_with_all_terms_is_stationary():
    """The gradient of the whole objective, worked out densely, is 0 where effects are free to move."""
    z, gates = _world(shared=False, n_pairs=240, topics=2, rubrics=6)
    likeness = csr_matrix(np.array([[0, 0.5, 0, 0, 0, 0], [0.5, 0, 0, 0, 0, 0], *np.zeros((4, 6))]))
    found = solve(z, gates, np.full((2, 6), 0.1), Penalties(sparsity=0.2, diversity=0.05), alike=likeness)
    dense = z.toarray()
    slope = 1 / (1 + np.exp(np.einsum("pk,kr,pr->p", gates, found, dense)))
    gradient = -(gates * slope[:, None]).T @ dense + 0.2 * np.sqrt(240 / 2) + RIDGE * found
    gradient += 0.05 * gates.sum(axis=0)[:, None] * (found @ likeness.toarray())

    assert np.abs(gradient[found > 1e-4]).max() < 0.15
    assert gradient[found <= 1e-6].min() > -0.15


def test_likeness_equals_the_definition():
    """Correlation over the pairs judged on both, shrunk by their number; no diagonal, nothing below the least."""
    rng = np.random.default_rng(3)
    judged = rng.random((80, 5)) < 0.6
    z = np.where(judged, rng.choice([-1.25, 1.25], size=(80, 5)), 0.0)
    z[:, 1] = np.where(judged[:, 1], np.where(judged[:, 0], z[:, 0], z[:, 1]), 0.0)
    sparse = csr_matrix(z)
    mask = csr_matrix((np.ones(sparse.nnz), sparse.indices, sparse.indptr), shape=sparse.shape)
    found = alike(sparse, mask, 0.05).toarray()

    for i in range(5):
        for j in range(5):
            both = judged[:, i] & judged[:, j]
            raw = (z[both, i] * z[both, j]).sum() / np.sqrt((z[both, i] ** 2).sum() * (z[both, j] ** 2).sum())
            value = raw * both.sum() / (both.sum() + SHRINKAGE)
            assert found[i, j] == pytest.approx(value if i != j and value >= 0.05 else 0)


def test_words_that_come_together_do_not_count_twice():
    """A word and its double give a group away once: the regression shares the weight, and its gradient is 0."""
    rng = np.random.default_rng(0)
    kind = rng.random(400) < 0.5
    hint = np.where(rng.random(400) < 0.8, kind, ~kind).astype(float)
    words = csr_matrix(np.column_stack([hint, hint, rng.random(400) < 0.5]).astype(float))
    held = np.column_stack([kind, ~kind]).astype(float)
    weight, bias = gates_by_words(words, held, np.zeros((3, 2)), np.zeros(2))
    score = words @ weight + bias
    gate = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)

    assert weight[0, 0] == pytest.approx(weight[1, 0])
    assert np.mean(gate.argmax(axis=1) == held.argmax(axis=1)) > 0.7
    assert np.abs(words.T @ (gate - held) + WORD_RIDGE * weight).max() < 0.5
