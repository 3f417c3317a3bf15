"""Figures of runs, drawn from their summaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from svr_async.core.safetext import one_line
from svr_async.evaluation.summary import FEWEST, RunSummary
from svr_async.reports.drawing import Ends, Figure, Series, dots, plane

NEAR = 1.05  # times the tokens of another run, up to which costs count as equal
FAR = 15  # times the tokens of another run, from which on the axis is in factors
STRICT = "Lines are 95 % intervals; ties and missing verdicts count as wrong."


def run_figures(runs: Sequence[RunSummary]) -> Iterator[Figure]:
    """Yield the figures that runs have data for; nothing for fewer than twenty pairs with a verdict."""
    if max(one.n_scored for one in runs) < FEWEST:
        return
    marks, place = all_marks(runs), ", ".join(dict.fromkeys(one.benchmark for one in runs))
    if len(runs) > 1:
        points = tuple((i, 100 * (one.accuracy or 0.0)) for i, one in enumerate(runs))
        series = Series(name="", points=points, intervals=tuple(in_percent(one.ci95) for one in runs), colour="first")
        panel = dots(titles_of(runs), [series], "accuracy, %", level=50.0)
        yield Figure(name="accuracy", title=f"Accuracy on {place}", panels=(panel,), marks=marks, notes=(STRICT,))
    yield from _domains(runs, f"Accuracy by domain on {place}", marks)
    yield from filter(None, (abstention_figure(runs), cost_figure(runs)))


def all_marks(runs: Sequence[RunSummary]) -> tuple[str, ...]:
    """Return the marks that any of the runs has."""
    return tuple(dict.fromkeys(word for run in runs for word in run.mark_words))


def titles_of(runs: Sequence[RunSummary]) -> list[str]:
    """Return a short title for each run."""
    return [one_line(run.title, 90) for run in runs]


def in_percent(ends: Sequence[float] | None) -> Ends | None:
    """Return the ends of an interval of fractions in percent."""
    return None if ends is None else (100 * ends[0], 100 * ends[1])


def _domains(runs: Sequence[RunSummary], title: str, marks: tuple[str, ...]) -> Iterator[Figure]:
    names = list(dict.fromkeys(row.name for one in runs for row in one.of("domain")))
    if not names:
        return
    series = []
    for run_title, one in zip(titles_of(runs), runs, strict=True):
        rows = [(names.index(row.name), row) for row in one.of("domain") if row.value is not None]
        points = tuple((float(place), 100 * (row.value or 0.0)) for place, row in rows)
        series.append(Series(name=run_title, points=points, intervals=tuple(in_percent(row.ci95) for _, row in rows)))
    panel = dots([one_line(name, 60) for name in names], series, "accuracy, %", level=50.0)
    yield Figure(name="domains", title=title, panels=(panel,), marks=marks, notes=(STRICT,))


def abstention_figure(runs: Sequence[RunSummary]) -> Figure | None:
    """Return accuracy over the share of pairs answered, the surest first; None where no run has margins."""
    series = []
    for run, title in zip(runs, titles_of(runs), strict=True):
        if len(run.abstention) > 1:
            points = tuple((100 * one.answered, 100 * one.accuracy) for one in run.abstention)
            ends = tuple(in_percent(one.ci95) for one in run.abstention)
            series.append(Series(name=title, points=points, intervals=ends, kind="band"))
    if not series:
        return None
    panel = plane(series, "pairs answered, those with the largest |margin| first, %", "accuracy of those, %")
    note = f"Ties and missing verdicts are never answered; from {FEWEST} pairs on. Bands are 95 % intervals (Wilson)."
    title = f"Accuracy where unsure pairs are left out, on {runs[0].benchmark}"
    return Figure(name="abstention", title=title, panels=(panel,), marks=all_marks(runs), notes=(note,))


def cost_figure(runs: Sequence[RunSummary]) -> Figure | None:
    """Return a dot a run over the tokens behind its verdicts; None where fewer than two runs asked a judge."""
    known = [(title, one) for title, one in zip(titles_of(runs), runs, strict=True) if one.tokens_per_pair]
    series = [
        Series(
            name=title, points=((one.tokens_per_pair, 100 * one.accuracy),), intervals=(in_percent(one.ci95),),
            sizes=(0.3,), kind="dots",
        )
        for title, one in known if one.accuracy is not None
    ]  # fmt: skip
    costs = [one.points[0][0] for one in series]
    if len(series) < 2 or max(costs) < NEAR * min(costs):  # nothing to see
        return None
    panel = plane(series, "tokens per pair, read and written", "accuracy, %", log=max(costs) > FAR * min(costs))
    title = f"Accuracy against cost on {runs[0].benchmark}"
    return Figure(name="cost", title=title, panels=(panel,), marks=all_marks(runs), notes=(STRICT,))
