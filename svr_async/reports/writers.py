"""Tables as LaTeX and CSV; Markdown and HTML are in `core.table`."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from svr_async.core.safetext import visible
from svr_async.core.table import Table, to_markdown

_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "\u00a0": "~", "–": "--", "−": r"\ensuremath{-}", "·": r"\textperiodcentered{}",
    "…": r"\ldots{}", "⟨": r"\ensuremath{\langle}", "⟩": r"\ensuremath{\rangle}",
}  # fmt: skip
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\0", "＝", "＋", "－", "＠")


def to_latex(table: Table) -> str:
    """Return a `table` environment for the booktabs package."""
    columns = "".join(side[0] for side in table.sides())
    rows = [" & ".join(map(latex, row)) + r" \\" for row in table.rows]
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{latex(table.caption)}}}",
        rf"  \begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        "    " + " & ".join(map(latex, table.heads)) + r" \\",
        r"    \midrule",
        *(f"    {row}" for row in rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        *(rf"  \par\smallskip\footnotesize {latex(note)}" for note in table.notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def latex(text: str) -> str:
    """Escape a text for LaTeX: no commands, no line ends, hidden characters shown as ⟨U+202E⟩."""
    plain = visible(text).replace("\n", " ").replace("\t", " ")
    return "".join(_LATEX.get(character, character) for character in plain)


def to_csv(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as CSV; numbers keep full precision, and no text can run as a formula (ASVS 1.2.10)."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    for row in (heads, *rows):
        writer.writerow([csv_text(value) if isinstance(value, str) else value for value in row])
    return out.getvalue()


def csv_text(text: str) -> str:
    """Return a text that a spreadsheet shows and never runs: formula starts get an apostrophe, controls are shown."""
    guarded = f"'{text}" if text.startswith(_FORMULA_STARTS) else text
    return visible(guarded)


WRITERS: Mapping[str, Callable[[Table], str]] = {"md": to_markdown, "tex": to_latex}
