"""`svr eval` from flags to run folder, against the simulated endpoint and without any."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest
from endpoint import SimConfig, SimServer
from rig import (
    LAUNCHER,
    environment,
    name_judge,
    pairs,
    run_items,
    run_metrics,
    serving,
    steady_metrics,
    write_bench,
)

from svr_async.commands.main import run
from svr_async.commands.main import svr as group
from svr_async.evaluation.run_folder import Run

N = 120
Eval = Callable[..., int]


@pytest.fixture
def evaluate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sim: SimServer) -> Eval:
    """Return a function that runs `svr eval` on planted pairs in an empty folder; it returns the exit code."""
    monkeypatch.chdir(tmp_path)
    write_bench(tmp_path / "bench.jsonl", N)
    name_judge(tmp_path, sim.base_url)

    def call(*args: str | Path, judge: str = "sim", out: str = "run") -> int:
        flags = ["eval", "rubricbench", "--data", "bench.jsonl", "--judge", judge, "--out", out, "-q", *map(str, args)]
        return run(group, "svr", flags)

    return call


def marks(folder: str | Path = "run") -> list[str]:
    """Return the integrity marks in manifest.json."""
    found: list[str] = orjson.loads((Path(folder) / "manifest.json").read_bytes())["judge"]["marks"]
    return found


# --- the same bytes, whatever happens --------------------------------------------------------------------------------


def test_concurrency_does_not_show_in_the_results(evaluate: Eval) -> None:
    """One call at a time, eight, or five hundred: the same items byte for byte, and the same metrics."""
    for concurrency in (1, 8, 512):
        cache = f"cache-{concurrency}"
        assert (
            evaluate("--method", "oracle", "--concurrency", concurrency, "--cache", cache, out=f"run-{concurrency}")
            == 0
        )
    assert run_items("run-1").count(b"\n") == N
    assert run_items("run-1") == run_items("run-8") == run_items("run-512")
    assert steady_metrics(Path("run-1")) == steady_metrics(Path("run-8")) == steady_metrics(Path("run-512"))
    assert run_metrics("run-1")["calls"]["sent"] == run_metrics("run-512")["calls"]["sent"] >= N


def test_a_second_run_costs_nothing(evaluate: Eval, sim: SimServer) -> None:
    """Everything comes from the cache: no call, no socket, the same bytes."""
    assert evaluate("--limit", "30") == 0
    first, calls = run_items(), sim.stats()["calls"]
    assert evaluate("--limit", "30", out="again") == 0
    assert evaluate("--limit", "30", "--offline", out="offline") == 0
    assert sim.stats()["calls"] == calls
    assert run_items("again") == run_items("offline") == first
    found = run_metrics("again")["calls"]
    assert (found["sent"], found["cache_hits"] >= 30) == (0, True)


# --- methods and judges ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["direct", "self-rubric", "oracle", "pointwise", "fixed"])
def test_every_method_runs_against_an_endpoint(evaluate: Eval, tmp_path: Path, method: str) -> None:
    """Each method scores every pair, names itself, and leaves a folder that loads."""
    (tmp_path / "rubrics.txt").write_text("\n".join(pairs(1)[0].rubrics))
    extra = ["--rubrics", "rubrics.txt"] if method == "fixed" else ["--method", method]
    assert evaluate("--limit", "12", *extra) == 0
    loaded = Run.load(tmp_path / "run")
    assert len(loaded.items) == 12
    assert run_metrics()["method"] == method
    assert run_metrics()["judge_label"] == "sim (SIMULATED endpoint)"
    assert run_metrics()["coverage"] == 1.0


def test_the_rules_judge_works_on_the_shipped_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, no network: a report and a table in one command, labelled as offline checks."""
    monkeypatch.chdir(tmp_path)
    assert run(group, "svr", ["eval", "rubricbench", "--sample", "--judge", "rules", "-q"]) == 0
    (folder,) = Path("runs").iterdir()
    assert "rules" in run_metrics(folder)["judge_label"]
    assert marks(folder) == ["offline_rules"]
    assert run_metrics(folder)["notes"]


def test_a_recorded_judge_replays_a_file(evaluate: Eval, tmp_path: Path) -> None:
    """Replies from a file are read like live ones; pairs that are not in it are unscored and counted."""
    lines = [
        {"pair_id": pair.id, "order": order, "role": "direct", "reply": f"Well. [[{right}]]"}
        for pair in pairs(10)
        for order, right in (("ab", "A" if pair.chosen_first else "B"), ("ba", "B" if pair.chosen_first else "A"))
    ]
    (tmp_path / "replies.jsonl").write_bytes(b"\n".join(map(orjson.dumps, lines)))
    assert evaluate("--limit", "10", "--audit", "1", judge="recorded:replies.jsonl") == 0
    found = run_metrics()
    assert (found["accuracy"], found["n_scored"], found["order"]["flip_rate"]) == (1.0, 10, 0.0)
    assert found["judge_label"] == "recorded replies (replies.jsonl)"
    assert evaluate("--limit", "12", judge="recorded:replies.jsonl", out="more") == 3
    assert run_metrics("more")["outcomes"] == {"scored": 10, "api_error": 2}
    (tmp_path / "replies.jsonl").write_bytes(orjson.dumps(lines[0]))
    assert evaluate("--limit", "10", "--audit", "1", judge="recorded:replies.jsonl") == 2  # another recording


def test_a_perfect_judge_is_mostly_right(evaluate: Eval, sim: SimServer) -> None:
    """The whole chain is the right way round: a judge that sees the planted worth agrees with almost all labels."""
    assert evaluate(judge=f"{sim.base_url}#sim-perfect") == 0
    assert run_metrics()["accuracy"] > 0.85


# --- flags -----------------------------------------------------------------------------------------------------------


def test_limits_and_domains_choose_pairs(evaluate: Eval) -> None:
    """The first N, from A to B, or a domain, whatever its case."""
    assert evaluate("--limit", "7", "--method", "first") == 0
    assert evaluate("--limit", "5-7", "--method", "first", out="range") == 0
    assert run_items().splitlines()[4:7] == run_items("range").splitlines()
    assert evaluate("--domain", "code", "--domain", "SAFETY", "--method", "first", out="domain") == 0
    assert set(run_metrics("domain")["by_domain"]) == {"CODE", "SAFETY"}


def test_a_dry_run_prices_and_sends_nothing(evaluate: Eval, sim: SimServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Calls, tokens and dollars without a call or a run folder; paid replies are not counted."""
    name_judge(Path.cwd(), sim.base_url, price=[1.0, 0.5, 4.0])
    calls = sim.stats()["calls"]
    assert evaluate("--dry-run", "--json", "--audit", "0") == 0
    plan = orjson.loads(capsys.readouterr().out)
    assert (plan["calls"], plan["cache_hits"]) == (N, 0)
    assert plan["max_usd"] > plan["usd"] > 0
    assert plan["max_completion_tokens"] == N * 8192
    assert evaluate("--dry-run", "--method", "self-rubric", "--limit", "10", "--audit", "0") == 0
    assert "20 calls" in capsys.readouterr().out
    assert sim.stats()["calls"] == calls
    assert not Path("run").exists()
    assert evaluate("--limit", "10", "--audit", "0") == 0
    capsys.readouterr()
    assert evaluate("--dry-run", "--json", "--audit", "0") == 0
    assert orjson.loads(capsys.readouterr().out)["calls"] == N - 10


def test_flags_come_from_variables_and_files_too(
    evaluate: Eval, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SVR_EVAL_… stands in for a flag, --config for many, spelled as on the command line; typed flags win."""
    (tmp_path / "my.toml").write_text(
        'method = "longest"\nlimit = 7\nseed = 7\ntimeout = 30\ngive-up-after = 60\ndomain = "CODE"\njson = false\n'
    )
    assert evaluate("--config", "my.toml") == 0
    assert (run_metrics()["method"], run_metrics()["n_total"], list(run_metrics()["by_domain"])) == (
        "longest",
        7,
        ["CODE"],
    )
    config = orjson.loads(Path("run/manifest.json").read_bytes())["config"]
    assert (config["salt"], config["timeout_s"], config["give_up_after_s"]) == ("svr-7", 30.0, 60.0)
    assert evaluate("--config", "my.toml", "--method", "first", out="typed") == 0
    assert run_metrics("typed")["method"] == "first"
    for name, value in {"LIMIT": "4", "METHOD": "shortest", "SEED": "8", "TIMEOUT": "9", "AUDIT": "0"}.items():
        monkeypatch.setenv(f"SVR_EVAL_{name}", value)
    assert evaluate(out="variables") == 0
    assert (run_metrics("variables")["method"], run_metrics("variables")["n_total"]) == ("shortest", 4)
    config = orjson.loads(Path("variables/manifest.json").read_bytes())["config"]
    assert (config["salt"], config["timeout_s"]) == ("svr-8", 9.0)
    assert evaluate("--limit", "5", out="both") == 0
    assert run_metrics("both")["n_total"] == 5


# --- failures, coverage, secrets -------------------------------------------------------------------------------------


def test_unscored_pairs_are_named_and_can_be_accepted_or_asked_again(
    evaluate: Eval, tmp_path: Path, capsys: pytest.CaptureFixture[str], sim: SimServer
) -> None:
    """Exit 3 below --min-coverage; a resumed run asks nothing again; --retry-errors does, and then all is well."""
    with serving(SimConfig(context_tokens=50)) as small:
        name_judge(tmp_path, small.base_url)
        assert evaluate("--limit", "6") == 3
        line = capsys.readouterr().err.strip()
        assert "6 of 6 pairs have no verdict" in line
        assert "--retry-errors" in line
        assert run_metrics()["outcomes"] == {"context_too_long": 6}
        calls = small.stats()["calls"]
        assert evaluate("--limit", "6") == 3
        assert evaluate("--limit", "6", "--min-coverage", "0") == 0
        assert small.stats()["calls"] == calls
    name_judge(tmp_path, sim.base_url)
    assert evaluate("--limit", "6", "--retry-errors", "--dry-run") == 0
    assert evaluate("--limit", "6") == 3
    assert evaluate("--limit", "6", "--retry-errors") == 0
    assert evaluate("--limit", "6") == 0


def test_pairs_without_a_right_answer_are_judged_and_not_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run over such pairs alone has no accuracy and does not fail."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {"id": f"{name}:1", "prompt": "Name a colour.", "chosen": chosen, "rejected": ["a dog", "a cat"],
         "num_correct": len(chosen), "num_rejected": 2, "total_completions": len(chosen) + 2, "models": [],
         "subset": "Ties", "additional_metadata": None}
        for name, chosen in (("ref", ["red"]), ("tied", ["red", "blue"]))
    ]  # fmt: skip
    (tmp_path / "ties.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    code = run(group, "svr", ["eval", "rewardbench2", "--data", "ties.jsonl", "--method", "longest", "--json", "-q"])
    shown = capsys.readouterr()
    assert code == 0, shown.err
    assert run(group, "svr", ["data", "check", "ties.jsonl", "--format", "rewardbench2"]) == 0
    assert "The best of four is guessed right on 25 % of the items" in capsys.readouterr().out


# --- the screen ------------------------------------------------------------------------------------------------------


def test_texts_of_data_and_endpoint_cannot_steer_the_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Domains and folders that look like markup or escape sequences are shown as texts."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {"id": str(n), "prompt": "q", "chosen": "aa", "rejected": "b", "domain": domain}
        for n, domain in enumerate(("[/red]x", "\x1b[2Jevil", "[bold]loud", "\u202eturned"))
    ]
    (tmp_path / "odd.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    assert (
        run(group, "svr", ["eval", "pairs", "--data", "odd.jsonl", "--method", "longest", "-q", "--out", "[dim]"]) == 0
    )
    shown = capsys.readouterr().out
    for text in ("[/red]x", "[bold]loud", "evil", "[dim]/report.html"):
        assert text in shown
    assert not {"\x1b", "\u202e"} & set(shown)


def test_a_terminal_gets_a_progress_display_that_leaves_nothing_behind(tmp_path: Path) -> None:
    """On a terminal a bar is drawn during the run; an endpoint's message in it is shown as text."""
    screen, terminal = pty.openpty()
    write_bench(tmp_path / "bench.jsonl", 30)
    with serving(SimConfig(latency_ms=150.0, fault_rate=0.3, faults=("500", "cut"))) as slow:
        name_judge(tmp_path, slow.base_url)
        done = subprocess.Popen(
            [sys.executable, str(LAUNCHER), "eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim"],
            cwd=tmp_path, env=environment(TERM="xterm", COLUMNS="120"), stdout=subprocess.PIPE, stderr=terminal,
        )  # fmt: skip
        os.close(terminal)
        drawn = b"".join(_screen(screen))
        out, _ = done.communicate(timeout=30)
    assert done.returncode == 0
    assert b"accuracy" in out
    assert b"judging" in drawn
    assert b"in flight" in drawn
    assert b"Traceback" not in drawn


def _screen(screen: int) -> Iterator[bytes]:
    """Yield the output of a terminal until its last writer is gone."""
    with contextlib.suppress(OSError):  # Linux says so by EIO
        while piece := os.read(screen, 65536):
            yield piece
    os.close(screen)
