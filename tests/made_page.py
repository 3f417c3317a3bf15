"""Pages with all items, written for a browser: of a coherent run with texts, and of one whose every text attacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from svr_async.evaluation.items import Exchange, Item, Items, Reason
from svr_async.evaluation.plan import Vote
from svr_async.evaluation.run_folder import Run, Texts
from svr_async.reports.page import render_runs


def write_item_page(
    file: Path, runs: Sequence[Run], texts: dict[str, Texts], *, exchange: Exchange | None = None
) -> Path:
    """Write the page of one run or two to a file; every item has the exchange, where one is given."""
    calls = [{item.id: [exchange] for item in run.items} for run in runs] if exchange else []
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(render_runs(runs, texts=texts, exchanges=calls), encoding="utf-8")
    return file


def with_words(run: Run, text: str) -> Run:
    """Return the run with reasons, votes and a judge's name of this text on every item."""
    return replace(run, items=Items(_worded(item, text) for item in run.items))


def _worded(item: Item, text: str) -> Item:
    reasons = [Reason(rubric=row.id, shown=row.shown, judge="", text=text) for row in item.rubrics[:2]]
    vote = Vote(judge=text, part="jury", order=text, outcome="scored", margin=0.5, predicted="A", detail=text)
    verdict = Reason(rubric="", shown="ba", judge=text, text=text)
    return replace(item, reasons=(*reasons, verdict), votes=(vote,), judge=text, order=text)
