"""The closed-form start: it finds the groups, shrinks by counts, and is on the simplex."""

from dataclasses import replace

import numpy as np
import pytest
from made_arrays import made_arrays
from scipy.sparse import csr_matrix

from svr_async.fit.config import DEFAULT
from svr_async.fit.forward import alpha_numpy, hidden_matrix, hidden_numpy
from svr_async.fit.grouping import learn_gates, softmax
from svr_async.fit.topics import PROMPTS_PER_TOPIC, SHRINKAGE, effects, start_topics


def test_groups_follow_the_words():
    """Prompts of the two kinds get different gates."""
    arrays = made_arrays(n_pairs=600)
    selector = start_topics(arrays, replace(DEFAULT, hidden=2))
    gates = np.stack(
        [
            hidden_numpy(selector, arrays.feature_index[4 * p :][:4], arrays.feature_value[4 * p :][:4])
            for p in range(600)
        ]
    )
    first = gates[:, 0] > 0.5
    assert abs(np.mean(first[::2]) - np.mean(first[1::2])) == pytest.approx(1)
    np.testing.assert_allclose(gates.sum(axis=1), 1, atol=1e-6)


def test_effects_equal_the_formula():
    """One topic: Σ z / (n + κ), worked out by hand."""
    arrays = made_arrays(n_pairs=8, n_rubrics=2, pool=2)
    z = arrays.z_delta.reshape(8, 2).astype(np.float64)
    np.testing.assert_allclose(
        effects(arrays, np.ones((8, 1)).__getitem__)[0], z.sum(axis=0) / (8 + SHRINKAGE), rtol=1e-6
    )


def test_a_rarely_judged_rubric_is_shrunk():
    """The same mean z counts for more with a hundred judgements than with two."""
    rubric = np.array([0] * 100 + [1] * 2 + [2] * 200)
    z = np.where(rubric == 2, np.where(np.arange(302) % 2, 0.25, -0.25), 0.75).astype(np.float32)
    arrays = replace(made_arrays(n_pairs=302, n_rubrics=3, pool=1), z_rubric=rubric, z_delta=z, z_indptr=np.arange(303))
    found = effects(arrays, np.ones((302, 1)).__getitem__)[0]
    assert 0.75 > found[0] > 2 * found[1] > 0


def test_mined_rubrics_tell_groups_apart_that_phrasing_hides():
    """Words that hint at the task weakly are found with the help of what was mined, and missed without it."""
    rng = np.random.default_rng(0)
    kind = np.arange(400) % 2
    words = (rng.random((400, 40)) < 0.3).astype(float)
    words[:, :6] = rng.random((400, 6)) < np.where(kind[:, None] == 0, 0.35, 0.05)
    words[:, 6:12] = rng.random((400, 6)) < np.where(kind[:, None] == 1, 0.35, 0.05)
    mined = (rng.random((400, 10)) < np.where((np.arange(10) % 2)[None] == kind[:, None], 0.4, 0.02)).astype(float)

    def agreement(mined_view):
        found, share = learn_gates(csr_matrix(words), 2, 4.0, 0, mined=mined_view)
        first = softmax(words @ found + share).argmax(axis=1) == kind
        return max(first.mean(), 1 - first.mean())

    assert agreement(csr_matrix(mined)) > 0.85
    assert agreement(csr_matrix(mined)) > agreement(None)


def test_too_few_mined_rubrics_leave_the_words():
    """Rubrics from one prompt each say nothing about groups: the result is that of the words alone."""
    words = csr_matrix(np.random.default_rng(1).random((60, 12)))
    alone, _ = learn_gates(words, 3, 4.0, 0)
    with_singletons, _ = learn_gates(words, 3, 4.0, 0, mined=csr_matrix(np.eye(60)))

    np.testing.assert_array_equal(alone, with_singletons)


def test_prompts_that_all_say_the_same_get_equal_gates():
    """A corpus of one repeated prompt has no directions to tell groups apart by, and its gates are finite."""
    words, share = learn_gates(csr_matrix(np.ones((40, 5))), 3, 4.0, 0)
    assert np.isfinite(words).all()
    np.testing.assert_allclose(softmax(np.ones((2, 5)) @ words + share).sum(axis=1), 1)


def test_one_topic_and_no_words_work():
    """Few prompts or no features leave one topic, and alpha is on the simplex."""
    selector = start_topics(made_arrays(n_pairs=10), DEFAULT)
    assert selector.hidden.shape == (24, 1)
    alpha = alpha_numpy(selector, np.zeros(0, int), np.zeros(0, np.float32))
    np.testing.assert_allclose(alpha.sum(), 1, atol=1e-6)


def test_where_topics_are_few_several_groupings_share_one_softmax():
    """Two topics leave room for three groupings in six and for one in two; gates of all have a sum of 1."""
    arrays = made_arrays(n_pairs=2 * PROMPTS_PER_TOPIC)
    alone, three = (start_topics(arrays, replace(DEFAULT, hidden=room)) for room in (2, 6))
    assert (alone.hidden.shape[1], three.hidden.shape[1]) == (2, 6)
    assert hidden_matrix(three, arrays, np.arange(9)).sum(axis=1) == pytest.approx(np.ones(9), abs=1e-5)
    np.testing.assert_array_equal(alone.hidden, three.hidden[:, :2])


def test_the_start_repeats():
    """The same seed gives the same bits."""
    arrays = made_arrays(n_pairs=200)
    first, second = (start_topics(arrays, replace(DEFAULT, hidden=4)) for _ in range(2))
    np.testing.assert_array_equal(first.output, second.output)
    np.testing.assert_array_equal(first.hidden, second.hidden)


def test_empty_features_do_not_divide_by_zero():
    """A corpus without a single feature value gives finite gates."""
    words, share = learn_gates(csr_matrix((50, 3)), 2, 4.0, 0)
    assert np.isfinite(words).all()
    assert np.isfinite(share).all()
