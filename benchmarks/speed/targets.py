"""Figures with the targets that they are held to, and how benchmarks pass them to `run_all.py`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured figure. `target` and `aim` bound it from above, or from below if `at_least`."""

    name: str
    value: float | None
    unit: str
    target: float
    aim: float | None = None
    at_least: bool = False

    @property
    def verdict(self) -> str:
        """Return "aim reached", "ok" or "missed"; "not measured" if it has no value."""
        if self.value is None:
            return "not measured"
        if self.aim is not None and self._within(self.aim):
            return "aim reached"
        return "ok" if self._within(self.target) else "missed"

    def _within(self, bound: float) -> bool:
        assert self.value is not None
        return self.value >= bound if self.at_least else self.value <= bound


def table(figures: Iterable[Figure]) -> str:
    """Return a Markdown table."""
    out = ["| figure | measured | target | aim | |", "|---|---|---|---|---|"]
    for one in figures:
        sign = "≥" if one.at_least else "≤"
        bounds = [f"{sign} {show(bound, one.unit)}" if bound is not None else "" for bound in (one.target, one.aim)]
        measured = "–" if one.value is None else show(one.value, one.unit)
        out.append(f"| {one.name} | {measured} | {bounds[0]} | {bounds[1]} | {one.verdict} |")
    return "\n".join(out)


def show(value: float, unit: str) -> str:
    """Return a value with its unit, to three digits."""
    digits = 0 if unit == "" or abs(value) >= 100 else 1 if abs(value) >= 10 or unit == "%" else 2
    digits = 3 if 0 < abs(value) < 0.1 else digits
    return f"{value:,.{digits}f} {unit}".strip()


def hand_over(figures: list[Figure], path: Path | None) -> None:
    """Add figures to a file for `run_all.py`, or print them without a file."""
    if path is None:
        print("\n" + table(figures), flush=True)
        return
    with path.open("a") as out:
        out.writelines(json.dumps(asdict(one)) + "\n" for one in figures)


def handed_over(path: Path) -> list[Figure]:
    """Read what benchmarks have added to a file."""
    return [Figure(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []
