"""The curves of a bank's fits, laid out for the report's plots: one place an epoch, the fits one after another."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from svr_async.reports.curve_charts import Plot, Trace
from svr_async.scoring.bank_history import BankHistory, EpochRecord, FitCurve

Places = Mapping[tuple[int, str], int]
PHASES = {"fit": "fit", "calibrate": "after pruning"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """The two plots over the same places, and which of them are whose: (round, first, last) as shares of the width."""

    loss: Plot
    accuracy: Plot | None
    stretches: tuple[tuple[int, float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochLine:
    """One epoch in the table of all epochs; `place` says of which fit it is."""

    place: str
    record: EpochRecord
    error: float | None
    best: bool


def curves_of(history: BankHistory) -> Curves | None:
    """Return the plots of a history; None where it was solved in one go. No dev pairs: no plot of dev accuracy."""
    curves = [curve for curve in history.curves if curve.epochs]
    if not descended(history):
        return None
    places, slots = _places(curves)
    main, others = _main(curves, history.chosen_seed), [c for c in curves if c.seed != history.chosen_seed]
    return Curves(
        loss=_loss(history, main, others, places, slots),
        accuracy=_accuracy(history, main, others, places, slots) if any(c.dev_pairs for c in curves) else None,
        stretches=_stretches(_axis(main, places, slots), places),
    )


def descended(history: BankHistory) -> bool:
    """Whether any fit went through epochs; one that is solved has a single record, of epoch 0."""
    return any(record.epoch for curve in history.curves for record in curve.epochs)


def epoch_lines(history: BankHistory) -> Iterator[EpochLine]:
    """Yield every epoch of every fit in order."""
    several = len({curve.seed for curve in history.curves}) > 1
    for curve in history.curves:
        name = _stretch(curve) if curve.round else ""
        seed = f"seed {curve.seed}" if several or not name else ""
        place = " ".join(filter(None, (name, seed)))
        for record in curve.epochs:
            yield EpochLine(place=place, record=record, error=curve.error(record), best=record is curve.best)


def _main(curves: Sequence[FitCurve], seed: int) -> list[FitCurve]:
    return [curve for curve in curves if curve.seed == seed] or list(curves)


def _places(curves: Sequence[FitCurve]) -> tuple[Places, int]:
    """Return what to add to an epoch of each (round, phase) for its place, the seeds sharing it, and all places."""
    spans: dict[tuple[int, str], tuple[int, int]] = {}
    for curve in curves:
        first, last = spans.get((curve.round, curve.phase), (1, 0))
        epochs = [record.epoch for record in curve.epochs]
        spans[curve.round, curve.phase] = min(first, *epochs), max(last, *epochs)
    places, at = {}, 0
    for key, (first, last) in spans.items():
        places[key] = at - first
        at += last - first + 1
    return places, at


def _stretches(axis: Mapping[str, Any], places: Places) -> tuple[tuple[int, float, float], ...]:
    """Return where each round lies; none for a fit by itself."""
    borders, slots = axis["borders"], axis["slots"]
    spans = list(zip(places, (0, *borders), (*borders, slots), strict=True))
    rounds = sorted({number for number, _ in places} - {0})
    found = {n: [(first, last) for (number, _), first, last in spans if number == n] for n in rounds}
    return tuple((n, found[n][0][0] / slots, found[n][-1][1] / slots) for n in rounds)


def _stretch(curve: FitCurve) -> str:
    return f"round {curve.round}, {PHASES.get(curve.phase, curve.phase)}" if curve.round else ""


def _loss(
    history: BankHistory, main: Sequence[FitCurve], others: Sequence[FitCurve], places: Places, slots: int
) -> Plot:
    has_dev = any(curve.dev_pairs for curve in main)
    traces = [_trace("thread", curve, places, "dev_loss" if has_dev else "preference_loss") for curve in others]
    traces += [_trace("train", curve, places, "preference_loss") for curve in main]
    traces += [_trace("dev", curve, places, "dev_loss") for curve in main if curve.dev_pairs]
    values = [value for trace in traces for _, value in trace.points]
    low, high = _nice(values, 0.05)
    marked = _marked(history.chosen, places, "dev_loss" if has_dev else "preference_loss")
    return Plot(low=low, high=high, traces=tuple(traces), marked=marked, **_axis(main, places, slots))


def _accuracy(
    history: BankHistory, main: Sequence[FitCurve], others: Sequence[FitCurve], places: Places, slots: int
) -> Plot:
    traces = [_trace("thread", curve, places, "dev_accuracy") for curve in others]
    traces += [_trace("dev", curve, places, "dev_accuracy") for curve in main]
    best = history.chosen.best if history.chosen else None
    error = (history.chosen.error(best) or 0.0) if history.chosen and best else 0.0
    values = [value for trace in traces for _, value in trace.points]
    values += [best.dev_accuracy - error, best.dev_accuracy + error] if best else []
    low, high = _nice(values, 0.1)
    return Plot(
        low=min(max(0.0, low), 0.9),  # all of it at 100 %: the axis goes down from there
        high=min(1.0, high),
        traces=tuple(traces),
        marked=_marked(history.chosen, places, "dev_accuracy"),
        error=error,
        shares=True,
        **_axis(main, places, slots),
    )


def _trace(kind: str, curve: FitCurve, places: Places, name: str) -> Trace:
    """Return a line over a curve's epochs; before the first one nothing was trained, so training has no value there."""
    first = places[curve.round, curve.phase]
    shown = [r for r in curve.epochs if r.epoch or name.startswith("dev_")]
    return Trace(kind=kind, points=tuple((first + r.epoch, float(getattr(r, name))) for r in shown))


def _marked(curve: FitCurve | None, places: Places, name: str) -> tuple[int, float] | None:
    best = curve.best if curve else None
    if curve is None or best is None:
        return None
    return places[curve.round, curve.phase] + best.epoch, float(getattr(best, name))


def _axis(curves: Sequence[FitCurve], places: Places, slots: int) -> dict[str, Any]:
    """Return what the plots share: how many places there are, where fits begin, and the epoch at each place."""
    starts = [places[key] + min(_epochs(curves, key), default=0) for key in places]
    ends = [*starts[1:], slots]
    ticks = [
        place - places[key] for key, start, end in zip(places, starts, ends, strict=True) for place in range(start, end)
    ]
    return {"slots": slots, "borders": tuple(starts[1:]), "ticks": tuple(ticks)}


def _epochs(curves: Sequence[FitCurve], key: tuple[int, str]) -> list[int]:
    return [record.epoch for curve in curves if (curve.round, curve.phase) == key for record in curve.epochs]


def _nice(values: Sequence[float], step: float) -> tuple[float, float]:
    """Return the multiples of a step that hold all values; the step doubles until there are at most twelve of them."""
    low, high = min(values), max(values)
    while (high - low) / step > 12:
        step *= 2
    first, last = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    return (first, last) if last > first else (first, first + step)
