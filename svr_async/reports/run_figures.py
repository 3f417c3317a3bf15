"""Figures of runs: accuracy, by domain, without unsure pairs, against cost; rubrics by domain, and by judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path

from svr_async.core.agreement import Agreement
from svr_async.core.safetext import one_line
from svr_async.core.statistics import wilson_interval
from svr_async.errors import UsageError
from svr_async.evaluation.compare import accuracy_interval
from svr_async.evaluation.drift import WEAK_ALPHA, Drift, drift_of
from svr_async.evaluation.labels import benchmark_name, mark_words, run_titles
from svr_async.evaluation.run_folder import Run
from svr_async.reports.figure_files import Drawn, write_figures
from svr_async.reports.figure_model import Axis, Bars, Ends, Figure, Grid, Plane, Series, Trace

ACCURACY = Axis(name="accuracy, %", limits=(0.0, 100.0), ticks=(0.0, 25.0, 50.0, 75.0, 100.0))
MOST_RUBRICS = 16  # in a heat map, and half of those whose agreement is drawn
MOST_DOMAINS = 9
MOST_STEPS = 80  # thresholds of an abstention curve
FEWEST = 20  # pairs answered, below which a share says nothing
FAR = 15  # times the tokens of another run, from which on the axis is in factors
SHOWN_INLINE = ("domains",)  # what a run's page draws itself


def run_figures(runs: Sequence[Run]) -> Iterator[Figure]:
    """Yield the figures that runs have data for; agreement only of judgings of the same pairs by one bank."""
    titles = [one_line(title, 90) for title in run_titles(runs)]
    if len(runs) > 1:
        yield accuracy_figure("accuracy", "Accuracy", runs, titles)
    if any(len(run.metrics.get("by_domain") or {}) > 1 for run in runs):
        yield _domains(runs, titles)
    yield from (one for one in (abstention_figure(runs, titles), cost_figure(runs, titles)) if one is not None)
    heat = [heat_figure(run) for run in runs]
    yield from [one for one in heat if one is not None][:1]
    if len(runs) > 1:
        try:
            yield from agreement_figures(drift_of(runs))
        except UsageError:
            return  # other pairs, another method or bank: there is nothing to agree on


def draw_runs(runs: Sequence[Run], folder: Path) -> Sequence[Drawn]:
    """Draw the figures of runs into a folder and return those that their page has no chart of."""
    return [one for one in write_figures(folder, tuple(run_figures(runs))) if one.figure.name not in SHOWN_INLINE]


def marks_of(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return the marks that any of the runs carries."""
    return tuple(dict.fromkeys(word for run in runs for word in mark_words(run)))


def _title(words: str, runs: Sequence[Run]) -> str:
    return f"{words} on {', '.join(dict.fromkeys(map(benchmark_name, runs)))}"


def accuracy_figure(name: str, words: str, runs: Sequence[Run], titles: Sequence[str]) -> Figure:
    """Return a bar a run with its interval."""
    ends = [accuracy_interval(run) for run in runs]
    series = Series(
        name="accuracy",
        values=tuple(_hundredfold(run.metrics.get("accuracy")) for run in runs),
        intervals=tuple(map(_percent, ends)),
        role="ours",
    )
    panel = Bars(names=tuple(titles), series=(series,), axis=ACCURACY, level=50.0)
    notes = ("Whiskers are 95 % intervals; ties and missing verdicts count as wrong. The dashed line is a coin flip.",)
    return Figure(name=name, title=_title(words, runs), panels=(panel,), marks=marks_of(runs), notes=notes)


def _hundredfold(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _percent(ends: Sequence[float] | None) -> Ends | None:
    return None if ends is None else (100 * ends[0], 100 * ends[1])


def _domains(runs: Sequence[Run], titles: Sequence[str]) -> Figure:
    tables = [run.metrics.get("by_domain") or {} for run in runs]
    names = tuple(dict.fromkeys(name for table in tables for name in table))
    series = tuple(
        Series(
            name=title,
            values=tuple(_hundredfold((table.get(name) or {}).get("accuracy")) for name in names),
            intervals=tuple(_percent((table.get(name) or {}).get("ci95")) for name in names),
        )
        for title, table in zip(titles, tables, strict=True)
    )
    panel = Bars(names=tuple(one_line(name, 60) for name in names), series=series, axis=ACCURACY, level=50.0)
    notes = ("Whiskers are 95 % intervals; ties and missing verdicts count as wrong.",)
    title = _title("Accuracy by domain", runs)
    return Figure(name="domains", title=title, panels=(panel,), marks=marks_of(runs), notes=notes)


def abstention_figure(runs: Sequence[Run], titles: Sequence[str]) -> Figure | None:
    """Return accuracy over the share of pairs answered, the surest first; None where no run has margins."""
    traces = []
    for run, title in zip(runs, titles, strict=True):
        points, ends = abstention(run)
        if len(points) > 1:
            traces.append(Trace(name=title, points=points, intervals=ends, band=True))
    if not traces:
        return None
    panel = Plane(
        traces=tuple(traces),
        x=Axis(name="pairs answered, those with the largest |margin| first, %", limits=(0.0, 101.0)),
        y=Axis(name="accuracy of those, %"),
    )
    notes = (
        f"Ties and missing verdicts are never answered; from {FEWEST} pairs on. Bands are 95 % intervals (Wilson).",
    )
    title = _title("Accuracy where unsure pairs are left out", runs)
    return Figure(name="abstention", title=title, panels=(panel,), marks=marks_of(runs), notes=notes)


def abstention(run: Run) -> tuple[tuple[tuple[float, float], ...], tuple[Ends, ...]]:
    """Return (answered, accuracy) in percent at thresholds of |margin|, with Wilson's intervals; no threshold splits
    pairs of one |margin|.
    """  # noqa: D205  (a sentence that needs two lines)
    known = [item for item in run.items if item.correct is not None]
    told = sorted(((abs(item.margin), item.correct) for item in known if item.margin), key=lambda one: -one[0])
    right = list(accumulate(int(bool(correct)) for _, correct in told))
    last = [i for i, (one, other) in enumerate(pairwise(told)) if one[0] != other[0]]
    steps = [i for i in (*last, len(told) - 1) if i + 1 >= FEWEST]
    kept = [steps[round(i * (len(steps) - 1) / (MOST_STEPS - 1))] for i in range(MOST_STEPS)] if steps else []
    kept = list(dict.fromkeys(kept))
    points = tuple((100 * (i + 1) / len(known), 100 * right[i] / (i + 1)) for i in kept)
    ends = [wilson_interval(right[i], i + 1) for i in kept]
    return points, tuple((100 * low, 100 * high) for low, high in ends)


def cost_figure(runs: Sequence[Run], titles: Sequence[str]) -> Figure | None:
    """Return a dot a run over the tokens behind its verdicts; None where fewer than two runs asked a judge."""
    traces = []
    for run, title in zip(runs, titles, strict=True):
        usage, ends = run.metrics.get("usage") or {}, _percent(accuracy_interval(run))
        tokens = (usage.get("prompt_tokens") or 0) + (usage.get("completion_tokens") or 0)
        value = _hundredfold(run.metrics.get("accuracy"))
        if tokens and value is not None:
            point = tokens / max(1, run.metrics["n_total"]), value
            traces.append(Trace(name=title, points=(point,), intervals=(ends,), sizes=(0.3,), joined=False))
    if len(traces) < 2:
        return None
    costs = [trace.points[0][0] for trace in traces]
    far = max(costs) > FAR * min(costs)
    limits = (min(costs) / 2, max(costs) * 2) if far else (0.0, 1.08 * max(costs))
    x = Axis(name="tokens a pair, read and written", limits=limits, log=far)
    panel = Plane(traces=tuple(traces), x=x, y=Axis(name="accuracy, %"))
    title = _title("Accuracy against cost", runs)
    return Figure(name="cost", title=title, panels=(panel,), marks=marks_of(runs), notes=("Whiskers: 95 % intervals.",))


def heat_figure(run: Run, name: str = "activation") -> Figure | None:
    """Return in what share of a domain's pairs each rubric was chosen; None without rubrics that pairs share."""
    sizes = Counter(item.domain for item in run.items if item.rubrics)
    domains = [domain for domain, _ in sizes.most_common(MOST_DOMAINS)]
    chosen: Counter[tuple[str, str]] = Counter()
    texts: dict[str, str] = {}
    for item in run.items:
        texts |= {row.id: row.text for row in item.rubrics}
        chosen.update((rubric, item.domain) for rubric in dict.fromkeys(row.id for row in item.rubrics))
    totals: Counter[str] = Counter()
    for (rubric, _), n in chosen.items():
        totals[rubric] += n
    shown = sorted((rubric for rubric, n in totals.items() if n > 1), key=lambda rubric: (-totals[rubric], rubric))
    shown = shown[:MOST_RUBRICS]
    if not shown:
        return None
    panel = Grid(
        rows=tuple(one_line(texts[rubric], 200) for rubric in shown),
        columns=tuple(one_line(f"{domain} {sizes[domain]:,}", 40) for domain in domains),
        values=tuple(tuple(chosen[rubric, domain] / sizes[domain] for domain in domains) for rubric in shown),
    )
    notes = (
        "Percent of a domain's pairs (their number beside its name) for which a rubric is chosen.",
        f"The {len(shown)} rubrics chosen most, of {len(totals):,}. {one_line(run_titles([run])[0], 90)}.",
    )
    title = _title("Which rubrics are chosen where", [run])
    return Figure(name=name, title=title, panels=(panel,), marks=mark_words(run), notes=notes)


def agreement_figures(found: Drift) -> Iterator[Figure]:
    """Yield the agreement of judges on each rubric: those on which they agree least, and most where there are many."""
    known = [one for one in found.rubrics if one.delta.alpha is not None]
    if not known:
        return
    few = len(known) <= 2 * MOST_RUBRICS
    shown = known if few else [*known[:MOST_RUBRICS], *known[-MOST_RUBRICS:]]
    series = Series(
        name="α",
        values=tuple(one.delta.alpha for one in shown),
        intervals=tuple(map(_alpha_ends, (one.delta for one in shown))),
        roles=tuple("behind" if (one.delta.alpha or 0.0) < WEAK_ALPHA else "ahead" for one in shown),
    )
    names = tuple(one_line(one.text, 66) for one in shown)
    panel = Bars(
        names=names, series=(series,), axis=Axis(name="Krippendorff's α of Δ"), level=WEAK_ALPHA, digits=2, signed=True
    )
    part = "" if few else f" Of {len(known)} rubrics the {MOST_RUBRICS} of least and the {MOST_RUBRICS} of most."
    notes = (
        f"Judges: {'; '.join(one_line(run.title, 60) for run in found.runs)}.",
        f"Red lies below {WEAK_ALPHA}, where Krippendorff draws no conclusion. Whiskers: 95 % intervals.{part}",
    )
    marks: Mapping[str, None] = dict.fromkeys(word for run in found.runs for word in run.marks)
    title = "Agreement of the judges, rubric by rubric"
    yield Figure(name="agreement", title=title, panels=(panel,), marks=tuple(marks), notes=notes)


def _alpha_ends(one: Agreement) -> Ends | None:
    return None if one.ci95 is None else (one.ci95.low, one.ci95.high)
