"""Hostile characters cannot steer a page or a terminal."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svr_async.core.safetext import for_terminal, json_for_terminal, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, ü, 中文, 🙂\ttab\nline", "plain text, ü, 中文, 🙂\ttab\nline"),
        ("a\x00b\x1b[31m", "a⟨U+0000⟩b⟨U+001B⟩[31m"),
        ("in\u202everted\u2066x\u2069", "in⟨U+202E⟩verted⟨U+2066⟩x⟨U+2069⟩"),
        ("zero\u200bwidth\ufeff", "zero⟨U+200B⟩width⟨U+FEFF⟩"),
        ("tag\U000e0041", "tag⟨U+E0041⟩"),
        ("c1\x9b31m\x85", "c1⟨U+009B⟩31m⟨U+0085⟩"),
        ("family 👨‍👩‍👧", "family 👨‍👩‍👧"),
        ("half\ud800", "half⟨U+D800⟩"),
    ],
)
def test_visible_shows_hidden_characters_by_code_point(text: str, shown: str) -> None:
    """Controls, bidi marks, zero-width and tag characters become readable; joiners of scripts and emoji stay."""
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]52;c;aGk=\x07", ""),
        ("\x1bP1$r\x1b\\y", "y"),
        ("\x1bcreset", "reset"),
        ("\x9b2Jgone", "gone"),
        ("unfinished \x1b]8;;https://example.org", "unfinished 8;;https://example.org"),
        ("\u202eabc\u2069", "abc"),
        ("a\rb\r\nc", "a\nb\nc"),
        ("\x08\x08\x7f", ""),
    ],
)
def test_for_terminal_strips_sequences(text: str, left: str) -> None:
    """Colours, links, titles, clipboard writes, cursor moves and bidi marks are gone; the words stay."""
    assert for_terminal(text) == left


@given(st.text(alphabet=st.characters(), max_size=60))
@settings(deadline=None)
def test_nothing_that_steers_survives(text: str) -> None:
    """Whatever goes in, no control but tab and newline and no bidi mark comes out, on a page or on a terminal."""
    steering = set(
        map(chr, [*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)])
    )

    assert not steering & set(visible(text))
    assert not steering & set(for_terminal(text))


def test_a_json_document_steers_no_terminal_and_keeps_its_value() -> None:
    """What JSON lets stand as it is, and a terminal does not, is escaped; all else stays."""
    value = {"a": "\x9b2Jé 🎉", "b": ["\u202e", "\U000e0041", "line\nline"]}
    document = json_for_terminal(orjson.dumps(value, option=orjson.OPT_INDENT_2))
    assert orjson.loads(document) == value
    assert visible(document) == document
    assert "é 🎉" in document
