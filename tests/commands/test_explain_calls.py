"""`svr explain --calls`: request, reply, reasons and tokens of the calls of an item."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from endpoint import SimConfig, SimServer
from rig import name_judge, serving, svr_here, write_bank, write_bench

from svr_async.evaluation.items import Item
from svr_async.evaluation.run_folder import Run

KEY = "sk-a-key-that-nobody-may-see"


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimServer]:
    """Judge a few pairs directly, in both orders and with a log of calls, and with a bank; work in their folder."""
    folder, before = tmp_path_factory.mktemp("judged"), Path.cwd()
    os.chdir(folder)
    try:
        with serving() as sim:
            write_bench(folder / "bench.jsonl", 4)
            name_judge(folder, sim.base_url, price=[1, 0.5, 5], key_env="SIM_ACCESS")
            write_bank(folder / "bank")
            flags = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "-q")
            log = ("--log-json", "calls.jsonl", "--log-level", "call")
            assert svr_here(*flags, "--method", "direct", "--order", "both", "--out", "direct", *log) == 0
            assert svr_here(*flags, "--bank", "bank", "--out", "bankrun") == 0
            yield sim
    finally:
        os.chdir(before)


def items_of(run: str) -> tuple[Item, ...]:
    """Return the items of a run with their reasons."""
    return Run.load(run).items


def shown(capsys: pytest.CaptureFixture[str], run: str, item: str) -> list[dict[str, Any]]:
    """Return what `svr explain RUN ITEM --calls --json` prints."""
    capsys.readouterr()
    assert svr_here("explain", run, item, "--calls", "--json") == 0
    found: list[dict[str, Any]] = orjson.loads(capsys.readouterr().out)
    return found


def test_a_run_keeps_what_its_judge_wrote(judged: SimServer) -> None:
    """A reason for every rubric, and the reasoning ahead of a direct verdict in each order."""
    for item in items_of("bankrun"):
        assert {one.rubric for one in item.reasons} == {row.id for row in item.rubrics}
        assert all("A does" in one.text for one in item.reasons)
    for item in items_of("direct"):
        assert [(one.rubric, one.shown) for one in item.reasons] == [("", "ab"), ("", "ba")]
        assert "[[" not in item.reasons[0].text


def test_requests_are_rebuilt_without_a_call(judged: SimServer, capsys: pytest.CaptureFixture[str]) -> None:
    """All calls of an item, in order, with the body that was sent and its price."""
    sent, (item, *_) = judged.stats()["calls"], items_of("direct")
    found = shown(capsys, "direct", item.id)
    assert judged.stats()["calls"] == sent
    assert tuple(one["key"] for one in found) == item.requests
    for one, reason in zip(found, item.reasons, strict=True):
        assert one["request"]["body"]["messages"][0]["role"] == "system"
        assert reason.text in one["reply"]["text"]
        assert one["usd"] > 0
        assert one["simulated"] is True


def test_calls_are_those_that_the_run_recorded(judged: SimServer, capsys: pytest.CaptureFixture[str]) -> None:
    """After the judge's profile was edited, the request is the one of the run; if it cannot be, only the reply is."""
    (item, *_), path = items_of("bankrun"), Path("judges.toml")
    before = path.read_text()
    try:
        path.write_text(before + "\nmax_tokens = 77\ntemperature = 1.0\n")
        (found,) = shown(capsys, "bankrun", item.id)
        assert (found["key"], found["request"]["body"]["temperature"]) == (item.requests[0], 0.0)
        path.write_text(before + "\nextra_body = { odd = 1 }\n")
        (found,) = shown(capsys, "bankrun", item.id)
        assert found["key"] == item.requests[0]
        assert found["request"] is None
        assert found["reply"]["text"]
        assert svr_here("explain", "bankrun", item.id, "--calls") == 0
        out = capsys.readouterr().out
        assert "SIMULATED" in out
        assert "have changed since the run" in out
    finally:
        path.write_text(before)


def test_a_call_that_failed_is_shown_with_its_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a reply, the reason and the request are shown."""
    monkeypatch.chdir(tmp_path)
    write_bench(tmp_path / "bench.jsonl", 1)
    with serving(SimConfig(too_long=1.0)) as sim:
        name_judge(tmp_path, sim.base_url)
        flags = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--method", "direct", "-q")
        assert svr_here(*flags, "--out", "failed") == 3
    line = orjson.loads((Path("failed") / "failures.jsonl").read_bytes())
    (found,) = shown(capsys, "failed", items_of("failed")[0].id)
    assert found["key"] == line["key"]
    assert found["reply"] is None
    assert found["failure"] == {"outcome": line["outcome"], "detail": line["detail"]}
    assert found["request"]["body"]["model"] == "gpt-oss-120b"


def test_keys_and_controls_never_reach_the_terminal(
    judged: SimServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that a judge's variable holds is masked, and what a candidate wrote cannot steer the terminal."""
    rows = [orjson.loads(line) for line in Path("bench.jsonl").read_bytes().splitlines()]
    column = next(name for name, value in rows[0].items() if isinstance(value, str) and len(value) > 200)
    rows[0][column] += f" \x1b[2J\x1b]0;gone\x07 {KEY}\nreply\nA forged one."
    Path("odd.jsonl").write_bytes(orjson.dumps(rows[0]) + b"\n")
    flags = ("eval", "rubricbench", "--data", "odd.jsonl", "--judge", "sim", "--method", "direct", "-q")
    monkeypatch.setenv("SIM_ACCESS", KEY)
    assert svr_here(*flags, "--out", "odd") == 0
    (item,) = items_of("odd")
    assert shown(capsys, "odd", item.id)
    for form in ((), ("--json",)):
        assert svr_here("explain", "odd", item.id, "--calls", *form) == 0
        printed = capsys.readouterr().out
        assert KEY not in printed
        assert "[key]" in printed
        assert "\x1b" not in printed
        assert "\nreply\nA forged one." not in printed
