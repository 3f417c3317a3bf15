"""The fast join finds the very pairs and values of the plain double loop."""

import random
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import LCSseq
from rubric_texts import rubric_texts

from svr_async.core.similarity import similarity
from svr_async.training.bank.similarity_join import (
    edit_budgets,
    exact_similarity,
    least_overlap,
    possible_pairs,
    similar_pairs,
)
from svr_async.training.bank.text_bits import letter_bits, token_bits

CUTOFFS = (0.1, 0.3, 0.5, 2 / 3, 0.75, 0.88, 0.92, 1.0)
ALPHABETS = ("ab ", "abcdefghij  ", "ab cdé日本語ß 12!", "xyz", "eating the stone on a coast ")


def double_loop(texts: list[str], cutoff: float) -> list[tuple[int, int, float]]:
    """Return (first, second, similarity) by comparing every text with every other."""
    pairs = [(i, j, similarity(texts[i], texts[j])) for i in range(len(texts)) for j in range(i + 1, len(texts))]
    return [row for row in pairs if row[2] >= cutoff]


def joined(texts: list[str], cutoff: float, **options: Any) -> list[tuple[int, int, float]]:
    """Return the same from the join."""
    found = similar_pairs(texts, cutoff, **options)
    return list(zip(found.first.tolist(), found.second.tolist(), found.similarity.tolist(), strict=True))


def edited(text: str, edits: list[tuple[int, str]]) -> str:
    """Return a text after (position, letter or "") edits: an empty letter deletes."""
    letters = list(text)
    for where, letter in edits:
        place = where % (len(letters) + 1)
        if letter:
            letters.insert(place, letter)
        elif letters:
            del letters[min(place, len(letters) - 1)]
    return "".join(letters)


@st.composite
def near_texts(draw: st.DrawFn) -> list[str]:
    """Draw texts that are edits of a few bases, in one alphabet: many pairs lie close to any cutoff."""
    letter = st.sampled_from(draw(st.sampled_from(ALPHABETS)))
    bases = draw(st.lists(st.text(letter, max_size=60), min_size=1, max_size=3))
    edits = st.lists(st.tuples(st.integers(0, 80), st.one_of(st.just(""), letter)), max_size=10)
    return [edited(draw(st.sampled_from(bases)), draw(edits)) for _ in range(draw(st.integers(2, 14)))]


@given(texts=near_texts(), cutoff=st.sampled_from(CUTOFFS))
@example(texts=["", "", "!!", "!!", "?", "a", "a"], cutoff=0.88)
@example(texts=["\ud800x y", "x y", "X  y"], cutoff=0.5)
@settings(deadline=None, max_examples=150)
def test_same_pairs_and_values_as_the_double_loop(texts: list[str], cutoff: float) -> None:
    """On texts that differ by a few edits, at any cutoff, the join equals the double loop to the last bit."""
    assert joined(texts, cutoff) == double_loop(texts, cutoff)


@given(texts=st.lists(st.text(max_size=30), max_size=12), cutoff=st.sampled_from(CUTOFFS))
@settings(deadline=None, max_examples=150)
def test_any_unicode(texts: list[str], cutoff: float) -> None:
    """Any texts at all, in any script, give the double loop's result."""
    assert joined(texts, cutoff) == double_loop(texts, cutoff)


def test_rubric_like_texts() -> None:
    """Texts from templates with edits, where many share most of their words, give the double loop's result."""
    texts = rubric_texts(80, seed=3)
    rows = double_loop(texts, 0.0)
    for cutoff in CUTOFFS:
        assert joined(texts, cutoff) == [row for row in rows if row[2] >= cutoff]


@given(texts=near_texts(), cutoff=st.sampled_from(CUTOFFS))
@settings(deadline=None, max_examples=60)
def test_possible_pairs_lose_none(texts: list[str], cutoff: float) -> None:
    """The cheaper search finds every pair that reaches the cutoff, with a bound that is never too low."""
    found = possible_pairs(texts, cutoff)
    bounds = dict(
        zip(zip(found.first.tolist(), found.second.tolist(), strict=True), found.similarity.tolist(), strict=True)
    )
    for first, second, value in double_loop(texts, cutoff):
        assert bounds[first, second] >= value


@given(texts=near_texts())
@settings(deadline=None, max_examples=60)
def test_the_faster_matcher_measures_the_same(texts: list[str]) -> None:
    """A pair measured alone has the reference's similarity to the last bit, in either order."""
    first, second = texts[:2]
    assert exact_similarity(first, second) == exact_similarity(second, first) == similarity(first, second)


def test_long_texts_where_difflib_would_drop_frequent_letters() -> None:
    """From 200 letters on, difflib's autojunk stays off, as in the reference."""
    base = " ".join(rubric_texts(5, seed=8, near=0))
    texts = [base, base[3:], base[:-40], base.replace("the", "a"), base + base[:100], base[::-1]]
    assert min(map(len, texts)) > 200
    assert joined(texts, 0.6) == double_loop(texts, 0.6)


@pytest.mark.parametrize("cutoff", [0.88, 0.92])
def test_pairs_just_on_either_side_of_the_cutoff(cutoff: float) -> None:
    """One letter decides: texts whose best possible ratio is the cutoff itself, and those one letter short of it."""
    rng = random.Random(1)
    texts = []
    for size in (25, 50, 75, 100):
        base = "".join(rng.choice("abcdefghijklmnopqrst") for _ in range(size))
        least = next(m for m in range(size + 1) if 2.0 * m / (2 * size) >= cutoff)
        texts += [base, base[:least] + "z" * (size - least), base[: least - 1] + "z" * (size - least + 1)]
    found = joined(texts, cutoff)
    assert found == double_loop(texts, cutoff)
    assert {(0, 1), (3, 4), (6, 7), (9, 10)} <= {(i, j) for i, j, _ in found}
    assert (0, 2) not in {(i, j) for i, j, _ in found}


def test_exact_jaccard_cutoff_is_included() -> None:
    """An overlap of exactly the cutoff counts, whatever the order of the words."""
    words = [f"word{n}" for n in range(25)]
    texts = [" ".join(words[:22]), " ".join(reversed(words)), " ".join(words[:21])]
    assert (0, 1, 22 / 25) in joined(texts, 0.88)
    assert joined(texts, 0.88) == double_loop(texts, 0.88)


def test_many_sets_under_one_rare_token() -> None:
    """Long posting lists are compared in bulk and lose nothing."""
    rng = random.Random(5)
    vocabulary = [f"w{n}" for n in range(12)]
    texts = [" ".join(rng.sample(vocabulary, rng.randint(6, 11))) for _ in range(60)]
    assert joined(texts, 0.75) == double_loop(texts, 0.75)


def test_workers_and_order_do_not_matter() -> None:
    """One thread or three, and texts in another order: the same pairs of texts."""
    texts = rubric_texts(700, seed=2)
    plain = joined(texts, 0.9, workers=1)
    assert plain == joined(texts, 0.9, workers=3)
    back = joined(texts[::-1], 0.9)
    last = len(texts) - 1
    assert sorted((last - j, last - i, v) for i, j, v in back) == plain


def test_copies_of_one_text_are_pairs_of_similarity_one() -> None:
    """Every two copies are a pair, and each copy is paired with every other similar text."""
    texts = ["uses plain words", "cites a source", "Uses plain words!", "cites a source", "uses plain words"]
    assert joined(texts, 0.9) == [(0, 2, 1.0), (0, 4, 1.0), (1, 3, 1.0), (2, 4, 1.0)]


@pytest.mark.parametrize("cutoff", [0.0, -1.0, 1.1, float("nan")])
def test_cutoffs_that_make_no_sense_are_refused(cutoff: float) -> None:
    """A cutoff of 0 would ask for all pairs."""
    with pytest.raises(ValueError, match="cutoff must be > 0"):
        similar_pairs(["a", "b"], cutoff)


def test_few_texts() -> None:
    """No text, one text, and two that share nothing have no pairs."""
    assert [len(similar_pairs(texts, 0.5)) for texts in ([], ["a"], ["abc", "xyz"])] == [0, 0, 0]


def test_neighbours_and_above() -> None:
    """The sparse matrix can be read by row and cut higher."""
    found = similar_pairs(["abcd efgh", "abcd efgh ij", "abcd efgh", "zzzz"], 0.8)
    rows = found.neighbours(4)
    assert [other for other, _ in rows[0]] == [1, 2]
    assert rows[3] == []
    assert len(found.above(1.0)) == 1


# ── the bounds that the proof rests on ──────────────────────────────────────────────────────────────────────────────


@given(first=st.text("abcd ", max_size=40), second=st.text("abcd ", max_size=40))
@settings(deadline=None, max_examples=300)
def test_matching_blocks_never_exceed_the_longest_common_subsequence(first: str, second: str) -> None:
    """M ≤ LCS: the bound that lets rapidfuzz sort out pairs before difflib sees them."""
    blocks = SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks()
    assert sum(block.size for block in blocks) <= LCSseq.similarity(first, second)


@given(
    base=st.text("abcdeé ", min_size=1, max_size=60),
    edits=st.lists(st.tuples(st.integers(0, 60), st.sampled_from(["", *"abé"])), max_size=12),
)
@settings(deadline=None, max_examples=200)
def test_letter_bits_differ_at_most_by_the_edits(base: str, edits: list[tuple[int, str]]) -> None:
    """Each insertion or deletion changes one bit at most, so few different bits never lose a pair."""
    texts = [base, edited(base, edits) or "a", "other texts", "to choose bits by"]
    rows = letter_bits(texts).rows
    assert int(np.bitwise_count(rows[0] ^ rows[1]).sum()) <= len(edits) + 1  # the one for a text that would be empty


@given(sets=st.lists(st.frozensets(st.text("abcdefgh", max_size=3)), min_size=2, max_size=2))
@settings(deadline=None)
def test_token_bits_differ_at_most_by_the_tokens(sets: list[frozenset[str]]) -> None:
    """Parity bits differ in no more places than the sets have tokens apart."""
    bits = token_bits(sets)
    assert int(np.bitwise_count(bits[0] ^ bits[1])) <= len(sets[0] ^ sets[1])


@pytest.mark.parametrize("cutoff", [0.07, 0.3, 2 / 3, 0.88, 0.9, 0.92, 1.0])
def test_budgets_and_overlaps_are_the_largest_that_are_safe(cutoff: float) -> None:
    """One edit more than the budget, or one token fewer than the least overlap, falls below the cutoff."""
    for total, budget in enumerate(edit_budgets(150, cutoff).tolist()[1:], 1):
        least = (total - budget) // 2
        assert 2.0 * least / total >= cutoff
        assert 2.0 * (least - 1) / total < cutoff
    for size in range(1, 200):
        least = least_overlap(size, cutoff)
        assert least / size >= cutoff
        assert least == 1 or (least - 1) / size < cutoff
