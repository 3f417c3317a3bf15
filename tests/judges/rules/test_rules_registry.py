"""The registry: names, templates, arguments, and rubrics read back as checks."""

from __future__ import annotations

import pytest

from svr_async.core.rubric import MAX_RUBRIC_CHARS, Check
from svr_async.judges.rules.registry import grid_rubrics, recognise, rubric_for

MORE = (
    Check.of("max_words", n=1),
    Check.of("includes_words", words=("a b", "c", "d'e")),
    Check.of("avoids_words", words=("x", "y", "z")),
    Check.of("ends_with", text="Is there anything else I can help with?"),
    Check.of("starts_with", text="P.S."),
    Check.of("uses_word", word="and", n=1),
    Check.of("words_between", low=0, high=1_000_000),
    Check.of("separated_by", text="* * *"),
)


def test_grid_round_trip() -> None:
    """Every rubric, of the grid and beyond, fits a bank and is read back, from its text alone, as its check."""
    rubrics = (*grid_rubrics(), *map(rubric_for, MORE))

    assert [r.text for r in rubrics if recognise(r.text) != r.check or len(r.text) > MAX_RUBRIC_CHARS] == []
    assert len(grid_rubrics()) == len({r.id for r in grid_rubrics()}) == len({r.check for r in grid_rubrics()})


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("the response is AT MOST one hundred words long", Check.of("max_words", n=100)),
        ("The response is at most 1,200 words long!", Check.of("max_words", n=1200)),
        ("Does the response use a bulleted list?", Check.of("bullet_list")),
        ("Does the response not use a bulleted list?", Check.of("no_bullet_list")),
        ("Does the assistant's response have exactly three paragraphs?", Check.of("exact_paragraphs", n=3)),
        ("The answer should be written in French.", Check.of("in_language", language="fr")),
        (
            "The response must include “sun”, “moon”, and “star”",
            Check.of("includes_words", words=("sun", "moon", "star")),
        ),
        ("The response\n  contains a   table", Check.of("table")),
        ("Does the response reply politely?", None),
        ("The response is at most some words long.", None),
        ("The response is between 9 and 3 words long.", None),
        ("", None),
        ("?" * 100_000, None),
    ],
)
def test_recognise(text: str, check: Check | None) -> None:
    """Case, spacing, quotes, number words, questions and wishes do not hide a template; other texts are not checks."""
    assert check == recognise(text)
