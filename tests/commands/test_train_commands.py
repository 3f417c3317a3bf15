"""`svr train`, `induce`, `judge`, `fit` and `data split` from flags to files; `svr eval --bank` with what they made."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import orjson
import pytest
from made_pairs import PATIENCE_S, TRAIN, N, files_of, last_line, write_candidates, write_made, write_planted
from rig import RULES, name_judge, read_lines, svr_here, write_bench

from svr_async.adapters import get_adapter
from svr_async.commands.batch import params_of
from svr_async.commands.train_run import train_settings
from svr_async.core.pair import split_by_prompt
from svr_async.core.rubric import Rubric
from svr_async.fit.config import DEFAULT
from svr_async.fit.tfidf import Vocabulary
from svr_async.scoring.bank import UNIFORM, BankRubric, InferenceSettings, RubricBank
from svr_async.simulation.server import SimServer
from svr_async.training.rounds.algorithm import run_rounds
from svr_async.training.rounds.config import FREE_TOP_K
from svr_async.training.rounds.fits import FitLog
from svr_async.training.rounds.session import FittedRound, Session
from svr_async.training.running import train as train_run
from svr_async.training.running.data import decontaminated
from svr_async.training.running.settings import train_config
from svr_async.training.store.files import BOTH_ORDERS, Csr, FeatureStore, Header, load_store, pair_schema, write_store

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
    assert svr_here(*flags, "--bank", trained / "out" / "bank", "--out", "run") == 0
    items = read_lines(folder / "run" / "items.jsonl")
    assert len(items) == 40
    assert {len(item["rubrics"]) for item in items} <= set(range(1, max(DEFAULT.top_ks) + 1))
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

    async def worse_and_worse(session: Session, log: FitLog) -> list[FittedRound]:
        return [replace(one, dev_accuracy=1 - 0.3 * one.number) for one in await whole(session, log)]

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


@pytest.mark.parametrize(("preset", "filler", "top_k"), [("paper", 1.0, None), ("default", 0.0, FREE_TOP_K)])
def test_a_fit_by_itself_follows_its_preset_in_use_too(
    preset: str, filler: float, top_k: int | None, folder: Path
) -> None:
    """`svr-fit --preset paper` fills free places with weight 1, and chooses its epoch over all that was judged.

    The default is measured by as many rubrics as a prompt gets where judging is free.
    """
    write_made(folder / "made.jsonl")
    write_candidates(folder / "c.jsonl")
    assert svr_here("stages", "judge", "made.jsonl", *RULES, "--candidates", "c.jsonl", "--out", "store", "-q") == 0
    epochs = ("--epochs", "1") if preset == "paper" else ()
    assert svr_here("fit", "store", "--out", "out", "--preset", preset, *epochs, "-q") == 0
    bank = RubricBank.load(folder / "out" / "bank")
    assert (bank.inference.filler_weight, bank.fit_settings["top_k"]) == (filler, top_k)


def test_descriptive_induction_proposes_other_rubrics(folder: Path) -> None:
    """--descriptive describes the chosen response and does not look at the other one."""
    write_made(folder / "made.jsonl", 30)
    assert svr_here("stages", "induce", "made.jsonl", *RULES, "--out", "c.jsonl", "-q") == 0
    assert svr_here("stages", "induce", "made.jsonl", *RULES, "--out", "d.jsonl", "-q", "--descriptive") == 0
    assert len(read_lines(folder / "d.jsonl")) > len(read_lines(folder / "c.jsonl"))


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
    assert svr_here("train", "made.jsonl", *RULES, "--out", "out", "-q", "--decontaminate", given) == 2
    last_line(capsys)


def test_too_few_pairs_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where nothing is left to check with, the counts are said."""
    write_made(folder / "made.jsonl", 1)
    assert svr_here("train", "made.jsonl", *RULES, "--out", "out", "-q") == 2
    assert "at least two prompts" in last_line(capsys)


def test_pairs_that_nothing_can_be_said_of_end_with_eight(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No rubric is induced: exit 8 and one line from `train` and `induce`, and neither a bank nor a file."""
    rows = [{"id": f"{n}", "prompt": f"Say {n}", "chosen": f"ab{n}", "rejected": f"cd{n}"} for n in range(120)]
    (folder / "bare.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    for command, out in (("train", "out"), ("stages induce", "c.jsonl")):
        assert svr_here(*command.split(), "bare.jsonl", *RULES, "--out", out, "-q") == 8
        assert "no rubric was induced" in last_line(capsys)
    assert not (folder / "out" / "bank").exists()
    assert not (folder / "c.jsonl").exists()


def test_pairs_without_two_different_responses_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A chosen response that equals the rejected one teaches nothing; pairs of one prompt cannot be split."""
    rows = [{"id": f"{n}", "prompt": f"Say {n}", "chosen": "a", "rejected": "a"} for n in range(9)]
    (folder / "ties.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    assert svr_here("train", "ties.jsonl", *RULES, "--out", "out", "-q") == 2
    assert "0 of 9 pairs in ties.jsonl can be learned from" in last_line(capsys)
    rows = [row | {"prompt": "Say", "rejected": f"b{n}"} for n, row in enumerate(rows)]
    (folder / "one.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    assert svr_here("train", "one.jsonl", *RULES, "--out", "out", "-q") == 2
    assert "at least two prompts" in last_line(capsys)


def test_epochs_for_the_default_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The default is solved: a number of epochs for it is told in a line, not ignored."""
    write_made(folder / "made.jsonl", 40)
    write_candidates(folder / "c.jsonl")
    assert svr_here("stages", "judge", "made.jsonl", *RULES, "--candidates", "c.jsonl", "--out", "store", "-q") == 0
    capsys.readouterr()
    assert svr_here("fit", "store", "--out", "out", "--epochs", "2") == 2
    assert "epochs must be 0 (got 2)" in last_line(capsys)


def test_one_rubric_and_prompts_without_a_word_give_a_bank_that_works(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty vocabulary and a bank of one: it is fitted, and judges a prompt that training has not seen."""
    write_made(folder / "made.jsonl", 60)
    signs = ("".join(three) for three in product("?!.,", repeat=3))
    rows = [{**row, "prompt": sign} for row, sign in zip(read_lines(folder / "made.jsonl"), signs, strict=False)]
    (folder / "signs.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    write_candidates(folder / "c.jsonl", checks=1)
    assert svr_here("stages", "judge", "signs.jsonl", *RULES, "--candidates", "c.jsonl", "--out", "store", "-q") == 0
    assert orjson.loads((folder / "store" / "vocabulary.json").read_bytes()) == {}
    assert svr_here("fit", "store", "--out", "out", "-q") == 0
    unseen = {"id": "u", "prompt": "Which trees?", "chosen": "- oak\n- elm", "rejected": "oak and elm"}
    (folder / "unseen.jsonl").write_bytes(orjson.dumps(unseen))
    flags = ("eval", "pairs", "--data", "unseen.jsonl", "--judge", "rules", "--bank", "out/bank", "-q", "--out", "run")
    assert svr_here(*flags) == 0
    [item] = read_lines(folder / "run" / "items.jsonl")
    assert item["correct"]
    assert [row["alpha"] for row in item["rubrics"]] == [1.0]
    capsys.readouterr()


@pytest.mark.parametrize(
    ("value", "flag", "code", "words"),
    [
        (0.0, BOTH_ORDERS, 8, "no signal: all 39 judged entries are tied"),
        (np.nan, 0, 7, "lies outside ±1.25"),
        (1.5, 0, 7, "lies outside ±1.25"),
    ],
)
def test_a_z_that_says_nothing_or_cannot_be_ends_the_fit(
    folder: Path, capsys: pytest.CaptureFixture[str], value: float, flag: int, code: int, words: str
) -> None:
    """All tied: exit 8, nothing to learn from; not a number or outside of Δ's values: exit 7, whatever its checksum."""
    write_made(folder / "made.jsonl", 40)
    write_candidates(folder / "c.jsonl", checks=1)
    assert svr_here("stages", "judge", "made.jsonl", *RULES, "--candidates", "c.jsonl", "--out", "store", "-q") == 0
    meta = orjson.loads((folder / "store" / "meta.json").read_bytes())
    for name, number in (("z.value.npy", value), ("z.flags.npy", flag)):
        path = folder / "store" / name
        np.save(path, np.full_like(np.load(path), number))
        meta["files"][name] = {"bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    (folder / "store" / "meta.json").write_bytes(orjson.dumps(meta))
    capsys.readouterr()
    assert svr_here("fit", "store", "--out", "out", "-q") == code
    assert words in last_line(capsys)
    assert not (folder / "out" / "bank").exists()


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
    assert "file exists already" in last_line(capsys)


def test_a_check_that_was_changed_is_judged_anew(folder: Path) -> None:
    """A rubric's id is that of its text; the check behind it counts too, so no stale verdict is read back."""
    write_made(folder / "made.jsonl", 40)
    stores = []
    for name in ("bullet_list", "numbered_list"):
        row = {"rubric": {"text": "Lists.", "check": {"name": name, "args": {}}}, "sources": [], "count": 1}
        (folder / "c.jsonl").write_bytes(orjson.dumps(row | {"aliases": []}))
        assert svr_here("stages", "judge", "made.jsonl", *RULES, "--candidates", "c.jsonl", "--out", "store", "-q") == 0
        stores.append(load_store(folder / "store").z.value.tolist())
        (folder / "store").rename(folder / name)
    assert stores[0] != stores[1]


def test_a_store_with_nothing_to_learn_from_ends_with_eight(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No rubrics, or no judged entry: exit 8 and one line, and no bank."""
    none = {"indptr": np.zeros(1, np.int64), "index": np.zeros(0, np.int32), "value": np.zeros(0, np.float32)}
    store = FeatureStore(
        header=Header(judge="rules"),
        vocabulary=Vocabulary(terms={}, idf=np.zeros(0, np.float32)),
        rubrics=(),
        pairs=pair_schema().empty_table(),
        features=Csr(**none),
        z=Csr(**none, flags=np.zeros(0, np.uint8)),
    )
    write_store(folder / "empty", store)
    assert svr_here("fit", "empty", "--out", "out", "-q") == 8
    assert "0 rubrics" in last_line(capsys)
    write_made(folder / "made.jsonl", 40)
    write_candidates(folder / "c.jsonl", "Is kind.")
    assert svr_here("stages", "judge", "made.jsonl", *RULES, "--candidates", "c.jsonl", "--out", "store", "-q") == 0
    capsys.readouterr()
    assert svr_here("fit", "store", "--out", "out", "-q") == 8
    last_line(capsys)
    assert not (folder / "out" / "bank").exists()


def test_a_damaged_store_ends_with_seven_and_a_missing_one_with_two(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any file of the store that was cut or changed is found before a fit begins."""
    write_made(folder / "made.jsonl", 40)
    write_candidates(folder / "c.jsonl", "Is kind.")
    assert svr_here("stages", "judge", "made.jsonl", *RULES, "--candidates", "c.jsonl", "--out", "store", "-q") == 0
    capsys.readouterr()
    for name, data in files_of(folder / "store").items():
        (folder / "store" / name).write_bytes(data[: len(data) // 2])
        assert svr_here("fit", "store", "--out", "out", "-q") == 7, name
        last_line(capsys)
        (folder / "store" / name).write_bytes(data)
    assert svr_here("fit", "nowhere", "--out", "out", "-q") == 2
    last_line(capsys)


def test_a_damaged_stage_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A stage file that cannot be read stops the run with exit 7; removed, the run goes on."""
    write_made(folder / "made.jsonl", 30)
    flags = ("stages", "induce", "made.jsonl", *RULES, "--out", "c.jsonl", "-q")
    assert svr_here(*flags) == 0
    before = (folder / "c.jsonl").read_bytes()
    stage = next((folder / "c.jsonl.stages").rglob("induce.stage"))
    stage.write_bytes(stage.read_bytes()[:40])
    capsys.readouterr()
    assert svr_here(*flags) == 7
    assert "induce.stage" in last_line(capsys)
    stage.unlink()
    assert svr_here(*flags) == 0
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
    flags = ("stages", "judge", "made.jsonl", *RULES, "--out", "store", "-q")
    assert svr_here(*flags, "--candidates", "c.jsonl") == 7
    assert "c.jsonl line 2" in last_line(capsys)


def test_rubrics_to_judge_must_be_named_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither of --bank and --candidates, both, an empty file or none at all: exit 2."""
    write_made(folder / "made.jsonl", 30)
    (folder / "c.jsonl").write_text("\n")
    for more in ((), ("--bank", "b", "--candidates", "c.jsonl"), ("--candidates", "c.jsonl"), ("--candidates", "no")):
        assert svr_here("stages", "judge", "made.jsonl", *RULES, "--out", "store", "-q", *more) == 2
        last_line(capsys)


def test_a_bank_that_is_missing_or_damaged_stops_an_evaluation(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Missing: exit 2; damaged: exit 7; --method svr of a model without a bank: exit 2; each in one line."""
    write_bench(folder / "bench.jsonl", 3)
    flags = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "rules", "-q", "--out", "run")
    assert svr_here(*flags, "--bank", "nowhere") == 2
    assert "nowhere" in last_line(capsys)
    assert svr_here(*flags, "--method", "svr", "--judge", "gpt-oss-120b") == 2
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
        assert svr_here(*flags, "--bank", "bank") == 7, broken
        last_line(capsys)


def test_what_no_bank_can_hold_is_refused_before_anything_is_computed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An id, a domain, a licence or a rubric that is too long: one line that names it, and nothing is written."""
    write_made(folder / "made.jsonl", 40)
    rows = read_lines(folder / "made.jsonl")
    for field in ("id", "domain"):
        long = [{**row, field: "x" * 4097} if n == 30 else row for n, row in enumerate(rows)]
        (folder / "long.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in long))
        assert svr_here("train", "long.jsonl", *RULES, "--out", "out", "-q") == 2
        assert "4,097" in last_line(capsys)
    assert svr_here("train", "made.jsonl", *RULES, "--out", "out", "-q", "--license", "x" * 4097) == 2
    assert "--license" in last_line(capsys)
    write_candidates(folder / "c.jsonl", "Is kind.", "Is kind " * 70)
    assert svr_here("stages", "judge", "made.jsonl", *RULES, "--candidates", "c.jsonl", "--out", "store", "-q") == 7
    assert "c.jsonl line 2" in last_line(capsys)
    assert not any((folder / name).exists() for name in ("out", "store", "store.stages"))


def test_files_of_candidates_may_be_joined(folder: Path) -> None:
    """A rubric that both have is judged once, with the sources of both."""
    write_made(folder / "made.jsonl", 40)
    for name, pairs in (("one", ["made-1", "made-2"]), ("two", ["made-2", "made-3"])):
        write_candidates(folder / f"{name}.jsonl", "Is kind.", f"Is {name}.")
        lines = [row | {"sources": pairs} for row in read_lines(folder / f"{name}.jsonl")]
        (folder / f"{name}.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in lines))
    joined = (folder / "one.jsonl").read_bytes() + (folder / "two.jsonl").read_bytes()
    (folder / "both.jsonl").write_bytes(joined)
    assert svr_here("stages", "judge", "made.jsonl", *RULES, "--candidates", "both.jsonl", "--out", "store", "-q") == 0
    kind, *others = load_store(folder / "store").rubrics
    assert kind.source_pair_ids == ("made-1", "made-2", "made-3")
    assert (kind.observed_count, len(others)) == (2, 2)


def test_no_rubric_is_judged_on_a_held_out_prompt_that_it_came_from(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rubrics that were induced with another seed, as those of merged banks: said, and left out just there."""
    write_made(folder / "made.jsonl")
    assert svr_here("stages", "induce", "made.jsonl", *RULES, "--out", "c.jsonl", "--seed", "1", "-q") == 0
    capsys.readouterr()
    for pool in ("all", "cross"):
        assert (
            svr_here("stages", "judge", "made.jsonl", *RULES, "--candidates", "c.jsonl", "--out", pool, "--pool", pool)
            == 0
        )
        assert "came from prompts that are held out here" in capsys.readouterr().err
        store = load_store(folder / pool)
        sources = [set(entry.source_pair_ids) for entry in store.rubrics]
        judged = 0
        for row in np.flatnonzero(store.is_dev).tolist():
            entries = store.z.index[store.z.indptr[row] : store.z.indptr[row + 1]].tolist()
            assert not [place for place in entries if store.pair_ids[row] in sources[place]]
            judged += len(entries)
        assert judged > 0
    assert svr_here("stages", "induce", "made.jsonl", *RULES, "--out", "same.jsonl", "-q") == 0
    assert svr_here("stages", "judge", "made.jsonl", *RULES, "--candidates", "same.jsonl", "--out", "same") == 0
    assert "held out here" not in capsys.readouterr().err


def test_a_fit_is_measured_by_as_many_rubrics_as_a_prompt_may_get() -> None:
    """Dev numbers are by the best so many rubrics as the structure may have; the paper's text has no such number."""
    params = params_of("train", ["made.jsonl", *RULES, "--out", "out"])
    asked = {"judge": "gpt-oss-120b"}
    for more, top_ks in (({}, (FREE_TOP_K,)), (asked, DEFAULT.top_ks), ({**asked, "top_k": 5}, (5,))):
        config = train_config(train_settings({**params, **more}))
        assert (config.fit.top_ks, config.fit.top_k) == (top_ks, max(top_ks))
        assert max(config.top_k_choices) in top_ks
    assert train_config(train_settings({**params, "preset": "paper"})).fit.top_k is None


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


def test_what_is_held_out_has_nothing_to_do_with_the_dev_split_of_the_same_seed(folder: Path) -> None:
    """Whoever gives `data split` and `train` one seed still has dev prompts in the training part."""
    rows = [{"prompt": f"Question {n}?", "chosen": "yes", "rejected": "no"} for n in range(400)]
    (folder / "all.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    assert svr_here("data", "split", "all.jsonl", "--share", "0.2", "--seed", "42", "--out", "parts") == 0
    train = get_adapter("pairs").load(folder / "parts" / "train.jsonl").pairs
    assert 4 <= len(split_by_prompt(train, 0.05, salt="42")[1]) <= 40


def test_a_split_is_read_again_as_the_same_pairs(folder: Path) -> None:
    """What `split` writes, `pairs` reads: prompts, responses, which is chosen, domain."""
    write_planted(folder / "pairs.jsonl", 30)
    assert svr_here("data", "split", "pairs.jsonl", "--out", "halves", "--share", "0.5") == 0
    names = ("pairs.jsonl", "halves/train.jsonl", "halves/test.jsonl")
    whole, train, test = ({pair.id: pair for pair in get_adapter("pairs").load(folder / name).pairs} for name in names)
    again = train | test
    assert set(again) == set(whole)
    for name, pair in whole.items():
        other = again[name]
        for field in ("prompt", "chosen", "rejected", "chosen_first", "domain", "subset"):
            assert getattr(other, field) == getattr(pair, field)
