"""Figures beside the targets that they are held to, and how benchmarks hand them to `run_all.py`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured figure. `target` and `beyond` bound it from above, or from below where `at_least`."""

    name: str
    value: float | None
    unit: str
    target: float
    beyond: float | None = None
    at_least: bool = False

    @property
    def verdict(self) -> str:
        """Return "beyond", "ok", "short" or, where nothing was measured, "skipped"."""
        if self.value is None:
            return "skipped"
        if self.beyond is not None and self._within(self.beyond):
            return "beyond"
        return "ok" if self._within(self.target) else "short"

    def _within(self, bound: float) -> bool:
        assert self.value is not None
        return self.value >= bound if self.at_least else self.value <= bound


def table(figures: Iterable[Figure]) -> str:
    """Return a Markdown table."""
    out = ["| figure | measured | target | beyond it | |", "|---|---|---|---|---|"]
    for one in figures:
        sign = "≥" if one.at_least else "≤"
        bounds = [f"{sign} {show(bound, one.unit)}" if bound is not None else "" for bound in (one.target, one.beyond)]
        measured = "–" if one.value is None else show(one.value, one.unit)
        out.append(f"| {one.name} | {measured} | {bounds[0]} | {bounds[1]} | {one.verdict} |")
    return "\n".join(out)


def show(value: float, unit: str) -> str:
    """Return a value with its unit, to three figures."""
    if unit == "%":
        return f"{value:.1f} %"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 0.1 else 3
    return f"{value:,.{digits}f} {unit}".strip()


def hand_over(figures: list[Figure], path: Path | None) -> None:
    """Print figures, and add them to a file for `run_all.py`."""
    print("\n" + table(figures), flush=True)
    if path is not None:
        with path.open("a") as out:
            out.writelines(json.dumps(asdict(one)) + "\n" for one in figures)


def handed_over(path: Path) -> list[Figure]:
    """Read what benchmarks have added to a file."""
    return [Figure(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []
