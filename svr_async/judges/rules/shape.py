"""Checks of length and shape: counts, lists, headings, tables, marks, letter case and requested forms."""

from __future__ import annotations

import re

from svr_async.judges.rules.spec import CheckTable, Finding, at_most, phrase, whole, within
from svr_async.judges.rules.text import TextView

_BOLD = re.compile(r"\*\*[^*\n]{1,300}\*\*|__[^_\n]{1,300}__")
_HIGHLIGHT = re.compile(r"(?<![*\w])\*{1,2}(?=\S)[^*\n]{1,300}(?<=\S)\*{1,2}(?![*\w])")
_PLACEHOLDER = re.compile(r"\[[^\[\]\n]{1,80}\](?!\()")
_LINK = re.compile(r"https?://[^\s)\]>]|www\.\w")
_TITLE = re.compile(r"<<[^<>\n]{1,200}>>")
_EMOJI = re.compile("[\U0001f300-\U0001faff\u2600-\u26ff\u2728\u2753-\u2757\u2763\u2764\U0001f1e6-\U0001f1ff]")
_YES_NO = re.compile(r"\W{0,3}(yes|no|true|false)\b", re.IGNORECASE)
NUMBER = re.compile(r"(?<![\w.])\d{1,15}(?:,\d{3}){0,5}(?:\.\d{1,15})?")
LIST_MARK = re.compile(r"^[ \t]{0,20}(?:\*\*|#{1,6} )?\(?\d{1,3}[.)][ \t]", re.MULTILINE)


def _words_per_sentence(view: TextView) -> float | None:
    """Return the mean length of a sentence; None if there is no sentence."""
    return len(view.prose.words) / len(view.sentences) if view.sentences else None


def _longest_paragraph(view: TextView) -> int | None:
    """Return the number of words in the longest paragraph; None if there is no paragraph."""
    return max((len(paragraph.split()) for paragraph in view.paragraphs), default=None)


def _numbers(view: TextView) -> int:
    """Count the numbers in a text, without the marks of list items."""
    text = view.head.text
    return max(len(NUMBER.findall(text)) - len(LIST_MARK.findall(text)), 0)


_ALL = ("max", "min", "exact")
_FEW = (1, 2, 3, 4, 5, 6, 8, 10)
CHECKS = CheckTable()
CHECKS.bounds(
    "words",
    lambda view: len(view.words),
    "is {bound} {n:word} long",
    (10, 25, 50, 75, 100, 150, 200, 300, 400, 600, 900),
)
CHECKS.bounds(
    "words", lambda view: len(view.words), "is {bound} {n:word} long", (1, 2, 3, 5, 10, 50, 100), kinds=["exact"]
)
CHECKS.bounds("sentences", lambda view: len(view.sentences), "has {bound} {n:sentence}", _FEW, kinds=_ALL)
CHECKS.bounds("paragraphs", lambda view: len(view.paragraphs), "has {bound} {n:paragraph}", _FEW, kinds=_ALL)
CHECKS.bounds("lines", lambda view: len(view.lines), "has {bound} {n:line}", _FEW, kinds=["exact"])
CHECKS.bounds(
    "characters", lambda view: len(view.stripped), "is {bound} {n:character} long", (140, 280, 500, 1000, 2000, 4000)
)
CHECKS.bounds(
    "items",
    lambda view: view.item_count,
    "lists {bound} {n:item}",
    (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20),
    kinds=_ALL,
)
CHECKS.bounds(
    "sentence_words",
    _words_per_sentence,
    "'s sentences have {bound} {n:word} on average",
    (12, 15, 18, 22, 26),
    kinds=["max"],
    facet="style",
)
CHECKS.bounds(
    "paragraph_words",
    _longest_paragraph,
    "has no paragraph of more than {n:word}",
    (50, 75, 100, 150, 200),
    kinds=["max"],
    facet="style",
)
CHECKS.bounds("numbers", _numbers, "contains {bound} {n:number}", (1, 3, 5, 10), kinds=["min"], facet="grounding")
CHECKS.bounds(
    "highlights",
    lambda view: len(_HIGHLIGHT.findall(view.prose.text)),
    "highlights {bound} {n:passage} with asterisks",
    (1, 2, 3, 5),
    kinds=["min"],
    facet="format",
)
CHECKS.bounds(
    "placeholders",
    lambda view: len(_PLACEHOLDER.findall(view.text)),
    "contains {bound} {n:placeholder} in square brackets",
    (1, 2, 3, 5),
    kinds=["min"],
    facet="format",
)
CHECKS.bounds(
    "capital_words",
    lambda view: sum(len(word) > 1 and word.isupper() for word in view.words),
    "has {bound} {n:word} in all capitals",
    (1, 2, 3, 5, 10),
    kinds=["min"],
    facet="format",
)


@CHECKS.add(
    "is between {low} and {high:word} long",
    "conciseness",
    grid=[{"low": low, "high": high} for low, high in ((25, 75), (50, 150), (100, 250), (200, 400), (300, 600))],
    low=whole(low=0),
    high=whole(),
)
def words_between(response: TextView, *, low: int, high: int) -> Finding:
    """The number of words lies between two bounds, both included."""
    return within(len(response.words), low, high)


CHECKS.simple(
    "bullet_list",
    "uses a bulleted list",
    "format",
    lambda view: sum(not item.numbered for item in view.layout.items) >= 2,
    opposite=("no_bullet_list", "does not use a bulleted list"),
)
CHECKS.simple(
    "numbered_list",
    "uses a numbered list",
    "format",
    lambda view: sum(item.numbered for item in view.layout.items) >= 2,
)
CHECKS.simple("headings", "uses headings", "format", lambda view: view.layout.headings > 0)
CHECKS.simple("table", "contains a table", "format", lambda view: view.layout.tables > 0)
CHECKS.simple("bold", "sets key words in bold", "format", lambda view: _BOLD.search(view.prose.text))


@CHECKS.add("is plain text without Markdown", "format", opposite=("uses_markdown", "is formatted with Markdown"))
def plain_text(response: TextView) -> bool:
    """There is no Markdown: no bullets, headings, tables, bold text or fenced code."""
    layout = response.layout
    bullets = any(not item.numbered for item in layout.items)
    return not (bullets or layout.headings or layout.tables or layout.code or _BOLD.search(response.text))


@CHECKS.add("makes its structure visible with lists, headings or bold text", "format")
def structured(response: TextView) -> Finding:
    """List items, headings, tables and bold text add up to three marks; more, up to ten, are better."""
    layout = response.layout
    marks = len(layout.items) + 2 * layout.headings + 3 * layout.tables + len(_BOLD.findall(response.prose.head.text))
    return Finding(marks >= 3, float(min(marks, 10)))


CHECKS.simple(
    "bracketed_title", "has a title in double angular brackets", "format", lambda view: _TITLE.search(view.text)
)
CHECKS.simple("link", "contains a web link", "grounding", lambda view: _LINK.search(view.text))


@CHECKS.add("is wrapped in double quotation marks", "format")
def in_quotes(response: TextView) -> bool:
    """The whole response stands between double quotation marks."""
    text = response.stripped
    return len(text) > 1 and text[0] in '"“„' and text[-1] in '"”'


@CHECKS.add("is all in lower case", "format")
def all_lowercase(response: TextView) -> Finding:
    """No letter is upper case; fewer upper-case letters are better."""
    letters, upper = (sum(map(test, response.text)) for test in (str.isalpha, str.isupper))
    return at_most(upper / max(letters, 1), 0)


CHECKS.simple("all_uppercase", "is all in capital letters", "format", lambda view: view.text.isupper())
CHECKS.simple("no_commas", "does not contain any commas", "format", lambda view: "," not in view.text)
CHECKS.simple(
    "exclamation_marks",
    "contains an exclamation mark",
    "style",
    lambda view: "!" in view.prose.text or "！" in view.prose.text,
    opposite=("no_exclamation_marks", "does not contain exclamation marks"),
)
CHECKS.simple(
    "no_emoji", "does not contain emoji", "style", lambda view: view.text.isascii() or not _EMOJI.search(view.text)
)
CHECKS.simple("yes_or_no", "begins with a plain yes or no", "format", lambda view: _YES_NO.match(view.stripped))
CHECKS.simple(
    "closed_marks",
    "closes every code fence and bold mark",
    "format",
    lambda view: all(block.closed for block in view.layout.code) and view.prose.text.count("**") % 2 == 0,
)


@CHECKS.add("is divided into parts by {text}", "format", text=phrase("***", "---", "******"))
def separated_by(response: TextView, *, text: str) -> bool:
    """A separator divides the response into at least two parts that contain words."""
    parts = response.text.split(text, 8)
    return len(parts) > 1 and all(any(map(str.isalnum, part)) for part in parts[:2])
