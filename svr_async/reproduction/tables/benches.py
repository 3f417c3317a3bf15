"""The reward-model table: twelve columns of three benchmarks, and their plain mean."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from svr_async.adapters.rewardbench import SECTIONS, WEIGHTS, shared_credit
from svr_async.adapters.rmbench import DOMAINS, difficulty
from svr_async.core.pair import Side
from svr_async.evaluation.items import Item
from svr_async.evaluation.run_folder import Run
from svr_async.reproduction.printed import Printed, PrintedTable
from svr_async.reproduction.recipe import Recipe, RecipeRow
from svr_async.reproduction.results import Absent, Results, judged
from svr_async.reproduction.scores import Part, evenly, mean_of, scored
from svr_async.reproduction.table import Cell, Column, Row, Table
from svr_async.reproduction.tables.accuracy import cell_of, parts_of, table_of

Parts = list[Part]
AVERAGE = "Avg."
WHOLE = "all subsets of the file"
SHOWN_NAMES = 6
TITLES = {"rewardbench": "RewardBench", "rewardbench2": "RewardBench 2", "rmbench": "RM-Bench"}
Scorer = Callable[[Sequence[Item], str], Parts]


class Place(NamedTuple):
    """A column: its benchmark, its name there, and its name in `printed.toml`."""

    bench: str
    name: str
    printed: str


def section_parts(items: Sequence[Item], section: str) -> Parts:
    """Return the parts of a RewardBench section: subsets weighted as its authors do, pairs of a subset evenly."""
    held = [item for item in items if item.domain == section and item.correct is not None]
    sizes = Counter(item.subset for item in held)
    total = sum(WEIGHTS[subset] for subset in sizes)
    return [
        Part(
            cell=f"rb/{item.subset}",
            cluster=f"rb/{item.id}",
            weight=WEIGHTS[item.subset] / total / sizes[item.subset],
            credit=float(item.correct is True),
        )
        for item in held
    ]


def item_parts(items: Sequence[Item], subset: str) -> Parts:
    """Return the parts of a RewardBench 2 subset: an item has credit where all of its pairs are won.

    With a scalar reward model, a chosen response that shares the highest score with k − 1 others has 1/k.
    """
    held: dict[str, list[Item]] = defaultdict(list)
    for item in _of_subset(items, subset):
        held[item.item].append(item)
    return evenly((f"rb2/{subset}", f"rb2/{name}", _credit(pairs)) for name, pairs in held.items())


def _credit(pairs: Sequence[Item]) -> float:
    margins = [
        item.scores[0] - item.scores[1] if item.gold == Side.A.value else item.scores[1] - item.scores[0]
        for item in pairs
        if item.scores is not None
    ]
    if len(margins) == len(pairs):
        return shared_credit(margins)
    return float(all(item.correct for item in pairs))


def pair_parts(items: Sequence[Item], subset: str) -> Parts:
    """Return the parts of a RewardBench 2 subset by pairs; those of an item are one cluster."""
    return evenly(
        (f"rb2/{subset}", f"rb2/{item.item}", float(item.correct is True)) for item in _of_subset(items, subset)
    )


def _of_subset(items: Sequence[Item], subset: str) -> Iterator[Item]:
    return (item for item in items if item.domain == subset and item.correct is not None)


def level_parts(items: Sequence[Item], level: str) -> Parts:
    """Return the parts of an RM-Bench level: the mean over domains of the mean of the level's cells."""
    cells: dict[str, dict[tuple[int, int], list[Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        slot = slot_of(item.id)
        if item.correct is not None and item.domain in DOMAINS and difficulty(slot) == level:
            cells[item.domain][slot].append(item)
    domains = [mean_of([_cell(domain, slot, held) for slot, held in own.items()]) for domain, own in cells.items()]
    return mean_of(domains)


def _cell(domain: str, slot: tuple[int, int], held: Sequence[Item]) -> Parts:
    name = f"rm/{domain}/{slot[0]}-{slot[1]}"
    return evenly((name, f"rm/{item.item}", float(item.correct is True)) for item in held)


def slot_of(pair_id: str) -> tuple[int, int]:
    """Return which style of the right and of the wrong answers a pair of RM-Bench compares: the end of its id."""
    first, _, second = pair_id.rpartition("/")[2].partition("-")
    return int(first), int(second)


PLACES = (
    *(Place("rewardbench", name, name) for name in SECTIONS if name in ("Chat", "Chat Hard")),
    *(Place("rewardbench", name, name) for name in ("Reasoning", "Safety")),
    *(Place("rewardbench2", name, "Safety 2" if name == "Safety" else name)
      for name in ("Factuality", "Precise IF", "Math", "Safety", "Focus")),
    *(Place("rmbench", level, level.capitalize()) for level in ("easy", "normal", "hard")),
)  # fmt: skip
SCORERS: Mapping[str, Scorer] = {"rewardbench": section_parts, "rewardbench2": item_parts, "rmbench": level_parts}


def benches(recipe: Recipe, printed: Printed, results: Results) -> Table:
    """Return a row a method over the twelve columns and their mean, with RewardBench 2 by pairs in the last ones."""
    own = printed.table(recipe.label)
    by_pairs = [place for place in PLACES if place.bench == "rewardbench2"]
    runs_by_row = [{bench: results.run(run) for bench, run in row.runs.items()} for row in recipe.rows]
    every = [run for runs in runs_by_row for run in runs.values()]
    strange = _strange(runs_by_row)
    columns = (
        *(Column(name=place.name.capitalize() if place.bench == "rmbench" else place.name, ranked=True,
                 span=TITLES[place.bench]) for place in PLACES),
        Column(name=AVERAGE, ranked=True),
        *(Column(name=place.name, span="RewardBench 2, by pairs") for place in by_pairs),
        *(Column(name=WHOLE, span=TITLES[bench]) for bench in strange),
    )  # fmt: skip
    rows = [_row(row, runs, own, tuple(strange)) for row, runs in zip(recipe.rows, runs_by_row, strict=True)]
    return table_of(recipe, columns, rows, every, [_other(bench, names) for bench, names in strange.items()])


def _strange(runs_by_row: Sequence[Mapping[str, Run | Absent]]) -> Mapping[str, Sequence[str]]:
    """Return the domains of the benchmarks whose file has none that a column is of."""
    found: dict[str, Sequence[str]] = {}
    for bench, run in (entry for runs in runs_by_row for entry in runs.items()):
        places = [place for place in PLACES if place.bench == bench]
        if not isinstance(run, Absent) and not any(SCORERS[bench](run.items, place.name) for place in places):
            found[bench] = sorted({item.domain for item in run.items})
    return found


def _other(bench: str, names: Sequence[str]) -> str:
    told = ", ".join(names[:SHOWN_NAMES]) + (f" and {len(names) - SHOWN_NAMES} more" if names[SHOWN_NAMES:] else "")
    return (
        f"{TITLES[bench]}: NOT OFFICIAL. The file has other subsets ({told}), so the columns are empty; {WHOLE} is the "
        "accuracy over its pairs, each counting the same, ties and missing verdicts wrong."
    )


def _row(row: RecipeRow, runs: Mapping[str, Run | Absent], own: PrintedTable, strange: Sequence[str]) -> Row:
    items = {bench: run.items for bench, run in runs.items() if not isinstance(run, Absent)}
    parts = [SCORERS[place.bench](items.get(place.bench, ()), place.name) for place in PLACES]
    cells = [
        cell_of(scored(held), own.number(row.names, place.printed)) for held, place in zip(parts, PLACES, strict=True)
    ]
    whole = scored(mean_of(parts)) if all(parts) else None
    cells.append(cell_of(whole, own.number(row.names, AVERAGE)))
    cells += _by_pairs(items.get("rewardbench2", ()))
    cells += [cell_of(scored(parts_of(items.get(bench, ()))), None) for bench in strange]
    present = [judged(run) for run in runs.values() if not isinstance(run, Absent)]
    why = [f"{TITLES[bench]}: {run.why}" for bench, run in runs.items() if isinstance(run, Absent)]
    same = len(why) == len(runs) and len({run.why for run in runs.values() if isinstance(run, Absent)}) == 1
    absent = why[0].partition(": ")[2] if same else "; ".join(why)
    return Row(names=row.names, cells=tuple(cells), judged="; ".join(dict.fromkeys(present)), absent=absent)


def _by_pairs(items: Sequence[Item]) -> list[Cell]:
    places = [place for place in PLACES if place.bench == "rewardbench2"]
    return [cell_of(scored(pair_parts(items, place.name)), None) for place in places]
