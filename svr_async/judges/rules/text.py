"""Views of a text for the checks: words, sentences, paragraphs, lines and blocks, each computed once and on demand.

Everything is linear in the length of the text. Patterns use bounded or possessive repeats, and begin where no other
match can begin, so that no input makes them backtrack.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any, TypeVar, final

T = TypeVar("T")

HEAD_CHARS = 200_000
"""Repetition, coverage, language and arithmetic look at this many characters from the start; counts look at all."""

OPENING_CHARS = 240
CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"

_QUOTES = str.maketrans({"‘": "'", "’": "'", "‛": "'", "`": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"'})
_WORD = re.compile(r"\w+(?:['’\-]\w+){0,4}")
_CJK_CHAR = re.compile(f"[{CJK}]")
_CJK_WORD = re.compile(rf"[{CJK}]|[^\W{CJK}]+(?:['’\-][^\W{CJK}]+){{0,4}}")
_SENTENCE_END = re.compile(r"""(?<![.!?…])[.!?…]++["'”’)\]*_]*+(?=\s|\Z)|[。！？]|\n(?![ \t]{0,20}[a-z])""")
_NUMBERED = re.compile(r"(?:#{1,6} {1,3})?(?:\*\*|__)?\(?(?:\d{1,3}[.)]|[A-Za-z]\))(?:\*\*|__)?(?:\s|\Z)")
_HEADING = re.compile(r"#{1,6}[ \t]+\S")
_ABBREVIATIONS = frozenset((
    "e.g", "i.e", "etc", "vs", "cf", "al", "approx", "dr", "mr", "mrs", "ms", "prof", "st", "no", "fig", "eq", "sec",
    "vol", "inc", "ltd", "co", "jr", "sr", "dept", "est", "p", "pp", "a.m", "p.m", "u.s", "u.k",
))  # fmt: skip
_MARKERS = frozenset("-*+•–·‣◦#|`~>(_0123456789") | frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_BULLETS = frozenset("-*+•–·‣◦")
_TABLE_RULE = frozenset("|:-+ \t")
_RULE = frozenset("-*_ \t=")


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A fenced block: its language tag in lower case (may be empty), and its body."""

    language: str
    body: str


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a list: its indent in columns, and whether it carries a number or letter."""

    indent: int
    numbered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The blocks of a text: fenced code, list items, headings, tables, and the text outside code."""

    code: tuple[CodeBlock, ...]
    items: tuple[Item, ...]
    headings: int
    tables: int
    prose: str


@final
class TextView:
    """One text with its properties cached. `before` holds earlier turns when the text is the last turn of a prompt."""

    def __init__(self, text: str, before: str = "") -> None:
        self.text = text
        self.before = before
        self._made: dict[Callable[[TextView], Any], Any] = {}

    def once(self, make: Callable[[TextView], T]) -> T:
        """Return `make(self)`, computed at the first call."""
        try:
            value: T = self._made[make]
        except KeyError:
            value = self._made[make] = make(self)
        return value

    @cached_property
    def unixed(self) -> str:
        """The text with every line break as a newline."""
        text = self.text
        return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text

    @cached_property
    def stripped(self) -> str:
        """The text without white space at either end."""
        return self.text.strip()

    @cached_property
    def plain(self) -> str:
        """Lower case, straight quotes, single spaces, and a space at both ends: for looking phrases up."""
        return plain(self.text)

    @cached_property
    def opening(self) -> str:
        """The start of `plain`: the part where refusals, greetings and apologies stand."""
        return plain(self.text.lstrip()[: 2 * OPENING_CHARS])[:OPENING_CHARS]

    @cached_property
    def ending(self) -> str:
        """The end of `plain`, of the same length as `opening`."""
        return plain(self.text.rstrip()[-OPENING_CHARS:])

    @cached_property
    def head(self) -> TextView:
        """This view, or a view of the first `HEAD_CHARS` characters of a longer text."""
        return self if len(self.text) <= HEAD_CHARS else TextView(self.text[:HEAD_CHARS])

    @cached_property
    def words(self) -> list[str]:
        """Words in order; hyphens and apostrophes join; each Chinese or Japanese character counts as one."""
        return words_of(self.text)

    @cached_property
    def lower_words(self) -> list[str]:
        """The words of `plain`."""
        return words_of(self.plain)

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """The distinct lower-case words."""
        return frozenset(self.lower_words)

    @cached_property
    def lines(self) -> list[str]:
        """Non-blank lines, stripped."""
        return [line for line in map(str.strip, self.unixed.split("\n")) if line]

    @cached_property
    def layout(self) -> Layout:
        """The blocks of the text."""
        return read_layout(self.unixed)

    @cached_property
    def prose(self) -> TextView:
        """A view of the text outside fenced code; this view without code."""
        return TextView(self.layout.prose) if self.layout.code else self

    @cached_property
    def sentences(self) -> list[str]:
        """Sentences outside fenced code; a line break ends one unless the next line starts in lower case."""
        return sentences_of(self.prose.unixed)

    @cached_property
    def paragraphs(self) -> list[str]:
        """Runs of non-blank lines outside fenced code; headings and rules alone do not count."""
        return paragraphs_of(self.prose.unixed)

    @cached_property
    def item_count(self) -> int:
        """Entries of the outermost list: numbered ones if any, else bullets, at the smallest indent."""
        items = self.layout.items
        numbered = any(item.numbered for item in items)
        indents = [item.indent for item in items if item.numbered is numbered]
        return indents.count(min(indents)) if indents else 0


def plain(text: str) -> str:
    """Return a text in lower case with straight quotes and single spaces, a space at both ends."""
    lower = text.lower()
    if not lower.isascii():
        lower = lower.translate(_QUOTES)
    return f" {' '.join(lower.split())} "


def words_of(text: str) -> list[str]:
    """Split a text into words; see `TextView.words`."""
    if text.isascii() or not _CJK_CHAR.search(text):
        return _WORD.findall(text)
    return _CJK_WORD.findall(text)


def sentences_of(text: str) -> list[str]:
    """Split a text into sentences that hold at least one letter or digit."""
    found, start = [], 0
    for match in _SENTENCE_END.finditer(text):
        if text[match.start()] == "." and _is_abbreviation(text, start, match.start()):
            continue
        found.append(text[start : match.end()])
        start = match.end()
    found.append(text[start:])
    return [sentence for sentence in map(str.strip, found) if _WORD.search(sentence)]


def _is_abbreviation(text: str, start: int, dot: int) -> bool:
    """Whether the full stop at `dot` belongs to an abbreviation, an initial or the number of a list item."""
    words = text[max(start, dot - 12) : dot].rsplit(None, 1)
    word = words[-1] if words else ""
    if word.isdecimal():
        return len(words) == 1 and not text[start:dot].strip(" \t\n*#_>(0123456789")
    return word.lower().lstrip("(*_") in _ABBREVIATIONS or (len(word) == 1 and word.isupper() and word != "I")


def paragraphs_of(text: str) -> list[str]:
    """Split a text at blank lines; parts that are only a heading or a rule are left out."""
    found: list[str] = []
    run: list[str] = []
    for line in [*map(str.strip, text.split("\n")), ""]:
        if line:
            run.append(line)
        elif run:
            if len(run) > 1 or not (_HEADING.match(run[0]) or _RULE.issuperset(run[0])):
                found.append("\n".join(run))
            run = []
    return found


def read_layout(text: str) -> Layout:
    """Read fenced code, lists, headings and tables in one pass over the lines."""
    code: list[CodeBlock] = []
    items: list[Item] = []
    prose: list[str] = []
    body: list[str] = []
    fence = language = ""
    headings = tables = 0
    for line in text.split("\n"):
        mark = line.lstrip()
        first = mark[:1]
        if fence:
            if first == fence[0] and mark.startswith(fence) and not mark.strip(fence[0] + " \t"):
                code.append(CodeBlock(language, "\n".join(body)))
                fence, body = "", []
            else:
                body.append(line)
            continue
        if first in ("`", "~") and mark.startswith(first * 3):
            fence, language = first * 3, _tag(mark)
            continue
        prose.append(line)
        if first in _MARKERS:
            headings += first == "#" and bool(_HEADING.match(mark))
            tables += first in "|:-" and "|" in mark and "--" in mark and _TABLE_RULE.issuperset(mark)  # "|---|---|"
            if item := _item(mark, len(line) - len(mark)):
                items.append(item)
    if fence:
        code.append(CodeBlock(language, "\n".join(body)))
    return Layout(
        code=tuple(code), items=tuple(items), headings=headings, tables=tables, prose="\n".join(prose) if code else text
    )


def _tag(fence_line: str) -> str:
    """Return the language tag of a fence line: the first word after the ticks, at most 40 characters."""
    words = fence_line.lstrip("`~")[:80].split(None, 1)
    return words[0].strip("{}.").lower()[:40] if words else ""


def _item(mark: str, indent: int) -> Item | None:
    """Read a list item from a line without its indent; None for other lines."""
    if mark[0] in _BULLETS and mark[1:2].isspace():
        return None if _RULE.issuperset(mark) else Item(indent, numbered=False)
    return Item(indent, numbered=True) if _NUMBERED.match(mark) else None


def kept(make: Callable[[TextView], T]) -> Callable[[TextView], T]:
    """Make a function of a text compute its result once for each text."""

    @wraps(make)
    def once(view: TextView) -> T:
        return view.once(make)

    return once
