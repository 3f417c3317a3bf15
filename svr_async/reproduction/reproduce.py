"""Rebuilds tables of the paper and writes them as Markdown, LaTeX, CSV and one page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from svr_async.core.files import open_folder, write_atomic
from svr_async.core.table import to_markdown
from svr_async.evaluation.wording import plural
from svr_async.reports.drawing import Figure, write_figures
from svr_async.reports.writers import WRITERS
from svr_async.reproduction.accuracy import (
    DOMAINS,
    OVERALL,
    ablation,
    accuracies,
    benches,
    net,
    overlap,
    topk,
    transfer,
)
from svr_async.reproduction.bank import cost, distribution, dynamics, examples
from svr_async.reproduction.dry_run import ReproCount, count_reproduction
from svr_async.reproduction.page import figures_of, render_page
from svr_async.reproduction.paper import Printed, Recipe, load_printed, plan_of
from svr_async.reproduction.runner import Runner, Say
from svr_async.reproduction.settings import ReproSettings
from svr_async.reproduction.table import PaperTable, as_csv, as_text

KINDS: Mapping[str, Callable[[Recipe, Printed, Runner], PaperTable]] = {
    "domains": partial(accuracies, names=(*DOMAINS, OVERALL)),
    "overall": partial(accuracies, names=(OVERALL,)),
    "ablation": ablation,
    "transfer": transfer,
    "benches": benches,
    "overlap": overlap,
    "net": net,
    "topk": topk,
    "bank": distribution,
    "examples": examples,
    "dynamics": dynamics,
    "cost": cost,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """The rebuilt tables, the page, and the calls of this process with their dollars, None if a price is unknown."""

    tables: tuple[PaperTable, ...]
    page: Path
    calls: int
    usd: float | None

    @property
    def absent(self) -> int:
        """How many rows lack a run."""
        return sum(bool(row.absent) for table in self.tables for row in table.rows)

    def as_json(self) -> dict[str, Any]:
        """Return the page, the tables' labels, and what was spent."""
        named = {"report": str(self.page), "tables": [table.recipe.label for table in self.tables]}
        return named | {"calls": self.calls, "usd": self.usd, "absent": self.absent}

    def in_words(self) -> str:
        """Return the same in a line."""
        rows = f"{plural(len(self.tables), 'table')}, {plural(self.absent, 'row')} absent"
        return f"{rows}, {self.calls:,} calls sent: {self.page}"


def build(recipe: Recipe, runner: Runner) -> PaperTable:
    """Build the table of a recipe from finished runs and banks."""
    return KINDS[recipe.kind](recipe, load_printed(), runner)


def reproduce(settings: ReproSettings, names: Sequence[str], say: Say) -> Reproduction:
    """Rebuild tables. A row that cannot be judged is absent, with the reason; everything judged is kept."""
    plan = plan_of(names)
    open_folder(settings.out)
    runner = Runner(settings=settings, plan=plan, say=say)
    runner.make_all()
    tables = tuple(build(recipe, runner) for recipe in plan.tables)
    figures = tuple(figures_of(tables)) if settings.figures is not None else ()
    if settings.figures is not None:
        write_figures(settings.figures, figures)
    page = write_tables(settings.out, tables, figures)
    return Reproduction(tables=tables, page=page, calls=runner.calls, usd=None if runner.unpriced else runner.usd)


def count(settings: ReproSettings, names: Sequence[str], say: Say) -> ReproCount:
    """Count what `reproduce` would ask; nothing is sent or written."""
    return count_reproduction(Runner(settings=settings, plan=plan_of(names), say=say))


def write_tables(out: Path, tables: Sequence[PaperTable], figures: Sequence[Figure] = ()) -> Path:
    """Write each table, and all of them on a page; return the page. The same tables give the same bytes."""
    folder = out / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    for table in tables:
        texts = {ending: write(as_text(table)) for ending, write in WRITERS.items()} | {"csv": as_csv(table)}
        for ending, text in texts.items():
            write_atomic(folder / f"{table.recipe.short}.{ending}", text.encode())
    write_atomic(out / "report.md", "\n".join(to_markdown(as_text(table)) for table in tables).encode())
    write_atomic(out / "report.html", render_page(tables, figures).encode())
    return out / "report.html"
