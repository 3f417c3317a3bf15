"""Runs of `svr` that are watched: logs of real runs, killed ones too, metrics scraped meanwhile, spans sent, no key."""

from __future__ import annotations

import signal
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import orjson
import pytest
from endpoint import SimConfig, SimServer
from rig import background, name_judge, read_lines, serving, shown, svr, wait_until, write_bench

from svr_async.commands.main import run
from svr_async.commands.main import svr as group
from svr_async.engine.events import CallEnded, Event, Snapshot, observing
from svr_async.serving.engine import Engine

Cli = Callable[..., tuple[int, str, str]]
EVAL = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--audit", "0")


@pytest.fixture
def place(tmp_path: Path, sim: SimServer) -> Path:
    """Return a folder with 12 pairs and a judge."""
    write_bench(tmp_path / "bench.jsonl", 12)
    name_judge(tmp_path, sim.base_url)
    return tmp_path


@pytest.fixture
def cli(place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Cli:
    """Return a function that runs `svr …` there; it returns exit code, stdout and stderr."""
    monkeypatch.chdir(place)

    def call(*args: str | Path) -> tuple[int, str, str]:
        capfd.readouterr()
        code = run(group, "svr", [*map(str, args)])
        shown = capfd.readouterr()
        return code, shown.out, shown.err

    return call


def test_a_log_tells_a_run_from_its_start_to_its_totals(cli: Cli, place: Path) -> None:
    """One line a call; the totals are those of metrics.json; every line has the run's mark; the flags have a digest."""
    code, _, _ = cli(*EVAL, "--log-json", "log", "--log-level", "call", "--out", "out", "-q")
    assert code == 0
    lines = read_lines(place / "log")
    assert [line["event"] for line in (lines[0], lines[-1])] == ["run_started", "run_ended"]
    assert len({line["run"] for line in lines}) == 1
    assert (lines[0]["command"], lines[0]["judge"], len(lines[0]["config"])) == ("eval", "sim", 16)
    calls = [line for line in lines if line["event"] == "call_ended"]
    metrics = orjson.loads((place / "out" / "metrics.json").read_bytes())
    assert len(calls) == metrics["calls"]["sent"] == lines[-1]["totals"]["sent"] == 12
    assert sum(line["prompt_tokens"] for line in calls) == lines[-1]["totals"]["prompt_tokens"]
    code, _, _ = cli(*EVAL, "--log-json", "log", "--out", "out")
    again = read_lines(place / "log")[len(lines) :]
    assert [line["event"] for line in again] == ["run_started", "snapshot", "run_ended"]
    assert (again[0]["run"] != lines[0]["run"], again[-1]["totals"]["cache_hits"]) == (True, 12)


def test_standard_error_holds_nothing_but_lines_of_json(cli: Cli) -> None:
    """With `-` progress keeps quiet, so that a program can read standard error; the result stays on standard output."""
    code, out, err = cli(*EVAL, "--log-json", "-", "--json")
    assert code == 0
    assert {orjson.loads(line)["event"] for line in err.splitlines()} == {"run_started", "snapshot", "run_ended"}
    assert orjson.loads(out)["n_scored"] == 12


def test_a_killed_run_leaves_whole_lines_and_the_next_one_goes_on(place: Path) -> None:
    """Kill -9 while calls are logged: all lines but perhaps the last are whole, and the same command appends."""
    with serving(SimConfig(latency_ms=30)) as slow:
        name_judge(place, slow.base_url)
        write_bench(place / "bench.jsonl", 200)
        flags = (*EVAL, "--log-json", "log", "--log-level", "call", "--concurrency", "4", "-q")
        with background(*flags, cwd=place) as process:
            wait_until(lambda: (place / "log").exists() and (place / "log").read_bytes().count(b"\n") > 20)
            process.send_signal(signal.SIGKILL)
            process.wait(20)
        torn = (place / "log").read_bytes()
        for line in torn.splitlines()[:-1]:
            orjson.loads(line)
        assert svr(*flags, cwd=place).returncode == 0
    data = (place / "log").read_bytes()
    assert data.startswith(torn)
    assert orjson.loads(data.splitlines()[-1])["event"] == "run_ended"


def test_metrics_are_served_while_a_run_is_on(place: Path) -> None:
    """The address is printed; the metrics count requests of the judge's model; afterwards nothing listens."""
    with serving(SimConfig(latency_ms=50)) as slow:
        name_judge(place, slow.base_url)
        write_bench(place / "bench.jsonl", 200)
        with background(*EVAL, "--metrics-port", "0", "--concurrency", "2", cwd=place) as process:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line.startswith("svr: metrics at http://127.0.0.1:"), line
            url = line.split(" at ")[1].split()[0]
            deadline = time.monotonic() + 30
            found = ""
            while 'svr_requests_total{model="gpt-oss-120b"}' not in found:
                assert time.monotonic() < deadline, found
                with urllib.request.urlopen(url, timeout=10) as reply:
                    found = reply.read().decode()
            assert "svr_request_duration_seconds_bucket" in found
            process.send_signal(signal.SIGKILL)


def test_spans_go_where_the_variables_say(place: Path) -> None:
    """`OTEL_TRACES_EXPORTER=console` prints spans of the run and its calls; OTEL_SDK_DISABLED turns it off."""
    variables: dict[str, Any] = {"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "none"}
    done = svr(*EVAL, "--limit", "3", "-q", cwd=place, **variables)
    assert (done.returncode, done.stdout.count('"name": "chat gpt-oss-120b"')) == (0, 3), done.stderr
    assert done.stdout.count('"name": "svr eval"') == 1
    assert done.stdout.count('"service.name": "svr-async"') == 4
    silent = svr(*EVAL, "--limit", "3", "-q", cwd=place, OTEL_SDK_DISABLED="true", **variables)
    assert '"name"' not in silent.stdout


def test_the_page_names_the_commands_that_are_watched() -> None:
    """No other command has the options, and none starts OpenTelemetry."""
    context = click.Context(group)
    found = [group.get_command(context, name) for name in group.list_commands(context)]
    found += [command for one in found if isinstance(one, click.Group) for command in one.commands.values()]
    watched = [one.name for one in found if one and "log_json" in {param.name for param in one.params}]
    page = (Path(__file__).parents[2] / "docs/observability.md").read_text("utf-8")
    assert f"belong to {' and '.join(f'`svr {name}`' for name in watched)}." in page


async def test_a_program_can_watch_its_engine(tmp_path: Path, sim: SimServer) -> None:
    """An engine of the library tells the observers of the block in which it is opened."""
    seen: list[Event] = []
    with observing(seen.append):
        async with Engine(f"{sim.base_url}#gpt-oss-20b", cache=tmp_path / "cache") as engine:
            await engine.judge.prefer(shown())
    assert [event.model for event in seen if isinstance(event, CallEnded)] == ["gpt-oss-20b"]
    assert isinstance(seen[-1], Snapshot)
    assert seen[-1].closing
