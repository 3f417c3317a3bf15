"""The second reading of the LaTeX: what is in it or in the data file alone is found."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from svr_async.reproduction.printed import Printed, PrintedNumber, PrintedRow, PrintedTable

SCRIPTS = Path(__file__).parents[2] / "benchmarks/paper"
LATEX = r"""
\begin{table}[t]
\caption{Made up, of $9$ things.}
\label{tab:made}
\begin{tabular}{lcc}
\toprule
Method & A & B \\
\midrule
\textbf{\ourmethod{}} & \underline{80.6} & \textbf{1{,}024} \\
\quad $-$ a part & 73.5 & $-$9.3 \\
\bottomrule
\end{tabular}
\end{table}
In Table~\ref{tab:made} it is $80.6$ \citep{made2026}, of $1{,}147$ pairs of RewardBench~1.
""".splitlines()
ROWS = (
    PrintedRow(line=9, names=("SVR",), values=(80.6, 1024.0)),
    PrintedRow(line=10, names=("- a part",), values=(73.5, -9.3)),
)


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script as a module."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("read_latex")


def printed(rows: tuple[PrintedRow, ...], *values: float) -> Printed:
    """Return a data file with one table and numbers of the text's line."""
    table = PrintedTable(label="tab:made", line=4, columns=("A", "B"), rows=rows)
    numbers = tuple(PrintedNumber(label="sec", name=f"{value}", line=14, value=value) for value in values)
    return Printed(tables=(table,), numbers=numbers, passed={})


def test_the_same_numbers_are_no_difference(reader: ModuleType) -> None:
    """Bold, underlines, thousands, minus signs and what is cited stand in no number's way."""
    assert reader.differences(LATEX, printed(ROWS, 80.6, 1147.0)) == []


def test_a_changed_cell_and_a_missing_row_are_found(reader: ModuleType) -> None:
    """A number in the data file that the LaTeX does not have is named, and the other way round."""
    changed = PrintedRow(line=9, names=("SVR",), values=(80.7, 1024.0))
    found = reader.differences(LATEX, printed((changed,)))
    assert [one.split(" has ")[0] for one in found] == [
        "tab:made: the LaTeX alone",
        "tab:made: the LaTeX alone",
        "tab:made: printed.toml alone",
    ]


def test_numbers_of_the_text_are_looked_up_on_their_line(reader: ModuleType) -> None:
    """One that is not there is found, and so is one on the line that the data file leaves out."""
    assert reader.differences(LATEX, printed(ROWS, 82.8)) == [
        "sec 82.8: 82.8 is not on line 14",
        "line 14: 80.6 is not in printed.toml",
        "line 14: 1147 is not in printed.toml",
    ]
