"""Everything a user can get wrong in `svr eval`: one line on stderr, the documented exit code, nothing lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from rig import name_judge, serving, write_bench

from svr_async.commands.main import run
from svr_async.commands.main import svr as group
from svr_async.simulation.config import SimConfig
from svr_async.simulation.faults import FaultConfig
from svr_async.simulation.server import SimServer

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


LONG, ODD = "x" * 300, "b\udcffd"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((*BENCH[:-2], "--out", LONG), "a file's name is too long: xxxx"),
        ((*BENCH, "--prompts", LONG), "a file's name is too long: xxxx"),
        (("report", LONG), "a file's name is too long: xxxx"), (("bank", "show", LONG), "a file's name is too long: x"),
        (("eval", "pairs", "--data", f"{ODD}.jsonl", "--judge", "rules"), "b\\udcffd.jsonl is not UTF-8; rename it"),
        ((*BENCH[:-2], "--out", ODD), "b\\udcffd is not UTF-8"),
    ],
)  # fmt: skip
def test_names_that_no_file_can_have_or_no_record_can_name_are_exit_two(
    fail: Eval, args: tuple[str, ...], says: str
) -> None:
    """Names of more than 255 bytes, and those that are not UTF-8."""
    code, line = fail(*args)
    assert (code, says in line) == (2, True), line


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("eval", "rubricbenhc", "--sample", "--judge", "rules"), "did you mean rubricbench?"),
        (("eval", "zzz", "--sample", "--judge", "rules"), "there are rubricbench"),
        (("eval", "rubricbench", "--sample", "--judge", "http://[x#m"), "the base URL cannot be read"),
        (("eval", "rubricbench", "--sample", "--judge", "rm:http://[x"), "the base URL cannot be read"),
        (("eval", "pairs", "--judge", "rules"), "needs --data PATH"),
        (("eval", "rubricbench", "--data", "missing.jsonl", "--judge", "rules"), "missing.jsonl"),
        (("eval", "rmbench", "--sample", "--judge", "rules"), "no sample for rmbench"),
        (("eval", "rubricbench", "--sample", "--judge", "rules", "--data", "bench.jsonl"), "exclude each other"),
        ((*BENCH, "--limit", "nonsense"), "--limit nonsense is not a range"),
        ((*BENCH, "--limit", "0"), "--limit 0 is not a range"), ((*BENCH, "--limit", "5-3"), "--limit 5-3"),
        ((*BENCH, "--limit", "-5"), "--limit"), ((*BENCH, "--limit", "500-600"), "0 usable pairs"),
        ((*BENCH, "--domain", "COOKING"), "there is no domain 'cooking'"),
        ((*BENCH, "--method", "fixed"), "needs --rubrics"),
        ((*BENCH, "--method", "oracle", "--rubrics", "rubrics.txt"), "rubrics.txt"),
        ((*BENCH, "--rubrics", "missing.txt"), "cannot read the rubrics missing.txt"),
        ((*BENCH, "--judge", "gpt-oss-12b"), "gpt-oss-120b"),
        ((*BENCH, "--judge", "recorded:"), "names no file"),
        ((*BENCH, "--judge", "recorded:missing.jsonl"), "cannot read missing.jsonl"),
        ((*BENCH, "--judge", "http://host/v1"), "names no model"),
        ((*BENCH, "--judge", "http://user:secret@host/v1#m"), "user name or password"),
        ((*BENCH, "--judge", "http://host/v1?key=secret#m"), "query or fragment"),
        ((*BENCH, "--judge", "m", "--base-url", "nonsense"), "not a base URL"),
        ((*BENCH, "--judge", "m", "--base-url", "http://[::1/v1"), "base URL"),
        ((*ASK, "--concurrency", "many"), "--concurrency many"), ((*ASK, "--concurrency", "0"), "--concurrency 0"),
        ((*ASK, "--concurrency", "99999"), "1 to 8192"),
        ((*ASK, "--prompts", "missing"), "--prompts missing is not a folder"),
        ((*ASK, "--config", "missing.toml"), "cannot read --config missing.toml"),
        ((*ASK, "--tie-credit", "1"), "tie-credit"), ((*ASK, "--min-coverage", "2"), "min-coverage"),
        ((*ASK, "--timeout", "0"), "timeout"), ((*ASK, "--rubrisc", "x"), "--rubrics"),
    ],
)  # fmt: skip
def test_wrong_flags_are_exit_two_before_anything_happens(fail: Eval, args: tuple[str, ...], says: str) -> None:
    """What was typed, what is wrong with it and how to mend it; no run folder, no cache, no call."""
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
        ("no-resume = true", "unknown key 'no-resume'"),
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


def test_lenient_leaves_bad_rows_out_and_says_so(fail: Eval, tmp_path: Path) -> None:
    """With --lenient the other rows are judged, and a note counts those left out."""
    rows = [row(case_id=str(n), label=7 if n == 2 else 0) for n in range(4)]
    (tmp_path / "bad.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    flags = ["eval", "rubricbench", "--data", "bad.jsonl", "--method", "first", "-q", "--out", "run", "--lenient"]
    assert run(group, "svr", flags) == 0
    metrics = orjson.loads(Path("run/metrics.json").read_bytes())
    assert metrics["n_total"] == 3
    assert any("1 row left out as invalid" in note for note in metrics["notes"])


def test_the_folder_of_another_run_is_left_alone(fail: Eval) -> None:
    """A folder that holds other results is refused, with nothing in it changed, its failures included."""
    assert run(group, "svr", [*BENCH, "--method", "first"]) == 0
    Path("run/failures.jsonl").write_text("precious\n")
    before = {path.name: path.read_bytes() for path in Path("run").iterdir()}
    code, line = fail(*ASK, "--retry-errors")
    assert (code, "holds another run" in line, "--out" in line) == (2, True, True)
    assert {path.name: path.read_bytes() for path in Path("run").iterdir()} == before
    code, line = fail(*BENCH, "--method", "first", "--no-resume")
    assert (code, "--no-resume" in line) == (2, True)


@pytest.mark.parametrize(
    ("config", "code", "says"),
    [
        (SimConfig(api_key="right"), 4, 'key_env = "NAME" in judges.toml'),
        (SimConfig(quota=5), 4, "add credit"),
        (SimConfig(faults=FaultConfig(rate=1.0, kinds=("307",))), 4, "final URL"),
    ],
)
def test_what_the_endpoint_refuses_ends_the_run_with_exit_four(
    fail: Eval, tmp_path: Path, config: SimConfig, code: int, says: str
) -> None:
    """Wrong key, no credit, a redirect: stopped at once with the cure; what was paid is kept and not paid again."""
    with serving(config) as refusing:
        name_judge(tmp_path, refusing.base_url)
        found, line = fail(*ASK, "--concurrency", "2", "--audit", "0")
        assert (found, says in line) == (code, True), line
        assert refusing.stats()["calls"] <= config.quota + 4
        paid = refusing.stats()["paid"]
        run(group, "svr", [*ASK, "--concurrency", "2", "--audit", "0"])
        assert refusing.stats()["paid"] == paid == config.quota
        if paid:
            assert f"{paid} of 20 pairs are judged and kept in run" in line
            assert orjson.loads(Path("run/metrics.json").read_bytes())["complete"] is False


def test_an_unknown_model_is_exit_four(fail: Eval, sim: SimServer) -> None:
    """A model that the endpoint does not serve points to `svr doctor`."""
    code, line = fail(*BENCH, "--judge", f"{sim.base_url}#gpt-17")
    assert (code, "gpt-17" in line, "svr doctor" in line) == (4, True, True)
    code, line = fail(*BENCH, "--judge", f"{sim.base_url.removesuffix('/v1')}/nope#gpt-oss-120b", "--out", "other")
    assert (code, "/v1" in line) == (4, True)


def test_nothing_listening_is_exit_six(fail: Eval, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connection refused for long enough ends the run; the line names host and port, and says that replies are kept."""
    code, line = fail(*BENCH, "--judge", "http://127.0.0.1:9/v1#m", "--give-up-after", "1", "--concurrency", "4")
    assert (code, "cannot connect to 127.0.0.1:9" in line, "replies are kept" in line) == (6, True, True)


@pytest.mark.parametrize("cap", [("--max-calls", "7"), ("--budget", "0.0000001"), ("--max-calls", "0")])
def test_caps_end_the_run_with_exit_four_and_keep_what_is_paid(
    fail: Eval, tmp_path: Path, sim: SimServer, cap: tuple[str, str]
) -> None:
    """A cap stops the run in time; the next run without it pays only for the rest."""
    name_judge(tmp_path, sim.base_url, price=[1, 1, 1])
    paid = sim.stats()["paid"]
    code, line = fail(*ASK, *cap, "--audit", "0", "--concurrency", "3")
    assert (code, cap[0] in line) == (4, True)
    spent = sim.stats()["paid"] - paid
    assert spent <= {"7": 7, "0": 0}.get(cap[1], 3)
    assert run(group, "svr", [*ASK, "--audit", "0"]) == 0
    assert sim.stats()["paid"] - paid == 20


def test_a_cache_that_cannot_be_used_is_exit_five(fail: Eval, tmp_path: Path) -> None:
    """No database, and a folder that others may write to: named with its cure before any call."""
    (tmp_path / "broken").mkdir(mode=0o700)
    (tmp_path / "broken" / "cache.db").write_text("no database " * 99)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    for name, says in {"broken": "svr cache clear", "open": "chmod o-w"}.items():
        code, line = fail(*ASK, "--cache", name)
        assert (code, says in line) == (5, True), line


def test_a_run_folder_that_cannot_be_written_is_exit_five(fail: Eval, tmp_path: Path) -> None:
    """A file in the folder's way is named before the first call."""
    (tmp_path / "run").write_text("a file")
    code, line = fail(*ASK)
    assert (code, "run" in line) == (5, True)


def test_a_failures_file_that_cannot_be_read_is_exit_five(fail: Eval, tmp_path: Path) -> None:
    """A damaged failures log is named; one with foreign lines is not even noticed."""
    (tmp_path / "run" / "failures.jsonl").mkdir(parents=True)
    code, line = fail(*ASK)
    assert (code, "failures.jsonl" in line) == (5, True)
    Path("run/failures.jsonl").rmdir()
    Path("run/failures.jsonl").write_bytes(b"\x00\xff{]\n")
    assert run(group, "svr", [*ASK, "--limit", "3"]) == 0


def test_human_rubrics_that_are_not_there_are_missed_before_anything_is_asked(fail: Eval, tmp_path: Path) -> None:
    """The oracle on pairs without rubrics: one line at once, no run of pairs without a verdict."""
    (tmp_path / "p.jsonl").write_bytes(orjson.dumps({"prompt": "Hi", "chosen": "Hello!", "rejected": "No."}))
    code, line = fail("eval", "pairs", "--data", "p.jsonl", "--judge", "rules", "--method", "oracle", "--out", "run")
    assert (code, "and p.jsonl has none — --method self-rubric" in line) == (2, True), line
    assert not (tmp_path / "run").exists()


def test_a_number_that_is_none_is_said_to_be_none(fail: Eval) -> None:
    """Click's own words name a "float range", which nobody types."""
    assert fail(*BENCH, "--budget", "five") == (
        2,
        "svr eval: Invalid value for '--budget': 'five' is not a number — svr eval --help",
    )
