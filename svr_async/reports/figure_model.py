"""The one model of a figure, which the writer reads: bars, a plane or a grid, with the marks of what judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

Role = Literal[
    "", "ours", "printed", "train", "dev", "ahead", "behind", "other", "negatives", "active", "best"
]  # what a colour means
Ends = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis: its words, its limits where they are fixed, `ticks` where only these places have a number.

    With `log` equal steps are equal factors.
    """

    name: str
    limits: Ends | None = None
    ticks: tuple[float, ...] = ()
    log: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One value a bar with its interval, both in the axis' unit; None where there is none.

    Without a `role` its colour is that of its place among the series. `roles` gives each bar one of its own.
    """

    name: str
    values: tuple[float | None, ...]
    intervals: tuple[Ends | None, ...] = ()
    role: Role = ""
    roles: tuple[Role, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Bars from the left, a group for each name; `digits` of the values written beside them, `level` a line across.

    A series of role `printed` is drawn as diamonds over the bars.
    """

    names: tuple[str, ...]
    series: tuple[Series, ...]
    axis: Axis
    level: float | None = None
    digits: int = 1
    signed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Places of a plane, with an interval of y, a size in [0, 1] and a label each where they are given.

    `joined` draws a line through them, `band` their intervals as one area.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    intervals: tuple[Ends | None, ...] = ()
    sizes: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()
    role: Role = ""
    joined: bool = True
    band: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """Lines and dots over two axes; `level` is a line across, `bare` a plane whose axes have no numbers."""

    traces: tuple[Trace, ...]
    x: Axis
    y: Axis
    level: float | None = None
    bare: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A heat map: a value from 0 to 1 for each row and column; None where there is none."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]


Panel = Bars | Plane | Grid


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure: the name of its files, title, panels from top to bottom, marks, and what a reader must know."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    marks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def legend(self) -> tuple[tuple[str, Role, int], ...]:
        """The names of series with role and place among those without one, each once; empty for a single one."""
        found = dict.fromkeys(chain.from_iterable(map(_named, self.panels)))
        return tuple(found) if len(found) > 1 else ()

    @property
    def words(self) -> str:
        """What is drawn, for those who do not see it."""
        marks = "".join(f" [{mark}]" for mark in self.marks)
        names = "; ".join(dict.fromkeys(name for name, *_ in self.legend))
        return f"{self.title}{marks}{f': {names}' if names else ''}"


def _named(panel: Panel) -> Iterator[tuple[str, Role, int]]:
    parts: Sequence[Series | Trace] = () if isinstance(panel, Grid) else getattr(panel, _PARTS[type(panel)])
    yield from ((part.name, part.role, place) for part, place in zip(parts, places(parts), strict=True) if part.name)


_PARTS = {Bars: "series", Plane: "traces"}


def places(parts: Sequence[Series | Trace]) -> tuple[int, ...]:
    """Return the place of each among those without a role, which are told apart by it; 0 for one with a role."""
    plain = [part for part in parts if not part.role]
    return tuple(0 if part.role else next(i for i, one in enumerate(plain) if one is part) for part in parts)
