"""Checks of shape: lists, headings, tables, quotation, case, and answers in a requested form."""

from __future__ import annotations

import re

from svr_async.judges.rules.spec import (
    Finding,
    Phrase,
    Whole,
    at_least,
    at_most,
    both_ways,
    bounds,
    spec,
    within,
    yes_if,
)
from svr_async.judges.rules.text import TextView

# Every check takes (prompt, response, **args), whether it needs the prompt or not.
# ruff: noqa: ARG001

_BOLD = re.compile(r"\*\*[^*\n]{1,300}\*\*|__[^_\n]{1,300}__")
_HIGHLIGHT = re.compile(r"(?<![*\w])\*{1,2}(?=\S)[^*\n]{1,300}(?<=\S)\*{1,2}(?![*\w])")
_PLACEHOLDER = re.compile(r"\[[^\[\]\n]{1,80}\](?!\()")
_LINK = re.compile(r"https?://[^\s)\]>]|www\.\w")
_TITLE = re.compile(r"<<[^<>\n]{1,200}>>")
_EMOJI = re.compile("[\U0001f300-\U0001faff\u2600-\u26ff\u2728\u2753-\u2757\u2763\u2764\U0001f1e6-\U0001f1ff]")
_YES_NO = re.compile(r"\W{0,3}(yes|no|true|false)\b", re.IGNORECASE)


def bullet_list(prompt: TextView, response: TextView) -> Finding:
    """At least two list items carry a bullet."""
    return yes_if(sum(not item.numbered for item in response.layout.items) >= 2)


def numbered_list(prompt: TextView, response: TextView) -> Finding:
    """At least two list items carry a number or letter."""
    return yes_if(sum(item.numbered for item in response.layout.items) >= 2)


def exact_items(prompt: TextView, response: TextView, *, n: int) -> Finding:
    """The outermost list has exactly n items."""
    return within(response.item_count, n, n)


def min_items(prompt: TextView, response: TextView, *, n: int) -> Finding:
    """The outermost list has at least n items."""
    return at_least(response.item_count, n)


def max_items(prompt: TextView, response: TextView, *, n: int) -> Finding:
    """The outermost list has at most n items."""
    return at_most(response.item_count, n)


def headings(prompt: TextView, response: TextView) -> Finding:
    """At least one Markdown heading stands outside code."""
    return yes_if(response.layout.headings)


def table(prompt: TextView, response: TextView) -> Finding:
    """At least one Markdown table stands outside code."""
    return yes_if(response.layout.tables)


def bold(prompt: TextView, response: TextView) -> Finding:
    """At least one stretch of text is set in bold."""
    return yes_if(_BOLD.search(response.prose.text))


def plain_text(prompt: TextView, response: TextView) -> Finding:
    """There is no Markdown: no list marks, headings, tables, bold or fenced code."""
    layout = response.layout
    bullets = any(not item.numbered for item in layout.items)
    return yes_if(not (bullets or layout.headings or layout.tables or layout.code or _BOLD.search(response.text)))


def structured(prompt: TextView, response: TextView) -> Finding:
    """A longer answer shows its structure: list items, headings, tables or bold, counted up to ten."""
    layout = response.layout
    marks = len(layout.items) + 2 * layout.headings + 3 * layout.tables + len(_BOLD.findall(response.prose.head.text))
    return Finding(marks >= 3, float(min(marks, 10)))


def min_highlights(prompt: TextView, response: TextView, *, n: int) -> Finding:
    """At least n stretches are set off with asterisks."""
    return at_least(response.once(_count_highlights), n)


def _count_highlights(view: TextView) -> int:
    return len(_HIGHLIGHT.findall(view.prose.text))


def min_placeholders(prompt: TextView, response: TextView, *, n: int) -> Finding:
    """At least n placeholders stand in square brackets, such as [address]."""
    return at_least(response.once(_count_placeholders), n)


def _count_placeholders(view: TextView) -> int:
    return len(_PLACEHOLDER.findall(view.text))


def bracketed_title(prompt: TextView, response: TextView) -> Finding:
    """A title stands in double angular brackets."""
    return yes_if(_TITLE.search(response.text))


def link(prompt: TextView, response: TextView) -> Finding:
    """There is at least one web address."""
    return yes_if(_LINK.search(response.text))


def in_quotes(prompt: TextView, response: TextView) -> Finding:
    """The whole response stands between double quotation marks."""
    text = response.stripped
    return yes_if(len(text) > 1 and text[0] in '"“„' and text[-1] in '"”')


def one_line(prompt: TextView, response: TextView) -> Finding:
    """All text stands on one line."""
    return within(len(response.lines), 1, 1)


def all_lowercase(prompt: TextView, response: TextView) -> Finding:
    """No letter is upper case."""
    letters, upper = response.letters
    return at_most(upper / letters, 0) if letters else yes_if(True)


def all_uppercase(prompt: TextView, response: TextView) -> Finding:
    """No cased letter is lower case, and there is one."""
    return yes_if(response.text.isupper())


def shouting(prompt: TextView, response: TextView) -> Finding:
    """More than three in ten letters outside code are upper case, in a text of at least twenty letters."""
    letters, upper = response.prose.letters
    return yes_if(letters >= 20 and upper > 0.3 * letters)


def min_capital_words(prompt: TextView, response: TextView, *, n: int) -> Finding:
    """At least n words of two letters or more are all in capitals."""
    return at_least(response.once(_count_capital_words), n)


def _count_capital_words(view: TextView) -> int:
    return sum(len(word) > 1 and word.isupper() for word in view.words)


def commas(prompt: TextView, response: TextView) -> Finding:
    """There is a comma."""
    return yes_if("," in response.text)


def exclamation_marks(prompt: TextView, response: TextView) -> Finding:
    """There is an exclamation mark outside code."""
    return yes_if("!" in response.prose.text or "！" in response.prose.text)


def emoji(prompt: TextView, response: TextView) -> Finding:
    """There is an emoji or pictograph."""
    return yes_if(not response.text.isascii() and _EMOJI.search(response.text))


def yes_or_no(prompt: TextView, response: TextView) -> Finding:
    """The response begins with yes, no, true or false."""
    return yes_if(_YES_NO.match(response.stripped))


def closed_marks(prompt: TextView, response: TextView) -> Finding:
    """Every code fence is closed and bold marks come in pairs."""
    closed = all(block.closed for block in response.layout.code)
    return yes_if(closed and response.prose.text.count("**") % 2 == 0)


def separated_by(prompt: TextView, response: TextView, *, text: str) -> Finding:
    """A separator divides the response into at least two parts with words in them."""
    parts = response.text.split(text, 8)
    return yes_if(len(parts) > 1 and all(any(map(str.isalnum, part)) for part in parts[:2]))


def comma_list(prompt: TextView, response: TextView) -> Finding:
    """The response is one line of at least three entries separated by commas."""
    lines = response.lines
    return yes_if(
        len(lines) == 1 and lines[0].count(",") >= 2 and len(response.words) <= 12 * (lines[0].count(",") + 1)
    )


_SOME = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20)

CHECKS = (
    *both_ways(bullet_list, "uses a bulleted list", "no_bullet_list", "does not use a bulleted list", facet="format"),
    *both_ways(
        numbered_list, "uses a numbered list", "no_numbered_list", "does not use a numbered list", facet="format"
    ),
    spec(exact_items, "lists exactly {n:item}", facet="format", n=(Whole(1), _SOME)),
    *reversed(bounds(max_items, min_items, "lists at {bound} {n:item}", _SOME)),
    *both_ways(headings, "uses headings", "no_headings", "does not use headings", facet="format"),
    *both_ways(table, "contains a table", "no_table", "does not contain a table", facet="format"),
    *both_ways(bold, "sets key words in bold", "no_bold", "does not use bold text", facet="format"),
    *both_ways(
        plain_text, "is plain text without Markdown", "uses_markdown", "is formatted with Markdown", facet="format"
    ),
    *both_ways(
        structured,
        "makes its structure visible with lists, headings or bold text",
        "unstructured",
        "runs on without lists, headings or bold text",
        facet="format",
    ),
    spec(min_highlights, "highlights at least {n:passage} with asterisks", facet="format", n=(Whole(1), (1, 2, 3, 5))),
    spec(
        min_placeholders,
        "contains at least {n:placeholder} in square brackets",
        facet="format",
        n=(Whole(1), (1, 2, 3, 5)),
    ),
    spec(bracketed_title, "has a title in double angular brackets", facet="format"),
    *both_ways(link, "contains a web link", "no_link", "does not contain a web link", facet="grounding"),
    spec(in_quotes, "is wrapped in double quotation marks", facet="format"),
    spec(one_line, "is on a single line", facet="format"),
    *both_ways(all_lowercase, "is all in lower case", "some_uppercase", "uses capital letters", facet="format"),
    spec(all_uppercase, "is all in capital letters", facet="format"),
    *both_ways(
        shouting, "is largely in capital letters", "no_shouting", "is not largely in capital letters", facet="style"
    ),
    spec(min_capital_words, "has at least {n:word} in all capitals", facet="format", n=(Whole(1), (1, 2, 3, 5, 10))),
    *both_ways(commas, "contains a comma", "no_commas", "does not contain any commas", facet="format"),
    *both_ways(
        exclamation_marks,
        "contains an exclamation mark",
        "no_exclamation_marks",
        "does not contain exclamation marks",
        facet="style",
    ),
    *both_ways(emoji, "contains an emoji", "no_emoji", "does not contain emoji", facet="style"),
    *both_ways(
        yes_or_no,
        "begins with a plain yes or no",
        "no_yes_or_no",
        "does not begin with a plain yes or no",
        facet="format",
    ),
    *both_ways(
        closed_marks,
        "closes every code fence and bold mark",
        "open_marks",
        "leaves a code fence or bold mark open",
        facet="format",
    ),
    spec(separated_by, "is divided into parts by {text}", facet="format", text=(Phrase(), ("***", "---", "******"))),
    spec(comma_list, "is a list separated by commas", facet="format"),
)
