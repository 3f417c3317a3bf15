"""Checks of shape: lists, headings, tables, quotation, case, and answers in a requested form."""

from __future__ import annotations

import re

from svr_async.judges.rules.spec import (
    Finding,
    Inverse,
    Phrase,
    Whole,
    at_least,
    at_most,
    both_ways,
    each,
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


_COUNT = {"n": Whole(1)}
_SOME = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20)

CHECKS = (
    *both_ways(
        bullet_list,
        "The response uses a bulleted list.",
        "no_bullet_list",
        "The response does not use a bulleted list.",
        facet="format",
    ),
    *both_ways(
        numbered_list,
        "The response uses a numbered list.",
        "no_numbered_list",
        "The response does not use a numbered list.",
        facet="format",
    ),
    spec(exact_items, "The response lists exactly {n:item}.", facet="format", params=_COUNT, grid=each(n=_SOME)),
    spec(
        min_items,
        "The response lists at least {n:item}.",
        facet="coverage",
        params=_COUNT,
        grid=each(n=_SOME),
        inverse=Inverse("max_items", {"n": -1}),
    ),
    spec(
        max_items,
        "The response lists at most {n:item}.",
        facet="conciseness",
        params={"n": Whole(0)},
        grid=each(n=_SOME),
        inverse=Inverse("min_items", {"n": 1}),
    ),
    *both_ways(
        headings, "The response uses headings.", "no_headings", "The response does not use headings.", facet="format"
    ),
    *both_ways(
        table, "The response contains a table.", "no_table", "The response does not contain a table.", facet="format"
    ),
    *both_ways(
        bold, "The response sets key words in bold.", "no_bold", "The response does not use bold text.", facet="format"
    ),
    *both_ways(
        plain_text,
        "The response is plain text without Markdown.",
        "uses_markdown",
        "The response is formatted with Markdown.",
        facet="format",
    ),
    *both_ways(
        structured,
        "The response makes its structure visible with lists, headings or bold text.",
        "unstructured",
        "The response runs on without lists, headings or bold text.",
        facet="format",
    ),
    spec(
        min_highlights,
        "The response highlights at least {n:passage} with asterisks.",
        facet="format",
        params=_COUNT,
        grid=each(n=(1, 2, 3, 5)),
    ),
    spec(
        min_placeholders,
        "The response contains at least {n:placeholder} in square brackets.",
        facet="format",
        params=_COUNT,
        grid=each(n=(1, 2, 3, 5)),
    ),
    spec(bracketed_title, "The response has a title in double angular brackets.", facet="format"),
    *both_ways(
        link,
        "The response contains a web link.",
        "no_link",
        "The response does not contain a web link.",
        facet="grounding",
    ),
    spec(in_quotes, "The response is wrapped in double quotation marks.", facet="format"),
    spec(one_line, "The response is on a single line.", facet="format"),
    *both_ways(
        all_lowercase,
        "The response is all in lower case.",
        "some_uppercase",
        "The response uses capital letters.",
        facet="format",
    ),
    spec(all_uppercase, "The response is all in capital letters.", facet="format"),
    *both_ways(
        shouting,
        "The response is largely in capital letters.",
        "no_shouting",
        "The response is not largely in capital letters.",
        facet="style",
    ),
    spec(
        min_capital_words,
        "The response has at least {n:word} in all capitals.",
        facet="format",
        params=_COUNT,
        grid=each(n=(1, 2, 3, 5, 10)),
    ),
    *both_ways(
        commas,
        "The response contains a comma.",
        "no_commas",
        "The response does not contain any commas.",
        facet="format",
    ),
    *both_ways(
        exclamation_marks,
        "The response contains an exclamation mark.",
        "no_exclamation_marks",
        "The response does not contain exclamation marks.",
        facet="style",
    ),
    *both_ways(
        emoji, "The response contains an emoji.", "no_emoji", "The response does not contain emoji.", facet="style"
    ),
    *both_ways(
        yes_or_no,
        "The response begins with a plain yes or no.",
        "no_yes_or_no",
        "The response does not begin with a plain yes or no.",
        facet="format",
    ),
    *both_ways(
        closed_marks,
        "The response closes every code fence and bold mark.",
        "open_marks",
        "The response leaves a code fence or bold mark open.",
        facet="format",
    ),
    spec(
        separated_by,
        "The response is divided into parts by {text}.",
        facet="format",
        params={"text": Phrase()},
        grid=each(text=("***", "---", "******")),
    ),
    spec(comma_list, "The response is a list separated by commas.", facet="format"),
)
