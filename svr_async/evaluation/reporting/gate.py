"""`svr gate`: whether a run lost to its baseline by more than is tolerated, on the pairs that both judged.

With d = accuracy of the run − accuracy of the baseline, [low, high] the paired 95 % interval of d, and a margin m ≥ 0:

    passed      low ≥ −m                       a loss of more than m is excluded
    failed      high < −m and p ≤ 0.05         a loss of more than m is shown, and the exact paired test agrees
    undecided   otherwise

An end of a 95 % interval errs in 2.5 % of cases in the long run. Where a run lost no more than m, at most 5 % of gates
fail: 0.5 to 3.0 % of 1,000 did in each world of benchmarks/paper/gate_power.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from svr_async.errors import GateError, UsageError
from svr_async.evaluation.labels import mark_words, run_titles
from svr_async.evaluation.noise import Noise
from svr_async.evaluation.reporting.compare import SIGNIFICANT, PairedTest, compare_runs, item_of
from svr_async.evaluation.reporting.likeness import ALLOWABLE, differences, notes_on
from svr_async.evaluation.run_folder import Run
from svr_async.evaluation.wording import plural, points


class Verdict(StrEnum):
    """What a gate says; `refused` where the two runs cannot be set against each other."""

    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A run against its baseline: the verdict in a sentence, the test it rests on, what was refused and what is odd.

    `margin` is the loss tolerated, a fraction of 1. `domains` are those with a loss of their own, by Holm's p-values.
    `refusals` has a line for each thing that differs and must not; then there is no `test`.
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

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, keys as the fields; an interval is [low, high]."""
        plain: dict[str, Any] = orjson.loads(orjson.dumps(self, default=list))
        return plain


def decide(test: PairedTest, margin: float) -> Verdict:
    """Return what the paired evidence says of a loss of more than `margin`, a fraction of 1."""
    if test.ci95.low >= -margin:
        return Verdict.PASSED
    return Verdict.FAILED if test.ci95.high < -margin and test.p <= SIGNIFICANT else Verdict.UNDECIDED


def gate_runs(
    run: Run,
    baseline: Run,
    *,
    margin: float = 0.0,
    allow: Sequence[str] = (),
    noise: Noise | None = None,
    seed: int = 0,
) -> Gate:
    """Set a run against its baseline; kinds of difference in `allow` are named and let through.

    UsageError for a margin below 0, for one above 1, and for a kind that cannot be allowed.
    """
    if not 0 <= margin <= 1:
        raise UsageError(f"--margin {100 * margin:g} is no loss in points", hint="give one from 0 to 100")
    if strange := sorted(set(allow) - set(ALLOWABLE)):
        raise UsageError(f"--allow {strange[0]}: there is no such kind", hint=f"there are {', '.join(ALLOWABLE)}")
    unlike = differences(run, baseline)
    if noise is not None and noise.judge != run.metrics["judge"]:
        raise UsageError(f"the noise is that of {noise.judge}", hint=f"measure that of {run.metrics['judge']}")
    refusals = [one.text for one in unlike if one.kind not in allow]
    if refusals:
        return _gate(run, baseline, margin, Verdict.REFUSED, refusals=refusals)
    duel = compare_runs([baseline, run], seed=seed, cluster=item_of, noise=noise).duels[0]
    worse = {name: test for name, test in duel.domains.items() if test.difference < 0 and test.significant}
    warnings = [f"allowed to differ: {one.text}" for one in unlike] + notes_on(run, baseline)
    verdict = decide(duel.overall, margin)
    return _gate(run, baseline, margin, verdict, test=duel.overall, domains=worse, warnings=warnings)


def raise_unless_passed(gate: Gate, *, strict: bool = False) -> None:
    """Raise GateError where a gate failed, with `strict` where it is undecided too; UsageError where it was refused."""
    if gate.verdict is Verdict.REFUSED:
        raise UsageError(f"{gate.sentence} {gate.refusals[0]}", hint=_cure(gate.refusals))
    if gate.verdict is Verdict.FAILED:
        raise GateError(gate.sentence, hint=f"svr compare shows where {gate.run} lost")
    if gate.verdict is Verdict.UNDECIDED and strict:
        raise GateError(gate.sentence, hint="more pairs decide; so does a larger --margin")


def _cure(refusals: Sequence[str]) -> str:
    """Return what helps: kinds that --allow lets differ, unless another judging is needed."""
    kinds = dict.fromkeys(text.partition(":")[0].partition(",")[0] for text in refusals)
    if "partial" in kinds:
        return "finish it: svr eval again"
    if not set(kinds) <= set(ALLOWABLE):
        return "judge the same pairs for both"
    return " ".join(f"--allow {kind}" for kind in kinds) + " lets them differ; svr transfer shows a judge's drift"


def _gate(
    run: Run,
    baseline: Run,
    margin: float,
    verdict: Verdict,
    *,
    test: PairedTest | None = None,
    domains: Mapping[str, PairedTest] | None = None,
    refusals: Sequence[str] = (),
    warnings: Sequence[str] = (),
) -> Gate:
    titles = run_titles([run, baseline])
    return Gate(
        run=titles[0],
        baseline=titles[1],
        marks=tuple(dict.fromkeys((*mark_words(run), *mark_words(baseline)))),
        margin=margin,
        verdict=verdict,
        sentence=_sentence(verdict, test, margin, len(refusals)),
        test=test,
        domains=domains or {},
        refusals=tuple(refusals),
        warnings=tuple(warnings),
    )


def _sentence(verdict: Verdict, test: PairedTest | None, margin: float, refusals: int) -> str:
    if test is None:
        what = plural(refusals, "thing that must be the same is", "things that must be the same are")
        return f"The two runs cannot be set against each other: {what} not."
    span = f"{points(test.difference)} points, 95 % interval {points(test.ci95.low)} to {points(test.ci95.high)}"
    told = f"{span}, on {plural(test.n, 'pair')}"
    loss = f"a loss of more than {100 * margin:g} points" if margin else "a loss"
    if verdict is Verdict.PASSED:
        return f"No loss beyond {100 * margin:g} points: {told}."
    loss = loss[0].upper() + loss[1:]
    if verdict is Verdict.FAILED:
        return f"{loss} is shown: {told}."
    return f"{loss} is not shown, and one of up to {points(-test.ci95.low).lstrip('+')} points is not excluded: {told}."
