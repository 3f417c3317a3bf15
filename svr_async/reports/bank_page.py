"""The page of a bank and its figures: training by round and epoch, learning curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from svr_async.core.table import Table
from svr_async.reports.bank_summary import BankSummary
from svr_async.reports.drawing import Ends, Figure, Panel, Series, image, plane
from svr_async.reports.figures import in_percent
from svr_async.reports.page import render
from svr_async.scoring.bank import BankHistory, RoundFacts

Course = Mapping[str, Sequence[float | None]]  # by the name of a measure: its value after each round
MEASURES: tuple[tuple[str, tuple[tuple[str, str, bool], ...]], ...] = (  # unit: measures with colour and dashes
    ("margin", (("Train margin", "muted", True), ("Dev margin", "first", False))),
    ("dev accuracy, %", (("Dev accuracy", "first", False),)),
    ("count", (("Hard negatives", "second", False), ("Active rubrics", "fourth", False))),
)


def render_bank(found: BankSummary, did: Sequence[Table] = ()) -> str:
    """Return the page of a bank; `did` are tables of the effects of its rubrics in runs."""
    return render("bank.html.j2", bank=found, did=did, figures=[image(one) for one in bank_figures(found)])


def bank_figures(found: BankSummary) -> list[Figure]:
    """Return the figures that a bank has data for."""
    marks, history = tuple(mark.word for mark in found.marks), found.history
    if history is None:
        return []
    drawn = (rounds_figure(history.rounds, marks), fit_figure(history, marks), learning_figure(history, marks))
    return [one for one in drawn if one is not None]


def course_figure(
    name: str, rounds: Sequence[int], ours: Course, printed: Course, marks: tuple[str, ...], notes: tuple[str, ...] = ()
) -> Figure | None:
    """Return measures over rounds, a panel a unit, with printed values; None where nothing was measured."""
    panels: list[Panel] = []
    for unit, measures in MEASURES:
        series = [
            Series(name=measure, points=_known(rounds, ours.get(measure, ())), colour=colour, dashed=dashed)
            for measure, colour, dashed in measures
        ]
        theirs = [
            Series(name="printed", points=_known(rounds, printed.get(measure, ())), colour="ink", hollow=True)
            for measure, *_ in measures
        ]
        if any(one.points for one in series):
            known = [one for one in (*series, *theirs) if one.points]
            panels.append(plane(known, "", unit, ticks=[float(one) for one in rounds], low=True))
    if not panels:
        return None
    return Figure(name=name, title="Training, by round", panels=tuple(panels), marks=marks, notes=notes)


def _known(xs: Sequence[int], values: Sequence[float | None]) -> tuple[Ends, ...]:
    return tuple((float(x), value) for x, value in zip(xs, values, strict=False) if value is not None)


def rounds_figure(rounds: Sequence[RoundFacts], marks: tuple[str, ...]) -> Figure | None:
    """Return how a bank's training went, round by round; None without rounds."""
    course: Course = {
        "Train margin": [one.train_margin for one in rounds],
        "Dev margin": [one.dev_margin for one in rounds],
        "Dev accuracy": [None if one.dev_accuracy is None else 100 * one.dev_accuracy for one in rounds],
        "Hard negatives": [one.hard_negatives for one in rounds],
        "Active rubrics": [one.active for one in rounds],
    }
    return course_figure("training", [one.round for one in rounds], course, {}, marks)


def fit_figure(history: BankHistory, marks: tuple[str, ...]) -> Figure | None:
    """Return loss and dev accuracy by epoch, the fits one after another; None where the fit was solved in one go."""
    main = [curve for curve in history.curves if curve.seed == history.chosen_seed and curve.epochs]
    if not any(record.epoch for curve in main for record in curve.epochs):
        return None
    train, dev, accuracy, errors, place = [], [], [], [], 0
    for curve in main:
        for record in curve.epochs:
            place += 1
            if record.epoch:
                train.append((float(place), float(record.preference_loss)))
            if curve.dev_pairs:
                dev.append((float(place), float(record.dev_loss)))
                accuracy.append((float(place), 100 * record.dev_accuracy))
                error = curve.error(record)
                errors.append(
                    None if error is None else in_percent((record.dev_accuracy - error, record.dev_accuracy + error))
                )
    loss = [Series(name="training pairs", points=tuple(train), kind="band", colour="muted", dashed=True)]
    loss += [Series(name="dev pairs", points=tuple(dev), kind="band", colour="first")] if dev else []
    panels = [plane(loss, "" if dev else "epoch", "loss", low=True)]
    if dev:
        dev_series = Series(
            name="dev pairs", points=tuple(accuracy), intervals=tuple(errors), kind="band", colour="first"
        )
        panels.append(plane([dev_series], "epoch, all fits one after another", "dev accuracy, %", low=True))
    note = "The band is one standard error of the dev accuracy."
    return Figure(name="fit", title="The fit, epoch by epoch", panels=tuple(panels), marks=marks, notes=(note,))


def learning_figure(history: BankHistory, marks: tuple[str, ...]) -> Figure | None:
    """Return accuracy by the number of training pairs; None where no learning curve was measured."""
    curve = history.learning_curve
    if curve is None:
        return None
    points = tuple((float(i), 100 * point.accuracy) for i, point in enumerate(curve.points))
    ends = tuple(in_percent((point.low, point.high)) for point in curve.points)
    series = Series(name="accuracy", points=points, intervals=ends, colour="first")
    labels = [f"{point.pairs:,}" for point in curve.points]
    panel = plane([series], "training pairs", "accuracy, %", ticks=[x for x, _ in points], labels=labels)
    notes = (curve.in_words(), "Lines are 95 % intervals over prompts.")
    return Figure(name="learning", title="Accuracy by training pairs", panels=(panel,), marks=marks, notes=notes)
