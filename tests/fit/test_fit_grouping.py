"""Groups of prompts by words that go with mined rubrics: planted kinds are found, and what is not there is not."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from svr_async.fit.grouping import associate, likely_groups, softmax, word_scores

WORDS, RUBRICS = 60, 12


def planted(kinds, n=600, seed=0):
    """Return words, mined rubrics and the kind of each prompt: a kind has five words and 12 / kinds rubrics.

    The words from the 30th on are frequent phrasing that no rubric has to do with.
    """
    rng = np.random.default_rng(seed)
    kind = np.arange(n) % kinds
    word, rubric = np.arange(WORDS), np.arange(RUBRICS)
    rate = np.where(word[None] // 5 == kind[:, None], 0.5, 0.05)
    rate[:, 30:] = 0.6
    mined = rng.random((n, RUBRICS)) < np.where(rubric[None] * kinds // RUBRICS == kind[:, None], 0.4, 0.02)
    return csr_matrix((rng.random((n, WORDS)) < rate).astype(float)), csr_matrix(mined.astype(float)), kind


def purity(gates, kind):
    """Return the share of prompts in a group whose most frequent kind is theirs."""
    group = gates.argmax(axis=1)
    return sum(np.bincount(kind[group == k]).max() for k in set(group)) / len(kind)


@pytest.mark.parametrize("kinds", [2, 4, 6])
def test_as_many_directions_stand_out_as_there_are_kinds_less_one(kinds):
    """Of k kinds, k − 1 directions are more than chance."""
    words, mined, _ = planted(kinds)
    assert associate(words, mined).found == kinds - 1


@pytest.mark.parametrize("seed", range(5))
def test_noise_alone_has_no_direction(seed):
    """Where words and rubrics come by chance, nothing stands out, whatever their numbers."""
    rng = np.random.default_rng(seed)
    for shape in ((300, 400, 20), (900, 30, 200)):
        words, mined = (
            csr_matrix((rng.random((shape[0], n)) < rate) * 1.0) for n, rate in ((shape[1], 0.2), (shape[2], 0.1))
        )
        assert associate(words, mined).found == 0


@pytest.mark.parametrize("kinds", [2, 4])
def test_words_tell_the_planted_kinds_also_of_new_prompts(kinds):
    """Nine in ten unseen prompts go where most of their kind go, and gates are shares of 1."""
    words, mined, _ = planted(kinds)
    new, _, kind = planted(kinds, seed=9)
    gates = softmax(new @ word_scores(associate(words, mined), words, kinds, 0))
    assert purity(gates, kind) > 0.9
    np.testing.assert_allclose(gates.sum(axis=1), 1)
    assert gates.min() >= 0


def test_words_that_have_nothing_to_do_with_what_was_mined_score_nothing():
    """Phrasing, however frequent, says next to nothing, and most of it nothing; a word says one group only."""
    words, mined, _ = planted(4)
    scores = word_scores(associate(words, mined), words, 4, 0)
    assert (scores[30:].max(axis=1) > 0).mean() < 0.5
    assert scores[30:].sum() < 0.1 * scores.sum()
    assert (scores[:20].max(axis=1) > 0).mean() > 0.9
    assert (np.count_nonzero(scores, axis=1) <= 1).all()
    assert scores.min() >= 0


def test_a_score_is_what_a_word_says_where_it_has_its_usual_value():
    """Words measured in another unit get scores in the inverse unit: gates do not change."""
    words, mined, _ = planted(3)
    scaled = words * 0.25
    plain, other = (word_scores(associate(each, mined), each, 3, 0) for each in (words, scaled))
    np.testing.assert_allclose(scaled @ other, words @ plain, atol=1e-9)


def test_a_prompt_without_known_words_may_be_of_any_group():
    """Its gates are equal."""
    words, mined, _ = planted(4)
    gates = softmax(np.zeros((1, WORDS)) @ word_scores(associate(words, mined), words, 4, 0))
    np.testing.assert_allclose(gates, 0.25)


def test_what_was_mined_sharpens_the_groups():
    """Of training prompts, words and rubrics tell the kind better than words; without rubrics nothing moves."""
    words, mined, kind = planted(4)
    gates = softmax(0.3 * (words @ word_scores(associate(words, mined), words, 4, 0)))
    sharp = likely_groups(gates, mined)
    assert purity(sharp, kind) > purity(gates, kind)
    assert sharp.max(axis=1).mean() > gates.max(axis=1).mean()
    np.testing.assert_allclose(sharp.sum(axis=1), 1)
    assert likely_groups(gates, None) is gates
    np.testing.assert_allclose(likely_groups(gates, csr_matrix(mined.shape)), gates, atol=1e-9)
    one = np.ones((len(kind), 1))
    assert likely_groups(one, mined) is one


def test_without_words_or_rubrics_there_is_no_association():
    """None where nothing is known of what was mined, where it is too rare, and where words are missing."""
    words, mined, _ = planted(2, n=40)
    assert associate(words, None) is None
    assert associate(words, csr_matrix(np.eye(40))) is None, "each rubric from one prompt"
    assert associate(csr_matrix((40, 0)), mined) is None
    assert associate(csr_matrix((40, 5)), mined) is None
    assert associate(csr_matrix(np.ones((40, 5))), mined) is None, "what all say tells none apart"
    assert associate(words[:0], mined[:0]) is None


def test_more_groups_than_words_leave_groups_empty():
    """Two words for eight groups: scores are finite, and there are eight columns."""
    words, mined, _ = planted(2)
    scores = word_scores(associate(words[:, [0, 5]], mined), words[:, [0, 5]], 8, 0)
    assert scores.shape == (2, 8)
    assert np.isfinite(scores).all()
    assert np.count_nonzero(scores.max(axis=0)) == 2


def test_equal_inputs_give_equal_bytes():
    """The same words, rubrics and seed give the same scores to the bit, and the inputs stay what they were."""
    words, mined, _ = planted(4)
    before = words.toarray(), mined.toarray()
    first, second = (word_scores(associate(words, mined), words, 6, 3) for _ in range(2))
    assert first.tobytes() == second.tobytes()
    np.testing.assert_array_equal(words.toarray(), before[0])
    np.testing.assert_array_equal(mined.toarray(), before[1])
