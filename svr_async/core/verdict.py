"""Verdicts, the pair score Δ, contributions, and the closed set of outcomes."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeGuard

from svr_async.core.pair import Side
from svr_async.core.rubric import Rubric

DIRECTIONAL_STEP = 0.25  # the paper's ± 0.25 for `better` (sec:bank)
EVEN = 0.5  # a probability from which on a statement counts as true


class Verdict(StrEnum):
    """A judge's answer for one response on one rubric."""

    PASS = "pass"  # noqa: S105  (a verdict, not a password)
    FAIL = "fail"


class Outcome(StrEnum):
    """What became of one judged item. Nothing leaves the denominator without one of these."""

    SCORED = "scored"
    TIE = "tie"
    PARSE_ERROR = "parse_error"
    REFUSAL = "refusal"
    CONTEXT_TOO_LONG = "context_too_long"
    TRUNCATED = "truncated"
    API_ERROR = "api_error"
    INVALID_INPUT = "invalid_input"


def delta(a: Verdict, b: Verdict, better: Side | None) -> float:
    """Return Δ = (pass_a − pass_b) ± 0.25 ∈ {±0.25, ±0.75, ±1.25} (paper `sec:bank`).

    If the judge has no preference (`better` is None), the ± 0.25 is 0.
    A contradictory row (A fails, B passes, better A) is computed as written: −0.75.
    """
    step = 0.0 if better is None else DIRECTIONAL_STEP if better is Side.A else -DIRECTIONAL_STEP
    return (a is Verdict.PASS) - (b is Verdict.PASS) + step


@dataclass(frozen=True, slots=True)
class Chances:
    """A judge's probabilities, in [0, 1]: that A satisfies a rubric, that B does, that A satisfies it better."""

    a: float
    b: float
    better: float

    @property
    def delta(self) -> float:
        """The Δ that is expected of them, E[Δ] = (a − b) + 0.25 (2 better − 1), in [−1.25, 1.25]."""
        return (self.a - self.b) + DIRECTIONAL_STEP * (2 * self.better - 1)

    def swapped(self) -> Chances:
        """Return the same with the two responses exchanged."""
        return Chances(self.b, self.a, 1 - self.better)


@dataclass(frozen=True, slots=True)
class RubricComparison:
    """One rubric judged on two responses side by side, in the order that the judge saw.

    `chances` are those of a judge that answers with probabilities; its verdicts are then the likelier ones.
    """

    rubric_id: str
    a: Verdict
    b: Verdict
    better: Side | None
    reason: str = ""
    chances: Chances | None = None

    @classmethod
    def likely(cls, rubric_id: str, chances: Chances) -> RubricComparison:
        """Return the comparison of a judge that answers with probabilities."""
        a, b = (Verdict.PASS if chance >= EVEN else Verdict.FAIL for chance in (chances.a, chances.b))
        return cls(rubric_id, a, b, Side.A if chances.better >= EVEN else Side.B, chances=chances)

    @property
    def delta(self) -> float:
        """Δ, or its expected value, positive if it favours response A."""
        return delta(self.a, self.b, self.better) if self.chances is None else self.chances.delta

    @property
    def satisfied(self) -> float:
        """Whether A satisfies the rubric less whether B does, or their chances."""
        if self.chances is not None:
            return self.chances.a - self.chances.b
        return float((self.a is Verdict.PASS) - (self.b is Verdict.PASS))

    @property
    def inconsistent(self) -> bool:
        """Whether `better` names the response that fails while the other passes."""
        return self.a is not self.b and self.better is not None and (self.a is Verdict.PASS) != (self.better is Side.A)

    def of(self, rubric_id: str) -> RubricComparison:
        """Return the same judgement under another id."""
        return RubricComparison(rubric_id, self.a, self.b, self.better, self.reason, self.chances)

    def swapped(self) -> RubricComparison:
        """Return the same judgement with the two responses exchanged."""
        better = None if self.better is None else self.better.other()
        chances = None if self.chances is None else self.chances.swapped()
        return RubricComparison(self.rubric_id, self.b, self.a, better, self.reason, chances)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """What one rubric added to a margin: alpha · weight · Δ, positive towards response A.

    With `by_points` the weight is points, which a response has that satisfies the rubric: Δ = pass_a − pass_b then.
    `rephrased` is the wording that the judge saw where the rubric was rewritten for the prompt; None elsewhere.
    """

    rubric: Rubric
    comparison: RubricComparison | None
    alpha: float = 1.0
    weight: float = 1.0
    filler: bool = False
    rephrased: str | None = None
    by_points: bool = False

    @property
    def importance(self) -> float:
        """Alpha times weight."""
        return self.alpha * self.weight

    @property
    def delta(self) -> float | None:
        """Δ of this rubric; None where it was not judged."""
        if self.comparison is None:
            return None
        return self.comparison.satisfied if self.by_points else self.comparison.delta

    @property
    def value(self) -> float:
        """The signed contribution; 0 where the rubric was not judged."""
        return self.importance * (self.delta or 0.0)

    def swapped(self) -> Contribution:
        """Return the same contribution with the two responses exchanged."""
        return self if self.comparison is None else replace(self, comparison=self.comparison.swapped())


def is_whole(value: object, least: int = 0) -> TypeGuard[int]:
    """Whether a value is a whole number of at least `least`."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a whole number or a float, infinite and NaN included."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_finite(value: object) -> TypeGuard[float]:
    """Whether a value is a number that a float can hold: JSON has whole numbers of any length."""
    return is_number(value) and abs(value) <= sys.float_info.max
