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

KINDS = {
    "once": "one call a pair",
    "both": "both orders for all pairs",
    "audit": "both orders for close pairs",
    "escalate": "a second judge for close pairs",
    "jury": "a jury",
}
MOST_LEFT_OUT = 40
OPTIMISM = (
    "Thresholds and accuracies come from the same labels. The best of many plans looks better here than it will be on "
    "other pairs."
)
HEADS = (
    "best", "kind", "judges", "rule", "audit_below", "escalate_below", "n", "accuracy", "low", "high",
    "calls", "tokens", "usd", "missing",
)  # fmt: skip


def frontier_tables(found: Frontier) -> Iterator[Table]:
    """Yield the best plans for their cost, the others, and those that need replies that the cache lacks."""
    heads = (
        "plan",
        "flags",
        "accuracy",
        "95 % interval",
        "calls",
        *(("cost", "per 1,000 pairs") if found.priced else ("tokens",)),
    )
    best = [(f"{number}  {in_words(point)}", *_cells(point, found)) for number, point in enumerate(found.best, start=1)]
    notes = [OPTIMISM]
    if found.held_out is not None:
        highest = max(point.accuracy for point in found.points)
        notes.append(
            f"The best plan reaches {wording.percent(highest)} here. Chosen on one half of the pairs and measured on "
            f"the other, the best plan reaches {wording.percent(found.held_out)}."
        )
    yield Table(heads, best, caption="The best for their cost, the cheapest first", notes=notes)
    if others := [(in_words(point), *_cells(point, found)) for point in found.points if not point.best]:
        yield Table(heads, others, caption=f"{wording.plural(len(others), 'plan')} that another one beats")
    if found.left_out:
        rows = [(in_words(point), wording.plural(point.missing, "pair")) for point in found.left_out[:MOST_LEFT_OUT]]
        caption = f"{wording.plural(len(found.left_out), 'plan')} skipped: they need new calls"
        yield Table(("plan", "not asked yet"), rows, caption=caption)


def _cells(point: Point, found: Frontier) -> tuple[str, ...]:
    shown = (flags_of(point), wording.percent(point.accuracy), wording.interval(point.ci95), wording.count(point.calls))
    if point.usd is None:
        return (*shown, wording.count(point.tokens))
    return (*shown, _dollars(point.usd), _dollars(1000 * point.usd / max(1, found.n_pairs)))


def in_words(point: Point) -> str:
    """Say what a plan does."""
    setting, names = point.setting, point.setting.judges
    audit = f"both orders below {_size(setting.audit_below)}"
    if setting.kind == "jury":
        return f"{', '.join(names)}: {'mean of margins' if setting.rule == 'mean' else 'majority'}"
    if setting.kind == "escalate":
        return f"{names[0]}, then {names[1]} below {_size(setting.escalate_below)}"
    return f"{names[0]}, {({'once': 'once', 'both': 'both orders', 'audit': audit})[setting.kind]}"


def flags_of(point: Point) -> str:
    """Return the flags of `svr eval` that ask for a plan."""
    setting = point.setting
    if setting.kind == "jury":
        rule = "" if setting.rule == "mean" else f" --jury-rule {setting.rule}"
        return f"--jury {','.join(setting.judges)}{rule} --audit 0"
    text = f"--judge {setting.judges[0]}"
    if setting.kind == "both":
        text += " --order both"
    elif setting.audit_below is not None:
        text += f" --audit-below {_size(setting.audit_below)}"
    else:
        text += " --audit 0"  # the default judges a twentieth of the pairs twice
    if setting.escalate_below is not None:
        text += f" --escalate-to {setting.judges[1]} --escalate-below {_size(setting.escalate_below)}"
    return text


def _size(below: float | None) -> str:
    return "" if below is None else f"{below:g}"


def _dollars(value: float) -> str:
    """Return money with four decimals below a dollar: cheap plans differ there."""
    return f"${value:,.2f}" if value >= 1 else f"${value:.4f}"


def as_json(found: Frontier) -> bytes:
    """Return the frontier with its caveat; plans that lack replies are listed apart, without numbers."""
    value = {
        "n_pairs": found.n_pairs,
        "optimism": OPTIMISM,
        "held_out_accuracy": found.held_out,
        "points": [_row(point) for point in found.points],
        "left_out": [_without_numbers(point) for point in found.left_out],
    }
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def as_csv(found: Frontier) -> str:
    """Return the plans; those that lack replies come last, with the number of pairs that lack one."""
    rows = [*map(_row, found.points), *map(_without_numbers, found.left_out)]
    return to_csv(HEADS, [[_plain(row.get(head)) for head in HEADS] for row in rows])


def _plain(value: Any) -> Any:
    return " ".join(value) if isinstance(value, list) else value


def _without_numbers(point: Point) -> dict[str, Any]:
    return {name: value for name, value in _row(point).items() if name in {*HEADS[1:6], "missing"}}


def _row(point: Point) -> dict[str, Any]:
    """Return a plan as plain values, under the names of the columns."""
    setting, (low, high) = point.setting, point.ci95
    return {
        "best": point.best,
        "kind": setting.kind,
        "judges": list(setting.judges),
        "rule": setting.rule,
        "audit_below": setting.audit_below,
        "escalate_below": setting.escalate_below,
        "n": len(point.right),
        "accuracy": round(point.accuracy, 6),
        "low": round(low, 6),
        "high": round(high, 6),
        "calls": point.calls,
        "tokens": point.tokens,
        "usd": None if point.usd is None else round(point.usd, 6),
        "missing": point.missing,
    }


def frontier_figure(runs: Sequence[RunSummary], found: Frontier) -> Figure | None:
    """Return accuracy over cost, a dot a plan, the best for their cost joined and numbered; None without plans."""
    if not found.points:
        return None
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
    for kind in dict.fromkeys(point.setting.kind for point in found.points):
        spots = tuple((one.cost, 100 * one.accuracy) for one in found.points if one.setting.kind == kind)
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
    figure = frontier_figure(runs, found)
    return render(
        "frontier.html.j2",
        title=runs[0].benchmark,
        judges="; ".join(dict.fromkeys(run.judge for run in runs)),
        method=runs[0].method,
        marks=list({mark.word: mark for run in runs for mark in run.marks if mark.word != "PARTIAL"}.values()),
        found=found,
        tables=list(frontier_tables(found)),
        figures=[image(figure)] if figure else [],
    )
