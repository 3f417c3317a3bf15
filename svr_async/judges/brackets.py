"""Verdicts in double brackets: read where a reply gives one and means it, refused where it can be read otherwise.

A mark with the request's nonce in it ("[[A 0123456789abcdef]]") is the judge's own: no candidate can contain it. Where
a reply has none, because the judge left the nonce out or was never shown it, a mark may be a quotation. Then of marks
that differ none counts: a judge may have quoted a candidate behind its own verdict as well as ahead of it. Nor does one
that is only quoted ('[[A]]', "it ends with [[A]]", a line that begins with >, a fenced block), or beside words that
name the other side. A mark that is denied ("not [[A]]") or put under a condition ("[[A]] if …") is no verdict at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from svr_async.core.pair import Side
from svr_async.engine.request import AmbiguousReplyError, ReplyRejectedError
from svr_async.judges.prose import named_winners

T = TypeVar("T", bound=Hashable)
SIDES = "[[A]] or [[B]]"
MAX_LEAD = 120  # characters ahead of a mark that are looked at, of its own line
FENCE = "```"
_SIDE = re.compile(r"\[\[([AB])(?:[ :,]+[0-9a-f]{16})?\]\]")
_LETTER = re.compile(  # as other prompts have it, tie included: enough for doubt
    r"\[\[\s{0,8}([A-Za-z])(?:[\s:,]{1,8}(?P<nonce>[0-9a-f]{16}))?\s{0,8}\]\]"
)
_SIGNED = re.compile(r"\[\[\s{0,8}([A-Za-z])(?P<closed>\]\])?[ \t:,*_`]{0,16}(?P<nonce>[0-9a-f]{16})\b")
_ALONE = {"\n[[A]]": Side.A, "\n[[B]]": Side.B, "[[A]]": Side.A, "[[B]]": Side.B}
_NEAR = r"\b(?:[^\w,:;.]+(?!(?:so|thus|therefore|hence|but|and|verdict|answer|choose|pick)\b)\w+){0,3}[^\w,:;.]*$"
_DENIED = re.compile(r"(?:\b(?:not|never|no|nor|neither|cannot|than|instead of|against)|n['’]t)" + _NEAR, re.IGNORECASE)
_SUPPOSED = re.compile(r"\b(?:if|unless|whether)" + _NEAR, re.IGNORECASE)
_CONDITION = re.compile(r"[^\w\n.!?]{0,6}(?:if|unless|when|where|or|but|however)\b", re.IGNORECASE)
_REPORTED = re.compile(
    r"\b(?:say|said|write|wrote|written|contain|end|begin|start|quote|claim|include|state|read|add|insert|append|repeat"
    r"|ask|tell|hold)(?:s|d|ed|ing|ning|ting)?" + _NEAR.replace("*$", "*:?[^\\w,:;.]*$"),
    re.IGNORECASE,
)
_REPORT = re.compile(
    r"[^\w\n.!?]{0,6}(?:is|was|stands|appears)\s+(?:what|in|at|written|quoted|claimed|part|only)\b", re.IGNORECASE
)
_INTRODUCED = re.compile(  # a line that says whose words follow
    r"(?:\b(?:say|said|wr[io]te|written|contain|quote|claim|state|read)(?:s|d|ed|ing)?\b|\b(?:candidate|response|text)\b)"
    r"[^\n]{0,60}[:,]\s*$",
    re.IGNORECASE,
)
_OWN = re.compile(r"\b(?:my|final|verdict|choice|decision|better|best|winner|preferred)\b", re.IGNORECASE)
_PLAIN = re.compile(  # "My final verdict is [[A]].", "**Answer: [[B]]**": read at once
    r"(?i:[\n.!?][\s*_#]*(?:(?:so|thus|therefore|hence)\b,? )?(?:my |the )?(?:final )?"
    r"(?:verdict|answer|choice|decision)(?: is)?:?)[\s*_]*\[\[([AB])\]\][.*_!\s]*$"
)
_QUOTES = {"'": "'", '"': '"', "“": "”", "‘": "’", "«": "»", "„": "“", "‹": "›", "「": "」", "『": "』"}


def read_brackets(text: str, nonce: str = "") -> Side:
    """Return the side that a reply's mark names; ReplyRejectedError where there is none, or not one only.

    With a `nonce`, marks that hold it decide alone. A reply without such a mark is read as one to a question that shows
    no nonce; a mark with another nonce is no verdict on this question.
    """
    marks = [one for one in _SIGNED.finditer(text) if one["nonce"] == nonce] if nonce and nonce in text else []
    if marks:
        return _signed(text, marks, sides(nonce))
    if text.count("[[") == 1 and FENCE not in text:  # the common reply: brackets at its end and nowhere else
        side = _ALONE.get(text[-6:])
        if side is None and (plain := _PLAIN.search(text[-60:])) is not None:
            side = Side(plain[1])
        if side is not None and not _introduced(text, text.rfind("[[")):
            return _agreed(text, side)
    foreign = [bool(one["nonce"]) for one in _LETTER.finditer(text)] if nonce else []
    if _SIDE.search(text) is None or (foreign and all(foreign)):  # or it may be the reply to another question
        raise ReplyRejectedError(f"Your answer did not end with {sides(nonce)}.")
    if any(foreign):
        raise AmbiguousReplyError(f"Your answer held a verdict with another nonce. End with {sides(nonce)}.")
    return _agreed(text, Side(read_mark(text, _LETTER, str.upper, SIDES)))


def sides(nonce: str) -> str:
    """Return how a verdict is to be written, in words."""
    return f"[[A {nonce}]] or [[B {nonce}]]" if nonce else SIDES


def _signed(text: str, marks: Sequence[re.Match[str]], wanted: str) -> Side:
    """Return what marks with the nonce say: they quote no candidate, but may differ, or be denied.

    A mark that the nonce only stands behind may be a quotation: it counts where all marks of the reply say the same.
    """
    inside = [one for one in marks if one["closed"] is None]
    said = {one[1].upper() for one in inside or [*marks, *_LETTER.finditer(text)]}
    if len(said) > 1:
        raise AmbiguousReplyError(f"Your answer held several verdicts in double brackets. Write one only: {wanted}.")
    if any(_doubted(text, one) for one in marks):
        raise AmbiguousReplyError(f"The verdict in double brackets was denied or conditional. End with {wanted}.")
    if not said <= set("AB"):
        raise ReplyRejectedError(f"Your answer did not end with {wanted}.")
    return Side(said.pop())


_MENTIONS = {Side.A: re.compile(r"\bA\b|\(a\)|[Ff]irst|FIRST"), Side.B: re.compile(r"\bB\b|\(b\)|[Ss]econd|SECOND")}
"""Cheap test that a text can name a side at all: most replies name only the winner."""


def _agreed(text: str, side: Side) -> Side:
    """Return the side of a mark that carries no nonce; AmbiguousReplyError where words around it name the other."""
    other = side.other()
    if _MENTIONS[other].search(text) and other in named_winners(text):
        raise AmbiguousReplyError(
            f"Your answer called {other.value} the better one and held [[{side.value}]]. End with your own verdict."
        )
    return side


def read_mark(text: str, mark: re.Pattern[str], say: Callable[[str], T], wanted: str) -> T:
    """Return what the marks of a reply say, by `say` of their first group, where all say the same and one is meant.

    ReplyRejectedError where there is no mark, AmbiguousReplyError where they can be read in more than one way.
    """
    found = list(mark.finditer(text))
    if not found:
        raise ReplyRejectedError(f"Your answer did not end with {wanted}.")
    if len({say(one[1]) for one in found}) > 1:
        raise AmbiguousReplyError(f"Your answer held several verdicts in double brackets. Write one only: {wanted}.")
    own = [one for one in found if not (_quoted(text, one) or _introduced(text, one.start()))]
    if not own or any(_doubted(text, one) for one in own):
        raise AmbiguousReplyError(
            f"The verdict in double brackets was denied, conditional or quoted. End with your own: {wanted}."
        )
    return say(found[-1][1])


def signed_marks(text: str, nonce: str) -> str:
    """Return a reply with the nonce taken out of its marks; where any has it, those without are quoted, and go."""
    if not nonce or f" {nonce}]]" not in text:
        return text
    return text.replace("]]", "] ]").replace(f" {nonce}] ]", "]]")


def direct_reason(text: str) -> str:
    """Return what a judge wrote ahead of its last [[A]] or [[B]], or after it where it began with that; "" for none."""
    found = list(_SIDE.finditer(text))
    return (text[: found[-1].start()].strip() or text[found[-1].end() :].strip()) if found else ""


def _lead(text: str, mark: re.Match[str]) -> str:
    """Return what stands on a mark's line ahead of it, at most so many characters."""
    begin = max(text.rfind("\n", 0, mark.start()) + 1, mark.start() - MAX_LEAD)
    return text[begin : mark.start()]


def _doubted(text: str, mark: re.Match[str]) -> bool:
    """Whether a mark is denied, or depends on a condition."""
    lead = _lead(text, mark)
    return bool(_DENIED.search(lead) or _SUPPOSED.search(lead) or _CONDITION.match(text, mark.end()))


def _quoted(text: str, mark: re.Match[str]) -> bool:
    """Whether a mark is somebody else's: in quotation marks, reported, in a quoted line or a fenced block."""
    line = text[text.rfind("\n", 0, mark.start()) + 1 : mark.start()]
    if line.lstrip().startswith(">") or _REPORTED.search(line[-MAX_LEAD:]) or _REPORT.match(text, mark.end()):
        return True
    if text.count(FENCE, 0, mark.start()) % 2 and not text.lstrip().startswith(FENCE):
        return True
    return _in_quotes(line, text[mark.end() :].partition("\n")[0])


def _introduced(text: str, at: int) -> bool:
    """Whether the mark at a place opens its line, and the line ahead says that somebody else's words follow."""
    begin = text.rfind("\n", 0, at) + 1
    if text[begin:at].strip(" \t*_>-"):
        return False
    ahead = text[max(0, begin - MAX_LEAD) : begin].rstrip()
    line = ahead[ahead.rfind("\n") + 1 :]
    return bool(_INTRODUCED.search(line)) and not _OWN.search(line)


def _in_quotes(before: str, after: str) -> bool:
    """Whether quotation marks on a line open ahead of a place and close behind it, or stand right around it."""
    opening, closing = before.rstrip("*_")[-1:], after.lstrip("*_.!,")[:1]
    if opening in _QUOTES and closing == _QUOTES[opening]:
        return True
    return (before.count('"') % 2 == 1 and '"' in after) or (before.count("“") > before.count("”") and "”" in after)
