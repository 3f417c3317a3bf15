"""What the fuzzers damage: one of every file that the program reads, made by the program itself in one folder."""

from __future__ import annotations

import csv
import gzip
import importlib.resources
import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hostile import whole_bank
from rig import name_judge, serving, svr_here, write_bench

from svr_async.simulation.benchmark_files import write_benchmarks
from svr_async.simulation.world import World

QUIET = ("-q", "--cache", "cache")
BENCH = ("rubricbench", "--data", "bench.jsonl")
SIM = ("eval", *BENCH, "--judge", "sim", "--audit", "0.5", *QUIET)
RULES = ("eval", *BENCH, "--judge", "rules", *QUIET)


def call(*args: str) -> None:
    """Run `svr` here; what makes the ground must succeed."""
    assert svr_here(*args) == 0, args


def _pairs() -> None:
    """Write the same pairs in each form."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [_made(number) for number in range(12)]
    Path("pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("pairs.json").write_text(json.dumps(rows))
    for name, mark in (("pairs.csv", ","), ("pairs.tsv", "\t")):
        with Path(name).open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), delimiter=mark)
            writer.writeheader()
            writer.writerows(rows)
    pq.write_table(pa.Table.from_pylist(rows), "pairs.parquet")
    Path("pairs.jsonl.gz").write_bytes(gzip.compress(Path("pairs.jsonl").read_bytes()))
    talk = [_talk(row, number) for number, row in enumerate(rows)]
    Path("talk.jsonl").write_text("".join(json.dumps(row) + "\n" for row in talk))
    pq.write_table(pa.Table.from_pylist(talk), "talk.parquet")


def _made(number: int) -> dict[str, Any]:
    """Return a pair that checks can tell apart."""
    fruit = ("apples", "pears", "plums")[number % 3]
    listed = "\n".join(f"- {fruit} of kind {n}" for n in range(1, 4 + number % 3))
    plain = f"There are some kinds of {fruit}. " * (1 + number % 4)
    return {"id": f"made-{number}", "prompt": f"List kinds of {fruit} by the river, as {number} bullets.",
            "chosen": f"**{fruit}**\n\n{listed}", "rejected": plain}  # fmt: skip


def _talk(row: dict[str, Any], number: int) -> dict[str, Any]:
    """Return a pair as two conversations with a label, as arenas publish them."""
    said = [[{"role": "user", "content": row["prompt"]}, {"role": "assistant", "content": row[name]}]
            for name in ("chosen", "rejected")]  # fmt: skip
    return {"conversation_a": said[0], "conversation_b": said[1], "winner": ("model_a", "model_b", "tie")[number % 3]}


def _benchmarks() -> None:
    counts = {
        "rewardbench": {"alpacaeval-easy": 2},
        "rewardbench2": {"Factuality": 2, "Ties": 2},
        "rmbench": {"chat": 2},
    }
    write_benchmarks(World(), Path(), counts)
    row = {"domain": "general", "language": "english", "context": [{"role": "user", "content": "Name a prime."}],
           "response1": "7", "response2": "It may be 9.", "overall_preference": -2,
           "individual_preference": [{"score": -2, "reasoning": "r", "feedback1": "f", "feedback2": "g"}]}  # fmt: skip
    Path("helpsteer3.jsonl").write_text("".join(json.dumps(row | {"overall_preference": n}) + "\n" for n in (-2, 1, 0)))


def _groups() -> None:
    rows = [{"prompt": f"Name {n} fruits.", "responses": ["Apples.", "- Apples\n- Pears", "No."]} for n in range(3)]
    Path("groups.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    call("rank", "groups.jsonl", "--judge", "rules", "--out", "ranked.jsonl")


def _bank() -> None:
    whole_bank(Path("bank"))
    shutil.copytree("bank", "good-bank")


def _runs() -> None:
    """Judge by rules, by a simulated endpoint into a cache, and in two shards; what a batch would need, too."""
    with serving() as sim:
        name_judge(Path(), sim.base_url, price=[0.1, 0.05, 0.5])
        call("eval", *BENCH, "--judge", "rules", "--bank", "good-bank", "--out", "run", *QUIET)
        call(*SIM, "--method", "oracle", "--out", "sim-run", "--cache", "cache")
        for number in ("1", "2"):
            call(*SIM, "--out", f"shard-{number}", "--shard", f"{number}/2")
        call("cache", "export", "replies.jsonl", "--cache", "cache")
        call("batch", "export", "batch", *SIM, "--cache", "batch-cache", "--out", "later")
        call("batch", "submit", "batch")
        call("batch", "import", "batch", "--wait")
        call("doctor", "--judge", "sim", "--repeat", "2", "--data", "bench.jsonl", "--noise", "noise.json")
    shutil.copytree("run", "good-run")


def _people() -> None:
    call("labels", "run", "--next", "6", "--random", "--out", "labels.csv", "--data", "bench.jsonl")
    with Path("labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for place, row in enumerate(rows):
        row |= {"label": ("a", "b", "tie")[place % 3], "labeller": "Ana"}
    with Path("labels.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    Path("labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _lists() -> None:
    """Write rubrics, candidates, prompts, recipes, recordings and settings."""
    texts = ["Lists what was asked for.", "Is short.", "Names a place."]
    Path("rubrics.txt").write_text("\n".join(texts) + "\n")
    Path("rubrics.json").write_text(json.dumps([{"text": text, "weight": 0.5} for text in texts]))
    Path("rubrics.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    call("induce", "pairs.jsonl", "--judge", "rules", "--out", "candidates.jsonl", "-q")
    for name, place in (("prompts", "judges/prompts"), ("recipes", "reproduction/recipes")):
        shutil.copytree(str(importlib.resources.files("svr_async").joinpath(place)), name)
    told = [(f"made-{n}", order) for n in range(12) for order in ("ab", "ba")]
    replies = [{"pair_id": name, "order": order, "role": "direct", "reply": "So [[A]]"} for name, order in told]
    Path("recorded.jsonl").write_text("".join(json.dumps(row) + "\n" for row in replies))
    Path("scores.csv").write_text("id,score_a,score_b\n" + "".join(f"made-{n},{n},1.5\n" for n in range(12)))
    Path("config.toml").write_text('judge = "rules"\nmethod = "longest"\naudit = 0.5\nlimit = "4"\ndomain = ["code"]\n')
    Path("dotenv").write_text("SVR_EVAL_METHOD=longest\nexport SVR_CACHE=cache\nOPENAI_API_KEY='sk-x'\n")


def _stores() -> None:
    call("judge", "pairs.jsonl", "--candidates", "candidates.jsonl", "--judge", "rules", "--out", "store", "-q")
    pair, rubric = np.repeat(np.arange(12), 3), np.tile(np.arange(3), 12)
    np.savez("z.npz", pair=pair, rubric=rubric, z=(rubric - 1) * 0.75)
    call("store", "import", "--pairs", "pairs.jsonl", "--rubrics", "rubrics.jsonl", "--z", "z.npz", "--out", "own")


def _trained() -> None:
    call("train", "pairs.jsonl", "--judge", "rules", "--out", "trained", "--rounds", "2", "-q")


STEPS: dict[str, Callable[[], None]] = {
    "pairs": _pairs, "benchmarks": _benchmarks, "groups": _groups, "bank": _bank, "runs": _runs, "people": _people,
    "lists": _lists, "stores": _stores, "trained": _trained,
}  # fmt: skip


def make_ground(folder: Path, steps: Sequence[str] = tuple(STEPS)) -> Path:
    """Make the files of these steps in a folder; return it."""
    folder.mkdir(parents=True)
    here, cache = Path.cwd(), {name: os.environ.get(name) for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME")}
    os.chdir(folder)
    os.environ |= {"XDG_CACHE_HOME": str(folder / "xdg"), "XDG_CONFIG_HOME": str(folder / "config")}
    try:
        write_bench(Path("bench.jsonl"), 6)
        name_judge(Path(), "http://127.0.0.1:1/v1", price=[0.1, 0.05, 0.5])
        for step in steps:
            STEPS[step]()
    finally:
        os.chdir(here)
        for name, value in cache.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)
    return folder
