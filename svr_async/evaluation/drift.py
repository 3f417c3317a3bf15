"""Measure judge drift: one bank and method on the same pairs, with two judges or one judge at two dates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

import orjson

from svr_async.core.statistics import Interval, bootstrap_interval, wilson_interval
from svr_async.errors import UsageError
from svr_async.evaluation.agreement import Agreement, krippendorff_alpha, nominal, squared
from svr_async.evaluation.compare import PairedTest, RunSummary, by_key, couples_test, differences, summarise
from svr_async.evaluation.items import Item
from svr_async.evaluation.labels import run_titles
from svr_async.evaluation.run_folder import Run

SIDES = {"A": 1.0, "B": -1.0}
RUBRIC_RESAMPLES = 500
WEAK_ALPHA = 0.667  # Krippendorff (2004) draws no conclusion below it
_Unit = Sequence[Item | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """A later run against the first: share of flipped verdicts, mean shift of the margin towards the right answer."""

    run: str
    flips: float | None
    flips_ci95: Interval | None
    margin_shift: float | None
    margin_shift_ci95: Interval | None
    accuracy: PairedTest


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricDrift:
    """One rubric: α of its Δ over pairs, the share of opposite signs, and the last run's Δ − the first's.

    Δ is taken towards the right answer. None without data.
    """

    id: str
    text: str
    delta: Agreement
    flips: float | None
    shift: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Several runs of the same pairs with one bank; `verdict` is the α of the preferred response.

    `rubrics` start with the weakest agreement; `differs` lists what differs between the runs.
    """

    runs: tuple[RunSummary, ...]
    verdict: Agreement
    shifts: tuple[Shift, ...]
    rubrics: tuple[RubricDrift, ...]
    differs: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, keys as the fields; an interval is [low, high]."""
        plain: dict[str, Any] = orjson.loads(orjson.dumps(self, default=list))
        return plain


def drift_of(runs: Sequence[Run], *, seed: int = 0) -> Drift:
    """Measure the drift of later runs against the first; UsageError unless method, bank and pairs are the same."""
    if len(runs) < 2:
        raise UsageError(f"drift needs at least two runs (got {len(runs)})", hint="svr compare RUN RUN --drift")
    first, unlike = runs[0], [one for run in runs[1:] for one in differences(run, runs[0])]
    for run in runs[1:]:
        for name in ("method", "bank"):
            if run.metrics.get(name) != first.metrics.get(name):
                text = f"{run.metrics.get(name) or 'not set'} and {first.metrics.get(name) or 'not set'}"
                raise UsageError(f"--drift needs one {name}: {text}", hint="leave --drift out")
    if refused := next((one.text for one in unlike if one.kind == "data"), None):
        raise UsageError(f"--drift needs the same pairs: {refused}", hint="judge the same pairs with both")
    tables = [by_key(run.items) for run in runs]
    units: list[_Unit] = [tuple(table.get(key) for table in tables) for key in tables[0]]
    titles = run_titles(runs)
    sides = [[None if item is None else SIDES.get(item.predicted or "") for item in unit] for unit in units]
    return Drift(
        runs=tuple(summarise(run, title) for run, title in zip(runs, titles, strict=True)),
        verdict=krippendorff_alpha(sides, nominal, seed=seed),
        shifts=tuple(_shift(title, units, place, seed) for place, title in enumerate(titles) if place),
        rubrics=tuple(sorted(_rubrics(units, seed), key=_weakest)),
        differs=tuple(dict.fromkeys(one.text for one in unlike)),
    )


def _shift(title: str, units: Sequence[_Unit], place: int, seed: int) -> Shift:
    both = [(a, b) for a, b in ((unit[0], unit[place]) for unit in units) if a is not None and b is not None]
    verdicts = [(a.predicted, b.predicted) for a, b in both if a.predicted and b.predicted]
    flips = sum(a != b for a, b in verdicts)
    moves = {
        place: SIDES[a.gold] * (b.margin - a.margin)
        for place, (a, b) in enumerate(both)
        if a.gold and a.margin is not None and b.margin is not None
    }
    values, prompts = list(moves.values()), [both[place][0].item for place in moves]
    return Shift(
        run=title,
        flips=flips / len(verdicts) if verdicts else None,
        flips_ci95=wilson_interval(flips, len(verdicts)) if verdicts else None,
        margin_shift=fmean(values) if values else None,
        margin_shift_ci95=bootstrap_interval(values, clusters=prompts, seed=seed) if values else None,
        accuracy=couples_test(both, seed),
    )


def _rubrics(units: Sequence[_Unit], seed: int) -> Iterator[RubricDrift]:
    """Yield each rubric's agreement over the pairs on which at least two runs have its Δ."""
    texts: dict[str, str] = {}
    found: dict[str, list[list[float | None]]] = {}
    for unit in units:
        deltas = [_deltas(item, texts) for item in unit]
        for name in dict.fromkeys(name for one in deltas for name in one):
            found.setdefault(name, []).append([one.get(name) for one in deltas])
    for name, rows in found.items():
        couples = [pair for row in rows for pair in combinations([value for value in row if value is not None], 2)]
        signs = [(a > 0) != (b > 0) for a, b in couples]
        moved = [row[-1] - row[0] for row in rows if row[0] is not None and row[-1] is not None]
        yield RubricDrift(
            id=name,
            text=texts[name],
            delta=krippendorff_alpha(rows, squared, resamples=RUBRIC_RESAMPLES, seed=seed),
            flips=fmean(signs) if signs else None,
            shift=fmean(moved) if moved else None,
        )


def _deltas(item: Item | None, texts: dict[str, str]) -> Mapping[str, float]:
    """Return each rubric's mean Δ towards the right answer, to the quarter; add the rubrics' texts to `texts`."""
    values: dict[str, list[float]] = {}
    if item is not None and item.gold is not None:
        for row in item.rubrics:
            if row.delta is not None:
                values.setdefault(row.id, []).append(SIDES[item.gold] * row.delta)
                texts.setdefault(row.id, row.text)
    return {name: round(4 * fmean(held)) / 4 for name, held in values.items()}


def _weakest(one: RubricDrift) -> tuple[bool, float, str]:
    return one.delta.alpha is None, one.delta.alpha or 0.0, one.id
