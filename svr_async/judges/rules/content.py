"""Checks of content: coverage of the prompt, copying, examples, steps, sources, numbers and formulas."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from itertools import islice

from svr_async.judges.rules.lexicon import EXAMPLES, STOPWORDS
from svr_async.judges.rules.shape import LIST_MARK, NUMBER
from svr_async.judges.rules.spec import CheckTable, Finding, whole
from svr_async.judges.rules.text import TextView, kept, plain
from svr_async.judges.rules.wording import any_in

RUN_WORDS = 8
MAX_KEYWORDS = 40
MAX_NUMBERS = 20
MAX_EQUATIONS = 200
_SUFFIXES = ("ing", "ed", "es", "s")
_STEP = re.compile(r"\b(?:step \d|first(?:ly)?,|second(?:ly)?,|third(?:ly)?,|next,|then,|finally,|lastly,)")
_SOURCE = re.compile(r"\baccording to\b|https?://|\b(?:19|20)\d\d\)|\bet al\b|\[\d{1,2}\]|\bsource:|\breferences?:")
_VALUE = r"-?\d{1,12}(?:,\d{3}){0,4}(?:\.\d{1,9})?"
_NO_OPERAND_BEFORE = r"(?<![\w.,+*/×÷=^%-])(?<![\d+*/×÷=^%-] )(?!\d{4}-\d{4})"
_NO_OPERAND_AFTER = r"(?![\w%,]*[\w%]| ?[-+*/×÷^(−]|\.\d| x )"
_EQUATION = re.compile(rf"{_NO_OPERAND_BEFORE}({_VALUE}) ?([-+*/×÷x−]) ?({_VALUE}) ?= ?({_VALUE}){_NO_OPERAND_AFTER}")
_ENVIRONMENT = re.compile(r"\\(begin|end)\{([A-Za-z*]{1,30})\}")
_LATEX = re.compile(r"\\(?:begin|end|frac|sqrt|left|right|boxed|text|sum|int|cdot|times)\b|\$\$|\\[\[\]()]")
CHECKS = CheckTable()


@kept
def keywords(view: TextView) -> tuple[str, ...]:
    """Return the stems of a text's content words in order of first use, at most forty."""
    counts = Counter(stem(word) for word in view.head.lower_words if len(word) > 2 and word not in STOPWORDS)
    return tuple(counts)[:MAX_KEYWORDS]


@kept
def _stems(view: TextView) -> frozenset[str]:
    return frozenset(map(stem, view.head.vocabulary))


def stem(word: str) -> str:
    """Cut an English word's commonest endings: enough to match "risks" with "risk"."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            return word[: -len(suffix)]
    return word


@CHECKS.add("uses at least {percent} percent of the prompt's key words", "coverage", percent=whole(25, 50, 75))
def covers_keywords(prompt: TextView, response: TextView, *, percent: int) -> Finding | None:
    """At least a percentage of the prompt's key words occurs; by the share. Abstains without key words."""
    wanted = keywords(prompt)
    if not wanted:
        return None
    share = sum(word in _stems(response) for word in wanted) / len(wanted)
    return Finding(100 * share >= percent, round(share, 3))


@CHECKS.add("does not largely copy the prompt", "coherence")
def own_words(prompt: TextView, response: TextView) -> Finding | None:
    """At most a fifth of the response's runs of eight words are the prompt's. Abstains for a short prompt."""
    runs, own = _word_runs(prompt), _word_runs(response)
    if not runs or not own:
        return None
    share = len(runs & own) / len(own)
    return Finding(share <= 0.2, -round(share, 2))


@kept
def _word_runs(view: TextView) -> frozenset[tuple[str, ...]]:
    words = view.head.lower_words
    return frozenset(zip(*(islice(words, i, None) for i in range(RUN_WORDS)), strict=False))


@CHECKS.add(
    "begins by repeating the prompt", "conciseness", opposite=("no_restating", "does not begin by repeating the prompt")
)
def restates_question(prompt: TextView, response: TextView) -> bool:
    """The response begins by repeating the prompt's first sentence word for word."""
    first = _first_words(prompt)
    return bool(first) and first in response.opening


@kept
def _first_words(view: TextView) -> str:
    """Return up to twelve words of a text's first sentence, in lower case; empty if there are fewer than four."""
    sentences = TextView(view.stripped[:1000]).sentences
    words = plain(sentences[0]).split()[:12] if sentences else []
    return " ".join(words).rstrip(".?!:") if len(words) >= 4 else ""


CHECKS.simple("coverage", ("gives_example", "gives an example", lambda view: any_in(view.head.plain, EXAMPLES)))


@CHECKS.add("proceeds step by step", "reasoning")
def gives_steps(response: TextView) -> bool:
    """The response goes through steps: numbered items, or words such as "first" and "finally"."""
    numbered = sum(item.numbered for item in response.layout.items)
    return numbered >= 3 or len(_STEP.findall(response.head.plain)) >= 2


CHECKS.simple(
    "grounding",
    ("names_source", "names a source", lambda view: _SOURCE.search(view.head.plain)),
)


@CHECKS.add("repeats every number in the prompt", "correctness")
def keeps_numbers(prompt: TextView, response: TextView) -> Finding | None:
    """The prompt's numbers occur in the response; by the share. Abstains without numbers, or with more than twenty."""
    wanted = _numbers(prompt)
    if not wanted or len(wanted) > MAX_NUMBERS:
        return None
    found = len(wanted & _numbers(response))
    return Finding(found == len(wanted), found / len(wanted))


@kept
def _numbers(view: TextView) -> frozenset[str]:
    text = view.head.text
    return frozenset(NUMBER.findall(LIST_MARK.sub("", text) if "." in text or ")" in text else text))


@CHECKS.add("'s arithmetic is right", "correctness")
def arithmetic_right(response: TextView) -> Finding | None:
    """Every "a + b = c" is right, to the digits that c shows; fewer wrong ones are better. Abstains without any."""
    text = response.head.text
    if "=" not in text:
        return None
    text = text.replace("\\times", "×").replace("\\cdot", "×").replace("\\div", "÷").replace("$", "")
    sums = [_is_right(*match.groups()) for match in islice(_EQUATION.finditer(text), MAX_EQUATIONS)]
    return Finding(all(sums), -float(sums.count(False))) if sums else None


def _is_right(left: str, operator: str, right: str, result: str) -> bool:
    """Whether a written equation holds within one unit of the result's last digit; whole numbers must be exact."""
    a, b, c = (Fraction(value.replace(",", "")) for value in (left, right, result))
    if operator in "/÷":
        if b == 0:
            return False
        exact = a / b
    else:
        exact = a + b if operator == "+" else a * b if operator in "*×x" else a - b
    decimals = len(result.partition(".")[2])
    tolerance = Fraction(1, 10**decimals) if operator in "/÷" or decimals else Fraction(0)
    return abs(exact - c) <= tolerance


@CHECKS.add("'s LaTeX is balanced", "format")
def latex_balanced(response: TextView) -> bool | None:
    """LaTeX closes what it opens: braces, environments, sized brackets, dollars. Abstains without LaTeX."""
    text = response.prose.head.text
    if ("\\" not in text and "$$" not in text) or not _LATEX.search(text):
        return None
    bare = text.replace("\\\\", "").replace("\\{", "").replace("\\}", "").replace("\\$", "")
    arrows = bare.count("\\leftarrow") + bare.count("\\leftrightarrow") - bare.count("\\rightarrow")
    excess = {
        opening: bare.count(opening) - bare.count(closing)
        for opening, closing in (("{", "}"), ("\\[", "\\]"), ("\\(", "\\)"), ("\\left", "\\right"))
    }
    excess["\\left"] -= arrows  # arrows begin like sized brackets
    return not any(excess.values()) and bare.count("$$") % 2 == 0 and _environments_nest(bare)


def _environments_nest(text: str) -> bool:
    stack: list[str] = []
    for kind, name in _ENVIRONMENT.findall(text):
        if kind == "begin":
            stack.append(name)
        elif not stack or stack.pop() != name:
            return False
    return not stack
