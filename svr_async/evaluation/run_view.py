"""What a run shows of itself in a notebook, by its metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from svr_async.core.table import Line, Parts, Table
from svr_async.evaluation.wording import UNKNOWN, count, dollars, interval, percent, plural


def run_in_short(metrics: Mapping[str, Any]) -> str:
    """Return a run in a line: what was judged how and by whom, and the accuracy."""
    judge = metrics.get("judge_label") or metrics["judge"]
    return (
        f"{metrics['benchmark']}, {metrics['method']} by {judge}: {percent(metrics['accuracy'])} "
        f"of {plural(metrics['n_total'], 'pair')}{'' if metrics.get('complete') else ', PARTIAL'}"
    )


def run_sheet(where: str, metrics: Mapping[str, Any], marks: Iterable[str] = ()) -> Parts:
    """Yield a run's accuracy with its interval, what it is not, and its domains; `where` is its folder."""
    yield Line(run_in_short(metrics), loud=True)
    if words := [mark.replace("_", " ").upper() for mark in sorted(marks)]:
        yield Line(", ".join(words), loud=True)
    for note in metrics.get("notes") or ():
        yield Line(str(note), label="note")
    yield Line(interval(metrics.get("accuracy_ci95")), label="95 % interval")
    yield Line(f"{percent(metrics['coverage'])} have a verdict", label="coverage")
    yield Line(f"{count((metrics.get('calls') or {}).get('sent'))}, {dollars(metrics.get('cost_usd'))}", label="calls")
    yield Line(where, label="folder")
    domains = metrics.get("by_domain") or {}
    if len(domains) > 1:
        rows = (
            (str(name), count(one.get("n")), percent(one.get("accuracy")), interval(one.get("ci95")) or UNKNOWN)
            for name, one in domains.items()
        )
        yield Table(("domain", "pairs", "accuracy", "95 % interval"), tuple(rows), texts=0)
