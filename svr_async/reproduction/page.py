"""The page of a reproduction: one self-contained HTML file in the style of a run's report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import resources
from itertools import groupby

from svr_async.core.integrity import CAVEATS, Mark
from svr_async.reports.drawing import Figure, image
from svr_async.reports.page import environment, page_head, template_text
from svr_async.reproduction.printed import contradictions, load_printed
from svr_async.reproduction.table import Column, PaperTable


def render_page(tables: Sequence[PaperTable], figures: Sequence[Figure] = ()) -> str:
    """Return the page: every value escaped, no scripts, no requests. The same tables give the same bytes."""
    style = template_text("report.css") + _text("report.css")
    caveats = {mark.word: mark for mark in CAVEATS.values()}
    words = dict.fromkeys(word for table in tables for word in table.marks)
    template = environment().from_string(_text("report.html.j2"))
    page = template.render(
        tables=[(table, list(_spans(table.columns)), _same_judge(table)) for table in tables],
        marks=[caveats.get(word, Mark(word=word, text="Some of the runs carry this mark.")) for word in words],
        contradictions=list(contradictions(load_printed())),
        ranks=("", "best", "second"),
        **page_head(style, [image(figure) for figure in figures]),
    )
    return str(page).strip() + "\n"


def _text(name: str) -> str:
    return resources.files("svr_async.reproduction").joinpath("templates", name).read_text("utf-8")


def _spans(columns: Sequence[Column]) -> Iterator[tuple[str, int]]:
    """Yield the common heads of columns with how many columns each covers; nothing if there are none."""
    if any(column.span for column in columns):
        yield from ((span, len(list(held))) for span, held in groupby(columns, key=lambda column: column.span))


def _same_judge(table: PaperTable) -> str:
    """Return the judge of all rows, or an empty text if rows differ or one is absent."""
    judges = {row.judge_words for row in table.rows}
    return "" if len(judges) > 1 or any(row.absent for row in table.rows) else "".join(judges)
