"""`svr gate`: whether a run is significantly worse than its baseline, on the pairs that both judged.

With d = accuracy of the run − accuracy of the baseline, [low, high] the paired 95 % interval of d, and a margin m ≥ 0:

    passed      low ≥ −m                       a loss of more than m is excluded
    failed      high < −m and p ≤ 0.05         a loss of more than m is shown, and the exact paired test agrees
    undecided   otherwise

An end of a 95 % interval errs in 2.5 % of cases in the long run. For a run that lost no more than m, at most 5 % of
gates fail: 0.5 to 3.0 % of 1,000 did in each simulated world (docs/gate.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from svr_async.errors import GateError, UsageError
from svr_async.evaluation.compare import ALLOWABLE, SIGNIFICANT, PairedTest, compare_runs, differences, notes_on
from svr_async.evaluation.run_folder import Run
from svr_async.evaluation.summary import summaries_of
from svr_async.evaluation.wording import plural, points


class Verdict(StrEnum):
    """The result of a gate; `refused` if the two runs cannot be compared."""

    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A run against its baseline: the verdict in a sentence and the test behind it.

    `margin` is the tolerated loss, a fraction of 1. `domains` are those with a significant loss (Holm). `refusals` has
    a line for each difference that forbids a comparison; then `test` is None.
    """

    run: str
    baseline: str
    marks: tuple[str, ...]
    margin: float
    verdict: Verdict
    sentence: str
    test: PairedTest | None
    domains: Mapping[str, PairedTest]
    refusals: tuple[str, ...]
    warnings: tuple[str, ...]


def decide(test: PairedTest, margin: float) -> Verdict:
    """Return the verdict on a loss of more than `margin`, a fraction of 1."""
    if test.ci95.low >= -margin:
        return Verdict.PASSED
    return Verdict.FAILED if test.ci95.high < -margin and test.p <= SIGNIFICANT else Verdict.UNDECIDED


def gate_runs(run: Run, baseline: Run, *, margin: float = 0.0, allow: Sequence[str] = ()) -> Gate:
    """Compare a run with its baseline; differences of the kinds in `allow` become warnings.

    UsageError for a margin outside 0 to 1, and for a kind that cannot be allowed.
    """
    if not 0 <= margin <= 1:
        raise UsageError(f"--margin must be between 0 and 100 points (got {100 * margin:g})")
    if strange := sorted(set(allow) - set(ALLOWABLE)):
        raise UsageError(f"--allow {strange[0]} is unknown", hint=f"choose from {', '.join(ALLOWABLE)}")
    unlike = differences(run, baseline)
    refusals = tuple(one.text for one in unlike if one.kind not in allow)
    test, worse, warnings, verdict = None, {}, [], Verdict.REFUSED
    if not refusals:
        duel = compare_runs([baseline, run]).duels[0]
        test, verdict = duel.overall, decide(duel.overall, margin)
        worse = {name: one for name, one in duel.domains.items() if one.difference < 0 and one.significant}
        warnings = [f"allowed to differ: {one.text}" for one in unlike] + notes_on(run, baseline)
    first, second = summaries_of([run, baseline])
    return Gate(
        run=first.title,
        baseline=second.title,
        marks=tuple(dict.fromkeys((*first.mark_words, *second.mark_words))),
        margin=margin,
        verdict=verdict,
        sentence=_sentence(verdict, test, margin, refusals),
        test=test,
        domains=worse,
        refusals=refusals,
        warnings=tuple(warnings),
    )


def raise_unless_passed(gate: Gate, *, strict: bool = False) -> None:
    """Raise GateError for a failed gate (with `strict` also an undecided one), UsageError for a refused one."""
    if gate.verdict is Verdict.REFUSED:
        raise UsageError(gate.sentence, hint=_hint(gate.refusals))
    if gate.verdict is Verdict.FAILED:
        raise GateError(gate.sentence, hint=f"svr compare shows where {gate.run} lost")
    if gate.verdict is Verdict.UNDECIDED and strict:
        raise GateError(gate.sentence, hint="judge more pairs, or give a larger --margin")


def _hint(refusals: Sequence[str]) -> str:
    kinds = dict.fromkeys(text.partition(":")[0].partition(",")[0] for text in refusals)
    if "partial" in kinds:
        return "finish it: run svr eval again"
    if not set(kinds) <= set(ALLOWABLE):
        return "judge the same pairs for both"
    return " ".join(f"--allow {kind}" for kind in kinds) + " accepts this; svr compare --drift measures a judge's drift"


def _sentence(verdict: Verdict, test: PairedTest | None, margin: float, refusals: Sequence[str]) -> str:
    if test is None:
        more = f" (and {plural(len(refusals) - 1, 'other difference')})" if len(refusals) > 1 else ""
        return f"The runs cannot be compared: {refusals[0]}{more}."
    span = f"{points(test.difference)} points, 95 % interval {points(test.ci95.low)} to {points(test.ci95.high)}"
    on_pairs = f"{span}, on {plural(test.n, 'pair')}"
    tolerated = f"{100 * margin:g} point{'' if margin == 0.01 else 's'}"
    loss = f"A loss of more than {tolerated}" if margin else "A loss"
    if verdict is Verdict.PASSED:
        return f"No loss beyond {tolerated}: {on_pairs}."
    if verdict is Verdict.FAILED:
        return f"{loss} is shown: {on_pairs}."
    return f"{loss} is not shown, but up to {points(-test.ci95.low).lstrip('+')} points are possible: {on_pairs}."
