"""The figure of a frontier: accuracy over cost, a dot a plan, the best for their cost joined and numbered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from svr_async.core.safetext import one_line
from svr_async.evaluation.frontier import Frontier
from svr_async.evaluation.labels import benchmark_name
from svr_async.evaluation.run_folder import Run
from svr_async.reports.figure_model import Axis, Ends, Figure, Plane, Trace
from svr_async.reports.frontier_files import OPTIMISM
from svr_async.reports.frontier_view import KINDS, in_words, marks_of


def frontier_figures(runs: Sequence[Run], found: Frontier) -> Iterator[Figure]:
    """Yield the figure of a frontier; nothing for one without points."""
    if not found.points:
        return
    best = found.best
    traces = [
        Trace(
            name="best for their cost",
            points=tuple((point.cost, 100 * point.accuracy) for point in best),
            intervals=tuple(_ends(point.ci95) for point in best),
            labels=tuple(f"{number}" for number in range(1, len(best) + 1)),
            role="best",
        )
    ]
    for kind, words in KINDS.items():
        points = [point for point in found.points if point.setting.kind == kind]
        if points:
            spots = tuple((point.cost, 100 * point.accuracy) for point in points)
            traces.append(Trace(name=words, points=spots, sizes=(0.1,) * len(spots), joined=False))
    most = max(point.cost for point in found.points)
    x = Axis(name="dollars" if found.priced else "tokens", limits=(-0.02 * most, 1.05 * most) if most else None)
    notes = (
        *(f"{number}  {one_line(in_words(point), 120)}" for number, point in enumerate(best, start=1)),
        f"Whiskers: 95 % intervals. {OPTIMISM}",
    )
    yield Figure(
        name="frontier",
        title=f"Accuracy against cost, by plan, on {benchmark_name(runs[0])}",
        panels=(Plane(traces=tuple(traces), x=x, y=Axis(name="accuracy, %")),),
        marks=tuple(mark.word for mark in marks_of(runs)),
        notes=notes,
    )


def _ends(ci95: Ends) -> Ends:
    return 100 * ci95[0], 100 * ci95[1]
