"""The page of a frontier: one self-contained HTML file, in the look and with the safety of a run's report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from svr_async.core.integrity import Mark
from svr_async.evaluation import wording
from svr_async.evaluation.frontier import Frontier, Point
from svr_async.evaluation.labels import benchmark_name, marks
from svr_async.evaluation.run_folder import Run
from svr_async.reports.frontier_chart import Dot
from svr_async.reports.frontier_files import OPTIMISM
from svr_async.reports.report import environment, page_head, template_text

KINDS = {
    "once": "one call a pair",
    "both": "both orders for all pairs",
    "audit": "both orders for close pairs",
    "escalate": "a second judge for close pairs",
    "audit+escalate": "both of these",
    "jury": "a jury",
    "top-k": "fewer rubrics",
}
CLASSES = {kind: kind.replace("+", "-") for kind in KINDS}
MOST_LEFT_OUT = 40
MOST_TICKS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One plan in a table: what it does, the flags that ask for it, and its numbers in words."""

    number: int
    kind: str
    words: str
    flags: str
    accuracy: str
    interval: str
    calls: str
    tokens: str
    usd: str
    per_thousand: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierView:
    """Everything the template shows of a frontier."""

    title: str
    subtitle: str
    marks: tuple[Mark, ...]
    n_pairs: int
    n_points: int
    priced: bool
    held_out: float | None
    highest: float | None
    dots: tuple[Dot, ...]
    ticks: tuple[tuple[float, str], ...]
    kinds: tuple[tuple[str, str], ...]
    best: tuple[Line, ...]
    others: tuple[Line, ...]
    left_out: tuple[tuple[str, str], ...]
    n_left_out: int
    optimism: str


def render_frontier(runs: Sequence[Run], found: Frontier) -> str:
    """Return the page: every value escaped, no scripts, no requests. The same runs and replies give the same bytes."""
    style = template_text("report.css") + template_text("frontier.css")
    page = environment().get_template("frontier.html.j2").render(view=view_frontier(runs, found), **page_head(style))
    return page.strip() + "\n"


def view_frontier(runs: Sequence[Run], found: Frontier) -> FrontierView:
    """Work out what is shown of a frontier."""
    numbered = {id(point): number for number, point in enumerate(found.best, start=1)}
    lines = [line_of(point, numbered.get(id(point), 0), found.n_pairs) for point in found.points]
    most = max((point.cost for point in found.points), default=0.0)
    seen = {point.setting.kind for point in found.points}
    return FrontierView(
        title=benchmark_name(runs[0]),
        subtitle=f"{runs[0].metrics['method']} · " + "; ".join(dict.fromkeys(run.judge_label for run in runs)),
        marks=marks_of(runs),
        n_pairs=found.n_pairs,
        n_points=len(found.points),
        priced=found.priced,
        held_out=found.held_out,
        highest=max((point.accuracy for point in found.points), default=None),
        dots=tuple(
            Dot(
                kind=CLASSES[point.setting.kind],
                x=point.cost / most if most else 0.0,
                accuracy=point.accuracy,
                ci95=point.ci95,
                number=numbered.get(id(point), 0),
            )
            for point in found.points
        ),
        ticks=ticks(most, found.priced),
        kinds=tuple((CLASSES[kind], words) for kind, words in KINDS.items() if kind in seen),
        best=tuple(line for line in lines if line.number),
        others=tuple(line for line in lines if not line.number),
        left_out=tuple(
            (in_words(point), wording.plural(point.missing, "pair")) for point in found.left_out[:MOST_LEFT_OUT]
        ),
        n_left_out=len(found.left_out),
        optimism=OPTIMISM,
    )


def marks_of(runs: Sequence[Run]) -> tuple[Mark, ...]:
    """Return the caveats of all runs, each once; that a run did not finish is no matter here."""
    found = {mark.word: mark for run in runs for mark in marks(run) if mark.word != "PARTIAL"}
    return tuple(found.values())


def line_of(point: Point, number: int, n_pairs: int) -> Line:
    """Return one plan in words."""
    thousand = None if point.usd is None else 1000 * point.usd / max(1, n_pairs)
    return Line(
        number=number,
        kind=CLASSES[point.setting.kind],
        words=in_words(point),
        flags=flags_of(point),
        accuracy=wording.percent(point.accuracy),
        interval=wording.interval(point.ci95),
        calls=wording.count(point.calls),
        tokens=wording.count(point.tokens),
        usd=_dollars(point.usd),
        per_thousand=_dollars(thousand),
    )


def in_words(point: Point) -> str:
    """Say what a plan does."""
    setting = point.setting
    audit = f"both orders below {_size(setting.audit_below)}"
    names = setting.judges
    if setting.kind == "once":
        return f"{names[0]}, once"
    if setting.kind == "both":
        return f"{names[0]}, both orders"
    if setting.kind == "audit":
        return f"{names[0]}, {audit}"
    if setting.kind == "top-k":
        return f"{names[0]}, {wording.plural(setting.top_k or 0, 'rubric')} at most"
    if setting.kind == "jury":
        return f"{', '.join(names)}: {'mean of margins' if setting.rule == 'mean' else 'majority'}"
    text = f"{names[0]}, then {names[1]} below {_size(setting.escalate_below)}"
    return f"{text}; {audit}" if setting.kind == "audit+escalate" else text


def flags_of(point: Point) -> str:
    """Return the flags of `svr eval` that ask for a plan."""
    setting = point.setting
    if setting.kind == "jury":
        rule = "" if setting.rule == "mean" else f" --jury-rule {setting.rule}"
        return f"--jury {','.join(setting.judges)}{rule} --audit 0"
    text = f"--judge {setting.judges[0]}"
    if setting.top_k is not None:
        text += f" --top-k {setting.top_k}"
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


def _dollars(value: float | None) -> str:
    """Return money with four decimals below a dollar, so that cheap plans can be told apart."""
    return wording.UNKNOWN if value is None else f"${value:,.2f}" if value >= 1 else f"${value:.4f}"


def ticks(most: float, priced: bool) -> tuple[tuple[float, str], ...]:
    """Return round numbers from 0 to the cost of the dearest plan, as shares of it, in words."""
    if most <= 0:
        return ((0.0, "$0" if priced else "0"),)
    power = 10.0 ** math.floor(math.log10(most))
    step = next(size * power for size in (0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 5.0) if most / (size * power) <= MOST_TICKS)
    digits = len(f"{step:.12g}".partition(".")[2])
    costs = [i * step for i in range(int(most / step * (1 + 1e-9)) + 1)]
    words = [wording.tariff(cost, digits) if priced else wording.count(cost) for cost in costs]
    return tuple((cost / most, text) for cost, text in zip(costs, ["$0" if priced else "0", *words[1:]], strict=True))
