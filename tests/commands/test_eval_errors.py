"""What a user can get wrong in `svr eval`: one line on stderr, the documented exit code, nothing lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from endpoint import SimConfig, SimServer
from made_pairs import write_made
from rig import name_judge, serving, write_bank, write_bench

from svr_async.commands.main import run
from svr_async.commands.main import svr as group

Eval = Callable[..., tuple[int, str]]


@pytest.fixture
def fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], sim: SimServer) -> Eval:
    """Return a function that runs `svr …` in a folder with planted data; it returns exit code and stderr's one line."""
    monkeypatch.chdir(tmp_path)
    write_bench(tmp_path / "bench.jsonl", 20)
    name_judge(tmp_path, sim.base_url)

    def call(*args: str | Path) -> tuple[int, str]:
        capsys.readouterr()
        code = run(group, "svr", [*map(str, args)])
        line = capsys.readouterr().err
        assert line.count("\n") == 1, line
        assert "bug" not in line
        return code, line.strip()

    return call


BENCH = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "rules", "-q", "--out", "run")
ASK = (*BENCH, "--judge", "sim")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("eval", "rubricbenhc", "--sample", "--judge", "rules"), "did you mean rubricbench?"),
        (("eval", "zzz", "--sample", "--judge", "rules"), "benchmarks are rubricbench"),
        (("eval", "rubricbench", "--sample", "--judge", "http://[x#m"), "the base URL cannot be read"),
        (("eval", "rubricbench", "--sample", "--judge", "rm:http://[x"), "the base URL cannot be read"),
        (("eval", "pairs", "--judge", "rules"), "needs --data PATH"),
        (("eval", "rubricbench", "--data", "missing.jsonl", "--judge", "rules"), "missing.jsonl"),
        (("eval", "rmbench", "--sample", "--judge", "rules"), "no sample for rmbench"),
        (("eval", "rubricbench", "--sample", "--judge", "rules", "--data", "bench.jsonl"), "exclude each other"),
        ((*BENCH, "--limit", "nonsense"), "--limit nonsense is not a range"),
        ((*BENCH, "--limit", "0"), "--limit 0 is not a range"), ((*BENCH, "--limit", "5-3"), "--limit 5-3"),
        ((*BENCH, "--limit", "-5"), "--limit"), ((*BENCH, "--limit", "500-600"), "0 usable pairs"),
        ((*BENCH, "--domain", "COOKING"), "unknown domain 'cooking'"),
        ((*BENCH, "--method", "fixed"), "needs --rubrics"),
        ((*BENCH, "--method", "oracle", "--rubrics", "rubrics.txt"), "rubrics.txt"),
        ((*BENCH, "--rubrics", "missing.txt"), "cannot read the rubrics 'missing.txt'"),
        ((*BENCH, "--judge", "gpt-oss-12b"), "gpt-oss-120b"),
        ((*BENCH, "--judge", "recorded:"), "names no file"),
        ((*BENCH, "--judge", "recorded:missing.jsonl"), "cannot read 'missing.jsonl'"),
        ((*BENCH, "--judge", "http://host/v1"), "names no model"),
        ((*BENCH, "--judge", "http://user:secret@host/v1#m"), "user name or password"),
        ((*BENCH, "--judge", "http://host/v1?key=secret#m"), "query or fragment"),
        ((*BENCH, "--judge", "m", "--base-url", "nonsense"), "not a base URL"),
        ((*BENCH, "--judge", "m", "--base-url", "http://[::1/v1"), "base URL"),
        ((*ASK, "--concurrency", "many"), "--concurrency many"), ((*ASK, "--concurrency", "0"), "--concurrency 0"),
        ((*ASK, "--concurrency", "99999"), "1 to 8192"),
        ((*ASK, "--prompts", "missing"), "--prompts missing is not a folder"),
        ((*ASK, "--config", "missing.toml"), "cannot read --config 'missing.toml'"),
        ((*ASK, "--tie-credit", "1"), "tie-credit"), ((*ASK, "--min-coverage", "2"), "min-coverage"),
        ((*ASK, "--timeout", "0"), "timeout"), ((*ASK, "--rubrisc", "x"), "--rubrics"),
    ],
)  # fmt: skip
def test_wrong_flags_are_exit_two_before_anything_happens(fail: Eval, args: tuple[str, ...], says: str) -> None:
    """The typed value, its mistake and the cure; no run folder, no cache, no call."""
    code, line = fail(*args)
    assert (code, says in line) == (2, True), line
    assert "secret" not in line
    assert not Path("run").exists()
    assert not Path("cache/replies").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("methd = 'first'", "unknown key 'methd' — did you mean method?"), ("zzz = 1", "unknown key 'zzz'"),
        ("[a", "not valid TOML"), ("limit = [", "not valid TOML"), ("audit = 7", "audit"),
        ("method = 'best'", "best"), ("config = 'x'", "unknown key 'config'"), ("timeout = 'soon'", "soon"),
    ],
)  # fmt: skip
def test_a_wrong_config_is_named(fail: Eval, tmp_path: Path, text: str, says: str) -> None:
    """Unknown keys get the nearest name; bad values and bad TOML are named like flags."""
    (tmp_path / "my.toml").write_text(text)
    code, line = (
        fail(*BENCH, "--method", "first", "--config", "my.toml")
        if "method" not in text
        else fail(*BENCH, "--config", "my.toml")
    )
    assert (code, says in line) == (2, True), line


def row(**changes: Any) -> dict[str, Any]:
    """Return one row of RubricBench."""
    good = {"case_id": "1", "instruction": "q", "response_a": "a", "response_b": "b", "label": 0, "rubrics": "x",
            "source": "s", "domain": "code"}  # fmt: skip
    return {name: value for name, value in {**good, **changes}.items() if value is not ...}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "0 usable pairs"), (b"\n\n", "0 usable pairs"), (b"{", "row 1"), (b"[1, 2]", "row 1"),
        (orjson.dumps(row(response_b=...)), "response_b"), (orjson.dumps(row(label=7)), "label"),
        (orjson.dumps(row(instruction=None)), "instruction"), (orjson.dumps(row(response_a=5)), "response_a"),
    ],
)  # fmt: skip
def test_wrong_data_is_named_by_file_row_and_column(fail: Eval, tmp_path: Path, data: bytes, says: str) -> None:
    """An empty set, a wrong column, a broken row: refused before any call."""
    (tmp_path / "bad.jsonl").write_bytes(data)
    code, line = fail("eval", "rubricbench", "--data", "bad.jsonl", "--judge", "sim", "-q", "--out", "run")
    assert (code, says in line, "bad.jsonl" in line) == (2, True, True), line
    assert not Path("run").exists()


def test_the_folder_of_another_run_is_left_alone(fail: Eval) -> None:
    """A folder that holds other results is refused, with nothing in it changed, its failures included."""
    assert run(group, "svr", [*BENCH, "--method", "first"]) == 0
    Path("run/failures.jsonl").write_text("precious\n")
    before = {path.name: path.read_bytes() for path in Path("run").iterdir()}
    code, line = fail(*ASK, "--retry-errors")
    assert (code, "holds another run" in line, "--out" in line) == (2, True, True)
    assert {path.name: path.read_bytes() for path in Path("run").iterdir()} == before


@pytest.mark.parametrize(
    ("config", "code", "says"),
    [
        (SimConfig(api_key="right"), 4, 'key_env = "NAME" in judges.toml'),
        (SimConfig(quota=5), 4, "add credit"),
    ],
)
def test_what_the_endpoint_refuses_ends_the_run_with_exit_four(
    fail: Eval, tmp_path: Path, config: SimConfig, code: int, says: str
) -> None:
    """Wrong key or no credit: stopped at once with the cure; paid replies are kept and not paid again."""
    with serving(config) as refusing:
        name_judge(tmp_path, refusing.base_url)
        found, line = fail(*ASK, "--concurrency", "2", "--audit", "0")
        assert (found, says in line) == (code, True), line
        assert refusing.stats()["calls"] <= (config.quota or 0) + 4
        paid = refusing.stats()["paid"]
        run(group, "svr", [*ASK, "--concurrency", "2", "--audit", "0"])
        assert refusing.stats()["paid"] == paid == (config.quota or 0)
        if paid:
            assert f"{paid} of 20 pairs are judged and kept in run" in line
            assert orjson.loads(Path("run/metrics.json").read_bytes())["complete"] is False


def test_nothing_listening_is_exit_six(fail: Eval, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connection refused for long enough ends the run; the line names host and port, and says that replies are kept."""
    code, line = fail(*BENCH, "--judge", "http://127.0.0.1:9/v1#m", "--give-up-after", "1", "--concurrency", "4")
    assert (code, "cannot connect to 127.0.0.1:9" in line, "replies are kept" in line) == (6, True, True)


PAIR = ("--bank", "bank", "--prompt", "Why?", "--a", "So.", "--b", "Because.")


def test_a_known_endpoint_without_its_key_is_not_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line names the variable and the offline judge before any socket opens; --dry-run needs no key."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    call = ["eval", "rubricbench", "--sample", "--judge", "gpt-4o-mini", "--out", "run", "--cache", "cache"]
    assert run(group, "svr", call) == 4
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("svr: no API key for api.openai.com — set $OPENAI_API_KEY to its key")
    assert line.endswith("or judge offline with --judge rules")
    assert run(group, "svr", [*call, "--dry-run"]) == 0


COMMANDS = (
    ("eval", "rubricbench", "--data", "bench.jsonl", "-q", "--out", "run"),
    ("train", "made.jsonl", "-q", "--out", "out"),
    ("stages", "induce", "made.jsonl", "-q", "--out", "c.jsonl"),
    ("explain", *PAIR),
    ("doctor",),
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_every_command_names_the_variable_of_a_refused_key(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that is not set is to be set, one that is set is to be checked; exit 4 in either case."""
    monkeypatch.chdir(tmp_path)
    write_bench(tmp_path / "bench.jsonl", 20)
    write_made(tmp_path / "made.jsonl")
    write_bank(tmp_path / "bank")
    monkeypatch.delenv("MY_KEY", raising=False)
    with serving(SimConfig(api_key="right")) as guarded:
        name_judge(tmp_path, guarded.base_url, key_env="MY_KEY")
        for value, says in (("", "set $MY_KEY to its key"), ("sk-wrong", "check the key in $MY_KEY: it is set")):
            monkeypatch.setenv("MY_KEY", value)
            assert run(group, "svr", [*command, "--judge", "sim"]) == 4
            printed = capsys.readouterr()
            line = next(line for line in (printed.out + printed.err).splitlines() if "HTTP 401" in line)
            assert says in line
