"""How many groups of prompts there are: as many as were planted, one where words tell nothing."""

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
    Size,
    associate,
    best_size,
    learn_clusters,
    most_likely_size,
    prices,
    rubric_rates,
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


def test_equal_inputs_give_the_same_number() -> None:
    """The same prompts and seed give the same size, whatever ran before."""
    words, mined, _ = planted(6, told=0.2)
    first = best_size(words, {"rubrics": mined}, most=64, seed=3)
    best_size(words, {"rubrics": mined}, most=64, seed=4)
    assert best_size(words, {"rubrics": mined}, most=64, seed=3) == first


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
