"""Near-duplicates: the search finds the pairs and values of the plain double loop; redundancy and the sweep."""

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rubric_texts import rubric_texts

from svr_async.core.rubric import Check, Rubric
from svr_async.core.similarity import redundancy, similarity
from svr_async.training.bank.merge import (
    drop_redundant,
    near_duplicates,
    redundancy_edges,
    similar_pairs,
)

CUTOFFS = (0.1, 0.3, 0.5, 2 / 3, 0.75, 0.88, 0.92, 1.0)
ALPHABETS = ("ab ", "abcdefghij  ", "ab cdé日本語ß 12!", "xyz", "eating the stone on a coast ")


def double_loop(texts: list[str], cutoff: float) -> list[tuple[int, int, float]]:
    """Return (first, second, similarity) by comparing every text with every other."""
    pairs = [(i, j, similarity(texts[i], texts[j])) for i in range(len(texts)) for j in range(i + 1, len(texts))]
    return [row for row in pairs if row[2] >= cutoff]


@st.composite
def near_texts(draw: st.DrawFn) -> list[str]:
    """Draw texts that are edits of a few bases, in one alphabet: many pairs lie close to any cutoff."""
    letter = st.sampled_from(draw(st.sampled_from(ALPHABETS)))
    bases = draw(st.lists(st.text(letter, max_size=60), min_size=1, max_size=3))
    texts = []
    for _ in range(draw(st.integers(2, 14))):
        letters = list(draw(st.sampled_from(bases)))
        for place, edit in draw(st.lists(st.tuples(st.integers(0, 80), st.one_of(st.just(""), letter)), max_size=10)):
            letters[place % (len(letters) + 1) : place % (len(letters) + 1) + (not edit)] = edit
        texts.append("".join(letters))
    return texts


@given(texts=near_texts(), cutoff=st.sampled_from(CUTOFFS))
@example(texts=["", "", "!!", "!!", "?", "a", "a"], cutoff=0.88)
@example(texts=["\ud800x y", "x y", "X  y"], cutoff=0.5)
@settings(deadline=None, max_examples=150)
def test_same_pairs_and_values_as_the_double_loop(texts: list[str], cutoff: float) -> None:
    """At any cutoff the search equals the double loop to the last bit."""
    assert similar_pairs(texts, cutoff) == double_loop(texts, cutoff)


def test_rubric_like_texts_in_several_blocks() -> None:
    """Texts from templates with edits, long texts and copies give the double loop's result."""
    texts = rubric_texts(80, seed=3)
    base = " ".join(rubric_texts(5, seed=8, near=0))
    texts += [base, base[3:], base[:-40], base.replace("the", "a"), base + base[:100], base[::-1], base]
    rows = double_loop(texts, 0.0)
    for cutoff in CUTOFFS:
        assert similar_pairs(texts, cutoff) == [row for row in rows if row[2] >= cutoff]
    many = rubric_texts(700, seed=2)
    last = len(many) - 1
    assert sorted((last - j, last - i, v) for i, j, v in similar_pairs(many[::-1], 0.9)) == similar_pairs(many, 0.9)


@pytest.mark.parametrize("cutoff", [0.88, 0.92])
def test_pairs_just_on_either_side_of_the_cutoff(cutoff: float) -> None:
    """One letter, or one word, decides: a ratio of exactly the cutoff counts, one less does not."""
    rng = random.Random(1)
    texts = []
    for size in (25, 50, 75, 100):
        base = "".join(rng.choice("abcdefghijklmnopqrst") for _ in range(size))
        least = next(m for m in range(size + 1) if 2.0 * m / (2 * size) >= cutoff)
        texts += [base, base[:least] + "z" * (size - least), base[: least - 1] + "z" * (size - least + 1)]
    words = [f"word{n}" for n in range(25)]
    texts += [" ".join(words[: 22 + (cutoff > 0.9)]), " ".join(reversed(words)), " ".join(words[:21])]
    found = similar_pairs(texts, cutoff)
    assert found == double_loop(texts, cutoff)
    pairs = {(i, j) for i, j, _ in found}
    assert {(0, 1), (3, 4), (6, 7), (9, 10), (12, 13)} <= pairs
    assert (0, 2) not in pairs


def test_cutoffs_and_lists_at_the_edge() -> None:
    """A cutoff of 0 would ask for all pairs; too few texts have none."""
    for cutoff in (0.0, -1.0, 1.1, float("nan")):
        with pytest.raises(ValueError, match="cutoff must be > 0"):
            similar_pairs(["a", "b"], cutoff)
    assert [len(similar_pairs(texts, 0.5)) for texts in ([], ["a"], ["abc", "xyz"])] == [0, 0, 0]


@given(seed=st.integers(0, 50), cutoff=st.sampled_from([0.7, 0.88, 0.92]))
@settings(deadline=None, max_examples=25)
def test_edges_are_the_positive_entries_of_the_matrix(seed: int, cutoff: float) -> None:
    """Every pair above the cutoff has an edge with the paper's value, and no other pair has."""
    texts = rubric_texts(25, seed=seed, near=0.8)
    edges = redundancy_edges(texts, cutoff)
    found = {(int(i), int(j)): v for i, j, v in zip(*edges, strict=True)}
    for i in range(len(texts)):
        for j in range(i + 1, len(texts)):
            expected = redundancy(similarity(texts[i], texts[j]), cutoff)
            assert found.get((i, j), 0.0) == pytest.approx(expected, rel=1e-6)
            assert ((i, j) in found) == (expected > 0)
    assert [str(one.dtype) for one in edges] == ["int32", "int32", "float32"]


@given(order=st.permutations(list(range(20))), seed=st.integers(0, 20), count=st.integers(0, 20))
@settings(deadline=None, max_examples=40)
def test_the_sweep_is_that_of_a_plain_loop(order: list[int], seed: int, count: int) -> None:
    """In order of relevance, each is kept unless one kept before it is similar; what is not listed drops nothing."""
    texts = rubric_texts(20, seed=seed, near=0.8)
    kept: list[int] = []
    for place in order[:count]:
        if all(similarity(texts[place], texts[other]) < 0.92 for other in kept):
            kept.append(place)
    assert drop_redundant(order[:count], similar_pairs(texts, 0.92)) == kept


def test_pairs_of_different_criteria_are_left_out() -> None:
    """Texts that read alike with other numbers or other checks do not repeat each other."""
    rubrics = [
        Rubric(text="The response uses at most 50 words"),
        Rubric(text="The response uses at most 60 words"),
        Rubric(text="The response uses at most fifty words", check=Check.of("max_words", n=50)),
        Rubric(text="The response uses at most fifty words!", check=Check.of("min_words", n=50), id="other"),
    ]
    assert [(one, other) for one, other, _ in near_duplicates(rubrics, 0.8)] == [(0, 2), (0, 3)]
    assert len(near_duplicates(rubrics, 0.8, by_text_alone=True)) == 6
