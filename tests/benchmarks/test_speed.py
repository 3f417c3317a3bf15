"""`make bench`: clients and server of the speed benchmark work, and figures are held to their targets."""

from __future__ import annotations

import asyncio
import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest

SPEED = Path(__file__).parents[2] / "benchmarks" / "speed"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Return a function that imports a module of the benchmark; all are forgotten again."""
    monkeypatch.syspath_prepend(str(SPEED))
    names: list[str] = []

    def imported(name: str) -> ModuleType:
        names.append(name)
        return importlib.import_module(name)

    yield imported
    for name in [name for name, module in sys.modules.items() if str(SPEED) in str(getattr(module, "__file__", ""))]:
        del sys.modules[name]


@pytest.fixture
def url() -> Iterator[str]:
    """Run the fast server in a process of its own."""
    command = [sys.executable, str(SPEED / "fast_server.py"), "--latency-ms", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.parametrize(
    ("file", "way", "names"),
    [
        ("client_ours.py", "", ["ours", "ours, cache hit"]),
        ("client_ours.py", "aiohttp", ["ours", "ours, cache hit"]),
        ("client_aiohttp.py", "task", ["aiohttp task"]),
        ("client_aiohttp.py", "pool", ["aiohttp pool"]),
    ],
)
def test_clients_have_every_call_answered_and_say_what_it_cost(url: str, file: str, way: str, names: list[str]) -> None:
    """Each client gets a checked verdict for each call, and prints its cost; ours finds them in the cache again."""
    flags = [f"--url={url}", "--calls=60", "--in-flight=8", f"--way={way}"]
    command = [sys.executable, str(SPEED / file), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    rows = [json.loads(line[7:]) for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert [row["client"] for row in rows] == names, done.stderr
    assert all(row["whole"] and row["answered"] == 60 and row["cpu_us"] > 0 for row in rows)


async def test_the_server_turns_away_what_is_over_its_rate(load: Callable[[str], ModuleType]) -> None:
    """An even bucket admits its burst and then the rate; what it turns away says for how long."""
    server = load("fast_server")
    gate = server.Gate(0.06, 2.0)
    assert [gate.wait_s() > 0 for _ in range(4)] == [False, False, True, True]
    assert not server.Gate(0.0, 1.0).wait_s()
    sent = []
    endpoint = server.Endpoint(0.0, server.Gate(60.0, 1.0))
    transport = type("Transport", (), {"write": lambda _, data: sent.append(data)})()
    line = server.Http(endpoint)
    line.connection_made(transport)
    whole = b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"
    for part in (whole + whole[:20], whole[20:], b"GET / HTTP/1.1\r\n\r\n"):
        line.data_received(part)
        await asyncio.sleep(0)
    assert [data.split(b"\r\n")[0].split()[1] for data in sent] == [b"200", b"429", b"200"]
    assert b"Retry-After: 1\r\n" in sent[1]
    assert sent[2].endswith(b'{"calls":2,"refused":1}')


def test_the_canned_verdict_is_one_and_bodies_differ(load: Callable[[str], ModuleType]) -> None:
    """The reply holds a verdict on six rubrics of the size that was promised; no two requests are equal."""
    server, calls = load("fast_server"), load("calls")
    assert len(calls.check(server.verdict())) == 6
    assert 2500 < len(server.completion()) < 3000
    bodies = [json.dumps(body) for body in calls.bodies(20, "test")]
    assert len(set(bodies)) == 20
    assert 2500 < len(bodies[0]) < 3100
    with pytest.raises(ValueError, match="six rubrics"):
        calls.check('{"comparisons": []}')


@pytest.mark.parametrize(
    ("value", "at_least", "verdict"),
    [(0.7, False, "beyond"), (1.0, False, "ok"), (1.2, False, "short"), (None, False, "skipped"), (1.2, True, "ok")],
)
def test_figures_are_held_to_their_targets(
    load: Callable[[str], ModuleType],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    value: float | None,
    at_least: bool,
    verdict: str,
) -> None:
    """A figure is beyond, ok, short or skipped; it survives the file between a benchmark and the summary."""
    targets = load("targets")
    bounds = {"target": 1.1, "beyond": 1.5} if at_least else {"target": 1.1, "beyond": 0.8}
    figure = targets.Figure(name="f", value=value, unit="×", at_least=at_least, **bounds)
    assert figure.verdict == verdict
    targets.hand_over([figure], tmp_path / "figures")
    assert targets.handed_over(tmp_path / "figures") == [figure]
    assert f"| {verdict} |" in capsys.readouterr().out


def test_rows_become_medians_tables_ratios_and_a_plot(
    load: Callable[[str], ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From rows of several runs come medians, the two tables, the figures with targets, and a picture."""
    engine = load("engine")
    row = {"answered": 9, "whole": True, "per_s": 4000.0, "rss_mb": 40.0}
    raw = engine.middle([row | {"cpu_us": cpu} for cpu in (90.0, 100.0, 500.0)])
    assert (raw["cpu_us"], raw["whole"]) == (100.0, True)
    ours = engine.middle([row | {"cpu_us": 70.0}])
    late = engine.middle([row | {"cpu_us": None, "whole": False, "answered": 0}])
    cell = {engine.RAW: raw, engine.OURS: ours, engine.HIT: engine.middle([row | {"cpu_us": 15.0}])}
    found = {(0, 64): cell | {"slow": late}, (0, 512): cell, (1000, 4096): cell}
    engine.print_tables(found)
    shown = capsys.readouterr().out
    assert "| ours | 70 (0.70×) |" in shown
    assert "| slow | none answered |" in shown
    verdicts = {one.name: one.verdict for one in engine.figures(found)}
    assert list(verdicts.values()) == ["beyond", "beyond", "skipped", "skipped", "beyond", "beyond"]
    engine.draw(found, tmp_path / "plot.svg")
    plot = ET.parse(tmp_path / "plot.svg").getroot()
    names = [text.text for text in plot.iter("{http://www.w3.org/2000/svg}text")]
    assert {"ours", "aiohttp task", "64", "512", "100"} <= set(names)


def test_a_ratio_is_that_of_neighbouring_runs(load: Callable[[str], ModuleType]) -> None:
    """A machine that slows down between runs moves both of a pair; runs of other numbers are compared by medians."""
    engine = load("engine")
    row = {"answered": 9, "whole": True, "per_s": 4000.0, "rss_mb": 40.0}
    raw, ours, few = (
        engine.middle([row | {"cpu_us": cpu} for cpu in spent])
        for spent in ((100.0, 200.0, 400.0), (90.0, 180.0, 440.0), (50.0,))
    )
    found = {(0, 64): {engine.RAW: raw, engine.OURS: ours, "few": few}}
    assert engine._ratio(found, (0, 64), engine.OURS, engine.RAW) == pytest.approx(0.9)
    assert engine._ratio(found, (0, 64), "few", engine.RAW) == pytest.approx(0.25)
    assert engine._ratio(found, (0, 64), "nobody", engine.RAW) is None


def test_peers_without_an_environment_are_skipped_and_said_so(
    load: Callable[[str], ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each absent peer is named; one whose Python is there is run."""
    engine = load("engine")
    python = tmp_path / "litellm" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert [one.name for one in engine.peers(tmp_path)] == ["litellm"]
    assert capsys.readouterr().out.count("skipped") == 4


@pytest.mark.parametrize(("script", "flags"), [("memory.py", ["--questions", "600"]), ("retry.py", ["--quick"])])
def test_benchmarks_of_one_process_run_to_their_figures(script: str, flags: list[str], tmp_path: Path) -> None:
    """What stands in for an endpoint or a cache there keeps up with the engine: the script ends with its figures."""
    command = [sys.executable, str(SPEED / script), *flags, "--figures", str(tmp_path / "figures.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    figures = [json.loads(line) for line in (tmp_path / "figures.jsonl").read_text().splitlines()]
    assert figures
    assert all(figure["value"] is not None for figure in figures)
