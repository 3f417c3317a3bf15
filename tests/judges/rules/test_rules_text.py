"""Views of a text: words, sentences, paragraphs, blocks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svr_async.judges.rules.text import TextView


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It's a well-known fact.", ["It's", "a", "well-known", "fact"]),
        ("snake_case x2", ["snake_case", "x2"]),
        ("日本 and Tokyo", ["日", "本", "and", "Tokyo"]),
        ("a-b-c-d-e-f-g", ["a-b-c-d-e", "f-g"]),
        ("— … !", []),
        ("\ud800x\x00y", ["x", "y"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    """Words keep hyphens and apostrophes; Chinese and Japanese characters count one by one."""
    assert words == TextView(text).words


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ('He said "Stop." Then he ran.', ['He said "Stop."', "Then he ran."]),
        ("Dr. A. Smith, e.g., came at 5 p.m. today.", ["Dr. A. Smith, e.g., came at 5 p.m. today."]),
        ("Wait... what?!", ["Wait...", "what?!"]),
        ("wrapped\nonto a new line. End", ["wrapped\nonto a new line.", "End"]),
        ("Title\nBody", ["Title", "Body"]),
        ("1. First\n2. Second", ["1. First", "2. Second"]),
        ("It was 1999. Then 2000.", ["It was 1999.", "Then 2000."]),
        ("一。二！", ["一。", "二！"]),
        ("```\na. b. c.\n```\nOne.", ["One."]),
        ("...", []),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    """Sentences end at marks or unwrapped line breaks, not at abbreviations, initials or list numbers."""
    assert sentences == TextView(text).sentences


def test_paragraphs_leave_out_headings_and_rules() -> None:
    """Headings and rules alone are no paragraphs; line breaks inside one are kept."""
    text = "# Title\n\nOne\ntwo\n \n***\n\n## Sub\nThree\r\n\r\nFour"

    assert TextView(text).paragraphs == ["One\ntwo", "## Sub\nThree", "Four"]


def test_layout_reads_blocks() -> None:
    """Code, items, headings and tables are told apart, and prose leaves the code out."""
    text = "# H\n- a\n  - b\n\n| x | y |\n|:--|--:|\n\n```Python {1}\n- no item\n# no heading\n```\nend"
    layout = TextView(text).layout

    assert (layout.headings, layout.tables) == (1, 1)
    assert [item.indent for item in layout.items] == [0, 2]
    assert [(c.language, c.body, c.closed) for c in layout.code] == [("python", "- no item\n# no heading", True)]
    assert "no item" not in layout.prose
    assert layout.prose.endswith("end")


@pytest.mark.parametrize(
    ("text", "closed"),
    [
        ("~~~\nx\n~~~", True),
        ("```\nx\n~~~", False),
        ("````\nx\n````", True),
        ("```\nx", False),
        ("```\nx\n```  ", True),
    ],
)
def test_fences(text: str, closed: bool) -> None:
    """A fence ends at a line of its own marks, or is left open by the end of the text."""
    (block,) = TextView(text).layout.code

    assert closed == block.closed


def test_item_count_takes_the_outermost_list() -> None:
    """Numbered items outrank bullets, and nested items are not counted."""
    assert TextView("1. a\n   - x\n   - y\n2. b").item_count == 2
    assert TextView("  * a\n      * x\n  * b").item_count == 2
    assert TextView("no list - really").item_count == 0


@settings(deadline=None, max_examples=150)
@given(st.text(st.characters(exclude_categories=()), max_size=300))
def test_views_are_total(text: str) -> None:
    """Every property exists for any text, lone surrogates and control characters included, and counts agree."""
    view = TextView(text)

    assert len(view.sentences) <= len(view.prose.words) or not view.sentences
    assert view.vocabulary == set(view.lower_words)
    assert view.item_count <= len(view.layout.items) <= len(view.unixed.split("\n"))
    assert view.plain == view.plain.lower() or not text.isascii()
    assert len(view.opening) <= 240
    assert all(map(str.strip, view.paragraphs))
