"""What a kind of prompts gives: rubrics mined from prompts like each one, also for prompts that gave none."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from svr_async.training.rounds.pools import likely_rubrics

KINDS, PROMPTS, RUBRICS = 3, 360, 12


def world(seed: int = 0) -> tuple[csr_matrix, NDArray[Any], NDArray[Any]]:
    """Return words and mined rubrics of prompts of three kinds; each kind has five words and four rubrics."""
    rng = np.random.default_rng(seed)
    kind = np.arange(PROMPTS) % KINDS
    words = rng.random((PROMPTS, 40)) < np.where(np.arange(40)[None] // 5 == kind[:, None], 0.6, 0.1)
    mined = rng.random((PROMPTS, RUBRICS)) < np.where(np.arange(RUBRICS)[None] // 4 == kind[:, None], 0.5, 0.02)
    return csr_matrix(words.astype(float)), mined.astype(float), kind


def ranked(
    words: csr_matrix, mined: NDArray[np.float64], trained: Sequence[int], count: int = RUBRICS
) -> list[NDArray[np.int32]]:
    """Return the likely rubrics where nothing is mined from prompts that are not trained on."""
    inside = np.zeros(PROMPTS, bool)
    inside[list(trained)] = True
    return likely_rubrics(words, csr_matrix(mined * inside[:, None]), None, sorted(trained), count)


def test_a_prompt_gets_the_rubrics_of_its_kind_first_also_where_it_gave_none() -> None:
    """Of prompts that were left out, as dev prompts are, nine in ten have their kind's four rubrics in front."""
    words, mined, kind = world()
    found = ranked(words, mined, range(240))
    hits = [set(found[row][:4].tolist()) == set(range(4 * kind[row], 4 * kind[row] + 4)) for row in range(240, PROMPTS)]
    assert np.mean(hits) > 0.9


def test_rubrics_that_no_two_prompts_word_alike_go_by_their_words() -> None:
    """Each prompt gives a rubric of its own with two of its kind's four words: its kind's rubrics come first."""
    words, _, kind = world()
    rng, own = np.random.default_rng(1), np.eye(PROMPTS)
    held = np.zeros((PROMPTS, 12))
    for row in range(PROMPTS):
        held[row, 4 * kind[row] + rng.choice(4, 2, replace=False)] = 1
    found = likely_rubrics(words, csr_matrix(own), csr_matrix(held), range(PROMPTS), 20)
    blind = likely_rubrics(words, csr_matrix(own), None, range(PROMPTS), 20)
    share, chance = (np.mean([np.mean(kind[row] == of) for row, of in zip(each, kind, strict=True)])
                     for each in (found, blind))  # fmt: skip
    assert share > 0.9
    assert chance < 0.5


def test_what_was_mined_from_a_prompt_tells_its_kind_where_its_words_do_not() -> None:
    """A training prompt without a word gets its kind by what it gave; another such prompt gets the bank's usual."""
    words, mined, _ = world()
    blank = words.tolil()
    blank[0], blank[1], blank[300] = 0, 0, 0
    mined[0], mined[1] = np.arange(RUBRICS) // 4 == 0, np.arange(RUBRICS) // 4 == 1
    found = ranked(blank.tocsr(), mined, range(240))
    assert set(found[0][:4].tolist()) == {0, 1, 2, 3}
    assert set(found[1][:4].tolist()) == {4, 5, 6, 7}
    assert sorted(found[300].tolist()) == list(range(RUBRICS))


def test_where_words_tell_nothing_all_prompts_get_the_most_often_mined_first() -> None:
    """One kind for all: the order is how many prompts gave a rubric, of equals the first in the bank."""
    mined = np.zeros((PROMPTS, 5))
    for rubric, count in enumerate((3, 9, 9, 0, 20)):
        mined[np.random.default_rng(rubric).choice(PROMPTS, count, replace=False), rubric] = 1
    for found in ranked(csr_matrix((PROMPTS, 8)), mined, range(PROMPTS)):
        assert found.tolist() == [4, 1, 2, 0]


def test_what_no_trained_prompt_gave_is_never_likely_and_lists_are_as_short_as_asked() -> None:
    """At most `count` rubrics, none that was mined nowhere, int32, the same twice."""
    words, mined, _ = world()
    mined[:, 5] = 0
    found = ranked(words, mined, range(200), count=6)
    assert {len(row) for row in found} <= set(range(1, 7))
    assert {row.dtype for row in found} == {np.dtype(np.int32)}
    assert not any(5 in row for row in found)
    for first, second in zip(found, ranked(words, mined, range(200), count=6), strict=True):
        assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("shape", [(PROMPTS, 0), (PROMPTS, 3)])
def test_an_empty_bank_and_one_that_nothing_tells_of_have_no_likely_rubrics(shape: tuple[int, int]) -> None:
    """Every prompt gets an empty list."""
    words, _, _ = world()
    assert [len(row) for row in ranked(words, np.zeros(shape), range(50))] == [0] * PROMPTS
    assert [len(row) for row in ranked(words, np.zeros(shape), [])] == [0] * PROMPTS
