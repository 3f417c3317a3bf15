"""`svr transfer`: one bank, two judges or one at two dates: what they agree on, rubric by rubric, and drift."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

import orjson

from svr_async.core.agreement import Agreement, krippendorff_alpha, nominal, squared
from svr_async.core.statistics import Interval, bootstrap_interval, wilson_interval
from svr_async.core.table import Table
from svr_async.errors import UsageError
from svr_async.evaluation import wording
from svr_async.evaluation.items import Item
from svr_async.evaluation.labels import run_titles
from svr_async.evaluation.reporting.compare import PairedTest, RunSummary, by_key, paired_test, summarise
from svr_async.evaluation.reporting.likeness import Difference, differences
from svr_async.evaluation.run_folder import Run

SIDES = {"A": 1.0, "B": -1.0}
RUBRIC_RESAMPLES = 500
WIDE = 100  # columns that all numbers need; narrower terminals show no intervals
WEAK_ALPHA = 0.667  # below it Krippendorff (2004) draws no conclusion, not even a tentative one


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """A later run against the first, over pairs: verdicts that flip, and margins towards the right answer that move."""

    run: str
    flips: float | None
    flips_ci95: Interval | None
    margin_shift: float | None
    margin_shift_ci95: Interval | None
    accuracy: PairedTest | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricTransfer:
    """One rubric: α of its Δ over pairs, couples of judges with Δ of other signs, the last run's Δ less the first's.

    `shift` is of Δ towards the right answer. None where there is too little to tell.
    """

    id: str
    text: str
    delta: Agreement
    flips: float | None
    shift: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Several judgings of the same pairs by one bank; `verdict` is the α of which response wins."""

    runs: tuple[RunSummary, ...]
    verdict: Agreement
    shifts: tuple[Shift, ...]
    rubrics: tuple[RubricTransfer, ...]
    differs: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, keys as the fields; an interval is [low, high]."""
        plain: dict[str, Any] = orjson.loads(orjson.dumps(self, default=list))
        return plain


def transfer_of(runs: Sequence[Run], *, seed: int = 0) -> Transfer:
    """Compare judgings of the same pairs by the same method and bank; UsageError where that is not what they are."""
    if len(runs) < 2:
        raise UsageError(f"a transfer needs two runs or more (got {len(runs)})", hint="svr transfer RUN RUN…")
    unlike = [one for run in runs[1:] for one in (*_other_banks(run, runs[0]), *differences(run, runs[0]))]
    refused = next((one.text for one in unlike if one.kind == "data"), None)
    if refused is not None:
        raise UsageError(f"these runs are no judgings of one bank: {refused}", hint="judge the same pairs with it")
    tables = [by_key(run.items) for run in runs]
    units = [tuple(table.get(key) for table in tables) for key in tables[0]]
    titles = run_titles(runs)
    return Transfer(
        runs=tuple(summarise(run, title) for run, title in zip(runs, titles, strict=True)),
        verdict=krippendorff_alpha([[_side(item) for item in unit] for unit in units], nominal, seed=seed),
        shifts=tuple(
            _shift(title, [(unit[0], unit[place]) for unit in units], seed) for place, title in _later(titles)
        ),
        rubrics=tuple(sorted(_rubrics(units, seed), key=_weakest)),
        differs=tuple(dict.fromkeys(one.text for one in unlike)),
    )


def _later(titles: Sequence[str]) -> list[tuple[int, str]]:
    return list(enumerate(titles))[1:]


def _other_banks(run: Run, first: Run) -> Iterator[Difference]:
    for name in ("method", "bank"):
        if run.metrics.get(name) != first.metrics.get(name):
            text = f"{name} {run.metrics.get(name)}, the first has {first.metrics.get(name)}"
            yield Difference(kind="data", text=text)


def _side(item: Item | None) -> float | None:
    return None if item is None or item.predicted is None else SIDES[item.predicted]


def _shift(title: str, couples: Sequence[tuple[Item | None, Item | None]], seed: int) -> Shift:
    both = [(a, b) for a, b in couples if a is not None and b is not None]
    sides = [(a.predicted, b.predicted) for a, b in both if a.predicted and b.predicted]
    flips = sum(a != b for a, b in sides)
    moved = [
        (a.item, SIDES[a.gold] * (b.margin - a.margin))
        for a, b in both
        if a.gold and a.margin is not None and b.margin is not None
    ]
    prompts, moves = [name for name, _ in moved], [move for _, move in moved]
    first, second = ([item.correct is True for item in side] for side in zip(*both, strict=True)) if both else ([], [])
    clusters = [a.item for a, _ in both]
    return Shift(
        run=title,
        flips=flips / len(sides) if sides else None,
        flips_ci95=wilson_interval(flips, len(sides)) if sides else None,
        margin_shift=fmean(moves) if moves else None,
        margin_shift_ci95=bootstrap_interval(moves, clusters=prompts, seed=seed) if moves else None,
        accuracy=paired_test(first, second, clusters=clusters, seed=seed) if both else None,
    )


def _rubrics(units: Sequence[Sequence[Item | None]], seed: int) -> Iterator[RubricTransfer]:
    """Yield each rubric's agreement over the pairs on which two judgings or more have a Δ for it."""
    texts: dict[str, str] = {}
    found: dict[str, list[list[float | None]]] = {}
    for unit in units:
        deltas = [_deltas(item, texts) for item in unit]
        for name in dict.fromkeys(name for one in deltas for name in one):
            found.setdefault(name, []).append([one.get(name) for one in deltas])
    for name, rows in found.items():
        signs = [
            (a > 0) != (b > 0)
            for row in rows
            for a, b in combinations([value for value in row if value is not None], 2)
        ]
        moved = [row[-1] - row[0] for row in rows if row[0] is not None and row[-1] is not None]
        yield RubricTransfer(
            id=name,
            text=texts[name],
            delta=krippendorff_alpha(rows, squared, resamples=RUBRIC_RESAMPLES, seed=seed),
            flips=fmean(signs) if signs else None,
            shift=fmean(moved) if moved else None,
        )


def _deltas(item: Item | None, texts: dict[str, str]) -> Mapping[str, float]:
    """Return each rubric's mean Δ towards the right answer, to the quarter; texts are noted on the way."""
    held: dict[str, list[float]] = {}
    for row in () if item is None or item.gold is None else item.rubrics:
        if row.delta is not None:
            held.setdefault(row.id, []).append(SIDES[str(item.gold if item else "")] * row.delta)
            texts.setdefault(row.id, row.text)
    return {name: round(4 * fmean(values)) / 4 for name, values in held.items()}


def _weakest(one: RubricTransfer) -> tuple[bool, float, str]:
    return one.delta.alpha is None, one.delta.alpha or 0.0, one.id


def transfer_tables(found: Transfer, shown: int, width: int) -> Iterator[Table]:
    """Yield the drift report for a terminal of so many columns: runs, verdicts, and the rubrics of least agreement."""
    wide = width >= WIDE
    alpha = _alpha(found.verdict)
    marked = [f"{run.title}{''.join(f' [{word}]' for word in run.marks)}" for run in found.runs]
    numbers = [(wording.count(run.n_total), wording.percent(run.accuracy)) for run in found.runs]
    rows = tuple((name, *told) for name, told in zip(marked, numbers, strict=True))
    notes = (f"verdicts: α {alpha[0]} [{alpha[1]}] over {wording.plural(found.verdict.units, 'pair')}",)
    yield Table(caption="", heads=("run", "pairs", "accuracy"), rows=rows, notes=notes)
    ends = ("95 % interval",) if wide else ()
    heads = ("against the first", "flips", *ends, "margin shift", *ends, "points", "p")
    yield Table(caption="", heads=heads, rows=tuple(_shift_row(one, wide=wide) for one in found.shifts))
    if found.rubrics:
        weak = sum(one.delta.alpha is not None and one.delta.alpha < WEAK_ALPHA for one in found.rubrics)
        yield Table(
            caption=f"rubrics, least agreement first: {min(shown, len(found.rubrics))} of {len(found.rubrics)}",
            heads=("rubric", "pairs", "α", *ends, "flips", "shift"),
            rows=tuple(_rubric_row(one, wide=wide) for one in found.rubrics[:shown]),
            notes=(f"{wording.plural(weak, 'rubric')} below α {WEAK_ALPHA}: they do not transfer.",),
        )


def _alpha(one: Agreement) -> tuple[str, str]:
    if one.alpha is None or one.ci95 is None:
        return wording.UNKNOWN, wording.UNKNOWN
    return wording.signed(one.alpha), f"{wording.signed(one.ci95.low)} to {wording.signed(one.ci95.high)}"


def _shift_row(one: Shift, *, wide: bool) -> tuple[str, ...]:
    ends, test = one.margin_shift_ci95, one.accuracy
    moved = wording.UNKNOWN if ends is None else f"{wording.signed(ends.low, 3)} to {wording.signed(ends.high, 3)}"
    return (
        one.run,
        wording.percent(one.flips),
        *((wording.interval(one.flips_ci95),) if wide else ()),
        wording.signed(one.margin_shift, 3),
        *((moved,) if wide else ()),
        wording.points(None if test is None else test.difference),
        wording.UNKNOWN if test is None else wording.p_value(test.p),
    )


def _rubric_row(one: RubricTransfer, *, wide: bool) -> tuple[str, ...]:
    return (
        one.text,
        wording.count(one.delta.units),
        *(_alpha(one.delta) if wide else _alpha(one.delta)[:1]),
        wording.percent(one.flips),
        wording.signed(one.shift),
    )
