"""Verdicts, rankings and scores as lines and tables, for notebooks and terminals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from svr_async.core.rubric import Rubric
from svr_async.core.table import Line, Parts, Table
from svr_async.core.verdict import Contribution

UNKNOWN = "–"
FAVOURS = {True: "A", False: "B"}


def number(value: float | None, form: str = "+.2f") -> str:
    """Return a number with two digits and a true minus sign; a dash for None, no sign for zero."""
    if value is None:
        return UNKNOWN
    return f"{value:{form}}".replace("-", "−") if round(value, 2) else f"{0:.2f}"


def decision(winner: str | None, margin: float | None, outcome: str) -> str:
    """Return the decision in a few words."""
    if margin is None:
        return f"no verdict: {outcome}"
    return f"{f'{winner} is better' if winner else 'a tie'}, margin {number(margin)}"


def verdict_sheet(
    decided: str, contributions: Sequence[Contribution], *, judge: str, detail: str, doubts: Sequence[str] = ()
) -> Parts:
    """Yield a decision on a pair and its contributions, the largest first."""
    yield Line(decided, loud=True)
    yield Line(judge, label="judge")
    if detail:
        yield Line(detail, label="detail")
    for doubt in doubts:
        yield Line(doubt, label="but")
    if contributions:
        rows = map(_contributed, sorted(contributions, key=lambda part: -abs(part.value)))
        yield Table(("rubric", "counts", "adds", "towards", "A", "B"), tuple(rows), texts=3)


def _contributed(part: Contribution) -> Sequence[str]:
    row = part.comparison
    verdicts = (UNKNOWN, UNKNOWN) if row is None else (row.a.value, row.b.value)
    towards = FAVOURS[part.value > 0] if part.value else ""
    return (part.rephrased or part.rubric.text, number(part.importance, ".2f"), number(part.value), towards, *verdicts)


def ranking_sheet(
    order: Sequence[int], scores: Sequence[float | None], *, method: str, questions: int, judge: str
) -> Parts:
    """Yield the places of responses, best first, with their scores."""
    yield Line(f"{len(order)} responses, {method}, {questions} questions")
    yield Line(judge, label="judge")
    yield Table(
        ("rank", "response", "score"),
        tuple((str(rank), str(place), number(scores[place])) for rank, place in enumerate(order, start=1)),
        texts=0,
    )


def score_sheet(scored: str, parts: Iterable[tuple[Rubric, float, float | None]], *, judge: str, detail: str) -> Parts:
    """Yield a response's score, and its score on each rubric, the most important first."""
    yield Line(scored, loud=True)
    yield Line(judge, label="judge")
    if detail:
        yield Line(detail, label="detail")
    ranked = sorted(parts, key=lambda part: -part[1])
    rows = ((rubric.text, number(importance, ".2f"), number(value, ".2f")) for rubric, importance, value in ranked)
    yield Table(("rubric", "counts", "score"), tuple(rows), texts=0)
