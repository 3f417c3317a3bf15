"""`svr batch`: the calls of a run as a batch, and the same results as a live run, against the simulated endpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from endpoint import SimConfig, SimServer
from made_pairs import write_candidates, write_planted
from rig import (
    name_judge,
    pairs,
    read_lines,
    run_items,
    serving,
    svr_here,
    write_bank,
    write_bench,
)

from svr_async.engine.batch_files import Batch, Export, RequestFile, State, save
from svr_async.simulation.simulator import Simulator
from svr_async.training.rounds.algorithm import run_rounds
from svr_async.training.settings import TrainSettings
from svr_async.training.train import BatchTraining

N = 40
SENTINEL = "sk-sentinel-77aa66bb55"
EVAL = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "-q")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sim: SimServer) -> Path:
    """Work in a folder with planted pairs and the judge `sim`."""
    monkeypatch.chdir(tmp_path)
    write_bench(tmp_path / "bench.jsonl", N)
    name_judge(tmp_path, sim.base_url)
    return tmp_path


@pytest.fixture
def facts(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Return a function that runs `svr batch … --json` and returns its JSON, after checking the exit code."""

    def call(verb: str, *args: str | Path, code: int = 0) -> Any:
        capsys.readouterr()
        assert svr_here("batch", verb, "--json", *args) == code
        return orjson.loads(capsys.readouterr().out)

    return call


@pytest.fixture
def last_line(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """Return a function that returns the last line on standard error."""

    def line() -> str:
        (text,) = capsys.readouterr().err.splitlines()[-1:]
        return text

    return line


def by_batch(words: tuple[str, ...], name: str = "batch") -> None:
    """Export, submit and import."""
    assert svr_here("batch", "export", name, *words) == 0
    assert svr_here("batch", "submit", name) == 0
    assert svr_here("batch", "import", name, "--wait") == 0


# --- the same results as a live run ----------------------------------------------------------------------------------

METHODS = [
    ("--method", "direct", "--order", "both"),
    ("--method", "oracle", "--audit", "0.3"),
    ("--bank", "bank", "--limit", "12"),
    ("--method", "fixed", "--rubrics", "rubrics.txt", "--domain", "code"),
    ("--method", "pointwise", "--rubrics", "rubrics.txt", "--limit", "12"),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method[1])
def test_a_run_by_batch_equals_a_live_run(folder: Path, sim: SimServer, method: tuple[str, ...]) -> None:
    """After the import the command sends nothing, and its items have the bytes of a live run."""
    (folder / "rubrics.txt").write_text("\n".join(pairs(1)[0].rubrics))
    write_bank(folder / "bank")
    assert svr_here(*EVAL, *method, "--cache", "live-cache", "--out", "live") == 0
    words = (*EVAL, *method, "--cache", "cache", "--out", "run")
    before = sim.stats()["calls"]
    by_batch(words)
    asked = sim.stats()["calls"] - before
    assert svr_here(*words) == 0
    assert sim.stats()["calls"] - before == asked == len(read_lines(folder / "batch" / "requests-0001.jsonl"))
    assert run_items("run") == run_items("live")


def test_two_stages_take_two_batches(
    folder: Path, sim: SimServer, facts: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Rubrics that the judge writes are exported first, verdicts on them after the import."""
    words = (*EVAL, "--method", "self-rubric", "--out", "run")
    assert svr_here(*words, "--cache", "live-cache", "--out", "live") == 0
    before = sim.stats()["paid"]
    first = facts("export", "batch", *words)
    assert (first["requests"], first["staged"], first["cache_hits"]) == (N, True, 0)
    assert svr_here("batch", "submit", "batch") == 0
    capsys.readouterr()
    assert svr_here("batch", "import", "batch", "--wait") == 0
    shown = capsys.readouterr().out
    assert "next stage" in shown
    assert "svr batch export batch-2 eval rubricbench" in shown
    second = facts("export", "batch-2", *words)
    assert second["requests"] > N
    assert svr_here("batch", "submit", "batch-2") == 0
    report = facts("import", "batch-2", "--wait")
    assert (report["answered"], report["next_stage"]) == (second["requests"], 0)
    paid = sim.stats()["paid"] - before
    assert svr_here(*words) == 0
    assert sim.stats()["paid"] - before == paid == N + second["requests"]
    assert run_items("run") == run_items("live")


def test_a_second_batch_completes_an_expired_one(folder: Path, facts: Callable[..., Any]) -> None:
    """Answered requests are stored and not paid again; the next export has exactly the rest."""
    assert svr_here(*EVAL, "--cache", "live-cache", "--out", "live") == 0
    with serving(SimConfig(fault_rate=0.4, faults=("429", "500", "cut"), faulty_attempts=1)) as rough:
        rough.batches.window = 30
        name_judge(folder, rough.base_url)
        words = (*EVAL, "--out", "run")
        total = facts("export", "batch", *words)["requests"]
        assert svr_here("batch", "submit", "batch") == 0
        report = facts("import", "batch", "--wait", code=3)
        assert report["failed"] == total - report["answered"] > total - 30 + 3
        assert report["new"] == report["answered"] > 5
        answered, rough.batches.window = report["answered"], total
        assert facts("export", "batch-2", *words)["requests"] == total - answered
        assert svr_here("batch", "submit", "batch-2") == 0
        svr_here("batch", "import", "batch-2", "--wait")
        assert svr_here(*words) == 0
        assert len(rough.paid()) == total
    assert run_items("run") == run_items("live")


@pytest.mark.parametrize("name", ["induce", "judge"])
def test_stages_of_training_go_by_batch(folder: Path, sim: SimServer, name: str) -> None:
    """`svr stages induce` and `svr stages judge` send nothing after the import, and write the same bytes."""
    write_planted(folder / "train.jsonl")
    write_candidates(folder / "candidates.jsonl", "Cites a source.", "Is brief.", "Answers the question first.")
    extra = ("--candidates", "candidates.jsonl") if name == "judge" else ()
    words = ("stages", name, "train.jsonl", *extra, "--judge", "sim", "-q")
    assert svr_here(*words, "--out", "live", "--cache", "live-cache") == 0
    for number in range(3 if name == "induce" else 1):  # which rubrics state one criterion is asked after induction
        by_batch((*words, "--out", "made"), f"batch-{number}")
    assert not (folder / "made.stages").exists()
    before = sim.stats()["calls"]
    assert svr_here(*words, "--out", "made") == 0
    assert sim.stats()["calls"] == before
    assert contents(folder / "made") == contents(folder / "live")


def contents(path: Path) -> dict[str, bytes]:
    """Return the bytes of a file, or of all files in a folder."""
    files = [path] if path.is_file() else [found for found in path.rglob("*") if found.is_file()]
    return {str(found.relative_to(path)): found.read_bytes() for found in files}


# --- local files -----------------------------------------------------------------------------------------------------


def vllm_lines(requests: Path) -> list[bytes]:
    """Answer a request file like `vllm run-batch`: replies and errors in one file."""
    simulator, lines = Simulator(), []
    for number, row in enumerate(read_lines(requests)):
        response: dict[str, Any] = {"status_code": 200, "request_id": f"vllm-batch-{number}"}
        line = {"id": f"vllm-{number}", "custom_id": row["custom_id"], "response": response, "error": None}
        if number == 7:
            response |= {"status_code": 400, "body": None}
            line["error"] = {"error": {"message": "no room", "type": "BadRequestError", "param": None, "code": 400}}
        else:
            response["body"] = simulator.answer(row["body"])
        lines.append(orjson.dumps(line) + b"\n")
    return lines


def test_results_of_vllm_run_batch_are_imported(
    folder: Path, sim: SimServer, facts: Callable[..., Any], last_line: Callable[[], str]
) -> None:
    """A file of vLLM is read, named or from the folder; a failed line is asked live."""
    assert svr_here(*EVAL, "--cache", "live-cache", "--out", "live") == 0
    words = (*EVAL, "--out", "run")
    total = facts("export", "batch", *words)["requests"]
    (folder / "out.jsonl").write_bytes(b"".join(vllm_lines(folder / "batch" / "requests-0001.jsonl")))
    report = facts("import", "batch", "out.jsonl", code=3)
    assert (report["new"], report["failed"]) == (total - 1, 1)
    (folder / "out.jsonl").rename(folder / "batch" / "results-0001.jsonl")
    assert facts("import", "batch", code=3)["known"] == total - 1
    assert svr_here("batch", "import", "batch") == 3
    assert f"{total - 1} of {total} requests are answered" in last_line()
    before = sim.stats()["calls"]
    assert svr_here(*words) == 0
    assert sim.stats()["calls"] - before == 1
    assert run_items("run") == run_items("live")


# --- killed and resumed ----------------------------------------------------------------------------------------------


# --- keys, prices, errors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [("status",), ("submit",), ("import",)])
def test_a_folder_from_elsewhere_gets_no_key_of_mine(
    folder: Path, last_line: Callable[[], str], monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """A key is sent to the address that a folder names only if a profile or --base-url names it too."""
    monkeypatch.setenv("SOME_SECRET", SENTINEL)
    away = "http://198.51.100.7/v1"
    files = (RequestFile(name="requests-0001.jsonl", requests=1, bytes=0),)
    export = Export(id="i", command=("eval",), judge="j", base_url=away, key_env="SOME_SECRET", files=files)
    batches = (Batch(file="requests-0001.jsonl", batch_id="batch-1"),)
    save(folder / "theirs" / "export.json", export)
    save(folder / "theirs" / "batch.json", State(id="i", base_url=away, batches=batches))
    assert svr_here("batch", *command, "theirs") == 2
    assert last_line().startswith(f"svr: this export sends $SOME_SECRET to {away}, and no profile of yours does")


def test_a_key_is_used_and_written_nowhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No file and no output contains the key; a wrong key is exit 4."""
    with serving(SimConfig(api_key=SENTINEL)) as guarded:
        name_judge(folder, guarded.base_url, key_env="MY_KEY")
        monkeypatch.setenv("MY_KEY", "sk-wrong")
        assert svr_here("batch", "export", "batch", *EVAL, "--out", "run") == 0
        assert svr_here("batch", "submit", "batch") == 4
        monkeypatch.setenv("MY_KEY", SENTINEL)
        assert svr_here("batch", "submit", "batch") == 0
        assert svr_here("batch", "status", "batch") == 0
        assert svr_here("batch", "import", "batch", "--wait") == 0
        assert svr_here(*EVAL, "--out", "run") == 0
    shown = capsys.readouterr()
    assert "check the key in $MY_KEY: it is set, and refused" in shown.err
    assert SENTINEL not in shown.out + shown.err
    found = [path for path in folder.rglob("*") if path.is_file() and SENTINEL.encode() in path.read_bytes()]
    assert found == []


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("export", "batch", "eval", "rubricbench", "--sample", "--judge", "rules"), 2, "sends nothing"),
        (("export", "batch", "report", "run"), 2, "cannot be made as a batch"),
        (("export", "batch", "svr"), 2, "no command to export"),
        (("export", "batch"), 2, "COMMAND"),
        (("export", "--max-request", "9", "batch", *EVAL), 2, "--max-request"),
        (("export", "batch", "eval", "rubricbench", "--no-such-flag"), 2, "--no-such-flag"),
        (("export", "bench.jsonl", *EVAL), 2, "bench.jsonl"),
        (("submit", "nothing"), 2, "holds no export"),
        (("import", "nothing"), 2, "holds no export"),
        (("status", "nothing"), 2, "holds no export"),
    ],
)
def test_mistakes_are_one_line(
    folder: Path, args: tuple[str, ...], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each mistake gives one line and the documented exit code."""
    assert folder.exists()
    assert svr_here("batch", *args) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


def test_pending_requests_are_not_exported_again(
    folder: Path, facts: Callable[..., Any], last_line: Callable[[], str]
) -> None:
    """An export is refused while another folder has a pending batch with the same requests."""
    with serving() as held:
        name_judge(folder, held.base_url)
        assert svr_here("batch", "export", "--max-requests", "20", "batch", *EVAL) == 0
        assert svr_here("batch", "submit", "batch") == 0
        first, *others = held.batches.batches.values()
        for batch in others:
            batch["status"] = "validating"
        assert held.batches.look(first["id"])["status"] == "completed"
        assert svr_here("batch", "import", "batch") == 3
        assert "svr batch import batch --wait" in last_line()
        assert svr_here("batch", "export", "other", *EVAL, "--order", "ba") == 2
        assert "also in batch, which is not imported yet" in last_line()
        assert not (folder / "other" / "export.json").exists()
        assert svr_here("batch", "export", "other", *EVAL, "--method", "oracle") == 0
        for batch in others:
            batch["status"] = "cancelled"
        assert svr_here("batch", "import", "batch", "--wait") == 3
        assert facts("export", "more", *EVAL)["requests"] > 9


def test_both_judges_of_a_training_can_be_exported(tmp_path: Path) -> None:
    """The author's calls are another batch; one model in both roles is one endpoint."""
    judge, author = (f"http://127.0.0.1:9/v1#{name}" for name in ("small", "large"))
    for writer, names in ((author, ["small", "large"]), (judge, ["small"]), (None, ["small"])):
        settings = TrainSettings(pairs=tmp_path / "pairs.jsonl", out=tmp_path / "out", judge=judge, author=writer)
        run = BatchTraining(settings=settings, work=run_rounds, staged=True)
        assert [profile.name for profile in run.profiles] == names
