"""The numbers of one or several runs as a table: Markdown and LaTeX for people, CSV (a number a row) for machines."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from svr_async.core.table import WRITERS, Table, csv_text
from svr_async.errors import UsageError
from svr_async.evaluation import wording
from svr_async.evaluation.chance import against_chance
from svr_async.evaluation.compare import HOLM, Comparison, PairedTest, accuracy_interval, compare_runs
from svr_async.evaluation.labels import benchmark_name, caption, mark_words, run_titles
from svr_async.evaluation.rubric_effects import RubricEffects
from svr_async.evaluation.run_folder import Run
from svr_async.reports.official import own_scores
from svr_async.reports.rubric_tables import effects_of, rubric_tables

BOUNDS = "Bounds: the accuracy if all ties and missing verdicts were wrong, and if all were right."


def render_table(runs: Sequence[Run], suffix: str, *, comparison: Comparison | None = None) -> str:
    """Return one run, or several side by side, as `md`, `tex` or `csv` (a dot before it is fine)."""
    kind = suffix.removeprefix(".").lower()
    if kind == "csv":
        return to_csv(runs)
    if kind not in WRITERS:
        raise UsageError(f"no table format for {suffix!r}", hint="use .md, .tex or .csv")
    return render_tables(runs, (kind,), comparison=comparison)[kind]


def render_tables(
    runs: Sequence[Run],
    kinds: Sequence[str],
    *,
    comparison: Comparison | None = None,
    effects: RubricEffects | None = None,
) -> dict[str, str]:
    """Return the tables of one run, or of several side by side, in some kinds of WRITERS, worked out once.

    `effects` are those of the runs' rubrics, where they are worked out already.
    """
    found = effects_of(runs) if effects is None else effects
    tables = [build_table(runs, comparison=comparison), *rubric_tables(found, _rubrics_of(runs))]
    return {kind: "\n".join(map(WRITERS[kind], tables)) for kind in kinds}


def _rubrics_of(runs: Sequence[Run]) -> str:
    return f"Rubrics that decide, {caption(runs[0]) if len(runs) == 1 else f'{len(runs)} runs together'}"


def build_table(runs: Sequence[Run], *, comparison: Comparison | None = None) -> Table:
    """Lay out accuracy, coverage, domains and official scores: one column per run, the first run being the baseline."""
    if not runs:
        raise UsageError("a table needs at least one run", hint="svr report RUN --out table.md")
    rows = tuple(_rows(runs))
    if len(runs) == 1:
        return Table(caption=caption(runs[0]), heads=("", "Value"), rows=rows, notes=_run_notes(runs[0]))
    comparison = comparison or compare_runs(runs, require_shared=False)
    benchmarks = ", ".join(dict.fromkeys(benchmark_name(run) for run in runs))
    heads = tuple(f"{title}{_marked(run)}" for title, run in zip(run_titles(runs), runs, strict=True))
    return Table(
        caption=f"{benchmarks}: {len(runs)} runs compared",
        heads=("", *heads),
        rows=(*rows, *_test_rows(comparison)),
        notes=(*comparison.warnings, BOUNDS, HOLM),
    )


def _marked(run: Run) -> str:
    return "".join(f" [{word}]" for word in mark_words(run))


def _run_notes(run: Run) -> tuple[str, ...]:
    reading = against_chance(run.metrics, accuracy_interval(run))
    return (*filter(None, (reading,)), BOUNDS, *map(str, run.metrics.get("notes") or ()))


def _rows(runs: Sequence[Run]) -> Iterator[tuple[str, ...]]:
    metrics = [run.metrics for run in runs]
    yield ("Strict accuracy", *(wording.percent(m.get("accuracy")) for m in metrics))
    yield ("95 % interval", *(wording.interval(m.get("accuracy_ci95")) for m in metrics))
    yield ("Pairs", *(wording.count(m["n_total"]) for m in metrics))
    yield ("Coverage", *(wording.percent(m.get("coverage")) for m in metrics))
    yield ("Accuracy, of those with a verdict", *(wording.percent(m.get("accuracy_scored")) for m in metrics))
    yield ("Accuracy, half credit", *(wording.percent(m.get("accuracy_half_credit")) for m in metrics))
    yield ("Bounds", *(wording.interval(m.get("accuracy_bounds")) for m in metrics))
    for name in _names(m.get("by_domain") for m in metrics):
        cells = [(m.get("by_domain") or {}).get(name) for m in metrics]
        yield (f"Domain {name}", *(_domain_cell(cell) for cell in cells))
    scores = [dict(flat_scores(own_scores(m))) for m in metrics]
    for name in _names(scores):
        yield (f"Official {name}", *(wording.percent(score.get(name)) for score in scores))
    yield ("Cost", *(wording.dollars(m.get("cost_usd")) for m in metrics))


def _names(tables: Any) -> list[str]:
    """Return the keys of several tables (None for a missing one), in order of first appearance."""
    return list(dict.fromkeys(name for table in tables for name in table or {}))


def _domain_cell(entry: Mapping[str, Any] | None) -> str:
    if entry is None:
        return wording.UNKNOWN
    n = wording.count(entry["n"])
    return f"{wording.percent(entry.get('accuracy'))} (n = {n}, {wording.interval(entry.get('ci95'))})"


def _test_rows(comparison: Comparison) -> Iterator[tuple[str, ...]]:
    """Yield one row per number of the paired tests; the first run and runs that share nothing with it have a dash."""
    tests = {duel.second: duel.overall for duel in comparison.duels}

    def row(name: str, word: Callable[[PairedTest], str]) -> tuple[str, ...]:
        found = (tests.get(run.title) for run in comparison.runs)
        return (name, *(wording.UNKNOWN if test is None else word(test) for test in found))

    yield row("Shared pairs", lambda test: wording.count(test.n))
    yield row("Points against the first", lambda test: wording.points(test.difference))
    yield row("95 % interval of the points", lambda test: " to ".join(wording.points(end) for end in test.ci95))
    yield row("McNemar p", lambda test: wording.p_value(test.p))
    yield row("McNemar p, Holm", lambda test: wording.p_value(test.p_holm))


def flat_scores(scores: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield the fractions among a benchmark's own scores, nested names joined by `/`; counts and texts are left out."""
    for name, value in scores.items():
        if isinstance(value, Mapping):
            yield from flat_scores(value, f"{prefix}{name}/")
        elif isinstance(value, float):
            yield f"{prefix}{name}", value


_CSV_HEADS = ("run", "benchmark", "method", "judge", "marks", "score", "group", "n", "value", "low", "high")


def to_csv(runs: Sequence[Run]) -> str:
    """Return one number a row, in fractions of 1 and full precision; every row carries its run's marks.

    Texts that a spreadsheet would take for a formula are prefixed with an apostrophe (ASVS 1.2.10).
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(_CSV_HEADS)
    for run in runs:
        texts = (run.name, str(run.metrics["benchmark"]), str(run.metrics["method"]), run.judge_label)
        start = [csv_text(text) for text in (*texts, " ".join(mark_words(run)))]
        for score, group, *numbers in (*_csv_rows(run.metrics), *_csv_rubrics(run)):
            writer.writerow([*start, csv_text(score), csv_text(group), *numbers])
    return out.getvalue()


def _csv_rows(metrics: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    n = metrics["n_total"]
    low, high = metrics.get("accuracy_ci95") or (None, None)
    yield ("accuracy", "", n, metrics.get("accuracy"), low, high)
    low, high = metrics.get("accuracy_bounds") or (None, None)
    yield ("accuracy_bounds", "", n, None, low, high)
    for name in ("accuracy_scored", "accuracy_half_credit", "coverage"):
        yield (name, "", n, metrics.get(name), None, None)
    for name, entry in (metrics.get("by_domain") or {}).items():
        low, high = entry.get("ci95") or (None, None)
        yield ("accuracy", name, entry["n"], entry.get("accuracy"), low, high)
    for name, value in flat_scores(metrics.get("official") or {}):
        yield ("official", name, None, value, None, None)
    for name, value in (metrics.get("outcomes") or {}).items():
        yield ("outcome", name, None, value, None, None)
    yield ("cost_usd", "", None, metrics.get("cost_usd"), None, None)


def _csv_rubrics(run: Run) -> Iterator[tuple[Any, ...]]:
    """Yield how often each rubric was right and its net effect, in pairs, by the rubric's id."""
    found = effects_of([run])
    for one in found.rubrics:
        low, high = one.total.ci95 or (None, None)
        yield ("rubric_right", one.id, one.total.leaned, one.total.accuracy, low, high)
        if found.summed:
            yield ("rubric_net", one.id, one.total.used, one.total.net, None, None)
