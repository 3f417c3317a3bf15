"""What a bank's report shows of the structure that was chosen, and of how accuracy grows with the pairs."""

from __future__ import annotations

from dataclasses import dataclass

from svr_async.reports.curve_charts import Plot, Trace
from svr_async.reports.runfacts import Fact
from svr_async.scoring.bank_choice import Candidate, candidates, divided, how_chosen, structure_parts
from svr_async.scoring.bank_history import Choice, LearningCurve

STEP = 0.05  # the plot ends at multiples of this accuracy


@dataclass(frozen=True, slots=True, kw_only=True)
class StructureView:
    """The structure's parts, how it was chosen, the best candidates, and the others."""

    parts: tuple[Fact, ...]
    how: str
    best: tuple[Candidate, ...]
    others: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningView:
    """The curve, its plot, and a sentence on its last step."""

    curve: LearningCurve
    plot: Plot
    sentence: str


def view_structure(choice: Choice | None) -> StructureView | None:
    """Return what is shown of a choice; None where there was none."""
    if choice is None:
        return None
    best, others = divided(candidates(choice))
    return StructureView(
        parts=tuple(Fact(name=name, value=value, note=note) for name, value, note in structure_parts(choice)),
        how=how_chosen(choice),
        best=best,
        others=others,
    )


def view_learning(curve: LearningCurve | None) -> LearningView | None:
    """Return what is shown of a learning curve; None where none was asked for."""
    return None if curve is None else LearningView(curve=curve, plot=_plot(curve), sentence=curve.in_words())


def _plot(curve: LearningCurve) -> Plot:
    points = curve.points
    low = min(point.low for point in points) // STEP * STEP
    high = -(-max(point.high for point in points) // STEP) * STEP
    return Plot(
        slots=len(points),
        low=max(0.0, low),
        high=min(1.0, max(high, low + STEP)),
        traces=(Trace(kind="dev", points=tuple((n, point.accuracy) for n, point in enumerate(points))),),
        bars=tuple((n, point.low, point.high) for n, point in enumerate(points)),
        ticks=tuple(point.pairs for point in points),
        shares=True,
    )
