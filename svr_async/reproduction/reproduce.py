"""A reproduction from settings to its files: tables as Markdown, LaTeX and CSV, and one page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svr_async.core.files import open_folder, write_atomic
from svr_async.evaluation.wording import plural
from svr_async.reports.drawing import Figure, write_figures
from svr_async.reproduction.arithmetic import checks, marks
from svr_async.reproduction.figures import figures_of
from svr_async.reproduction.page import render_page
from svr_async.reproduction.plan import plan_of
from svr_async.reproduction.printed import load_printed
from svr_async.reproduction.recipe import chosen, load_recipes
from svr_async.reproduction.running import Say, do_all, open_work
from svr_async.reproduction.settings import ReproSettings
from svr_async.reproduction.table import Table
from svr_async.reproduction.tables.registry import build
from svr_async.reproduction.writers import as_csv, as_latex, as_markdown


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """What came of it: the tables, where they are written, and how many calls this process sent."""

    tables: tuple[Table, ...]
    report: Path
    calls: int
    usd: float

    @property
    def absent(self) -> int:
        """How many rows lack a run."""
        return sum(bool(row.absent) for table in self.tables for row in table.rows)

    def as_json(self) -> dict[str, Any]:
        """Return where it is written, and what it took."""
        named = {"report": str(self.report), "tables": [table.label for table in self.tables]}
        return named | {"calls": self.calls, "usd": self.usd, "absent": self.absent}

    def in_words(self) -> str:
        """Say the same in a line."""
        rows = f"{plural(len(self.tables), 'table')}, {plural(self.absent, 'row')} absent"
        return f"{rows}, {self.calls:,} calls sent: {self.report}"


def reproduce(settings: ReproSettings, names: Sequence[str], say: Say) -> Reproduction:
    """Rebuild tables; SvrError for what ends all of it, a row that cannot be judged is absent with its reason.

    What is judged is kept, so that the same settings go on after an end.
    """
    recipes = load_recipes(settings.recipes)
    plan = plan_of(recipes, chosen(recipes, names))
    open_folder(settings.out)
    if settings.figures is not None:
        open_folder(settings.figures, "--figures")
    work = open_work(settings, plan, say)
    results = do_all(work)
    tables = tuple(build(recipe, load_printed(), results) for recipe in plan.tables)
    figures = tuple(figures_of(plan.tables, tables, results)) if settings.figures else ()
    if settings.figures is not None:
        write_figures(settings.figures, figures)
    report = write_tables(settings.out, tables, figures)
    return Reproduction(tables=tables, report=report, calls=work.calls, usd=work.usd)


def write_tables(out: Path, tables: Sequence[Table], figures: Sequence[Figure] = ()) -> Path:
    """Write each table by itself and all of them on a page; return the page. The same tables give the same bytes."""
    folder = out / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    for table in tables:
        for ending, text in (("md", as_markdown(table)), ("tex", as_latex(table)), ("csv", as_csv(table))):
            write_atomic(folder / f"{table.short}.{ending}", text.encode())
    write_atomic(out / "report.md", "\n".join(map(as_markdown, tables)).encode())
    printed = load_printed()
    page = render_page(tables, marks(printed), len(checks(printed)), figures)
    write_atomic(out / "report.html", page.encode())
    return out / "report.html"
