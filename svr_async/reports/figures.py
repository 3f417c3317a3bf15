"""Figures of runs, banks and frontiers: what is drawn, with the numbers of their summaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

from svr_async.core.integrity import integrity_marks
from svr_async.core.safetext import one_line
from svr_async.core.statistics import wilson_interval
from svr_async.evaluation.frontier import Frontier
from svr_async.evaluation.items import Item
from svr_async.evaluation.labels import benchmark_name, mark_words, run_titles
from svr_async.evaluation.run_folder import Run
from svr_async.reports.drawing import Ends, Figure, Panel, Series, dots, heat, plane
from svr_async.reports.frontier import KINDS, in_words
from svr_async.reports.summary import RunSummary
from svr_async.scoring.bank import BankRubric, RubricBank
from svr_async.scoring.bank_card import GENERIC
from svr_async.scoring.bank_history import FitCurve, LearningCurve, RoundFacts

FEWEST = 20  # pairs with a verdict, below which nothing is drawn
MOST_RUBRICS, MOST_DOMAINS = 16, 9  # of a heat map
MOST_STEPS = 80  # thresholds of an abstention curve
FAR = 15  # times the tokens of another run, from which on the axis is in factors
MOST_GROUPS, MOST_MAPPED, FEWEST_MAPPED = 7, 400, 4  # domains and rubrics of a map
NAMED = 8  # rubrics that a map numbers
MOST_TERMS, MOST_NEAR = 4_096, 12.0  # words of a map, and neighbours that a rubric is laid beside
STRICT = "Lines are 95 % intervals; ties and missing verdicts count as wrong."
Course = Mapping[str, Sequence[float | None]]  # by the name of a measure: its value after each round
MEASURES: tuple[tuple[str, tuple[tuple[str, str, bool], ...]], ...] = (  # unit: measures with colour and dashes
    ("margin", (("Train margin", "muted", True), ("Dev margin", "first", False))),
    ("dev accuracy, %", (("Dev accuracy", "first", False),)),
    ("count", (("Hard negatives", "second", False), ("Active rubrics", "fourth", False))),
)


def run_figures(runs: Sequence[Run], summaries: Sequence[RunSummary]) -> Iterator[Figure]:
    """Yield the figures that runs have data for; nothing for fewer than twenty pairs with a verdict."""
    if max(one.n_scored for one in summaries) < FEWEST:
        return
    marks, place = _marks(runs), ", ".join(dict.fromkeys(map(benchmark_name, runs)))
    if len(runs) > 1:
        points = tuple((i, 100 * (one.accuracy or 0.0)) for i, one in enumerate(summaries))
        series = Series(name="", points=points, intervals=tuple(_ends(one.ci95) for one in summaries), colour="first")
        panel = dots(titles_of(runs), [series], "accuracy, %", level=50.0)
        yield Figure(name="accuracy", title=f"Accuracy on {place}", panels=(panel,), marks=marks, notes=(STRICT,))
    yield from _domains(runs, summaries, f"Accuracy by domain on {place}", marks)
    if len(runs) == 1 and (bins := summaries[0].confidence):
        ticks = [float(i) for i in range(len(bins))]
        series = Series(
            name="accuracy", points=tuple((i, 100 * one.accuracy) for i, one in zip(ticks, bins, strict=True)),
            intervals=tuple(_ends(one.ci95) for one in bins), colour="first",
        )  # fmt: skip
        panel = plane(
            [series], "|margin|, fifths of the pairs", "accuracy, %", ticks=ticks, labels=[one.range for one in bins]
        )
        title = f"Confidence and accuracy on {place}"
        yield Figure(name="confidence", title=title, panels=(panel,), marks=marks, notes=(STRICT,))
    found = (abstention_figure(runs), cost_figure(runs, summaries), next(filter(None, map(heat_figure, runs)), None))
    yield from filter(None, found)


def _marks(runs: Sequence[Run]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for run in runs for word in mark_words(run)))


def titles_of(runs: Sequence[Run]) -> list[str]:
    """Return a short title for each run."""
    return [one_line(title, 90) for title in run_titles(runs)]


def _ends(ends: Sequence[float] | None) -> Ends | None:
    return None if ends is None else (100 * ends[0], 100 * ends[1])


def _domains(
    runs: Sequence[Run], summaries: Sequence[RunSummary], title: str, marks: tuple[str, ...]
) -> Iterator[Figure]:
    names = list(dict.fromkeys(row.name for one in summaries for row in one.domains))
    if not names:
        return
    series = []
    for run_title, one in zip(titles_of(runs), summaries, strict=True):
        rows = [(names.index(row.name), row) for row in one.domains if row.accuracy is not None]
        points = tuple((float(place), 100 * (row.accuracy or 0.0)) for place, row in rows)
        series.append(Series(name=run_title, points=points, intervals=tuple(_ends(row.ci95) for _, row in rows)))
    panel = dots([one_line(name, 60) for name in names], series, "accuracy, %", level=50.0)
    yield Figure(name="domains", title=title, panels=(panel,), marks=marks, notes=(STRICT,))


def abstention_figure(runs: Sequence[Run]) -> Figure | None:
    """Return accuracy over the share of pairs answered, the surest first; None where no run has margins."""
    series = []
    for run, title in zip(runs, titles_of(runs), strict=True):
        points, ends = abstention(run.items)
        if len(points) > 1:
            series.append(Series(name=title, points=points, intervals=ends, kind="band"))
    if not series:
        return None
    panel = plane(series, "pairs answered, those with the largest |margin| first, %", "accuracy of those, %")
    note = f"Ties and missing verdicts are never answered; from {FEWEST} pairs on. Bands are 95 % intervals (Wilson)."
    title = f"Accuracy where unsure pairs are left out, on {benchmark_name(runs[0])}"
    return Figure(name="abstention", title=title, panels=(panel,), marks=_marks(runs), notes=(note,))


def abstention(items: Sequence[Item]) -> tuple[tuple[Ends, ...], tuple[Ends, ...]]:
    """Return (answered, accuracy) in percent at thresholds of |margin|, and Wilson's intervals of the accuracy.

    No threshold splits pairs of one |margin|.
    """
    known = [item for item in items if item.correct is not None]
    sizes = sorted(((abs(item.margin), item.correct) for item in known if item.margin), key=lambda one: -one[0])
    right = list(accumulate(int(bool(correct)) for _, correct in sizes))
    last = [i for i, (one, other) in enumerate(pairwise(sizes)) if one[0] != other[0]]
    steps = [i for i in (*last, len(sizes) - 1) if i + 1 >= FEWEST]
    kept = dict.fromkeys(
        steps[round(i * (len(steps) - 1) / (MOST_STEPS - 1))] for i in range(MOST_STEPS if steps else 0)
    )
    points = tuple((100 * (i + 1) / len(known), 100 * right[i] / (i + 1)) for i in kept)
    ends = (wilson_interval(right[i], i + 1) for i in kept)
    return points, tuple((100 * low, 100 * high) for low, high in ends)


def cost_figure(runs: Sequence[Run], summaries: Sequence[RunSummary]) -> Figure | None:
    """Return a dot a run over the tokens behind its verdicts; None where fewer than two runs asked a judge."""
    known = [(title, one) for title, one in zip(titles_of(runs), summaries, strict=True) if one.tokens_per_pair]
    series = [
        Series(
            name=title, points=((one.tokens_per_pair, 100 * one.accuracy),), intervals=(_ends(one.ci95),), sizes=(0.3,),
            kind="dots",
        )
        for title, one in known if one.accuracy is not None
    ]  # fmt: skip
    if len(series) < 2:
        return None
    costs = [one.points[0][0] for one in series]
    panel = plane(series, "tokens per pair, read and written", "accuracy, %", log=max(costs) > FAR * min(costs))
    title = f"Accuracy against cost on {benchmark_name(runs[0])}"
    return Figure(name="cost", title=title, panels=(panel,), marks=_marks(runs), notes=(STRICT,))


def heat_figure(run: Run, name: str = "activation") -> Figure | None:
    """Return in what share of a domain's pairs each rubric was chosen; None without rubrics that pairs share."""
    sizes = Counter(item.domain for item in run.items if item.rubrics)
    domains = [domain for domain, _ in sizes.most_common(MOST_DOMAINS)]
    chosen: Counter[tuple[str, str]] = Counter()
    totals: Counter[str] = Counter()
    texts: dict[str, str] = {}
    for item in run.items:
        found = {row.id: row.text for row in item.rubrics}
        texts |= found
        totals.update(list(found))
        chosen.update((rubric, item.domain) for rubric in found)
    shown = sorted((rubric for rubric, n in totals.items() if n > 1), key=lambda rubric: (-totals[rubric], rubric))
    shown = shown[:MOST_RUBRICS]
    if not shown:
        return None
    heads = [one_line(f"{domain} {sizes[domain]:,}", 40) for domain in domains]
    values = [[chosen[rubric, domain] / sizes[domain] for domain in domains] for rubric in shown]
    notes = (
        "Percent of a domain's pairs for which a rubric is chosen; behind each domain its number of pairs.",
        f"The {len(shown)} rubrics chosen most, of {len(totals):,}. {titles_of([run])[0]}.",
    )
    panel, title = heat([one_line(texts[one], 200) for one in shown], heads, values), "Which rubrics are chosen where"
    title = f"{title} on {benchmark_name(run)}"
    return Figure(name=name, title=title, panels=(panel,), marks=mark_words(run), notes=notes)


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
            held = [one for one in (*series, *theirs) if one.points]
            panels.append(plane(held, "", unit, ticks=[float(one) for one in rounds], low=True))
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


def fit_figure(curves: Sequence[FitCurve], seed: int, marks: tuple[str, ...]) -> Figure | None:
    """Return loss and dev accuracy by epoch, the fits one after another; None where the fit was solved in one go."""
    main = [curve for curve in curves if curve.seed == seed and curve.epochs]
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
                    None if error is None else _ends((record.dev_accuracy - error, record.dev_accuracy + error))
                )
    loss = [Series(name="training pairs", points=tuple(train), kind="band", colour="muted", dashed=True)]
    loss += [Series(name="dev pairs", points=tuple(dev), kind="band", colour="first")] if dev else []
    panels = [plane(loss, "" if dev else "epoch", "loss", low=True)]
    if dev:
        held = Series(name="dev pairs", points=tuple(accuracy), intervals=tuple(errors), kind="band", colour="first")
        panels.append(plane([held], "epoch, all fits one after another", "dev accuracy, %", low=True))
    note = "The band is one standard error of the dev accuracy."
    return Figure(name="fit", title="The fit, epoch by epoch", panels=tuple(panels), marks=marks, notes=(note,))


def learning_figure(curve: LearningCurve | None, marks: tuple[str, ...]) -> Figure | None:
    """Return accuracy by the number of training pairs; None where no learning curve was measured."""
    if curve is None:
        return None
    points = tuple((float(i), 100 * point.accuracy) for i, point in enumerate(curve.points))
    ends = tuple(_ends((point.low, point.high)) for point in curve.points)
    series = Series(name="accuracy", points=points, intervals=ends, colour="first")
    labels = [f"{point.pairs:,}" for point in curve.points]
    panel = plane([series], "training pairs", "accuracy, %", ticks=[x for x, _ in points], labels=labels)
    note = "Lines are 95 % intervals over prompts."
    return Figure(name="learning", title="Accuracy by training pairs", panels=(panel,), marks=marks, notes=(note,))


def map_figure(bank: RubricBank, name: str = "map") -> Figure | None:
    """Return the rubrics laid out by their words, as large as weight times activation; None for a few rubrics."""
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
        "Rubrics with like words lie close to each other (t-SNE of TF-IDF); area: weight × activation.",
        *(f"{number}  {one_line(one.text, 170)}" for number, one in enumerate(rubrics[:NAMED], start=1)),
    )
    part = f"the {len(rubrics):,} most used of " if len(used) > len(rubrics) else ""
    title = f"Map of the bank: {part}{len(used):,} rubrics"
    marks = tuple(mark.word for mark in integrity_marks(bank.integrity))
    return Figure(name=name, title=title, panels=(plane(series, "", "", bare=True),), marks=marks, notes=notes)


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
    """Return a place for each text, those with like words near each other; the same each time.

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


def frontier_figure(runs: Sequence[Run], found: Frontier) -> Figure | None:
    """Return accuracy over cost, a dot a plan, the best for their cost joined and numbered; None without plans."""
    if not found.points:
        return None
    best = found.best
    series = [
        Series(
            name="best for their cost",
            points=tuple((point.cost, 100 * point.accuracy) for point in best),
            intervals=tuple(_ends(point.ci95) for point in best),
            labels=tuple(map(str, range(1, len(best) + 1))),
            colour="ink",
        )
    ]
    for kind in dict.fromkeys(point.setting.kind for point in found.points):
        spots = tuple((one.cost, 100 * one.accuracy) for one in found.points if one.setting.kind == kind)
        series.append(Series(name=KINDS[kind], points=spots, sizes=(0.1,) * len(spots), kind="dots"))
    notes = (
        *(f"{number}  {one_line(in_words(point), 120)}" for number, point in enumerate(best, start=1)),
        "Lines are 95 % intervals. The best of many plans looks better here than it will be on other pairs.",
    )
    panel = plane(series, "dollars" if found.priced else "tokens", "accuracy, %")
    title = f"Accuracy against cost, by plan, on {benchmark_name(runs[0])}"
    marks = tuple(word for word in _marks(runs) if word != "PARTIAL")
    return Figure(name="frontier", title=title, panels=(panel,), marks=marks, notes=notes)
