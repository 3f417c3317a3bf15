"""Clusters of prompts by words that go with mined rubrics: as many as were planted, one where words tell nothing."""

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from svr_async.fit.prompt_clusters import (
    LEAST_PRICE,
    MOST_PRICE,
    ONE,
    USUAL_PRICE,
    HeldOutPart,
    PromptClusters,
    Size,
    associate,
    best_size,
    learn_clusters,
    most_likely_size,
    posterior,
    prices,
    rubric_rates,
    softmax,
)

WORDS, RUBRICS = 60, 12


def planted(
    kinds: int, n: int = 800, seed: int = 0, *, styled: bool = False, told: float = 0.5
) -> tuple[Any, Any, NDArray[Any]]:
    """Return words, mined rubrics and kinds: a kind has five words and 12 / kinds rubrics.

    The words from the 30th on are phrasing: independent, or of two styles that no rubric has to do with.
    """
    rng = np.random.default_rng(seed)
    kind, style, word = np.arange(n) % kinds, rng.integers(0, 2, n), np.arange(WORDS)
    rate = np.where(word[None] // 5 == kind[:, None], told, 0.05)
    rate[:, 30:] = np.where(word[30:] % 2 == style[:, None], 0.8, 0.1) if styled else 0.6
    mined = rng.random((n, RUBRICS)) < np.where(np.arange(RUBRICS) * kinds // RUBRICS == kind[:, None], 0.4, 0.02)
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


@pytest.mark.parametrize("styled", [False, True])
@pytest.mark.parametrize("kinds", [2, 4, 6])
def test_there_is_a_group_for_each_kind(kinds: int, styled: bool) -> None:
    """However the prompts are phrased; a kind may have two or three, where that tells better how sure its words are."""
    words, mined, _ = planted(kinds, styled=styled)
    assert kinds <= best_size(words, {"rubrics": mined}, most=64, seed=0).groups <= 3 * kinds


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("styled", [False, True])
def test_where_words_tell_nothing_there_are_next_to_no_groups(seed: int, styled: bool) -> None:
    """Of one kind, and of four that no word tells apart: one group, or by chance a second."""
    for words, mined, _ in (planted(1, seed=seed, styled=styled), planted(4, seed=seed, styled=styled, told=0.05)):
        assert best_size(words, {"rubrics": mined}, most=64, seed=seed).groups <= 2


def test_the_number_of_groups_is_bounded() -> None:
    """By what is asked for, and by the number of prompts; without mined rubrics there is one."""
    words, mined, _ = planted(6)
    assert best_size(words, {"rubrics": mined}, most=4, seed=0).groups <= 4
    assert best_size(words[:30], {"rubrics": mined[:30]}, most=64, seed=0) == ONE
    assert best_size(words[:100], {"rubrics": mined[:100]}, most=64, seed=0).groups <= 5
    assert best_size(words, {}, most=64, seed=0) == ONE
    assert best_size(words, {"rubrics": csr_matrix(mined.shape)}, most=64, seed=0) == ONE


@dataclass
class Unseen:
    """What prompts that were left out tell where few groups tell less than none, and 32 the most (draw 5017)."""

    unseen: Any = field(default_factory=lambda: np.zeros((2838, 1)))
    associations: dict[str, None] = field(default_factory=lambda: {"rubrics": None})

    def likelihood(self, size: Size) -> NDArray[np.float64]:
        """Return the log-likelihood of each of two prompts."""
        told = {1: 0, 2: -15, 3: -28, 4: -22, 6: -27, 8: -13, 12: 6, 16: 31, 24: 66, 32: 99, 48: 98, 64: 97}
        return np.array([told[size.groups] - 0.01, told[size.groups] + 0.01])


def test_many_groups_are_found_beyond_few_that_tell_less_than_none() -> None:
    """The search does not end where two or three groups, which join unlike kinds, tell less than one."""
    parts = [cast("HeldOutPart", Unseen())]
    assert most_likely_size(parts, 64) == Size(groups=32)
    assert most_likely_size(parts, 8) == ONE


def test_rates_of_groups_without_prompts_are_those_of_all() -> None:
    """A group that nothing is known of gives what all prompts give; a large one what its own give."""
    _, mined, kind = planted(2)
    gates = np.zeros((len(kind), 3))
    gates[np.arange(len(kind)), kind] = 1
    rates = rubric_rates(gates, mined)
    usual = np.asarray(mined.mean(axis=0)).ravel()
    np.testing.assert_allclose(rates[2], usual)
    own = np.asarray(mined[kind == 0].mean(axis=0)).ravel()
    np.testing.assert_allclose(rates[0], own, atol=0.02)


def test_groups_tell_unseen_prompts_what_is_mined_there() -> None:
    """Of new prompts, the rates by their groups are nearer to what they gave than the rates of all."""
    words, mined, _ = planted(4)
    new, given, _ = planted(4, seed=5)
    size = best_size(words, {"rubrics": mined}, most=64, seed=0)
    groups = learn_clusters(associate(words, mined), words, mined, size, 0)[0]
    told = groups.mixture_weights(new) @ rubric_rates(groups.mixture_weights(words), mined)
    usual = np.asarray(mined.mean(axis=0)).ravel()
    assert np.square(told - given.toarray()).mean() < 0.9 * np.square(usual - given.toarray()).mean()


def test_groups_go_by_the_words_of_rubrics_that_never_recur() -> None:
    """Each prompt gives a rubric of its own; only their words tell which kind it is of."""
    words, mined, _ = planted(4)
    own = csr_matrix(np.eye(words.shape[0]))
    found = best_size(words, {"rubrics": own, "words": mined}, most=64, seed=0)
    assert found.view == "words"
    assert found.groups >= 4
    assert best_size(words, {"rubrics": own}, most=64, seed=0) == ONE


def test_what_a_topic_gives_often_costs_less_there_than_elsewhere() -> None:
    """A criterion of every second prompt of one topic is cheap there and dear where it never comes."""
    mixture = np.repeat(np.eye(2), 100, axis=0)
    mined = np.zeros((200, 3))
    mined[:100:2, 0], mined[100::2, 1], mined[:, 2] = 1, 1, 0
    price = prices(mixture, csr_matrix(mined))
    assert price is not None
    assert price[0, 0] == pytest.approx(USUAL_PRICE, rel=0.01) == price[1, 1]
    assert price[0, 1] == price[1, 0] == price[0, 2] == MOST_PRICE


def test_prices_do_not_depend_on_how_much_is_mined() -> None:
    """Where every rate is a third, what is typical is a third as well; prices stay within their bounds."""
    rng = np.random.default_rng(0)
    mixture = np.ones((3000, 1))
    many = csr_matrix((rng.random((3000, 20)) < np.linspace(0.02, 0.6, 20)).astype(float))
    few = csr_matrix((rng.random((3000, 20)) < np.linspace(0.02, 0.6, 20) / 3).astype(float))
    of_many, of_few = prices(mixture, many), prices(mixture, few)
    assert of_many is not None
    assert of_few is not None
    np.testing.assert_allclose(of_many, of_few, rtol=0.5)
    assert of_many.min() >= LEAST_PRICE
    assert of_many.max() <= MOST_PRICE


@pytest.mark.parametrize("mined", [None, csr_matrix((4, 3))])
def test_where_nothing_was_mined_there_are_no_prices(mined: csr_matrix) -> None:
    """Unknown or empty: no prices."""
    assert prices(np.ones((4, 1)), mined) is None
