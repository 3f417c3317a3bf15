"""The page of a bank and its figures: training by round and epoch, learning curve, map of the rubrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from svr_async.core.integrity import integrity_marks
from svr_async.core.safetext import one_line
from svr_async.core.table import Table
from svr_async.reports.bank_summary import BankSummary
from svr_async.reports.drawing import Ends, Figure, Panel, Series, image, plane
from svr_async.reports.figures import in_percent
from svr_async.reports.page import render
from svr_async.scoring.bank import BankHistory, BankRubric, RoundFacts, RubricBank
from svr_async.scoring.bank_card import GENERIC

MOST_GROUPS, MOST_MAPPED, FEWEST_MAPPED = 7, 400, 4  # domains and rubrics of a map
NAMED = 8  # rubrics that a map numbers
MOST_TERMS, MOST_NEAR = 4_096, 12.0  # words of a map, and neighbours of a rubric
Course = Mapping[str, Sequence[float | None]]  # by the name of a measure: its value after each round
MEASURES: tuple[tuple[str, tuple[tuple[str, str, bool], ...]], ...] = (  # unit: measures with colour and dashes
    ("margin", (("Train margin", "muted", True), ("Dev margin", "first", False))),
    ("dev accuracy, %", (("Dev accuracy", "first", False),)),
    ("count", (("Hard negatives", "second", False), ("Active rubrics", "fourth", False))),
)


def render_bank(found: BankSummary, bank: RubricBank, did: Sequence[Table] = ()) -> str:
    """Return the page of a bank; `did` are tables of the effects of its rubrics in runs."""
    return render("bank.html.j2", bank=found, did=did, figures=[image(one) for one in bank_figures(bank, found)])


def bank_figures(bank: RubricBank, found: BankSummary) -> list[Figure]:
    """Return the figures that a bank has data for."""
    marks, history = tuple(mark.word for mark in found.marks), found.history
    drawn = [map_figure(bank)]
    if history is not None:
        drawn += [
            rounds_figure(history.rounds, marks), fit_figure(history, marks),
            learning_figure(history, marks),
        ]  # fmt: skip
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


def map_figure(bank: RubricBank) -> Figure | None:
    """Return the map of rubrics: similar texts close together, area is weight × activation; None for few rubrics."""
    used = sorted((one for one in bank.rubrics if not one.disabled), key=lambda one: (-_use(one), one.id))
    rubrics = used[:MOST_MAPPED]
    if len(rubrics) < FEWEST_MAPPED:
        return None
    places = layout([one.text for one in rubrics])
    most = _use(rubrics[0]) or 1.0
    series = [
        Series(
            name=domain, points=tuple(places[i] for i in members),
            sizes=tuple(_use(rubrics[i]) / most for i in members),
            labels=tuple(f"{i + 1}" if i < NAMED else "" for i in members), kind="dots",
            colour="other" if domain == GENERIC else "",
        )
        for domain, members in _by_domain(rubrics).items()
    ]  # fmt: skip
    notes = (
        "Rubrics with similar words lie close together (t-SNE of TF-IDF); area: weight × activation.",
        *(f"{number}  {one_line(one.text, 170)}" for number, one in enumerate(rubrics[:NAMED], start=1)),
    )
    part = f"the {len(rubrics):,} most used of " if len(used) > len(rubrics) else ""
    title = f"Map of the bank: {part}{len(used):,} rubrics"
    marks = tuple(mark.word for mark in integrity_marks(bank.marks))
    return Figure(name="map", title=title, panels=(plane(series, "", "", bare=True),), marks=marks, notes=notes)


def _use(rubric: BankRubric) -> float:
    return rubric.weight * rubric.activation_rate


def _by_domain(rubrics: Sequence[BankRubric]) -> dict[str, list[int]]:
    """Return the places of the rubrics of each domain, the largest first; smaller ones together, generic ones last."""
    groups: dict[str, list[int]] = {}
    for place, one in enumerate(rubrics):
        groups.setdefault(one_line(one.domain, 40) or GENERIC, []).append(place)
    ordered = sorted((name for name in groups if name != GENERIC), key=lambda name: (-len(groups[name]), name))
    found = {name: groups[name] for name in ordered[:MOST_GROUPS]}
    rest = [place for name in ordered[MOST_GROUPS:] for place in groups[name]]
    return found | ({"other domains": rest} if rest else {}) | ({GENERIC: groups[GENERIC]} if GENERIC in groups else {})


def layout(texts: Sequence[str]) -> list[Ends]:
    """Return a place for each text, similar ones near each other; deterministic.

    t-SNE over the cosine distances of TF-IDF (van der Maaten and Hinton 2008, JMLR 9:2579-2605), in one thread.
    """
    import numpy as np
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    terms = TfidfVectorizer(sublinear_tf=True, stop_words="english", max_features=MOST_TERMS)
    try:
        table = terms.fit_transform(texts).toarray()
    except ValueError:  # no words at all
        return [(0.0, 0.0)] * len(texts)
    apart = np.clip(1 - table @ table.T, 0.0, 1.0)
    np.fill_diagonal(apart, 0.0)
    near = min(MOST_NEAR, (len(texts) - 1) / 3)
    start = np.random.default_rng(0).normal(scale=1e-4, size=(len(texts), 2))
    with threadpool_limits(1):
        found = TSNE(metric="precomputed", method="exact", init=start, perplexity=near).fit_transform(apart)
    return [(round(float(x), 3), round(float(y), 3)) for x, y in found]
