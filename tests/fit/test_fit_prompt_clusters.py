"""Groups of prompts by words that go with mined rubrics: planted kinds are found, and what is not there is not."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from svr_async.fit.prompt_clusters import PromptClusters, Size, associate, learn_clusters, posterior, softmax

WORDS, RUBRICS = 60, 12


def planted(kinds: int, n: int = 600, seed: int = 0) -> tuple[csr_matrix, csr_matrix, NDArray[Any]]:
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


def purity(gates: NDArray[np.float64], kind: NDArray[Any]) -> float:
    """Return the share of prompts in a group whose most frequent kind is theirs."""
    group = gates.argmax(axis=1)
    return float(sum(np.bincount(kind[group == k]).max() for k in set(group)) / len(kind))


def told(words: csr_matrix, mined: csr_matrix, groups: int, seed: int = 0) -> PromptClusters:
    """Return the groups of prompts by as many directions as there can be."""
    size = Size(groups=groups)
    return learn_clusters(associate(words, mined), words, mined, size, seed)[0]


@pytest.mark.parametrize("kinds", [2, 4])
def test_words_tell_the_planted_kinds_also_of_new_prompts(kinds: int) -> None:
    """Nine in ten unseen prompts go where most of their kind go, and gates are shares of 1."""
    words, mined, _ = planted(kinds)
    new, _, kind = planted(kinds, seed=9)
    gates = told(words, mined, kinds).mixture_weights(new)
    assert purity(gates, kind) > 0.9
    np.testing.assert_allclose(gates.sum(axis=1), 1)
    assert gates.min() >= 0


def test_words_that_have_nothing_to_do_with_what_was_mined_score_nothing() -> None:
    """Phrasing, however frequent, says next to nothing, and most of it nothing; a word says one group only."""
    words, mined, _ = planted(4)
    scores = told(words, mined, 4).words
    assert (scores[30:].max(axis=1) > 0).mean() < 0.5
    assert scores[30:].sum() < 0.1 * scores.sum()
    assert (scores[:20].max(axis=1) > 0).mean() > 0.9
    assert (np.count_nonzero(scores, axis=1) <= 1).all()
    assert scores.min() >= 0


def test_a_score_is_what_a_word_says_where_it_has_its_usual_value() -> None:
    """Words measured in another unit get scores in the inverse unit: gates do not change."""
    words, mined, _ = planted(3)
    scaled = words * 0.25
    plain, other = (told(each, mined, 3).words for each in (words, scaled))
    np.testing.assert_allclose(scaled @ other, words @ plain, atol=1e-9)


def test_a_prompt_without_known_words_is_of_a_group_as_often_as_all_are() -> None:
    """Its gates are the shares of the groups: where one kind is three in four prompts, so is its group, nearly."""
    words, mined, kind = planted(2)
    kept = np.flatnonzero((kind == 0) | (np.arange(len(kind)) % 6 == 1))
    gates = told(words[kept], mined[kept], 2).mixture_weights(csr_matrix((1, WORDS)))
    np.testing.assert_allclose(np.sort(gates[0]), [0.25, 0.75], atol=0.1)


def test_what_was_mined_sharpens_the_groups() -> None:
    """Of training prompts, words and rubrics tell the kind better than words; without rubrics nothing moves."""
    words, mined, kind = planted(4)
    gates = softmax(0.3 * (words @ told(words, mined, 4).words))
    sharp = posterior(gates, mined)
    assert purity(sharp, kind) > purity(gates, kind)
    assert sharp.max(axis=1).mean() > gates.max(axis=1).mean()
    np.testing.assert_allclose(sharp.sum(axis=1), 1)
    assert posterior(gates, None) is gates
    np.testing.assert_allclose(posterior(gates, csr_matrix(mined.shape)), gates, atol=1e-9)
    one = np.ones((len(kind), 1))
    assert posterior(one, mined) is one


def test_without_words_or_rubrics_there_is_no_association() -> None:
    """None where nothing is known of what was mined, where it is too rare, and where words are missing."""
    words, mined, _ = planted(2, n=40)
    assert associate(words, None) is None
    assert associate(words, csr_matrix(np.eye(40))) is None, "each rubric from one prompt"
    assert associate(csr_matrix((40, 0)), mined) is None
    assert associate(csr_matrix((40, 5)), mined) is None
    assert associate(csr_matrix(np.ones((40, 5))), mined) is None, "what all say tells none apart"
    assert associate(words[:0], mined[:0]) is None
    nothing = learn_clusters(None, words, None, Size(groups=4), 0)[0]
    assert nothing.mixture_weights(words).tolist() == [[1.0]] * 40, "all prompts are of one group"


def test_more_groups_than_words_leave_groups_empty() -> None:
    """Two words for eight groups: scores are finite, and there are eight columns."""
    words, mined, _ = planted(2)
    scores = told(words[:, [0, 5]], mined, 8).words
    assert scores.shape == (2, 8)
    assert np.isfinite(scores).all()
    assert np.count_nonzero(scores.max(axis=0)) == 2


def test_equal_inputs_give_equal_bytes() -> None:
    """The same words, rubrics and seed give the same scores to the bit, and the inputs stay what they were."""
    words, mined, _ = planted(4)
    before = words.toarray(), mined.toarray()
    first, second = (told(words, mined, 6, 3).words for _ in range(2))
    assert first.tobytes() == second.tobytes()
    np.testing.assert_array_equal(words.toarray(), before[0])
    np.testing.assert_array_equal(mined.toarray(), before[1])
