"""The cost is known before a run: `--dry-run`, `--price`, `--budget`, `svr judges --prices`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from made_pairs import PATIENCE_S, TRAIN, write_planted
from rig import name_judge, write_bench

from svr_async.engine.money import Price, read_price
from svr_async.errors import UsageError
from svr_async.simulation.catalogue import CRITERIA
from svr_async.simulation.server import SimServer

Cli = Callable[..., tuple[int, str, str]]
Ask = Callable[..., tuple[int, Any, str]]  # what is printed is read, where the command did what it should
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
    _, told, _ = ask(*EVAL, *PRICE, "--dry-run")
    _, paid, _ = ask(*EVAL, *PRICE, "--out", "all")
    assert told["calls"] == paid["calls"]["sent"] > 50
    assert told["sampled_answers"] == told["cache_hits"] > 0
    assert near(told["usd"], paid["paid_usd"], 0.2)


@pytest.mark.parametrize("method", ["direct", "self-rubric", "oracle", "pointwise"])
def test_dollars_are_near_before_any_call(ask: Ask, tmp_path: Path, method: str) -> None:
    """With an empty cache, by what is assumed alone, an evaluation's dollars are within 25 % and its calls exact."""
    (tmp_path / "rubrics.txt").write_text("".join(f"{entry.rubric}\n" for entry in CRITERIA[:5]))
    rubrics = ("--rubrics", "rubrics.txt") if method == "pointwise" else ()
    command = (*EVAL[:7], method, *rubrics, *PRICE, "--limit", "20")
    _, told, _ = ask(*command, "--dry-run")
    _, paid, _ = ask(*command, "--out", "run", "-q")
    assert (told["sampled_answers"], told["calls"]) == (0, paid["calls"]["sent"])
    assert near(told["usd"], paid["paid_usd"], 0.25)


def test_an_effort_is_in_the_price(ask: Ask, sim: SimServer, tmp_path: Path) -> None:
    """A judge that reasons costs more, said and paid: the tokens of its thoughts are in both."""
    name_judge(tmp_path, sim.base_url, reasoning_effort="medium", effort_style="field")
    command = (*EVAL[:7], "direct", *PRICE, "--limit", "20")
    _, told, _ = ask(*command, "--dry-run")
    _, paid, _ = ask(*command, "--out", "run", "-q")
    assert near(told["usd"], paid["paid_usd"], 0.2)
    assert told["completion_tokens"] > 400 * told["calls"]


def test_what_is_assumed_is_said(ask: Ask, cli: Cli) -> None:
    """With -v a dry run states the characters of a token and the tokens of each kind of answer."""
    _, out, _ = cli(*EVAL, *PRICE, "--dry-run", "-v", "--cache", "cache")
    assert "assumed: 4 characters a token in; 60 tokens for each judged rubric, 150 for a direct verdict" in " ".join(
        out.split()
    )


def test_a_batch_costs_half_of_the_price(ask: Ask, cli: Cli) -> None:
    """`svr batch export` takes `--price` as the run does: half the dollars of the same calls asked live."""
    command = (*EVAL[:7], "direct", *PRICE, "--limit", "12", "--out", "run")
    _, live, _ = ask(*command, "--dry-run")
    code, out, _ = cli("batch", "export", "--json", "asked", *command, "--cache", "cache")
    batch = orjson.loads(out)
    assert (code, batch["requests"]) == (0, live["calls"])
    assert batch["usd"] == pytest.approx(live["usd"] / 2, abs=1e-4)


@pytest.mark.timeout(PATIENCE_S)
def test_a_training_costs_what_was_said(ask: Ask, trained: Path, tmp_path: Path) -> None:
    """Calls of a dry run are within 15 % of those sent, dollars within 20 %, before any call and after some."""
    real = orjson.loads((trained / "printed.json").read_bytes())
    write_planted(tmp_path / "pairs.jsonl")
    _, told, _ = ask(*TRAIN, *PRICE, "--dry-run")
    assert near(told["calls"], real["calls"]["sent"], 0.15)
    assert near(told["usd"], real["paid_usd"], 0.2)
    assert ask("stages", "induce", "pairs.jsonl", "--judge", "sim", "--out", "c.jsonl", "-q")[0] == 0
    _, told, _ = ask(*TRAIN, *PRICE, "--dry-run")
    assert told["sampled_answers"] > 10
    known = told["cache_hits"] / real["calls"]["sent"] * real["paid_usd"]
    assert near(told["usd"] + known, real["paid_usd"], 0.2)
    assert not (tmp_path / "out").exists()
    assert told["assumed"]["negatives"] == 0.6


def test_induction_is_counted_exactly(ask: Ask, tmp_path: Path) -> None:
    """`svr stages induce --dry-run` counts a call a training pair, and writes nothing."""
    write_planted(tmp_path / "pairs.jsonl")
    command = ("stages", "induce", "pairs.jsonl", "--judge", "sim", "--out", "c.jsonl", "-q")
    _, told, _ = ask(*command, "--dry-run")
    assert not (tmp_path / "c.jsonl").exists()
    _, done, _ = ask(*command)
    assert told["calls"] == sum(done["outcomes"]["induce"].values())
    assert told["usd"] is None


def test_time_follows_from_the_limits(ask: Ask) -> None:
    """A dry run takes as long as the tightest limit makes it."""
    plain, slow, one = (
        ask(*EVAL, "--dry-run", *limit)[1] for limit in ((), ("--rpm", "6"), ("--rpm", "6000", "--concurrency", "1"))
    )
    assert slow["seconds"] == pytest.approx(10 * slow["calls"])
    assert one["seconds"] > plain["seconds"]
    assert one["seconds"] == pytest.approx(one["calls"] + one["completion_tokens"] / 50, abs=0.1)


def test_a_budget_works_with_a_price(ask: Ask) -> None:
    """Without a price, and without one that the endpoint reports, a budget ends the run after one call."""
    code, out, err = ask(*EVAL, "--budget", "0.001")
    assert (code, "give --price IN/OUT" in err) == (4, True)
    code, out, err = ask(*EVAL, "--budget", "0.001", *PRICE)
    assert (code, "--budget $0.001 is reached" in out + err) == (4, True)


@pytest.mark.parametrize("text", ["1", "a/b", "-1/2", "1/2/3/4", "nan/1", "1/inf", ""])
def test_a_price_that_is_none_is_refused(ask: Ask, text: str) -> None:
    """What is not IN/OUT is refused in a line that says how to write it."""
    code, _, err = ask(*EVAL, "--price", text)
    assert (code, "write dollars per million tokens" in err, err.count("\n")) == (2, True, 1)


def test_one_price_is_not_of_two_judges(ask: Ask, sim: SimServer, tmp_path: Path) -> None:
    """`--price` is refused where several judges are paid."""
    with (tmp_path / "judges.toml").open("a") as file:
        file.write(f'\n[other]\nmodel = "gpt-oss-120b"\nbase_url = "{sim.base_url}"\nkey_env = ""\n')
    code, _, err = ask(*EVAL[:4], "--jury", "sim,other", *PRICE)
    assert (code, "--price needs a single paid judge" in err) == (2, True)


def test_prices_are_read_as_written() -> None:
    """A price has two or three numbers; cached input costs what input does unless it says so."""
    assert read_price("0.5/2") == Price(input=0.5, cached=0.5, output=2)
    assert read_price("$0.5/0.1/2") == Price(input=0.5, cached=0.1, output=2)
    with pytest.raises(UsageError):
        read_price("0.5")


def test_prices_are_listed_with_their_day(cli: Cli) -> None:
    """`svr judges --prices` lists each shipped price with day and page, the cheapest first."""
    code, out, _ = cli("judges", "--prices", "--json")
    found = orjson.loads(out)
    assert code == 0
    assert found["gpt-4o-mini"]["in"] == 0.15
    assert all(one["date"] and one["source"] for one in found.values())
    dear = [one["in"] + one["out"] / 4 for one in found.values()]
    assert dear == sorted(dear)
    assert "2026-10-07" in cli("judges", "--prices")[1]


def test_prices_fit_a_narrow_terminal(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """On eighty columns every judge is named and no price is cut."""
    monkeypatch.setattr("svr_async.commands.screen.PLAIN_WIDTH", 80)
    out = cli("judges", "--prices")[1]
    assert max(map(len, out.splitlines()[:-1])) <= 80
    assert re.search(r"gpt-4o-mini +\$0.15 +\$0.075 +\$0.60 +2026-05-27", out)
