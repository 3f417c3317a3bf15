"""The cost is known before a run: `--dry-run`, `--price`, `--budget`, `svr judges --prices`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from endpoint import SimServer
from made_pairs import PATIENCE_S, TRAIN, write_planted
from rig import name_judge, write_bench

from svr_async.simulation.catalogue import CRITERIA

Cli = Callable[..., tuple[int, str, str]]
Ask = Callable[..., tuple[int, Any, str]]  # printed output, as read
PRICE = ("--price", "0.15/0.6")
EVAL = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--method", "self-rubric", "-q")


@pytest.fixture
def ask(cli: Cli, tmp_path: Path, sim: SimServer) -> Ask:
    """Return a function that runs `svr …` where `sim` is a judge without a price, and what it prints as JSON."""
    name_judge(tmp_path, sim.base_url)
    write_bench(tmp_path / "bench.jsonl", 40)

    def call(*args: str) -> tuple[int, Any, str]:
        code, out, err = cli(*args, "--cache", "cache", "--json")
        return code, orjson.loads(out) if code == 0 else out, err

    return call


def near(value: float, real: float, share: float) -> bool:
    """Whether a value is as near to the real one as a share of that."""
    return abs(value - real) <= share * real


def test_an_evaluation_costs_what_was_said(ask: Ask) -> None:
    """The calls of `svr eval --dry-run` are those that are sent, its dollars within 20 % once some are answered."""
    assert ask(*EVAL, *PRICE, "--limit", "10", "--out", "some")[0] == 0
    _, printed, _ = ask(*EVAL, *PRICE, "--dry-run")
    _, paid, _ = ask(*EVAL, *PRICE, "--out", "all")
    assert printed["calls"] == paid["calls"]["sent"] > 50
    assert printed["sampled_answers"] == printed["cache_hits"] > 0
    assert near(printed["usd"], paid["paid_usd"], 0.2)


@pytest.mark.parametrize("method", ["direct", "self-rubric", "oracle", "pointwise"])
def test_dollars_are_near_before_any_call(ask: Ask, tmp_path: Path, method: str) -> None:
    """With an empty cache, from assumptions alone, an evaluation's dollars are within 25 % and its calls exact."""
    (tmp_path / "rubrics.txt").write_text("".join(f"{entry.rubric}\n" for entry in CRITERIA[:5]))
    rubrics = ("--rubrics", "rubrics.txt") if method == "pointwise" else ()
    command = (*EVAL[:7], method, *rubrics, *PRICE, "--limit", "20")
    _, printed, _ = ask(*command, "--dry-run")
    _, paid, _ = ask(*command, "--out", "run", "-q")
    assert (printed["sampled_answers"], printed["calls"]) == (0, paid["calls"]["sent"])
    assert near(printed["usd"], paid["paid_usd"], 0.25)


@pytest.mark.timeout(PATIENCE_S)
def test_a_training_costs_what_was_said(ask: Ask, trained: Path, tmp_path: Path) -> None:
    """Calls of a dry run are within 15 % of those sent, dollars within 20 %, before any call and after some."""
    real = orjson.loads((trained / "printed.json").read_bytes())
    write_planted(tmp_path / "pairs.jsonl")
    _, printed, _ = ask(*TRAIN, *PRICE, "--dry-run")
    assert near(printed["calls"], real["calls"]["sent"], 0.15)
    assert near(printed["usd"], real["paid_usd"], 0.2)
    assert ask("stages", "induce", "pairs.jsonl", "--judge", "sim", "--out", "c.jsonl", "-q")[0] == 0
    _, printed, _ = ask(*TRAIN, *PRICE, "--dry-run")
    assert printed["sampled_answers"] > 10
    known = printed["cache_hits"] / real["calls"]["sent"] * real["paid_usd"]
    assert near(printed["usd"] + known, real["paid_usd"], 0.2)
    assert not (tmp_path / "out").exists()
    assert printed["assumed"]["support"] == 0.3


def test_induction_is_counted_exactly(ask: Ask, tmp_path: Path) -> None:
    """`svr stages induce --dry-run` counts a call per training pair, and writes nothing.

    Replies decide how many questions about criteria follow.
    """
    write_planted(tmp_path / "pairs.jsonl")
    command = ("stages", "induce", "pairs.jsonl", "--judge", "sim", "--out", "c.jsonl", "-q")
    _, printed, _ = ask(*command, "--dry-run")
    assert not (tmp_path / "c.jsonl").exists()
    _, done, _ = ask(*command)
    asked = {stage: sum(counts.values()) for stage, counts in done["outcomes"].items()}
    assert asked["induce"] < printed["calls"] <= sum(asked.values())
    assert printed["usd"] is None
