"""The page of a reproduction, one self-contained HTML file in the style of a run's report, and the paper's figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from itertools import groupby

from svr_async.core.integrity import CAVEATS, Mark
from svr_async.core.safetext import one_line
from svr_async.reports.bank_page import Course, course_figure
from svr_async.reports.drawing import Figure, Panel, Series, dots, image, plane
from svr_async.reports.page import environment, page_head, template_text
from svr_async.reproduction.paper import load_printed
from svr_async.reproduction.table import EMPTY, Cell, Column, PaperTable

INTERVALS = "Lines are 95 % intervals of ours; diamonds are printed values."


def render_page(tables: Sequence[PaperTable], figures: Sequence[Figure] = ()) -> str:
    """Return the page: every value escaped, no scripts, no requests. The same tables give the same bytes."""
    style = template_text("report.css") + _text("report.css")
    caveats = {mark.word: mark for mark in CAVEATS.values()}
    words = dict.fromkeys(word for table in tables for word in table.marks)
    template = environment().from_string(_text("report.html.j2"))
    page = template.render(
        tables=[(table, list(_spans(table.columns)), _same_judge(table)) for table in tables],
        marks=[caveats.get(word, Mark(word=word, text="Some of the runs carry this mark.")) for word in words],
        contradictions=load_printed().contradictions,
        **page_head(style, [image(figure) for figure in figures]),
    )
    return str(page).strip() + "\n"


def _text(name: str) -> str:
    return resources.files("svr_async.reproduction").joinpath("templates", name).read_text("utf-8")


def _spans(columns: Sequence[Column]) -> Iterator[tuple[str, int]]:
    """Yield the common heads of columns with how many columns each covers; nothing without common heads."""
    if any(column.span for column in columns):
        yield from ((span, len(list(held))) for span, held in groupby(columns, key=lambda column: column.span))


def _same_judge(table: PaperTable) -> str:
    """Return the judge of all rows, or an empty text if rows differ or one is absent."""
    judges = {row.judge_words for row in table.rows}
    return "" if len(judges) > 1 or any(row.absent for row in table.rows) else "".join(judges)


# --- figures ----------------------------------------------------------------------------------------------------------


def figures_of(tables: Sequence[PaperTable]) -> Iterator[Figure]:
    """Yield the figures of rebuilt tables, with printed values as diamonds; tables without our numbers are skipped."""
    for table in tables:
        if table.recipe.kind in DRAWN and any(cell.ours is not None for row in table.rows for cell in row.cells):
            yield from DRAWN[table.recipe.kind](table)


def _dots(place: int, axis: str, level: float, digits: int = 1) -> Callable[[PaperTable], Iterator[Figure]]:
    """Return a function that draws a dot for each row, from one column of a table."""

    def draw(table: PaperTable) -> Iterator[Figure]:
        rows = [row for row in table.rows if row.cells[place] != EMPTY]
        names = tuple(one_line(", ".join(filter(None, row.names)), 90) for row in rows)
        series = _series([row.cells[place] for row in rows], [float(place) for place in range(len(rows))])
        yield _figure(table, dots(names, series, axis, level=level, digits=digits))

    return draw


def _series(cells: Sequence[Cell], places: Sequence[float]) -> tuple[Series, Series]:
    """Return our values with their intervals, and the printed ones, each at its place."""
    ours = [(x, cell.ours) for x, cell in zip(places, cells, strict=True) if cell.ours is not None]
    intervals = tuple(cell.interval for cell in cells if cell.ours is not None)
    printed = [(x, cell.printed) for x, cell in zip(places, cells, strict=True) if cell.printed is not None]
    return (
        Series(name="ours", points=tuple(ours), intervals=intervals, colour="first"),
        Series(name="printed", points=tuple(printed), colour="ink", hollow=True),
    )


def _figure(table: PaperTable, panel: Panel) -> Figure:
    return Figure(
        name=table.recipe.short, title=table.recipe.title, panels=(panel,), marks=table.marks, notes=(INTERVALS,)
    )


def _topk(table: PaperTable) -> Iterator[Figure]:
    """Yield accuracy over the number of rubrics."""
    sizes = [float(row.names[0]) for row in table.rows]
    series = _series([row.cells[0] for row in table.rows], sizes)
    yield _figure(table, plane(series, "rubrics a prompt, at most", "accuracy, %", ticks=sizes))


def _dynamics(table: PaperTable) -> Iterator[Figure]:
    """Yield the course of each measure over the rounds."""
    note = "Margins are in the scale of each fit's weights, so only their course compares with the printed one."
    names, rounds = [column.name for column in table.columns], [int(row.names[0]) for row in table.rows]
    ours: Course = {name: [row.cells[i].ours for row in table.rows] for i, name in enumerate(names)}
    printed: Course = {name: [row.cells[i].printed for row in table.rows] for i, name in enumerate(names)}
    found = course_figure(table.recipe.short, rounds, ours, printed, table.marks, (note,))
    if found is not None:
        yield found


DRAWN: Mapping[str, Callable[[PaperTable], Iterator[Figure]]] = {
    "overall": _dots(0, "accuracy, %", 50.0),
    "net": _dots(0, "pairs that only SVR has right, less those of the human rubrics", 0.0, digits=0),
    "ablation": _dots(1, "points against the first row", 0.0),
    "topk": _topk,
    "dynamics": _dynamics,
}
