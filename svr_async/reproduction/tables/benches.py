"""The reward-model table: twelve columns of three benchmarks, and their mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from svr_async.adapters.rewardbench import WEIGHTS
from svr_async.evaluation.run_folder import Run
from svr_async.reproduction.printed import Printed, PrintedTable
from svr_async.reproduction.recipes import Recipe, RecipeRow
from svr_async.reproduction.runner import Absent, Runner
from svr_async.reproduction.scores import Score, effective_size, mean_of
from svr_async.reproduction.table import Column, PaperTable, Row
from svr_async.reproduction.tables.accuracy import cell_of, judged, table_of

TITLES = {"rewardbench": "RewardBench", "rewardbench2": "RewardBench 2", "rmbench": "RM-Bench"}
COLUMNS = {  # printed name: benchmark, name there
    **{name: ("rewardbench", name) for name in ("Chat", "Chat Hard", "Reasoning", "Safety")},
    **{name: ("rewardbench2", name) for name in ("Factuality", "Precise IF", "Math")},
    "Safety 2": ("rewardbench2", "Safety"),
    "Focus": ("rewardbench2", "Focus"),
    **{level.capitalize(): ("rmbench", level) for level in ("easy", "normal", "hard")},
}
NOTE = "Scores are the benchmarks' own; the pairs of one prompt count as one for the interval."


def _section(run: Run, name: str) -> Score | None:
    """Return a RewardBench section: subsets weighted officially."""
    sizes = Counter(item.subset for item in run.items if item.domain == name)
    strata = [(WEIGHTS[subset], size) for subset, size in sizes.items()]
    return _score(run.metrics["official"]["sections"].get(name), strata)


def _subset(run: Run, name: str) -> Score | None:
    """Return a RewardBench 2 subset, scored by items."""
    items = {item.item for item in run.items if item.domain == name}
    return _score(run.metrics["official"]["subsets"].get(name), [(1.0, len(items))])


def _level(run: Run, name: str) -> Score | None:
    """Return an RM-Bench level: the mean over domains."""
    prompts = Counter(domain for domain, _ in {(item.domain, item.item) for item in run.items})
    return _score(run.metrics["official"].get(name), [(1.0, size) for size in prompts.values()])


def _score(value: float | None, strata: Sequence[tuple[float, int]]) -> Score | None:
    return None if value is None else Score(value=value, effective=effective_size(strata))


SCORERS: Mapping[str, Callable[[Run, str], Score | None]] = {
    "rewardbench": _section, "rewardbench2": _subset, "rmbench": _level,
}  # fmt: skip


def benches(recipe: Recipe, printed: Printed, runner: Runner) -> PaperTable:
    """Return a row a method over the twelve columns and their mean."""
    own = printed.table(recipe.label)
    grid = [{bench: runner.run(run) for bench, run in row.runs.items()} for row in recipe.rows]
    columns = [
        Column(name=name.removesuffix(" 2"), ranked=True, span=TITLES[bench]) for name, (bench, _) in COLUMNS.items()
    ]
    rows = [_row(row, runs, own) for row, runs in zip(recipe.rows, grid, strict=True)]
    runs = [run for held in grid for run in held.values()]
    return table_of(recipe, [*columns, Column(name="Avg.", ranked=True)], rows, runs, [NOTE])


def _row(row: RecipeRow, runs: Mapping[str, Run | Absent], own: PrintedTable) -> Row:
    scores: dict[str, Score | None] = {}
    for name, (bench, place) in COLUMNS.items():
        run = runs[bench]
        scores[name] = None if isinstance(run, Absent) else SCORERS[bench](run, place)
    scores["Avg."] = mean_of(list(scores.values()))
    cells = tuple(cell_of(score, own.number(row.names, name)) for name, score in scores.items())
    who = dict.fromkeys(judged(run) for run in runs.values() if not isinstance(run, Absent))
    why: dict[str, list[str]] = {}
    for bench, run in runs.items():
        if isinstance(run, Absent):
            why.setdefault(run.why, []).append(TITLES[bench])
    absent = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in why.items())
    return Row(names=row.names, cells=cells, judged="; ".join(who), absent=absent)
