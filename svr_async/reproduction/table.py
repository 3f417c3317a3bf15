"""A rebuilt table: scores and cells with the printed number next to ours, as texts and as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from typing import Literal

from svr_async.core.statistics import Interval, newcombe_interval, wilson_interval
from svr_async.core.table import Table
from svr_async.evaluation import wording
from svr_async.reports.writers import to_csv
from svr_async.reproduction.paper import Recipe

Unit = Literal["percent", "points", "count", "number"]
DIGITS = {"percent": 1, "points": 1, "count": 0, "number": 3}
DIFFERS = "≠"
LEGEND = (
    "In each cell ours, its 95 % interval, and the printed number in parentheses; ≠ where the two differ by more than "
    "chance at 95 %."
)
CSV_HEADS = ("table", "row", "column", "unit", "ours", "low", "high", "printed", "differs", "judged", "absent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A score as a fraction of 1, and how many pairs of a plain share would be as sure (`effective`)."""

    value: float
    effective: float

    @property
    def interval(self) -> Interval:
        """Wilson's interval at that number of pairs."""
        return wilson_interval(self.value * self.effective, self.effective)

    def differs_from(self, printed: float) -> bool:
        """Whether a printed score differs at 95 %, taken as measured on as many other pairs (Newcombe's interval).

        On the same pairs this is cautious: a mark is more than chance, no mark says nothing.
        """
        low, high = newcombe_interval(self.value, self.effective, printed, self.effective)
        return low > 0 or high < 0


def share(marks: Sequence[bool]) -> Score | None:
    """Return the share of True; None without marks."""
    return Score(value=sum(marks) / len(marks), effective=len(marks)) if marks else None


def mean_of(scores: Sequence[Score | None]) -> Score | None:
    """Return the plain mean of scores of different pairs; None if one is missing."""
    known = [score for score in scores if score is not None]
    if not known or len(known) < len(scores):
        return None
    size = effective_size([(1.0, score.effective) for score in known])
    return Score(value=fsum(score.value for score in known) / len(known), effective=size)


def effective_size(strata: Sequence[tuple[float, float]]) -> float:
    """Return Kish's effective size of a mean over strata of (weight, size): (Σ weight)² / Σ (weight² / size)."""
    return fsum(weight for weight, _ in strata) ** 2 / fsum(weight**2 / size for weight, size in strata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: its head, a common head of several columns (`span`), its unit and decimals."""

    name: str
    unit: Unit = "percent"
    span: str = ""
    digits: int | None = None

    @property
    def title(self) -> str:
        """Its full head."""
        return f"{self.span} {self.name}".strip()

    def words(self, value: float | None) -> str:
        """Return a number as text, a dash for None."""
        if value is None:
            return wording.UNKNOWN
        digits = DIGITS[self.unit] if self.digits is None else self.digits
        if self.unit == "points":
            return wording.signed(value, digits)
        return wording.count(value) if self.unit == "count" else f"{value:.{digits}f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Our number with its 95 % interval, and the printed one, in the column's unit.

    `differs` is None if the two cannot be compared.
    """

    ours: float | None = None
    printed: float | None = None
    interval: Interval | None = None
    differs: bool | None = None


EMPTY = Cell()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row: the names that head it, its cells, who judged, and why our numbers are missing."""

    names: tuple[str, ...]
    cells: tuple[Cell, ...]
    judged: str = ""
    absent: str = ""
    group: str = ""

    @property
    def judge_words(self) -> str:
        """The judge, or why it is missing."""
        return "; ".join(filter(None, [self.judged, f"absent: {self.absent}" if self.absent else ""]))


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTable:
    """A rebuilt table of the paper, with the marks of its runs (SIMULATED, OFFLINE …)."""

    recipe: Recipe
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()

    @property
    def caption(self) -> str:
        """Title, label and marks."""
        return f"{self.recipe.title} ({self.recipe.label}){''.join(f' [{mark}]' for mark in self.marks)}"

    @property
    def all_notes(self) -> tuple[str, ...]:
        """The legend, if a cell has a printed number, and the notes."""
        has_printed = any(cell.printed is not None for row in self.rows for cell in row.cells)
        return (*([LEGEND] if has_printed else []), *self.recipe.notes, *self.notes)

    def names(self, row: Row) -> tuple[str, ...]:
        """Return the names of a row, one for each head."""
        return (*row.names, *[""] * (len(self.recipe.heads) - len(row.names)))

    def cell_words(self, place: int, cell: Cell) -> str:
        """Return a cell as text: ours, its interval, the printed number, the mark of a difference."""
        if cell.ours is None and cell.printed is None:
            return ""
        words = self.columns[place].words
        theirs = "" if cell.printed is None else f" ({words(cell.printed)})"
        return f"{words(cell.ours)}{self.interval_words(place, cell)}{theirs}{f' {DIFFERS}' * bool(cell.differs)}"

    def interval_words(self, place: int, cell: Cell) -> str:
        """Return the interval of a cell in brackets, or an empty text."""
        words = self.columns[place].words
        return "" if cell.interval is None else f" [{words(cell.interval.low)}, {words(cell.interval.high)}]"


def as_text(table: PaperTable) -> Table:
    """Return the table as texts, for the writers of Markdown and LaTeX."""
    heads = [*table.recipe.heads, *(column.title for column in table.columns), "Judged by"]
    rows = [
        [*table.names(row), *(table.cell_words(place, cell) for place, cell in enumerate(row.cells)), row.judge_words]
        for row in table.rows
    ]
    return Table(heads=heads, rows=rows, caption=table.caption, notes=table.all_notes, texts=1)


def as_csv(table: PaperTable) -> str:
    """Return one cell a row, in the units of the table."""
    rows = []
    for row in table.rows:
        for column, cell in zip(table.columns, row.cells, strict=True):
            low, high = cell.interval or (None, None)
            numbers = ["" if one is None else float(f"{one:.6g}") for one in (cell.ours, low, high, cell.printed)]
            differs = "" if cell.differs is None else str(cell.differs).lower()
            texts = [table.recipe.label, " / ".join(row.names), column.title, column.unit]
            rows.append([*texts, *numbers, differs, row.judged, row.absent])
    return to_csv(CSV_HEADS, rows)
