"""Why a verdict on one pair says little: a bank without similar training prompts, or checks without a difference."""

from __future__ import annotations

from collections.abc import Iterator

from svr_async.core.integrity import Integrity, Marks
from svr_async.core.pair import Prompt, prompt_text
from svr_async.fit.tfidf import fold
from svr_async.judges.rules.content import stem
from svr_async.judges.rules.lexicon import STOPWORDS
from svr_async.judges.rules.text import TextView
from svr_async.scoring.bank import UNIFORM, RubricBank
from svr_async.scoring.decision import Decision

SHOWN_WORDS = 5
ALIKE = "nothing tells the two apart: no {what} is met by one response and missed by the other"
NEARER = "no {what} is met by one response and missed by the other: the verdict is only which comes nearer, a guess"
FORM_ONLY = "offline checks look at form, wording and safety, never at whether an answer is true"
BY_WORDS = "a list of words, not a reader, took the request for harmful"
DIRECT = "the bank decided unseen prompts no better than a coin when it was fitted, so the judge was asked directly"


def doubts_of(
    decision: Decision, prompt: Prompt, bank: RubricBank | None, marks: Marks, *, direct: bool = False
) -> tuple[str, ...]:
    """Return in words why a decision says little, the weightiest first; empty where nothing speaks for that.

    `marks` are the judge's. `direct` says that a bank left the verdict to the judge.
    """
    if decision.margin is None or "identical" in decision.flags:
        return ()
    found = [DIRECT] if direct else []
    if bank is not None and not direct:
        found += _unseen(bank, prompt)
    if Integrity.OFFLINE_RULES in marks:
        found += _alike(decision, "check" if bank is None or direct else "rubric")
    return tuple(found)


def unseen_words(bank: RubricBank, prompt: Prompt) -> tuple[str, ...]:
    """Return the content words of a prompt that are in no prompt that the bank's selector learned from.

    Nothing for a bank without a selector, which has the same rubrics for every prompt.
    """
    if bank.selector_kind == UNIFORM:
        return ()
    known = {stem(word) for term in bank.vocabulary for word in term.split()}
    return tuple(word for word in content_words(prompt) if stem(word) not in known)


def content_words(prompt: Prompt) -> tuple[str, ...]:
    """Return the words of a prompt that say what it is about, in order of first use."""
    words = TextView(fold(prompt_text(prompt))).head.lower_words
    return tuple(dict.fromkeys(word for word in words if len(word) > 2 and word.isalpha() and word not in STOPWORDS))


def _unseen(bank: RubricBank, prompt: Prompt) -> Iterator[str]:
    """Say that a prompt is unlike what the bank was trained on, where half of its content words are new or more."""
    new = unseen_words(bank, prompt)
    if new and 2 * len(new) >= len(content_words(prompt)):
        words = ", ".join(new[:SHOWN_WORDS]) + (" …" if len(new) > SHOWN_WORDS else "")
        yield f"the bank knows nothing of such a prompt: {words} stood in none that it learned from"


def _alike(decision: Decision, what: str) -> Iterator[str]:
    """Say that no rubric is met by one response alone, or that the request's words decide, which checks misread."""
    strongest = max(decision.contributions, key=lambda entry: abs(entry.value), default=None)
    check = None if strongest is None or not strongest.value else strongest.rubric.check
    if check is not None and check.name == "refuses_harm":
        yield BY_WORDS
    compared = [entry.comparison for entry in decision.contributions if entry.value and entry.comparison is not None]
    if any(one.a != one.b for one in compared):
        return
    yield (NEARER if decision.margin else ALIKE).format(what=what)
    yield FORM_ONLY
