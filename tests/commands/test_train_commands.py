"""`svr train`, `induce`, `judge`, `fit` and `data split` from flags to files; `svr eval --bank` with what they made."""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import orjson
import pytest
from rig import background, name_judge, read_lines, serving, sim_process, wait_until, write_bench

from svr_async.adapters import get_adapter
from svr_async.commands.main import run
from svr_async.commands.main import svr as group
from svr_async.commands.training import decontaminated
from svr_async.scoring.bank import UNIFORM, BankRubric, InferenceSettings, RubricBank
from svr_async.simulation.files import train_row
from svr_async.simulation.server import SimServer
from svr_async.simulation.world import World
from svr_async.training.store import FeatureStore, StoreHeader
from svr_async.vocabulary.rubric import Rubric

N = 80
CONCURRENCY = 4
TRAIN = ("train", "pairs.jsonl", "--judge", "sim", "--out", "out", "--rounds", "2", "--pool-size", "9", "-q")


def svr(*args: str | Path) -> int:
    """Run `svr` in this process; return the exit code."""
    return run(group, "svr", [str(arg) for arg in args])


def write_planted(path: Path, count: int = N) -> Path:
    """Write planted training pairs, each line a pair."""
    rows = [orjson.dumps(train_row(item)) for item in World().pairs(count, "train")]
    path.write_bytes(b"\n".join(rows) + b"\n")
    return path


def write_made(path: Path, count: int = 120) -> Path:
    """Write pairs that checks can tell apart: lists, lengths and figures were asked for; prompts repeat."""
    rows = []
    for number, (fruit, place) in zip(range(count), product(FRUITS, PLACES), strict=False):
        listed = "\n".join(f"- {fruit} from {place}, kind {n}" for n in range(1, 4 + number % 3))
        plain = f"There are some kinds of {fruit}. They come from {place}. " * (1 + number % 4)
        rows.append(
            {
                "id": f"made-{number}",
                "prompt": f"List three or more kinds of {fruit} that grow near {place}, as bullets.",
                "chosen": f"**{fruit}**\n\n{listed}",
                "rejected": plain.strip(),
            }
        )
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


FRUITS = ("apples", "pears", "plums", "cherries", "quinces", "medlars", "figs", "grapes", "limes", "dates")
PLACES = ("the river", "the coast", "a hill", "the old mill", "our village", "a lake", "the moor", "a wood", "the dyke",
          "the pass", "a canal", "the fen")  # fmt: skip


def files_of(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder, by relative path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def last_line(capsys: pytest.CaptureFixture[str]) -> str:
    """Return what was said on stderr, which must be one line and no traceback."""
    said = capsys.readouterr().err.strip()
    assert "Traceback" not in said
    assert len(said.splitlines()) == 1, said
    return said


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- over HTTP, against the simulated endpoint -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def sim() -> Iterator[SimServer]:
    """Serve a flawless simulated endpoint for all tests of this module."""
    with serving() as server:
        yield server


@pytest.fixture(scope="module")
def trained(sim: SimServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train once, over two rounds, without a stop; return the folder in which the command was given."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    where = shared / "trained"
    where.mkdir(exist_ok=True)
    before = Path.cwd()
    with (shared / "trained.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one worker trains, the others wait for it
        if not (where / "out" / "record.json").exists():
            write_planted(where / "pairs.jsonl")
            name_judge(where, sim.base_url)
            os.chdir(where)
            try:
                assert svr(*TRAIN) == 0
            finally:
                os.chdir(before)
    return where


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
    assert svr(*flags, "--bank", trained / "out" / "bank", "--out", "run") == 0
    items = read_lines(folder / "run" / "items.jsonl")
    assert len(items) == 40
    assert {len(item["rubrics"]) for item in items} <= set(range(1, 7))
    for item in items:
        assert sum(row["contribution"] for row in item["rubrics"]) == pytest.approx(item["margin"], abs=1e-5)
    assert svr(*flags, "--bank", trained / "out" / "bank", "--method", "uniform", "--out", "even") == 0
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
    assert svr(*TRAIN) == 0
    assert files_of(trained / "out" / "bank") == before
    assert sim.stats()["calls"] == calls


@pytest.mark.parametrize("calls", [30, 190])
def test_after_kill_nine_the_bank_is_that_of_the_run_that_was_never_killed(
    trained: Path, folder: Path, calls: int
) -> None:
    """Killed while inducing or judging: the same command ends with the same bank; only what was in flight is repaid."""
    log = folder / "log.jsonl"
    with sim_process(folder, "--latency-ms", "40", "--log", log) as url:
        write_planted(folder / "pairs.jsonl")
        name_judge(folder, url)
        with background(*TRAIN, "--concurrency", str(CONCURRENCY), cwd=folder) as process:
            wait_until(lambda: len(read_lines(log)) >= calls)
            process.kill()
            process.wait(20)
        assert not (folder / "out" / "bank").exists()
        assert svr(*TRAIN, "--concurrency", "48") == 0
    assert files_of(folder / "out" / "bank") == files_of(trained / "out" / "bank")
    paid = Counter(line["key"] for line in read_lines(log) if line["paid"])
    assert sum(paid.values()) - len(paid) <= CONCURRENCY
    assert max(paid.values()) <= 2


# --- offline ---------------------------------------------------------------------------------------------------------


def test_the_rules_judge_trains_offline_and_gives_the_same_bank_every_time(folder: Path) -> None:
    """No endpoint, no memo; two folders hold the same bank, and what separates the pairs is in it."""
    write_made(folder / "made.jsonl")
    for out in ("one", "two"):
        assert svr("train", "made.jsonl", "--out", out, "--rounds", "1", "-q") == 0
    assert files_of(folder / "one" / "bank") == files_of(folder / "two" / "bank")
    assert not (folder / "cache").exists()
    record = orjson.loads((folder / "one" / "record.json").read_bytes())
    assert record["dev"]["accuracy"] == 1.0


def test_induce_judge_and_fit_by_themselves_end_with_a_bank(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The three stages in a row, offline; fitting the same store again gives the same bank."""
    write_made(folder / "made.jsonl")
    assert svr("induce", "made.jsonl", "--out", "c.jsonl", "-q", "--json") == 0
    assert orjson.loads(capsys.readouterr().out)["rubrics"] == len(read_lines(folder / "c.jsonl")) > 0
    assert svr("judge", "made.jsonl", "--candidates", "c.jsonl", "--out", "store", "-q", "--json") == 0
    assert orjson.loads(capsys.readouterr().out)["entries"] > 0
    for out in ("one", "two"):
        assert svr("fit", "store", "--out", out, "--epochs", "1", "-q", "--json") == 0
        assert orjson.loads(capsys.readouterr().out)["dev_accuracy"] == 1.0
    assert files_of(folder / "one" / "bank") == files_of(folder / "two" / "bank")
    write_bench(folder / "bench.jsonl", 5)
    flags = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "rules", "--bank", "one/bank", "-q")
    assert svr(*flags, "--out", "run", "--min-coverage", "0") == 0
    assert svr("judge", "made.jsonl", "--bank", "one/bank", "--out", "again", "-q", "--limit", "60") == 0


def test_descriptive_induction_proposes_other_rubrics(folder: Path) -> None:
    """--descriptive describes the chosen response and does not look at the other one."""
    write_made(folder / "made.jsonl", 30)
    assert svr("induce", "made.jsonl", "--out", "c.jsonl", "-q") == 0
    assert svr("induce", "made.jsonl", "--out", "d.jsonl", "-q", "--descriptive") == 0
    assert len(read_lines(folder / "d.jsonl")) > len(read_lines(folder / "c.jsonl"))


# --- refusals, each in one line --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args",
    [
        ("train", "RubricBench_v1.jsonl", "--out", "out"),
        ("train", "made.jsonl", "--format", "rubricbench", "--out", "out"),
        ("induce", "rubric-bench/test.jsonl", "--out", "c.jsonl"),
        ("induce", "made.jsonl", "--format", "rubricbench", "--out", "c.jsonl"),
        ("judge", "rubricbench.jsonl", "--candidates", "c.jsonl", "--out", "store"),
    ],
)
def test_rubricbench_is_refused_as_training_data(
    folder: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...]
) -> None:
    """By the name of the file, of its folder, or of the format: exit 2, and nothing is written."""
    write_made(folder / "made.jsonl", 3)
    (folder / "c.jsonl").write_text('{"rubric": {"text": "Is short."}, "sources": [], "count": 1, "aliases": []}\n')
    (folder / "rubric-bench").mkdir()
    for name in ("RubricBench_v1.jsonl", "rubric-bench/test.jsonl", "rubricbench.jsonl"):
        write_made(folder / name, 3)
    assert svr(*args, "-q") == 2
    assert "evaluation only" in last_line(capsys)
    assert not (folder / "out").exists()
    assert not (folder / "store").exists()


def test_overlap_with_a_benchmark_is_left_out_and_named(folder: Path) -> None:
    """--decontaminate names the benchmark and its file; the pairs that share a run of words are left out."""
    write_made(folder / "made.jsonl", 60)
    pairs = get_adapter("pairs").load(folder / "made.jsonl").pairs
    row = {"id": "x", "prompt": "Q?", "chosen": pairs[0].prompt[0].content, "rejected": "no"}
    (folder / "held.jsonl").write_bytes(orjson.dumps(row))
    kept, found = decontaminated(pairs, ["pairs=held.jsonl"])
    assert [(hit.pair_id, hit.benchmark, hit.item) for hit in found] == [(pairs[0].id, "pairs", "x")]
    assert [pair.id for pair in kept] == [pair.id for pair in pairs[1:]]
    assert decontaminated(pairs, []) == (list(pairs), [])


@pytest.mark.parametrize("given", ["pairs", "pairs=", "=x"])
def test_a_benchmark_without_a_file_is_a_usage_error(
    folder: Path, capsys: pytest.CaptureFixture[str], given: str
) -> None:
    """--decontaminate needs NAME=PATH."""
    write_made(folder / "made.jsonl", 30)
    assert svr("train", "made.jsonl", "--out", "out", "-q", "--decontaminate", given) == 2
    last_line(capsys)


def test_too_few_pairs_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where nothing is left to check with, the counts are said."""
    write_made(folder / "made.jsonl", 1)
    assert svr("train", "made.jsonl", "--out", "out", "-q") == 2
    assert "give more pairs" in last_line(capsys)


def test_a_store_with_nothing_to_learn_from_ends_with_eight(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No rubrics, or no judged entry: exit 8 and one line, and no bank."""
    FeatureStore.create(folder / "empty", StoreHeader(vocabulary={}, idf=np.zeros(0, np.float32), judge="rules"))
    assert svr("fit", "empty", "--out", "out", "-q") == 8
    assert "0 rubrics" in last_line(capsys)
    write_made(folder / "made.jsonl", 40)
    (folder / "c.jsonl").write_text('{"rubric": {"text": "Is kind."}, "sources": [], "count": 1, "aliases": []}\n')
    assert svr("judge", "made.jsonl", "--candidates", "c.jsonl", "--out", "store", "-q") == 0
    capsys.readouterr()
    assert svr("fit", "store", "--out", "out", "-q") == 8
    last_line(capsys)
    assert not (folder / "out" / "bank").exists()


def test_a_damaged_store_ends_with_seven_and_a_missing_one_with_two(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any file of the store that was cut or changed is found before a fit begins."""
    write_made(folder / "made.jsonl", 40)
    (folder / "c.jsonl").write_text('{"rubric": {"text": "Is kind."}, "sources": [], "count": 1, "aliases": []}\n')
    assert svr("judge", "made.jsonl", "--candidates", "c.jsonl", "--out", "store", "-q") == 0
    capsys.readouterr()
    for name, data in files_of(folder / "store").items():
        (folder / "store" / name).write_bytes(data[: len(data) // 2])
        assert svr("fit", "store", "--out", "out", "-q") == 7, name
        last_line(capsys)
        (folder / "store" / name).write_bytes(data)
    assert svr("fit", "nowhere", "--out", "out", "-q") == 2
    last_line(capsys)


def test_a_damaged_stage_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A stage file that cannot be read stops the run with exit 7; removed, the run goes on."""
    write_made(folder / "made.jsonl", 30)
    flags = ("induce", "made.jsonl", "--out", "c.jsonl", "-q")
    assert svr(*flags) == 0
    before = (folder / "c.jsonl").read_bytes()
    stage = next((folder / "c.jsonl.stages").rglob("induce.json"))
    stage.write_bytes(stage.read_bytes()[:40])
    capsys.readouterr()
    assert svr(*flags) == 7
    assert "induce.json" in last_line(capsys)
    stage.unlink()
    assert svr(*flags) == 0
    assert (folder / "c.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    "line", ["{", "[]", "3", '{"rubric": {}}', '{"rubric": {"text": 3}, "sources": [], "count": 1}']
)
def test_a_damaged_file_of_candidates_is_named_by_line(
    folder: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    """Exit 7 with file and line; an empty file and a missing one are usage errors, and so are both or neither."""
    write_made(folder / "made.jsonl", 30)
    (folder / "c.jsonl").write_text("\n" + line + "\n")
    flags = ("judge", "made.jsonl", "--out", "store", "-q")
    assert svr(*flags, "--candidates", "c.jsonl") == 7
    assert "c.jsonl line 2" in last_line(capsys)


def test_rubrics_to_judge_must_be_named_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither of --bank and --candidates, both, an empty file or none at all: exit 2."""
    write_made(folder / "made.jsonl", 30)
    (folder / "c.jsonl").write_text("\n")
    for more in ((), ("--bank", "b", "--candidates", "c.jsonl"), ("--candidates", "c.jsonl"), ("--candidates", "no")):
        assert svr("judge", "made.jsonl", "--out", "store", "-q", *more) == 2
        last_line(capsys)


def test_a_bank_that_is_missing_or_damaged_stops_an_evaluation(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Missing: exit 2; damaged: exit 7; --method svr without a bank: exit 2; each in one line."""
    write_bench(folder / "bench.jsonl", 3)
    flags = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "rules", "-q", "--out", "run")
    assert svr(*flags, "--bank", "nowhere") == 2
    assert "nowhere" in last_line(capsys)
    assert svr(*flags, "--method", "svr") == 2
    assert "--bank" in last_line(capsys)
    bank = RubricBank(
        rubrics=(
            BankRubric(rubric=Rubric(text="Is kind."), weight=0.5),
            BankRubric(rubric=Rubric(text="Is brief."), weight=0.5),
        ),
        selector_kind=UNIFORM,
        inference=InferenceSettings(),
    )
    bank.save(folder / "good")
    good = files_of(folder / "good")
    for broken in sorted(set(good) - {"card.md"}):
        (folder / "bank").mkdir(exist_ok=True)
        for name, data in good.items():
            (folder / "bank" / name).write_bytes(data[:-20] if name == broken else data)
        assert svr(*flags, "--bank", "bank") == 7, broken
        last_line(capsys)


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
    for seed, out in (("x", "one"), ("x", "two"), ("y", "three")):
        assert svr("data", "split", "all.jsonl", "--share", "0.3", "--seed", seed, "--out", out, "--json") == 0
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


def test_a_split_is_read_again_as_the_same_pairs(folder: Path) -> None:
    """What `split` writes, `pairs` reads: prompts, responses, which is chosen, domain."""
    write_planted(folder / "pairs.jsonl", 30)
    assert svr("data", "split", "pairs.jsonl", "--out", "halves", "--share", "0.5") == 0
    names = ("pairs.jsonl", "halves/train.jsonl", "halves/test.jsonl")
    whole, train, test = ({pair.id: pair for pair in get_adapter("pairs").load(folder / name).pairs} for name in names)
    again = train | test
    assert set(again) == set(whole)
    for name, pair in whole.items():
        other = again[name]
        for field in ("prompt", "chosen", "rejected", "chosen_first", "domain", "subset"):
            assert getattr(other, field) == getattr(pair, field)
