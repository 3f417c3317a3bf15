"""`svr train`, `stages`, `fit` and `data split` from flags to files; `svr eval --bank`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from endpoint import SimServer
from made_pairs import PATIENCE_S, TRAIN, N, files_of, last_line, write_candidates, write_made, write_planted
from rig import RULES, name_judge, read_lines, svr_here, write_bench

from svr_async.scoring.bank import InferenceSettings, RubricBank
from svr_async.training import train as train_run
from svr_async.training.rounds.algorithm import run_rounds
from svr_async.training.rounds.session import FittedRound, Session

pytestmark = pytest.mark.timeout(2 * PATIENCE_S)  # the first test may have to train first


# --- over HTTP, against the simulated endpoint -----------------------------------------------------------------------


def test_a_bank_is_trained_and_used(
    trained: Path, sim: SimServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two rounds over HTTP give a bank; `svr eval` uses it, and each item's contributions add up to its margin."""
    record = orjson.loads((trained / "out" / "record.json").read_bytes())
    assert [one["round"] for one in record["rounds"]] == [1, 2]
    assert record["train_pairs"] + record["dev_pairs"] == N
    write_bench(folder / "bench.jsonl", 40)
    name_judge(folder, sim.base_url)
    flags = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--audit", "0", "-q")
    assert svr_here(*flags, "--bank", trained / "out" / "bank", "--top-k", "6", "--out", "run") == 0
    items = read_lines(folder / "run" / "items.jsonl")
    assert len(items) == 40
    assert {len(item["rubrics"]) for item in items} <= set(range(1, 7))
    for item in items:
        assert sum(row["contribution"] for row in item["rubrics"]) == pytest.approx(item["margin"], abs=1e-5)
    assert svr_here(*flags, "--bank", trained / "out" / "bank", "--method", "uniform", "--out", "even") == 0
    weights = [
        (r["alpha"], r["weight"]) for item in read_lines(folder / "even" / "items.jsonl") for r in item["rubrics"]
    ]
    assert set(weights) == {(1.0, 1.0)}
    capsys.readouterr()


def test_the_same_command_again_asks_nothing_and_writes_the_same_bytes(
    trained: Path, sim: SimServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bank folder is byte for byte what it was, and no call is sent."""
    monkeypatch.chdir(trained)
    name_judge(trained, sim.base_url)
    before, calls = files_of(trained / "out" / "bank"), sim.stats()["calls"]
    assert svr_here(*TRAIN) == 0
    assert files_of(trained / "out" / "bank") == before
    assert sim.stats()["calls"] == calls


# --- offline ---------------------------------------------------------------------------------------------------------


def test_the_rules_judge_trains_offline_and_gives_the_same_bank_every_time(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No endpoint, no cache; two folders hold the same bank, and what separates the pairs is in it.

    Where no pair is near the boundary there is nothing to induce from, and training ends after the first round.
    """
    write_made(folder / "made.jsonl")
    assert svr_here("train", "made.jsonl", *RULES, "--out", "one", "--rounds", "2") == 0
    said = capsys.readouterr().err
    assert "0 support pairs" in said
    assert "round 1 found nothing new: training ends early" in said
    assert svr_here("train", "made.jsonl", *RULES, "--out", "two", "--rounds", "2", "-q") == 0
    assert files_of(folder / "one" / "bank") == files_of(folder / "two" / "bank")
    assert not (folder / "cache").exists()
    record = orjson.loads((folder / "one" / "record.json").read_bytes())
    assert record["dev"]["accuracy"] == 1.0
    assert len(record["rounds"]) == 1


def test_induce_judge_and_fit_by_themselves_end_with_a_bank(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The three stages in a row, offline; fitting the same store again gives the same bank."""
    write_made(folder / "made.jsonl")
    assert svr_here("stages", "induce", "made.jsonl", *RULES, "--out", "c.jsonl", "-q", "--json") == 0
    assert orjson.loads(capsys.readouterr().out)["rubrics"] == len(read_lines(folder / "c.jsonl")) > 0
    assert (
        svr_here("stages", "judge", "made.jsonl", *RULES, "--candidates", "c.jsonl", "--out", "store", "-q", "--json")
        == 0
    )
    assert orjson.loads(capsys.readouterr().out)["entries"] > 0
    for out in ("one", "two"):
        assert svr_here("fit", "store", "--out", out, "-q", "--json") == 0
        assert orjson.loads(capsys.readouterr().out)["dev_accuracy"] == 1.0
    assert files_of(folder / "one" / "bank") == files_of(folder / "two" / "bank")
    write_bench(folder / "bench.jsonl", 5)
    flags = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "rules", "--bank", "one/bank", "-q")
    assert svr_here(*flags, "--out", "run", "--min-coverage", "0") == 0
    assert (
        svr_here("stages", "judge", "made.jsonl", *RULES, "--bank", "one/bank", "--out", "again", "-q", "--limit", "60")
        == 0
    )


def test_the_papers_preset_trains_all_rounds_and_publishes_the_last_unless_another_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Algorithm 1 ends after T rounds with the bank of round T; `--publish best` takes the best by dev accuracy."""
    whole = run_rounds

    async def worse_and_worse(session: Session) -> list[FittedRound]:
        return [replace(one, dev_hits=0 * one.dev_hits + 1 - 0.3 * one.number) for one in await whole(session)]

    monkeypatch.setattr(train_run, "run_rounds", worse_and_worse)
    write_made(folder / "made.jsonl")
    write_bench(folder / "bench.jsonl", 2)
    for published, more in ((2, ()), (1, ("--publish", "best"))):
        out = f"out{published}"
        flags = (
            "--preset",
            "paper",
            "--decontaminate",
            "rubricbench=bench.jsonl",
            "--rounds",
            "2",
            "--out",
            out,
            *more,
        )
        assert svr_here("train", "made.jsonl", *RULES, *flags, "--out", out, "-q", "--json") == 0
        record = orjson.loads(capsys.readouterr().out)
        assert [one["round"] for one in record["rounds"]] == [1, 2]
        assert record["dev"]["round"] == published
        bank = RubricBank.load(folder / out / "bank")
        assert bank.inference == InferenceSettings(top_k=6, selection_pool=18, filler_weight=1.0)


# --- refusals, each in one line --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rubricbench", "rewardbench", "rewardbench2", "rmbench"])
@pytest.mark.parametrize(
    "args",
    [
        ("train", "--out", "out"),
        ("stages induce", "--out", "c2.jsonl"),
        ("stages judge", "--candidates", "c.jsonl", "--out", "store"),
    ],
)
def test_a_benchmark_is_refused_as_training_data_by_every_stage(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, args: tuple[str, ...]
) -> None:
    """By the name of the file, of its folder, or of the format: exit 2 and one line, and nothing is written."""
    write_made(folder / "made.jsonl", 3)
    write_candidates(folder / "c.jsonl")
    (folder / name).mkdir()
    before = set(folder.iterdir())
    command, *flags = args
    for given in ([f"{name}_v1.jsonl"], [f"{name}/test.jsonl"], ["made.jsonl", "--format", name]):
        (folder / given[0]).write_bytes((folder / "made.jsonl").read_bytes())
        assert svr_here(*command.split(), *given, *flags, "-q") == 2
        line = last_line(capsys)
        assert "evaluation only" in line
        assert "Bench" in line
    assert set(folder.iterdir()) - before == {folder / f"{name}_v1.jsonl"}


def test_pairs_that_nothing_can_be_said_of_end_with_eight(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No rubric is induced: exit 8 and one line from `train` and `induce`, and neither a bank nor a file."""
    rows = [{"id": f"{n}", "prompt": f"Say {n}", "chosen": f"ab{n}", "rejected": f"cd{n}"} for n in range(120)]
    (folder / "bare.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    for command, out in (("train", "out"), ("stages induce", "c.jsonl")):
        assert svr_here(*command.split(), "bare.jsonl", *RULES, "--out", out, "-q") == 8
        assert "no rubric was induced" in last_line(capsys)
    assert not (folder / "out" / "bank").exists()
    assert not (folder / "c.jsonl").exists()


def test_judging_again_into_the_same_store_asks_nothing_and_other_rubrics_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same command twice leaves the store as it is; with other rubrics it is refused before anything is asked."""
    write_made(folder / "made.jsonl", 40)
    write_candidates(folder / "c.jsonl")
    write_candidates(folder / "other.jsonl", checks=1)
    flags = ("stages", "judge", "made.jsonl", *RULES, "--out", "store", "-q", "--candidates")
    assert svr_here(*flags, "c.jsonl") == 0
    before = files_of(folder / "store")
    assert svr_here(*flags, "c.jsonl") == 0
    capsys.readouterr()
    assert svr_here(*flags, "other.jsonl") == 2
    assert "store exists already" in last_line(capsys)
    assert files_of(folder / "store") == before
    (folder / "file").write_text("")
    assert svr_here("stages", "judge", "made.jsonl", *RULES, "--out", "file", "-q", "--candidates", "c.jsonl") == 2
    assert "'file' is a file: name a folder" in last_line(capsys)


def test_a_missing_bank_stops_an_evaluation(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing folder, and --method svr of a model without --bank: exit 2 and one line."""
    write_bench(folder / "bench.jsonl", 3)
    flags = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "rules", "-q", "--out", "run")
    assert svr_here(*flags, "--bank", "nowhere") == 2
    assert "nowhere" in last_line(capsys)
    assert svr_here(*flags, "--method", "svr", "--judge", "gpt-oss-120b") == 2
    assert "--bank" in last_line(capsys)


# --- data split ------------------------------------------------------------------------------------------------------


def test_a_split_keeps_each_prompt_on_one_side(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every pair is on one side, no prompt on both; the same seed draws the same, another one not."""
    rows = [
        {"id": f"{prompt}-{n}", "prompt": f"Question {prompt}?", "chosen": f"a{n}", "rejected": f"b{n}"}
        for prompt in range(40)
        for n in range(3)
    ]
    (folder / "all.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    sides = {}
    for seed, out in (("7", "one"), ("7", "two"), ("8", "three")):
        assert svr_here("data", "split", "all.jsonl", "--share", "0.3", "--seed", seed, "--out", out, "--json") == 0
        counts = orjson.loads(capsys.readouterr().out)
        train, test = (read_lines(folder / out / f"{name}.jsonl") for name in ("train", "test"))
        assert (len(train), len(test)) == (counts["train"], counts["test"])
        assert sorted(row["id"] for row in train + test) == sorted(row["id"] for row in rows)
        prompts = [{row["prompt"][0]["content"] for row in side} for side in (train, test)]
        assert not prompts[0] & prompts[1]
        assert 0 < len(prompts[1]) < 40
        sides[out] = prompts[1]
    assert sides["one"] == sides["two"] != sides["three"]
    assert files_of(folder / "one") == files_of(folder / "two")


@pytest.fixture
def bank(folder: Path) -> dict[str, bytes]:
    """Put a file named as a bank's where a command would write one; return the folder's content."""
    (folder / "out" / "bank").mkdir(parents=True)
    (folder / "out" / "bank" / "bank.json").write_text("{}")
    return files_of(folder / "out")


@pytest.mark.parametrize("judge", ["rules", "http://127.0.0.1:9/v1#m"])
@pytest.mark.parametrize("command", ["train", "stages induce"])
def test_a_place_that_cannot_be_written_is_exit_five_before_a_call(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str, judge: str
) -> None:
    """`--out` below a file ends training in one line with the path, with any judge, and asks nothing."""
    out = "file/below"
    write_planted(folder / "pairs.jsonl", 40)
    (folder / "file").write_text("mine")
    assert svr_here(*command.split(), "pairs.jsonl", "--judge", judge, "--out", out, "-q") == 5
    assert f"cannot write to {out}" in last_line(capsys)
    assert (folder / "file").read_text() == "mine"


def test_training_leaves_the_bank_of_another_command(
    folder: Path, bank: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    """`svr train` and `svr fit` do not write over a bank that they did not make."""
    write_made(folder / "made.jsonl", 40)
    write_candidates(folder / "c.jsonl", "Is kind.")
    assert svr_here("stages", "judge", "made.jsonl", *RULES, "--candidates", "c.jsonl", "--out", "store", "-q") == 0
    capsys.readouterr()
    for args in (("train", "made.jsonl", *RULES), ("fit", "store")):
        assert svr_here(*args, "--out", "out", "-q") == 2
        assert "out/bank is a bank that another command made — name another folder with --out" in last_line(capsys)
    assert files_of(folder / "out") == bank
