"""Accuracy against cost in words: each plan with the flags that ask for it, as tables, CSV and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from svr_async.core.safetext import one_line
from svr_async.core.table import Table
from svr_async.evaluation import wording
from svr_async.evaluation.frontier import Frontier, Point
from svr_async.evaluation.summary import RunSummary
from svr_async.reports.drawing import Figure, Series, image, plane
from svr_async.reports.figures import all_marks, in_percent
from svr_async.reports.page import render
from svr_async.reports.writers import to_csv

KINDS = {"run": "one judge", "escalate": "a second judge for close pairs", "jury": "a jury"}
OPTIMISM = (
    "Thresholds and accuracies come from the same labels. The best of many plans looks better here than it will be on "
    "other pairs."
)
HEADS = ("best", "kind", "judges", "below", "flags", "n", "accuracy", "low", "high", "tokens", "usd")


def frontier_tables(found: Frontier) -> Iterator[Table]:
    """Yield the best plans for their cost, then the others."""
    costs = ("cost", "per 1,000 pairs") if found.priced else ("tokens",)
    heads = ("plan", "flags", "accuracy", "95 % interval", *costs)
    best = [(f"{number}  {in_words(point)}", *_cells(point)) for number, point in enumerate(found.best, start=1)]
    yield Table(heads, best, caption="The best for their cost, the cheapest first", notes=(OPTIMISM,))
    if others := [(in_words(point), *_cells(point)) for point in found.points if not point.best]:
        yield Table(heads, others, caption=f"{wording.plural(len(others), 'plan')} that another one beats")


def _cells(point: Point) -> tuple[str, ...]:
    shown = (flags_of(point), wording.percent(point.accuracy), wording.interval(point.ci95))
    if point.usd is None:
        return (*shown, wording.count(point.tokens))
    return (*shown, _dollars(point.usd), _dollars(1000 * point.usd / len(point.right)))


def in_words(point: Point) -> str:
    """Return a plan in words."""
    if point.kind == "jury":
        return f"{', '.join(point.judges)}: mean of margins"
    if point.kind == "escalate":
        return f"{point.judges[0]}, then {point.judges[1]} below {point.below:g}"
    return point.judges[0] + {"": "", " --order both": ", both orders"}.get(point.orders, f" ({point.orders.strip()})")


def flags_of(point: Point) -> str:
    """Return the flags of `svr eval` that ask for a plan."""
    if point.kind == "jury":
        return f"--jury {','.join(point.judges)}{point.orders}"
    more = f" --escalate-to {point.judges[1]} --escalate-below {point.below:g}" if point.kind == "escalate" else ""
    return f"--judge {point.judges[0]}{more}{point.orders}"


def _dollars(value: float) -> str:
    """Return money with four decimals below a dollar: cheap plans differ there."""
    return f"${value:,.2f}" if value >= 1 else f"${value:.4f}"


def as_json(found: Frontier) -> bytes:
    """Return the frontier with its caveat."""
    value = {"n_pairs": found.n_pairs, "optimism": OPTIMISM, "points": [_row(point) for point in found.points]}
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def as_csv(found: Frontier) -> str:
    """Return the plans, the cheapest first."""
    rows = [{**_row(point), "judges": " ".join(point.judges)} for point in found.points]
    return to_csv(HEADS, [[row[head] for head in HEADS] for row in rows])


def _row(point: Point) -> dict[str, Any]:
    """Return a plan as plain values, under the names of the columns."""
    return {
        "best": point.best,
        "kind": point.kind,
        "judges": list(point.judges),
        "below": point.below,
        "flags": flags_of(point),
        "n": len(point.right),
        "accuracy": round(point.accuracy, 6),
        "low": round(point.ci95.low, 6),
        "high": round(point.ci95.high, 6),
        "tokens": round(point.tokens),
        "usd": None if point.usd is None else round(point.usd, 6),
    }


def frontier_figure(runs: Sequence[RunSummary], found: Frontier) -> Figure:
    """Return accuracy over cost, a dot a plan, the best for their cost joined and numbered."""
    best = found.best
    series = [
        Series(
            name="best for their cost",
            points=tuple((point.cost, 100 * point.accuracy) for point in best),
            intervals=tuple(in_percent(point.ci95) for point in best),
            labels=tuple(map(str, range(1, len(best) + 1))),
            colour="ink",
        )
    ]
    for kind in dict.fromkeys(point.kind for point in found.points):
        spots = tuple((one.cost, 100 * one.accuracy) for one in found.points if one.kind == kind)
        series.append(Series(name=KINDS[kind], points=spots, sizes=(0.1,) * len(spots), kind="dots"))
    notes = (
        *(f"{number}  {one_line(in_words(point), 120)}" for number, point in enumerate(best, start=1)),
        "Lines are 95 % intervals. The best of many plans looks better here than it will be on other pairs.",
    )
    panel = plane(series, "dollars" if found.priced else "tokens", "accuracy, %")
    title = f"Accuracy against cost, by plan, on {runs[0].benchmark}"
    marks = tuple(word for word in all_marks(runs) if word != "PARTIAL")
    return Figure(name="frontier", title=title, panels=(panel,), marks=marks, notes=notes)


def render_frontier(runs: Sequence[RunSummary], found: Frontier) -> str:
    """Return the page of accuracy against cost."""
    return render(
        "frontier.html.j2",
        title=runs[0].benchmark,
        judges="; ".join(dict.fromkeys(run.judge for run in runs)),
        method=runs[0].method,
        marks=list({mark.word: mark for run in runs for mark in run.marks if mark.word != "PARTIAL"}.values()),
        found=found,
        tables=list(frontier_tables(found)),
        figures=[image(frontier_figure(runs, found))],
    )
