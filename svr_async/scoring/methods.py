"""Methods: how rubrics are found for a pair and how verdicts become a margin. Each sees the pair as shown, no label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from svr_async.judges.protocol import Answer, Comparisons, Judge
from svr_async.scoring.decision import Decision, settled
from svr_async.vocabulary.pair import Presentation, Side
from svr_async.vocabulary.rubric import Rubric
from svr_async.vocabulary.verdict import Contribution, Outcome, RubricComparison, Verdict

WeightedRubrics = tuple[tuple[Rubric, float], ...]


class Method(Protocol):
    """Decides one presentation. `human_rubrics` are the benchmark's; only the oracle may look at them."""

    @property
    def name(self) -> str:
        """The name on the command line."""

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: Sequence[str]) -> Decision:
        """Return the decision in the order shown."""


@dataclass(frozen=True, slots=True)
class Vanilla:
    """The judge asked directly, without rubrics (paper `app:prompts`)."""

    name: str = "vanilla"

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: Sequence[str]) -> Decision:  # noqa: ARG002
        """Ask for a direct verdict."""
        answer = await judge.prefer(shown)
        if answer.value is None:
            return undecided(answer, shown)
        return decided(answer.value.margin, shown, answer.value.evidence, answer.requests, answer.flags)


@dataclass(frozen=True, slots=True)
class SelfRubric:
    """The judge writes rubrics from the prompt, then judges by them; its overall preference decides."""

    name: str = "self-rubric"

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: Sequence[str]) -> Decision:  # noqa: ARG002
        """Ask for rubrics, then for verdicts."""
        written = await judge.write_rubrics(shown.prompt)
        if written.value is None:
            return undecided(written, shown)
        weighted = tuple((rubric, 1.0) for rubric in written.value.rubrics)
        answer = await judge.compare(shown, written.value.rubrics, overall=True, note=written.value.note)
        return _by_preference(answer, shown, weighted, written.requests)


@dataclass(frozen=True, slots=True)
class Oracle:
    """The benchmark's human rubrics, judged side by side; the judge's overall preference decides."""

    name: str = "oracle"

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: Sequence[str]) -> Decision:
        """Ask for verdicts on the human rubrics."""
        if not human_rubrics:
            return Decision(margin=None, outcome=Outcome.INVALID_INPUT, shown=shown.order, detail="no human rubrics")
        weighted = equally_weighted(human_rubrics)
        answer = await judge.compare(shown, [rubric for rubric, _ in weighted], overall=True)
        return _by_preference(answer, shown, weighted, ())


@dataclass(frozen=True, slots=True)
class Fixed:
    """A fixed list of weighted rubrics for every pair: F = Σ weight · Δ."""

    rubrics: WeightedRubrics
    name: str = "fixed"

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: Sequence[str]) -> Decision:  # noqa: ARG002
        """Ask for verdicts on the list and add them up."""
        answer = await judge.compare(shown, [rubric for rubric, _ in self.rubrics], overall=False)
        if answer.value is None:
            return undecided(answer, shown)
        parts = contributions(self.rubrics, answer.value.rows)
        return decided(total(parts), shown, parts, answer.requests, answer.flags)


@dataclass(frozen=True, slots=True)
class Pointwise:
    """Each response scored alone: z = score_a − score_b per rubric; F = Σ weight · z (paper's pointwise ablation).

    The rubrics are the fixed list, or where there is none those that the judge writes for the prompt.
    """

    rubrics: WeightedRubrics = ()
    name: str = "pointwise"

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: Sequence[str]) -> Decision:  # noqa: ARG002
        """Ask for two sets of scores and add up their differences."""
        weighted, requests = self.rubrics, tuple[str, ...]()
        if not weighted:
            written = await judge.write_rubrics(shown.prompt)
            if written.value is None:
                return undecided(written, shown)
            weighted, requests = tuple((rubric, 1.0) for rubric in written.value.rubrics), written.requests
        rubrics = [rubric for rubric, _ in weighted]
        a = await judge.score(shown.prompt, shown.response_a, rubrics)
        b = await judge.score(shown.prompt, shown.response_b, rubrics)
        if a.value is None or b.value is None:
            return undecided(a if a.value is None else b, shown)
        margin = sum(w * (a.value[r.id] - b.value[r.id]) for r, w in weighted if r.id in a.value and r.id in b.value)
        parts = contributions(weighted, _rows_of_scores(rubrics, a.value, b.value))
        return decided(margin, shown, parts, requests + a.requests + b.requests, ())


@dataclass(frozen=True, slots=True)
class ContentBlind:
    """A baseline that reads nothing: the longest response, the shortest, or the one shown first."""

    name: str

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: Sequence[str]) -> Decision:  # noqa: ARG002
        """Decide by length in characters, or by position."""
        if self.name == "first":
            return decided(1.0, shown, (), (), ())
        longer = float(len(shown.response_a) - len(shown.response_b))
        margin = longer if self.name == "longest" else -longer
        return decided(margin, shown, (), (), ())


CONTENT_BLIND = ("longest", "shortest", "first")


def equally_weighted(texts: Sequence[str]) -> WeightedRubrics:
    """Return rubrics of these texts with weight 1, repeated texts once."""
    return tuple((rubric, 1.0) for rubric in {r.id: r for r in (Rubric(text=text) for text in texts)}.values())


def contributions(weighted: WeightedRubrics, rows: Sequence[RubricComparison]) -> tuple[Contribution, ...]:
    """Join rubrics, weights and verdicts; rubrics without a verdict stay, and contribute nothing."""
    by_id = {row.rubric_id: row for row in rows}
    return tuple(
        Contribution(rubric=rubric, comparison=by_id.get(rubric.id), weight=weight) for rubric, weight in weighted
    )


def total(parts: Sequence[Contribution]) -> float:
    """Return the margin that contributions add up to."""
    return sum(part.value for part in parts)


def _by_preference(
    answer: Answer[Comparisons], shown: Presentation, weighted: WeightedRubrics, requests: tuple[str, ...]
) -> Decision:
    """Decide by the judge's overall preference; a judge that has none decides by the mean of its verdicts."""
    if answer.value is None:
        return undecided(answer, shown, requests)
    share = 1.0 / max(1, len(weighted))
    parts = contributions(tuple((rubric, weight * share) for rubric, weight in weighted), answer.value.rows)
    preferred = answer.value.preferred
    margin = total(parts) if preferred is None else (1.0 if preferred is Side.A else -1.0)
    return decided(margin, shown, parts, requests + answer.requests, answer.flags)


def decided(
    margin: float,
    shown: Presentation,
    parts: tuple[Contribution, ...],
    requests: tuple[str, ...],
    flags: tuple[str, ...],
) -> Decision:
    """Return a decision with a margin: scored, or a tie at 0."""
    margin = settled(margin)
    outcome = Outcome.SCORED if margin else Outcome.TIE
    return Decision(
        margin=margin, outcome=outcome, contributions=parts, shown=shown.order, requests=requests, flags=flags
    )


def undecided(answer: Answer[Any], shown: Presentation, requests: tuple[str, ...] = ()) -> Decision:
    """Return a decision without a margin, with the outcome that says why."""
    return Decision(
        margin=None,
        outcome=answer.outcome,
        shown=shown.order,
        detail=answer.detail,
        requests=requests + answer.requests,
        flags=answer.flags,
    )


def _rows_of_scores(
    rubrics: Sequence[Rubric], a: Mapping[str, float], b: Mapping[str, float]
) -> tuple[RubricComparison, ...]:
    """Show scores as verdicts for the report: at least a half passes, the higher score is better."""
    rows = []
    for rubric in rubrics:
        if rubric.id in a and rubric.id in b:
            high, low = a[rubric.id], b[rubric.id]
            better = None if high == low else (Side.A if high > low else Side.B)
            verdicts = [Verdict.PASS if score >= 0.5 else Verdict.FAIL for score in (high, low)]
            rows.append(RubricComparison(rubric.id, verdicts[0], verdicts[1], better))
    return tuple(rows)
