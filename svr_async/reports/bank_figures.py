"""Figures of a bank: how its training went, round by round, and a map of its rubrics by their words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from svr_async.core.integrity import integrity_marks
from svr_async.core.safetext import one_line
from svr_async.reports.bank_view import view_bank
from svr_async.reports.figure_model import Axis, Figure, Plane, Role, Trace
from svr_async.scoring.bank import BankRubric, RubricBank
from svr_async.scoring.bank_stats import GENERIC

Course = Mapping[str, Sequence[float | None]]  # by the name of a measure: its value after each round
PANELS: tuple[tuple[str, tuple[tuple[str, Role], ...]], ...] = (
    ("margin", (("Train margin", "train"), ("Dev margin", "dev"))),
    ("dev accuracy, %", (("Dev accuracy", "ours"),)),
    ("count", (("Hard negatives", "negatives"), ("Active rubrics", "active"))),
)
SHOWN_INLINE = ("training",)  # what a bank's page draws itself
MOST_DOMAINS = 7  # of a map; all others are one
NAMED = 8  # rubrics that a map numbers
MOST_TERMS = 4_096
MOST_NEAR = 12.0  # neighbours that a rubric is laid beside
MOST_MAPPED = 400  # rubrics of a map, those in use most
FEWEST = 4  # rubrics, below which there is nothing to lay out


def bank_figures(bank: RubricBank) -> Iterator[Figure]:
    """Yield the figures that a bank has data for."""
    marks = tuple(mark.word for mark in integrity_marks(bank.integrity))
    rounds = view_bank(bank).rounds  # without what too few dev pairs cannot tell
    accuracy = [None if one.dev_accuracy is None else 100 * one.dev_accuracy for one in rounds]
    course: Course = {
        "Train margin": [one.train_margin for one in rounds],
        "Dev margin": [one.dev_margin for one in rounds],
        "Dev accuracy": accuracy,
        "Hard negatives": [one.hard_negatives for one in rounds],
        "Active rubrics": [one.active for one in rounds],
    }
    found = dynamics_figure("training", [one.round for one in rounds], course, {}, marks)
    yield from (one for one in (found, map_figure(bank)) if one is not None)


def dynamics_figure(
    name: str, rounds: Sequence[int], ours: Course, printed: Course, marks: tuple[str, ...], notes: tuple[str, ...] = ()
) -> Figure | None:
    """Return measures over rounds, a panel a unit, with printed values beside ours; None where nothing was measured."""
    panels = []
    for unit, measures in PANELS:
        traces = [_trace(measure, rounds, ours.get(measure, ()), role) for measure, role in measures]
        traces += [_trace("printed", rounds, printed.get(measure, ()), "printed") for measure, _ in measures]
        held = tuple(trace for trace in traces if trace.points)
        if any(trace.role != "printed" for trace in held):
            ticks = tuple(map(float, rounds))
            x = Axis(name="", ticks=ticks, limits=(min(ticks) - 0.2, max(ticks) + 0.2))
            panels.append(Plane(traces=held, x=x, y=Axis(name=unit)))
    if not panels:
        return None
    title = "Training, by round"
    return Figure(name=name, title=title, panels=tuple(panels), marks=marks, notes=notes)


def _trace(name: str, rounds: Sequence[int], values: Sequence[float | None], role: Role) -> Trace:
    points = tuple((float(at), value) for at, value in zip(rounds, values, strict=False) if value is not None)
    return Trace(name=name, points=points, role=role)


def map_figure(bank: RubricBank, name: str = "map") -> Figure | None:
    """Return the rubrics laid out by their words, as large as weight times activation; None for a few rubrics."""
    used = sorted((one for one in bank.rubrics if not one.disabled), key=lambda one: (-_use(one), one.id))
    rubrics = used[:MOST_MAPPED]
    if len(rubrics) < FEWEST:
        return None
    places = layout([one.text for one in rubrics])
    most = _use(rubrics[0]) or 1.0
    traces = []
    for domain, members in _by_domain(rubrics).items():
        role: Role = "other" if domain == GENERIC else ""
        traces.append(
            Trace(
                name=domain,
                points=tuple(places[i] for i in members),
                sizes=tuple(_use(rubrics[i]) / most for i in members),
                labels=tuple(f"{i + 1}" if i < NAMED else "" for i in members),
                role=role,
                joined=False,
            )
        )
    panel = Plane(traces=tuple(traces), x=Axis(name=""), y=Axis(name=""), bare=True)
    notes = (
        "Rubrics with like words lie close to each other (t-SNE of TF-IDF); area: weight × activation.",
        *(f"{number}  {one_line(one.text, 170)}" for number, one in enumerate(rubrics[:NAMED], start=1)),
    )
    marks = tuple(mark.word for mark in integrity_marks(bank.integrity))
    part = f"the {len(rubrics):,} most used of " if len(used) > len(rubrics) else ""
    title = f"Map of the bank: {part}{len(used):,} rubrics"
    return Figure(name=name, title=title, panels=(panel,), marks=marks, notes=notes)


def _use(rubric: BankRubric) -> float:
    return rubric.weight * rubric.activation_rate


def _by_domain(rubrics: Sequence[BankRubric]) -> dict[str, list[int]]:
    """Return the places of the rubrics of each domain, the largest first; smaller ones together, generic ones last."""
    groups: dict[str, list[int]] = {}
    for place, one in enumerate(rubrics):
        groups.setdefault(one_line(one.domain, 40) or GENERIC, []).append(place)
    ordered = sorted((name for name in groups if name != GENERIC), key=lambda name: (-len(groups[name]), name))
    found = {name: groups[name] for name in ordered[:MOST_DOMAINS]}
    rest = [place for name in ordered[MOST_DOMAINS:] for place in groups[name]]
    return found | ({"other domains": rest} if rest else {}) | ({GENERIC: groups[GENERIC]} if GENERIC in groups else {})


def layout(texts: Sequence[str]) -> list[tuple[float, float]]:
    """Return a place a text, those with like words near each other; the same each time.

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
