"""The paper's textual similarity: worked examples, symmetry, bounds, and an independent reference."""

from __future__ import annotations

import difflib
import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svr_async.core.similarity import STOPWORDS, content_tokens, redundancy, similarity

texts = st.text(alphabet="abcdeABC 123.,!_é\u0301中文\n", max_size=40)


def test_negations_and_quantities_are_content() -> None:
    """A rubric and its opposite must differ in their tokens."""
    assert "not" not in STOPWORDS
    assert similarity("Must mention the price", "Must not mention the price") < 1
    assert content_tokens("before all") != content_tokens("after none")


@given(texts, texts)
@settings(deadline=None)
def test_similarity_equals_an_independent_form(first: str, second: str) -> None:
    """The value is the larger of the two parts, each written down a second time here."""

    def words(text: str) -> str:
        return re.sub(r"[\W_]+", " ", unicodedata.normalize("NFKC", text).lower()).strip()

    one, two = sorted((words(first), words(second)), key=lambda text: (len(text), text))
    tokens = [{token for token in text.split(" ") if len(token) > 1} - STOPWORDS for text in (one, two)]
    union = tokens[0] | tokens[1]
    overlap = len(tokens[0] & tokens[1]) / len(union) if union else 0
    blocks = sum(m.size for m in difflib.SequenceMatcher(None, one, two, False).get_matching_blocks())
    ratio = 2 * blocks / (len(one) + len(two)) if one and two else 0

    expected = 1 if first == second else max(overlap, ratio)
    assert similarity(first, second) == pytest.approx(expected)


@pytest.mark.parametrize(("value", "expected"), [(0.5, 0.0), (0.92, 0.0), (0.96, 0.5), (1.0, 1.0)])
def test_redundancy_rescales_what_exceeds_the_cutoff(value: float, expected: float) -> None:
    """0 up to the cutoff of 0.92, then linear up to 1."""
    assert redundancy(value) == pytest.approx(expected)
