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


def _words(view: TextView) -> int:
    return len(view.words)


def _words_per_sentence(view: TextView) -> float | None:
    """Return the mean length of a sentence; None without sentences."""
    return len(view.prose.words) / len(view.sentences) if view.sentences else None


def _numbers(view: TextView) -> int:
    """Count the numbers in a text, without the marks of list items."""
    text = view.head.text
    return max(len(NUMBER.findall(text)) - len(LIST_MARK.findall(text)), 0)


def _highlights(view: TextView) -> int:
    return len(_HIGHLIGHT.findall(view.prose.text))


def _placeholders(view: TextView) -> int:
    return len(_PLACEHOLDER.findall(view.text))


def _capital_words(view: TextView) -> int:
    return sum(len(word) > 1 and word.isupper() for word in view.words)


_ALL = ("max", "min", "exact")
_FEW = (1, 2, 3, 4, 5, 6, 8, 10)
_ITEMS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20)
CHECKS = CheckTable()
CHECKS.bounds("words", _words, "is {bound} {n:word} long", (10, 25, 50, 75, 100, 150, 200, 300, 400, 600, 900))
CHECKS.bounds("words", _words, "is {bound} {n:word} long", (1, 2, 3, 5, 10, 50, 100), kinds=["exact"])
CHECKS.bounds("sentences", lambda view: len(view.sentences), "has {bound} {n:sentence}", _FEW, kinds=_ALL)
CHECKS.bounds("paragraphs", lambda view: len(view.paragraphs), "has {bound} {n:paragraph}", _FEW, kinds=_ALL)
CHECKS.bounds("lines", lambda view: len(view.lines), "has {bound} {n:line}", _FEW, kinds=["exact"])
CHECKS.bounds(
    "characters", lambda view: len(view.stripped), "is {bound} {n:character} long", (140, 280, 500, 1000, 2000, 4000)
)
CHECKS.bounds("items", lambda view: view.item_count, "lists {bound} {n:item}", _ITEMS, kinds=_ALL)
_SENTENCES = "'s sentences have {bound} {n:word} on average"
CHECKS.bounds("sentence_words", _words_per_sentence, _SENTENCES, [12, 15, 18, 22, 26], kinds=["max"], facet="style")
CHECKS.bounds("numbers", _numbers, "contains {bound} {n:number}", (1, 3, 5, 10), kinds=["min"], facet="grounding")
for _unit, _number, _says, _grid in (
    ("highlights", _highlights, "highlights {bound} {n:passage} with asterisks", [1, 2, 3, 5]),
    ("placeholders", _placeholders, "contains {bound} {n:placeholder} in square brackets", [1, 2, 3, 5]),
    ("capital_words", _capital_words, "has {bound} {n:word} in all capitals", [1, 2, 3, 5, 10]),
):
    CHECKS.bounds(_unit, _number, _says, _grid, kinds=["min"], facet="format")


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
    "format",
    (
        "bullet_list",
        "uses a bulleted list",
        lambda view: sum(not item.numbered for item in view.layout.items) >= 2,
        ("no_bullet_list", "does not use a bulleted list"),
    ),
    (
        "numbered_list",
        "uses a numbered list",
        lambda view: sum(item.numbered for item in view.layout.items) >= 2,
    ),
    ("headings", "uses headings", lambda view: view.layout.headings > 0),
    ("table", "contains a table", lambda view: view.layout.tables > 0),
    ("bold", "sets key words in bold", lambda view: _BOLD.search(view.prose.text)),
)


@CHECKS.add("is plain text without Markdown", "format", opposite=("uses_markdown", "is formatted with Markdown"))
def plain_text(response: TextView) -> bool:
    """No Markdown: no bullets, headings, tables, bold text or fenced code."""
    layout = response.layout
    bullets = any(not item.numbered for item in layout.items)
    return not (bullets or layout.headings or layout.tables or layout.code or _BOLD.search(response.text))


@CHECKS.add("is structured with lists, headings or bold text", "format")
def structured(response: TextView) -> Finding:
    """List items, headings, tables and bold text add up to three marks; more, up to ten, are better."""
    layout = response.layout
    marks = len(layout.items) + 2 * layout.headings + 3 * layout.tables + len(_BOLD.findall(response.prose.head.text))
    return Finding(marks >= 3, float(min(marks, 10)))


CHECKS.simple("format", ("bracketed_title", "has a title in double angular brackets", lambda v: _TITLE.search(v.text)))
CHECKS.simple("grounding", ("link", "contains a web link", lambda view: _LINK.search(view.text)))


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


CHECKS.simple(
    "format",
    ("all_uppercase", "is all in capital letters", lambda view: view.text.isupper()),
    ("no_commas", "does not contain any commas", lambda view: "," not in view.text),
)
CHECKS.simple(
    "style",
    (
        "exclamation_marks",
        "contains an exclamation mark",
        lambda view: "!" in view.prose.text or "！" in view.prose.text,
        ("no_exclamation_marks", "does not contain exclamation marks"),
    ),
    ("no_emoji", "does not contain emoji", lambda view: view.text.isascii() or not _EMOJI.search(view.text)),
)
CHECKS.simple("format", ("yes_or_no", "begins with a plain yes or no", lambda view: _YES_NO.match(view.stripped)))


@CHECKS.add("is divided into parts by {text}", "format", text=phrase("***", "---", "******"))
def separated_by(response: TextView, *, text: str) -> bool:
    """A separator divides the response into at least two parts that contain words."""
    parts = response.text.split(text, 8)
    return len(parts) > 1 and all(any(map(str.isalnum, part)) for part in parts[:2])
