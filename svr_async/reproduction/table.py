"""The one model of a rebuilt table, which every writer reads: cells with the printed number beside ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from svr_async.core.statistics import Interval
from svr_async.evaluation import wording

Unit = Literal["percent", "points", "count", "number", "text"]
DIGITS = {"percent": 1, "points": 1, "count": 0, "number": 3, "text": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: its head, the unit of its numbers, and whether the best of them is told (`ranked`)."""

    name: str
    unit: Unit = "percent"
    ranked: bool = False
    span: str = ""
    digits: int | None = None

    def words(self, value: float | None) -> str:
        """Return a number of this column as people read it; a dash for none."""
        digits = DIGITS[self.unit] if self.digits is None else self.digits
        if value is None:
            return wording.UNKNOWN
        if self.unit == "points":
            return wording.signed(value, digits)
        return wording.count(value) if self.unit == "count" else f"{value:.{digits}f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Our number and the printed one, both in the column's unit; `differs` is None where nothing can be compared.

    The interval is of ours, at 95 %. A cell with `text` has no numbers.
    """

    ours: float | None = None
    printed: float | None = None
    interval: Interval | None = None
    differs: bool | None = None
    text: str = ""


EMPTY = Cell()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row: the names that head it, its cells, who judged, and why our numbers are absent where they are."""

    names: tuple[str, ...]
    cells: tuple[Cell, ...]
    judged: str = ""
    absent: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A rebuilt table: label and title, heads of the names, columns, rows, remarks, and marks of what judged it."""

    label: str
    title: str
    heads: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        """The label without its kind, for names of files and anchors."""
        return self.label.partition(":")[2]

    @property
    def printed(self) -> bool:
        """Whether any cell has a printed number."""
        return any(cell.printed is not None for row in self.rows for cell in row.cells)

    def ranks(self, place: int, of: Callable[[Cell], float | None]) -> tuple[float | None, float | None]:
        """Return the largest and the second largest different value of a ranked column; None where there is none."""
        if not self.columns[place].ranked:
            return None, None
        held = {_rounded(of(row.cells[place]), self.columns[place]) for row in self.rows} - {None}
        found: Sequence[float | None] = sorted((value for value in held if value is not None), reverse=True)[:2]
        first, second = (*found, None, None)[:2]
        return first, second

    def rank(self, place: int, cell: Cell, of: Callable[[Cell], float | None]) -> int:
        """Return 1 for the best of a ranked column, 2 for the second, else 0; equal as printed is equal."""
        value = _rounded(of(cell), self.columns[place])
        first, second = self.ranks(place, of)
        return 0 if value is None else 1 if value == first else 2 if value == second else 0


def _rounded(value: float | None, column: Column) -> float | None:
    digits = DIGITS[column.unit] if column.digits is None else column.digits
    return None if value is None else round(value, digits)


def ours(cell: Cell) -> float | None:
    """Return our number of a cell."""
    return cell.ours


def printed(cell: Cell) -> float | None:
    """Return the printed number of a cell."""
    return cell.printed
