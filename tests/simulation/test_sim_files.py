"""`svr sim`: the written world, and the endpoint as a command."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import sim_requests as ask
from click.testing import CliRunner

from svr_async.commands.sim import sim
from svr_async.errors import StorageError
from svr_async.simulation.brain import Simulator
from svr_async.simulation.config import SimConfig
from svr_async.simulation.files import WrittenWorld, apportion, write_world
from svr_async.simulation.world import read_prompt, read_rubric
from svr_async.simulation.catalogue import DOMAIN_COUNTS, TOPICS
from svr_async.simulation.world import World, WorldConfig


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a JSONL file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> WrittenWorld:
    """Return a small written world."""
    return write_world(World(WorldConfig(seed=5)), tmp_path_factory.mktemp("world"), n_train=300, n_test=400)


def test_training_rows(written: WrittenWorld) -> None:
    """Training rows have a prompt that does not repeat, two different responses, a unique id, the type as domain."""
    rows = rows_of(written.train)
    assert len(rows) == 300
    assert {tuple(row) for row in rows} == {("id", "prompt", "chosen", "rejected", "domain", "source")}
    assert len({row["id"] for row in rows}) == len({row["prompt"] for row in rows}) == 300
    assert all(row["chosen"] != row["rejected"] for row in rows)
    assert {row["domain"] for row in rows} == {topic.name for topic in TOPICS}
    kinds = [read_prompt(row["prompt"]).kind for row in rows]
    assert all(kind is not None for kind in kinds)
    assert [TOPICS[kind].name for kind in kinds if kind is not None] == [row["domain"] for row in rows]


def test_test_rows_are_of_rubricbench_schema(written: WrittenWorld) -> None:
    """Test rows have RubricBench's fields, both labels, and rubrics as one string of lines."""
    rows = rows_of(written.test)
    fields = ("case_id", "instruction", "response_a", "response_b", "label", "rubrics", "source", "domain")
    assert {tuple(row) for row in rows} == {fields}
    assert 0.4 < sum(row["label"] for row in rows) / len(rows) < 0.6
    assert all(read_rubric(line) for row in rows for line in row["rubrics"].split("\n"))
    assert not {row["instruction"] for row in rows} & {row["prompt"] for row in rows_of(written.train)}


def test_labels_point_at_the_better_response(written: WrittenWorld) -> None:
    """Label 0 means response A, in all but the few pairs that are mislabelled on purpose."""
    world, right = World(WorldConfig(seed=5)), 0
    rows = rows_of(written.test)
    for row in rows:
        margin = world.true_margin(row["instruction"], row["response_a"], row["response_b"])
        assert margin is not None
        right += (margin > 0) == (row["label"] == 0)
    assert 0.92 < right / len(rows) < 0.99


def test_domains_keep_rubricbench_proportions(written: WrittenWorld) -> None:
    """The fine domains come in RubricBench's proportions, and a full-sized file has its exact counts."""
    found = Counter(row["domain"] for row in rows_of(written.test))
    exact = {name: size * 400 / 1147 for _, name, size in DOMAIN_COUNTS}
    assert all(abs(found[name] - size) < 1 for name, size in exact.items())
    assert apportion([size for *_, size in DOMAIN_COUNTS], 1147) == [size for *_, size in DOMAIN_COUNTS]


def test_the_readme_says_that_it_is_simulated(written: WrittenWorld) -> None:
    """The note names the seed, the word simulated, and the expected accuracies."""
    text = written.readme.read_text("utf-8")
    assert text.startswith("SIMULATED DATA")
    assert "svr sim --seed 5" in text
    assert f"{written.calibration.human:.1%}" in text


def test_the_endpoint_of_the_same_seed_knows_the_file(written: WrittenWorld) -> None:
    """Judged by the perfect model of the same seed, nearly all labels are found; with another seed they are not."""

    def accuracy(seed: int) -> float:
        judge, hits = Simulator(SimConfig(seed=seed)), 0
        rows = rows_of(written.test)[:200]
        for row in rows:
            body = ask.direct(row["instruction"], row["response_a"], row["response_b"], model="sim-perfect")
            hits += ask.content(judge.answer(body)).endswith("[[A]]") == (row["label"] == 0)
        return hits / len(rows)

    assert accuracy(5) > 0.9
    assert accuracy(6) < 0.8


def test_writing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    """The files are a function of seed and sizes; writing over them leaves nothing else behind."""
    runner = CliRunner()
    args = ["--seed", "2", "--train", "20", "--test", "10", "--write", str(tmp_path / "w")]
    first = runner.invoke(sim, args, catch_exceptions=False)
    before = {path.name: path.read_bytes() for path in (tmp_path / "w").iterdir()}
    second = runner.invoke(sim, args, catch_exceptions=False)
    assert first.exit_code == second.exit_code == 0
    assert "20 pairs in" in first.output
    assert "simulated" in first.output
    assert {path.name: path.read_bytes() for path in (tmp_path / "w").iterdir()} == before
    assert set(before) == {"train.jsonl", "rubricbench.jsonl", "README.txt"}


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """A file in the place of the folder is a one-line error with its name."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write the simulated world to"):
        write_world(World(), tmp_path / "file" / "w", n_train=1, n_test=1)


@pytest.mark.parametrize("args", [["--help"]])
def test_help_has_an_example(args: list[str]) -> None:
    """Every help page shows how to call the command."""
    result = CliRunner().invoke(sim, args, catch_exceptions=False)
    assert result.exit_code == 0
    assert "Example:" in result.output
    assert "svr sim" in result.output
    assert "\\b" not in result.output


@pytest.mark.parametrize(
    ("args", "word"),
    [(["--faults", "plague"], "plague")],
)
def test_wrong_flags_are_refused_by_name(args: list[str], word: str) -> None:
    """A flag that makes no sense ends in an error that quotes it, before anything listens."""
    result = CliRunner().invoke(sim, ["--port", "0", *args])
    assert result.exit_code != 0
    assert word in str(result.exception)


def test_svr_sim_serves_until_it_is_told_to_stop() -> None:
    """Without a subcommand the endpoint starts, says where it is, answers, and ends cleanly on SIGTERM."""
    program = "from svr_async.commands.sim import sim; sim()"
    with subprocess.Popen(
        [sys.executable, "-c", program, "--port", "0", "--seed", "3"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            url = next(word for word in line.split() if word.startswith("http://127.0.0.1:"))
            data = json.dumps(ask.write("Could you help me with the recipe and the dough?")).encode()
            request = urllib.request.Request(f"{url}/chat/completions", data, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=20) as response:
                assert ask.payload(json.load(response))["rubrics"]
        finally:
            process.terminate()
        assert process.stdout is not None
        rest, code = process.stdout.read(), process.wait(20)
    assert code == 0
    assert "1 calls, 1 paid, 1 completed" in rest
