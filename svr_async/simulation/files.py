"""A planted world written to files: training pairs, a test file in RubricBench's schema, and a note on both."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from svr_async.core.pair import prompt_text
from svr_async.errors import StorageError
from svr_async.simulation.calibration import Calibration, calibrate_items, share_by_weights
from svr_async.simulation.draft import seeded
from svr_async.simulation.family_files import PROPERTIES, drawn_note, properties_of
from svr_async.simulation.family_world import TEST, FamilyWorld
from svr_async.simulation.planted import PlantedPair, PlantedWorld
from svr_async.simulation.topics import DOMAIN_COUNTS, TOPICS
from svr_async.simulation.world import World, preset_name

SOURCE = "svr-sim"
README = "README.txt"
NOTES = {
    "plain": "",
    "varied": """
This is the varied world: a criterion has several wordings, most responses share commonplaces, and for some rare types
of prompts what decides is inconspicuous.
""",
    "redundant": """
This is the redundant world: like the varied one, but two wordings of a criterion are judged alike, and the criteria of
a type weigh more alike.
""",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenWorld:
    """Where a world was written, how much of it, and what the simulated judge scores on its test file."""

    train: Path
    test: Path
    readme: Path
    properties: Path | None
    """Of a drawn world alone."""
    n_train: int
    n_test: int
    calibration: Calibration


def write_world(
    world: World | FamilyWorld, out: Path, *, n_train: int | None = None, n_test: int = 1147
) -> WrittenWorld:
    """Write `train.jsonl`, `rubricbench.jsonl` and what `beside` returns to a folder; `StorageError` when that fails.

    Without `n_train` there are as many training pairs as `usual_pairs` says.
    """
    n_train = n_train or usual_pairs(world)
    rows = unseen_pairs(world, n_test)
    calibration = calibrate_items(world, [item for item, _ in rows])
    texts = beside(world, n_train, [item for item, _ in rows], calibration)
    train, test = out / "train.jsonl", out / "rubricbench.jsonl"
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_whole(train, (_line(train_row(item)) for item in world.pairs(n_train, "train")))
        write_whole(test, (_line(test_row(world, item, domain)) for item, domain in rows))
        for name, text in texts.items():
            write_whole(out / name, [text])
    except OSError as error:
        raise StorageError(f"cannot write the simulated world to {out}: {error.strerror}") from error
    return WrittenWorld(
        train=train,
        test=test,
        readme=out / README,
        properties=out / PROPERTIES if PROPERTIES in texts else None,
        n_train=n_train,
        n_test=n_test,
        calibration=calibration,
    )


def usual_pairs(world: World | FamilyWorld) -> int:
    """Return how many training pairs a world has where no number is asked for: a drawn one what was drawn."""
    return world.config.pairs if isinstance(world, FamilyWorld) else 3000


def beside(
    world: World | FamilyWorld, n_train: int, items: Sequence[PlantedPair], found: Calibration
) -> dict[str, bytes]:
    """Return the files beside the pairs by name: the note, and of a drawn world its properties."""
    if isinstance(world, World):
        return {README: note(world, n_train, found).encode()}
    knowable = share_by_weights(world, items, world.knowable)
    properties = properties_of(world.config, n_train, found, knowable)
    return {
        README: drawn_note(world.config, n_train, found, knowable).encode(),
        PROPERTIES: orjson.dumps(properties, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE),
    }


def train_row(item: PlantedPair) -> dict[str, Any]:
    """Return a training pair as a row; what only the world knows stays out."""
    pair = item.pair
    prompt = prompt_text(pair.prompt)
    return {
        "id": pair.id,
        "prompt": prompt,
        "chosen": pair.chosen,
        "rejected": pair.rejected,
        "domain": pair.domain,
        "source": SOURCE,
    }


def test_row(world: PlantedWorld, item: PlantedPair, domain: str) -> dict[str, Any]:
    """Return a test pair as a row of RubricBench's schema: label 0 where response A is better."""
    pair = item.pair
    return {
        "case_id": pair.id,
        "instruction": prompt_text(pair.prompt),
        "response_a": pair.response_a,
        "response_b": pair.response_b,
        "label": 0 if pair.chosen_first else 1,
        "rubrics": "\n".join(world.human_rubrics(item)),
        "source": SOURCE,
        "domain": domain,
    }


def unseen_pairs(world: World | FamilyWorld, count: int) -> list[tuple[PlantedPair, str]]:
    """Return the test pairs with their fine domains; in a drawn world these have nothing to do with the types."""
    if isinstance(world, FamilyWorld):
        return list(zip(world.pairs(count, TEST), drawn_domains(world.seed, count), strict=True))
    domains = test_domains(world, count)
    items = world.pairs(count, "test", [kind for _, kind in domains])
    return [(item, domain) for item, (domain, _) in zip(items, domains, strict=True)]


def drawn_domains(draw: int, count: int) -> list[str]:
    """Return a fine domain for each test pair of a drawn world, in RubricBench's proportions, shuffled by draw."""
    sizes = apportion([size for _, _, size in DOMAIN_COUNTS], count)
    domains = [domain for (_, domain, _), size in zip(DOMAIN_COUNTS, sizes, strict=True) for _ in range(size)]
    seeded("family domains", draw).shuffle(domains)
    return domains


def test_domains(world: World, count: int) -> list[tuple[str, int]]:
    """Return a fine domain and a prompt type for each test pair, in RubricBench's proportions, shuffled by seed."""
    rng = random.Random(f"{world.config.seed}|domains")  # noqa: S311  (a planted world, not a secret)
    kinds = {group: [n for n, topic in enumerate(TOPICS) if topic.group == group] for group, _, _ in DOMAIN_COUNTS}
    sizes = apportion([size for _, _, size in DOMAIN_COUNTS], count)
    rows = [
        (domain, rng.choice(kinds[group]))
        for (group, domain, _), size in zip(DOMAIN_COUNTS, sizes, strict=True)
        for _ in range(size)
    ]
    rng.shuffle(rows)
    return rows


def apportion(weights: list[int], count: int) -> list[int]:
    """Split `count` in proportion to the weights, by largest remainders."""
    total = sum(weights)
    exact = [weight * count / total for weight in weights]
    sizes = [int(share) for share in exact]
    by_rest = sorted(range(len(weights)), key=lambda place: sizes[place] - exact[place])
    for place in by_rest[: count - sum(sizes)]:
        sizes[place] += 1
    return sizes


def note(world: World, n_train: int, calibration: Calibration) -> str:
    """Return the README of a written world."""
    name = preset_name(world.config)
    flags, more = f"--seed {world.config.seed}" + ("" if name == "plain" else f" --world {name}"), NOTES[name]
    return f"""SIMULATED DATA. Written by `svr sim {flags}`; no person and no language model wrote it.

train.jsonl        {n_train} preference pairs: id, prompt, chosen, rejected, domain (the planted prompt type), source
rubricbench.jsonl  {calibration.n} pairs in RubricBench's schema and domain proportions; label 0 means response A

Every prompt type cares about a few planted criteria with unequal weights. A response shows by its sentences which
criteria it meets; its length, headings and tone mean nothing. Of the labels, {world.config.label_noise:.0%}
are wrong on purpose. Judge it with the endpoint of the same seed, `svr sim {flags}`, and label every result on it
as simulated.
{more}
What the simulated gpt-oss-120b scores on rubricbench.jsonl, one pass, order by hash:
  direct verdict             {calibration.direct:6.1%}
  rubrics it writes itself   {calibration.self_written:6.1%}
  the human rubrics, equal   {calibration.human:6.1%}
  all criteria, true weights {calibration.human_true_weights:6.1%}
  the longer response        {calibration.longest:6.1%}
"""


def _line(row: dict[str, Any]) -> bytes:
    return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)


def write_whole(path: Path, pieces: Iterable[bytes] | Iterator[bytes]) -> None:
    """Write a file under another name, sync it, and move it into place."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
