"""Checks of numbers and formulas: how many, whether sums are right, whether LaTeX is balanced."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import islice

from svr_async.judges.rules.spec import Finding, Whole, at_least, both_ways, of_response, spec, yes_if
from svr_async.judges.rules.text import TextView

# Every check takes (prompt, response, **args), whether it needs the prompt or not.
# ruff: noqa: ARG001

_NUMBER = re.compile(r"(?<![\w.])\d{1,15}(?:,\d{3}){0,5}(?:\.\d{1,15})?")
_LIST_MARK = re.compile(r"^[ \t]{0,20}(?:\*\*|#{1,6} )?\(?\d{1,3}[.)][ \t]", re.MULTILINE)
_VALUE = r"-?\d{1,12}(?:,\d{3}){0,4}(?:\.\d{1,9})?"
_NO_OPERAND_BEFORE = r"(?<![\w.,+*/×÷=^%-])(?<![\d+*/×÷=^%-] )(?!\d{4}-\d{4})"
_NO_OPERAND_AFTER = r"(?![\w%,]*[\w%]| ?[-+*/×÷^(−]|\.\d| x )"
_EQUATION = re.compile(rf"{_NO_OPERAND_BEFORE}({_VALUE}) ?([-+*/×÷x−]) ?({_VALUE}) ?= ?({_VALUE}){_NO_OPERAND_AFTER}")
_ENVIRONMENT = re.compile(r"\\(begin|end)\{([A-Za-z*]{1,30})\}")
_LATEX = re.compile(r"\\(?:begin|end|frac|sqrt|left|right|boxed|text|sum|int|cdot|times)\b|\$\$|\\[\[\]()]")
MAX_EQUATIONS = 200


def min_numbers(prompt: TextView, response: TextView, *, n: int) -> Finding:
    """There are at least n numbers, not counting the marks of list items."""
    return at_least(response.once(_count_numbers), n)


def _count_numbers(view: TextView) -> int:
    text = view.head.text
    return max(len(_NUMBER.findall(text)) - len(_LIST_MARK.findall(text)), 0)


def arithmetic_right(prompt: TextView, response: TextView) -> Finding | None:
    """Every "a + b = c" is right, to the digits that c shows; fewer wrong ones are better. Abstains without any."""
    sums = response.once(_sums)
    wrong = sums.count(False)
    return Finding(wrong == 0, -float(wrong)) if sums else None


def _sums(view: TextView) -> tuple[bool, ...]:
    text = view.head.text
    if "=" not in text:
        return ()
    text = text.replace("\\times", "×").replace("\\cdot", "×").replace("\\div", "÷").replace("$", "")
    return tuple(_is_right(*match.groups()) for match in islice(_EQUATION.finditer(text), MAX_EQUATIONS))


def _is_right(left: str, operator: str, right: str, result: str) -> bool:
    """Whether a written equation holds within half of the result's last digit."""
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


def keeps_numbers(prompt: TextView, response: TextView) -> Finding | None:
    """The prompt's numbers occur in the response; by the share. Abstains where it has none, or more than twenty."""
    wanted = prompt.once(_numbers)
    if not wanted or len(wanted) > 20:
        return None
    found = len(wanted & response.once(_numbers))
    return Finding(found == len(wanted), found / len(wanted))


def _numbers(view: TextView) -> frozenset[str]:
    text = view.head.text
    return frozenset(_NUMBER.findall(_LIST_MARK.sub("", text) if "." in text or ")" in text else text))


@of_response
def latex_balanced(view: TextView) -> Finding | None:
    """LaTeX closes what it opens: braces, environments, sized brackets, dollars. Abstains without LaTeX."""
    text = view.prose.head.text
    if ("\\" not in text and "$$" not in text) or not _LATEX.search(text):
        return None
    bare = text.replace("\\\\", "").replace("\\{", "").replace("\\}", "").replace("\\$", "")
    pairs = (("{", "}"), ("\\left", "\\right"), ("\\[", "\\]"), ("\\(", "\\)"))
    arrows = bare.count("\\leftarrow") + bare.count("\\leftrightarrow") - bare.count("\\rightarrow")
    balanced = all(bare.count(a) - bare.count(b) == (arrows if a == "\\left" else 0) for a, b in pairs)
    return yes_if(balanced and bare.count("$$") % 2 == 0 and _environments_nest(bare))


def _environments_nest(text: str) -> bool:
    stack: list[str] = []
    for kind, name in _ENVIRONMENT.findall(text):
        if kind == "begin":
            stack.append(name)
        elif not stack or stack.pop() != name:
            return False
    return not stack


def boxed_answer(prompt: TextView, response: TextView) -> Finding:
    """The final answer stands in a LaTeX box."""
    return yes_if("\\boxed{" in response.text)


CHECKS = (
    spec(min_numbers, "contains at least {n:number}", facet="grounding", n=(Whole(1), (1, 3, 5, 10))),
    *both_ways(
        arithmetic_right,
        "'s arithmetic is right",
        "arithmetic_wrong",
        "'s arithmetic is wrong somewhere",
        facet="correctness",
    ),
    spec(keeps_numbers, "takes up every number in the prompt", facet="correctness"),
    *both_ways(latex_balanced, "'s LaTeX is balanced", "latex_unbalanced", "'s LaTeX is unbalanced", facet="format"),
    spec(boxed_answer, "gives its final answer in a box", facet="format"),
)
