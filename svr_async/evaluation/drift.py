"""Drift of a judge: one bank on the same pairs, with two judges or one judge at two dates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import orjson

from svr_async.core.statistics import Interval, bootstrap_interval, wilson_interval
from svr_async.errors import UsageError
from svr_async.evaluation.compare import PairedTest, by_key, couples_test, differences
from svr_async.evaluation.items import Item
from svr_async.evaluation.run_folder import Run
from svr_async.evaluation.summary import RunSummary, summaries_of

SIDES = {"A": 1.0, "B": -1.0}
Couples = Sequence[tuple[Item, Item]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricDrift:
    """One rubric: on how many pairs both runs have its Δ, the share of opposite signs, and the mean change of Δ.

    Δ is taken towards the right answer.
    """

    id: str
    text: str
    pairs: int
    flips: float
    shift: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """A later run against the first: share of flipped verdicts, mean shift of the margin towards the right answer.

    `rubrics` start with the largest share of flips. Values are None without data.
    """

    run: str
    flips: float | None
    flips_ci95: Interval | None
    margin_shift: float | None
    margin_shift_ci95: Interval | None
    accuracy: PairedTest
    rubrics: tuple[RubricDrift, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Several runs of the same pairs with one bank; `differs` lists what differs between the runs."""

    runs: tuple[RunSummary, ...]
    shifts: tuple[Shift, ...]
    differs: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, keys as the fields; an interval is [low, high]."""
        value = {"runs": [one.to_json() for one in self.runs], "shifts": self.shifts, "differs": self.differs}
        plain: dict[str, Any] = orjson.loads(orjson.dumps(value, default=list))
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
    tables, summaries = [by_key(run.items) for run in runs], summaries_of(runs)
    return Drift(
        runs=summaries,
        shifts=tuple(
            _shift(one.title, [(item, table[key]) for key, item in tables[0].items() if key in table], seed)
            for one, table in zip(summaries[1:], tables[1:], strict=True)
        ),
        differs=tuple(dict.fromkeys(one.text for one in unlike)),
    )


def _shift(title: str, couples: Couples, seed: int) -> Shift:
    verdicts = [(a.predicted, b.predicted) for a, b in couples if a.predicted and b.predicted]
    flips = sum(a != b for a, b in verdicts)
    moved = [
        (SIDES[a.gold] * (b.margin - a.margin), a.item)
        for a, b in couples
        if a.gold and a.margin is not None and b.margin is not None
    ]
    values = [value for value, _ in moved]
    return Shift(
        run=title,
        flips=flips / len(verdicts) if verdicts else None,
        flips_ci95=wilson_interval(flips, len(verdicts)) if verdicts else None,
        margin_shift=fmean(values) if values else None,
        margin_shift_ci95=bootstrap_interval(values, clusters=[item for _, item in moved], seed=seed)
        if moved
        else None,
        accuracy=couples_test(couples, seed),
        rubrics=tuple(sorted(_rubrics(couples), key=lambda one: (-one.flips, -one.pairs, one.id))),
    )


def _rubrics(couples: Couples) -> Iterator[RubricDrift]:
    texts: dict[str, str] = {}
    found: dict[str, list[tuple[float, float]]] = {}
    for first, second in couples:
        before, after = _deltas(first, texts), _deltas(second, texts)
        for name in before.keys() & after.keys():
            found.setdefault(name, []).append((before[name], after[name]))
    for name, deltas in found.items():
        yield RubricDrift(
            id=name,
            text=texts[name],
            pairs=len(deltas),
            flips=fmean((a > 0) != (b > 0) for a, b in deltas),
            shift=fmean(b - a for a, b in deltas),
        )


def _deltas(item: Item, texts: dict[str, str]) -> Mapping[str, float]:
    """Return each rubric's mean Δ towards the right answer; add the rubrics' texts to `texts`."""
    values: dict[str, list[float]] = {}
    for row in item.rubrics if item.gold is not None else ():
        if row.delta is not None and item.gold is not None:
            values.setdefault(row.id, []).append(SIDES[item.gold] * row.delta)
            texts.setdefault(row.id, row.text)
    return {name: fmean(deltas) for name, deltas in values.items()}
