"""The planted world in files: training pairs, and test pairs in RubricBench's schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from svr_async.core.files import write_atomic
from svr_async.core.pair import prompt_text
from svr_async.errors import StorageError
from svr_async.simulation.catalogue import TOPICS
from svr_async.simulation.world import LABEL_NOISE, PlantedPair, World, seeded

SOURCE = "svr-sim"
DOMAINS = {  # RubricBench's groups and fine domains with their pairs; the test file keeps the proportions
    "CHAT": {"human-preference": 235, "general": 108, "Factuality": 44, "Focus": 22, "helpful": 13},
    "CODE": {"code": 258, "mbpp": 13},
    "STEM": {"stem": 167, "math": 71, "Math": 5, "mmlu-pro": 5, "gpqa": 2},
    "IF": {"ifeval": 101, "Precise IF": 23},
    "SAFETY": {"harmlessness": 45, "Safety": 35},
}
NOTE = """SIMULATED DATA. Written by `svr sim --seed {seed}`; no person and no language model wrote it.

train.jsonl        {n_train} preference pairs: id, prompt, chosen, rejected, domain (the planted prompt type), source
rubricbench.jsonl  {n_test} pairs in RubricBench's schema and domain proportions; label 0 means response A

Each prompt type cares about a few planted criteria with unequal weights. The sentences of a response show which of
them it meets; its length, headings and tone mean nothing. {noise:.0%} of the labels are wrong on purpose. Judge it
with the endpoint of the same seed, `svr sim --seed {seed}`, and label every result on it as simulated.
"""


def write_world(world: World, out: Path, *, n_train: int = 3000, n_test: int = 1147) -> list[Path]:
    """Write train.jsonl, rubricbench.jsonl and README.txt into a folder; StorageError if that fails."""
    domains = planted_domains(world.seed, n_test)
    items = world.pairs(n_test, "test", [kind for _, kind in domains])
    rows = {
        "train.jsonl": [train_row(item) for item in world.pairs(n_train, "train")],
        "rubricbench.jsonl": [test_row(world, item, domain) for item, (domain, _) in zip(items, domains, strict=True)],
    }
    note = NOTE.format(seed=world.seed, n_train=n_train, n_test=n_test, noise=LABEL_NOISE)
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, lines in rows.items():
            write_atomic(out / name, b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in lines))
        write_atomic(out / "README.txt", note.encode())
    except OSError as error:
        raise StorageError(f"cannot write the simulated world to {out}: {error.strerror}") from error
    return [*(out / name for name in rows), out / "README.txt"]


def train_row(item: PlantedPair) -> dict[str, Any]:
    """Return a training pair as a row, without what only the world knows."""
    pair = item.pair
    texts = {"prompt": prompt_text(pair.prompt), "chosen": pair.chosen, "rejected": pair.rejected}
    return {"id": pair.id, **texts, "domain": pair.domain, "source": SOURCE}


def test_row(world: World, item: PlantedPair, domain: str) -> dict[str, Any]:
    """Return a test pair as a row of RubricBench's schema; label 0 means that response A is better."""
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


def planted_domains(seed: int, count: int) -> list[tuple[str, int]]:
    """Return a fine domain and a prompt type for each test pair, in RubricBench's proportions, shuffled by seed."""
    rng = seeded(seed, "domains")
    pairs = {(group, domain): n for group, domains in DOMAINS.items() for domain, n in domains.items()}
    exact = {place: n * count / sum(pairs.values()) for place, n in pairs.items()}
    sizes = {place: int(share) for place, share in exact.items()}
    by_rest = sorted(pairs, key=lambda place: sizes[place] - exact[place])
    for place in by_rest[: count - sum(sizes.values())]:  # the largest remainders are rounded up
        sizes[place] += 1
    kinds = {group: [n for n, topic in enumerate(TOPICS) if topic.group == group] for group in DOMAINS}
    rows = [(domain, rng.choice(kinds[group])) for (group, domain), size in sizes.items() for _ in range(size)]
    rng.shuffle(rows)
    return rows
