"""A planted world in the shapes of RewardBench, RewardBench 2 and RM-Bench; RubricBench's is in `svr sim --write`."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from svr_async.core.files import write_atomic
from svr_async.core.pair import prompt_text
from svr_async.errors import StorageError
from svr_async.simulation.world import SOURCE, PlantedPair, World, seeded

Counts = Mapping[str, Mapping[str, int]]
"""Rows of each subset, by benchmark."""
TIES = "Ties"
STYLES = 3
WRONG = 3
DRAWS = 4  # responses that are written for a style, of which the plainest to the most dazzling are taken
LEAST_GAP = 0.09  # how much less a wrong answer is worth than a right one, of the type's total
MOST_TRIES = 200


def write_benchmarks(world: World, out: Path, counts: Counts) -> dict[str, Path]:
    """Write a file for each benchmark of `counts` that has a shape here; StorageError when that fails.

    Every row says that it is simulated; the prompts are others than those of the world's own files.
    """
    found = {}
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, row_of in SHAPES.items():
            if name in counts:
                found[name] = out / f"{name}.jsonl"
                rows = _rows(world, name, counts[name], row_of)
                write_atomic(found[name], b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows))
    except OSError as error:
        raise StorageError(f"cannot write the simulated benchmarks to {out}: {error.strerror}") from error
    return found


Shape = Callable[[World, PlantedPair, str, int], dict[str, Any]]


def _rows(world: World, name: str, counts: Mapping[str, int], row_of: Shape) -> Iterator[dict[str, Any]]:
    subsets = [(subset, number) for subset, count in counts.items() for number in range(count)]
    for item, (subset, number) in zip(world.pairs(len(subsets), name), subsets, strict=True):
        yield {"prompt": prompt_text(item.pair.prompt), **row_of(world, item, subset, number), "source": SOURCE}


def rewardbench_row(world: World, item: PlantedPair, subset: str, number: int) -> dict[str, Any]:
    """Return a row of RewardBench: one right and one wrong answer."""
    return {"chosen": item.pair.chosen, "rejected": item.pair.rejected, "subset": subset, "id": number}


def rewardbench2_row(world: World, item: PlantedPair, subset: str, number: int) -> dict[str, Any]:
    """Return a row of RewardBench 2: one right answer and three wrong ones; of Ties every other row has three right."""
    rng, (right, wrong) = seeded(world.seed, "rewardbench2", item.pair.id), better_first(world, item)
    tied = subset == TIES and number % 2
    chosen = [right, *(_like(world, rng, item, right) for _ in range(2 if tied else 0))]
    rejected = [wrong, *(_worse(world, rng, item, right) or wrong for _ in range(WRONG - 1))]
    name = f"{'tied' if tied else 'ref'}:{number // 2}" if subset == TIES else f"{number}"
    return {"id": name, "chosen": chosen, "rejected": rejected, "subset": subset}


def rmbench_row(world: World, item: PlantedPair, subset: str, number: int) -> dict[str, Any]:
    """Return a row of RM-Bench: a right and a wrong answer, each in three styles, the plainest first."""
    rng, (right, wrong) = seeded(world.seed, "rmbench", item.pair.id), better_first(world, item)
    styled = {name: _styles(world, rng, item, text) for name, text in (("chosen", right), ("rejected", wrong))}
    return {"id": number, "domain": subset, **styled}


SHAPES: Mapping[str, Shape] = {
    "rewardbench": rewardbench_row,
    "rewardbench2": rewardbench2_row,
    "rmbench": rmbench_row,
}


def worth(world: World, item: PlantedPair, text: str) -> float:
    """Return what a response is worth to the prompt of a pair."""
    return world.kinds[item.kind].value(world.read_response(text).met)


def better_first(world: World, item: PlantedPair) -> tuple[str, str]:
    """Return both responses of a pair, the one that is worth more first."""
    first, second = item.pair.chosen, item.pair.rejected
    return (first, second) if worth(world, item, first) >= worth(world, item, second) else (second, first)


def _like(world: World, rng: random.Random, item: PlantedPair, text: str) -> str:
    """Write another response with the same attributes."""
    return world.write_response(rng, item.kind, world.read_response(text).met)


def _worse(world: World, rng: random.Random, item: PlantedPair, text: str) -> str | None:
    """Write another response that is clearly worse, or None if the draws give no such one."""
    least = worth(world, item, text) - LEAST_GAP
    drawn = (world.write_response(rng, item.kind) for _ in range(MOST_TRIES))
    return next((other for other in drawn if worth(world, item, other) <= least), None)


def _styles(world: World, rng: random.Random, item: PlantedPair, text: str) -> list[str]:
    """Write a response in three styles: the plainest, a middling and the most dazzling of a few."""
    drawn = [text, *(_like(world, rng, item, text) for _ in range(DRAWS - 1))]
    drawn.sort(key=lambda one: (world.read_response(one).surface, one))
    return [drawn[0], drawn[len(drawn) // 2], drawn[-1]]
