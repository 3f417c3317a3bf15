"""A rebuilt table as Markdown, LaTeX and CSV: the printed number beside ours, and a mark where the two differ."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from svr_async.core.table import markdown
from svr_async.evaluation import wording
from svr_async.reports.writers import csv_text, latex
from svr_async.reproduction.table import Cell, Column, Row, Table, ours, printed

DIFFERS = "≠"
LEGEND = (
    "In each cell ours, its 95 % interval, and the printed number in parentheses; ≠ where the two differ by more than "
    "chance at 95 %."
)


def cell_words(cell: Cell, column: Column) -> str:
    """Return a cell in words: ours with its interval, the printed one in parentheses, the mark."""
    if cell.text:
        return cell.text
    if cell.ours is None and cell.printed is None:
        return ""
    mark = f" {DIFFERS}" if cell.differs else ""
    theirs = "" if cell.printed is None else f" ({column.words(cell.printed)})"
    return f"{column.words(cell.ours)}{interval_words(cell, column)}{theirs}{mark}"


def interval_words(cell: Cell, column: Column) -> str:
    """Return the interval of a cell in brackets; nothing where it has none."""
    if cell.interval is None:
        return ""
    return f" [{column.words(cell.interval.low)}, {column.words(cell.interval.high)}]"


def judge_words(row: Row) -> str:
    """Say who judged a row, or that it is absent and why."""
    parts = [row.judged, f"absent: {row.absent}" if row.absent else ""]
    return "; ".join(filter(None, parts))


def caption(table: Table) -> str:
    """Return title and label, with the marks of what judged."""
    marks = "".join(f" [{mark}]" for mark in table.marks)
    return f"{table.title} ({table.label}){marks}"


def as_markdown(table: Table) -> str:
    """Return a GitHub table under a heading."""
    heads = [*table.heads, *(_head(column) for column in table.columns), "Judged by"]
    lines = [f"## {markdown(caption(table))}", "", _pipe(markdown(head) for head in heads)]
    texts = {*range(len(table.heads)), len(heads) - 1}
    lines.append(_pipe("---" if place in texts else "---:" for place in range(len(heads))))
    lines += [_pipe(_markdown_row(table, row)) for row in table.rows]
    notes = [*([LEGEND] if table.printed else []), *table.notes]
    return "\n".join([*lines, "", *(f"- {markdown(note)}" for note in notes)]) + "\n"


def _markdown_row(table: Table, row: Row) -> Iterator[str]:
    yield from (markdown(name) for name in padded(table, row))
    for place, cell in enumerate(row.cells):
        text, rank = markdown(cell_words(cell, table.columns[place])), table.rank(place, cell, ours)
        yield f"**{text}**" if rank == 1 else f"<u>{text}</u>" if rank == 2 else text
    yield markdown(judge_words(row))


def padded(table: Table, row: Row) -> tuple[str, ...]:
    """Return the names of a row, as many as there are heads."""
    return (*row.names, *("" for _ in range(len(table.heads) - len(row.names))))


def _head(column: Column) -> str:
    return f"{column.span} {column.name}".strip()


def _pipe(cells: Iterator[str] | list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def as_latex(table: Table) -> str:
    """Return a `table*` environment for booktabs: ours and the printed one in two lines of a row, the best in bold."""
    columns = "l" * len(table.heads) + "r" * len(table.columns)
    notes = [*table.notes, *(f"{' / '.join(row.names)}: {judge_words(row)}" for row in table.rows)]
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table*}",
        r"  \centering\small",
        rf"  \caption{{{latex(caption(table))}}}",
        rf"  \begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        "    " + " & ".join(latex(head) for head in (*table.heads, *(_head(one) for one in table.columns))) + r" \\",
        r"    \midrule",
        *(f"    {line}" for row in table.rows for line in _latex_rows(table, row)),
        r"    \bottomrule",
        r"  \end{tabular}",
        *(rf"  \par\smallskip\footnotesize {latex(note)}" for note in notes),
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"


def _latex_rows(table: Table, row: Row) -> Iterator[str]:
    names = [latex(name) for name in padded(table, row)]
    cells = []
    for place, cell in enumerate(row.cells):
        text = latex(cell.text or (table.columns[place].words(cell.ours) if cell.ours is not None else wording.UNKNOWN))
        mark = r"$^{\neq}$" if cell.differs else ""
        cells.append(_ranked(text, table.rank(place, cell, ours)) + mark)
    yield " & ".join([*names, *cells]) + r" \\"
    if any(cell.printed is not None for cell in row.cells):
        yield " & ".join([r"\quad\emph{printed}", *([""] * (len(names) - 1)), *_printed_cells(table, row)]) + r" \\"


def _printed_cells(table: Table, row: Row) -> Iterator[str]:
    for place, cell in enumerate(row.cells):
        text = "" if cell.printed is None else latex(table.columns[place].words(cell.printed))
        yield _ranked(text, table.rank(place, cell, printed))


def _ranked(text: str, rank: int) -> str:
    return rf"\textbf{{{text}}}" if rank == 1 else rf"\underline{{{text}}}" if rank == 2 else text


CSV_HEADS = ("table", "row", "column", "unit", "ours", "low", "high", "printed", "differs", "judged", "absent", "text")


def as_csv(table: Table) -> str:
    """Return one cell a row, in the units of the table; a text that a spreadsheet would run gets an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(CSV_HEADS)
    for row in table.rows:
        for column, cell in zip(table.columns, row.cells, strict=True):
            low, high = cell.interval or (None, None)
            numbers = [_number(value) for value in (cell.ours, low, high, cell.printed)]
            differs = "" if cell.differs is None else str(cell.differs).lower()
            texts = [csv_text(text) for text in (table.label, " / ".join(row.names), _head(column), column.unit)]
            writer.writerow([*texts, *numbers, differs, *map(csv_text, (row.judged, row.absent, cell.text))])
    return out.getvalue()


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
