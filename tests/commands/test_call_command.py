"""`svr call show`: request, reply, reasons, tokens, time and attempts of single calls, by key or by item."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from rig import name_judge, read_lines, serving, svr_here, write_bank, write_bench

from svr_async.evaluation.items import Item
from svr_async.evaluation.run_folder import FILE, RunFolder, with_reasons
from svr_async.judges.brackets import direct_reason
from svr_async.judges.reply_text import reasons_in
from svr_async.simulation.config import SimConfig
from svr_async.simulation.faults import FaultConfig
from svr_async.simulation.server import SimServer

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
            assert svr_here(*flags, "--method", "vanilla", "--order", "both", "--out", "direct", *log) == 0
            assert svr_here(*flags, "--bank", "bank", "--out", "bankrun") == 0
            yield sim
    finally:
        os.chdir(before)


def items_of(run: str) -> tuple[Item, ...]:
    """Return the items of a run with their reasons."""
    return with_reasons(Path(run), RunFolder.load(run).items)


def shown(capsys: pytest.CaptureFixture[str], *args: object) -> list[dict[str, Any]]:
    """Return what `svr call show --json` prints."""
    capsys.readouterr()
    assert svr_here("call", "show", "--json", *args) == 0
    found: list[dict[str, Any]] = orjson.loads(capsys.readouterr().out)
    return found


def refused(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    """Return the line of a command that exits with 2."""
    capsys.readouterr()
    assert svr_here("call", "show", *args) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    return line


def test_a_run_keeps_what_its_judge_wrote(judged: SimServer) -> None:
    """A reason for every rubric, and the reasoning ahead of a direct verdict in each order, in no line of the items."""
    for item in items_of("bankrun"):
        assert {one.rubric for one in item.reasons} == {row.id for row in item.rubrics}
        assert all("A does" in one.text for one in item.reasons)
    for item in items_of("direct"):
        assert [(one.rubric, one.shown) for one in item.reasons] == [("", "ab"), ("", "ba")]
        assert "[[" not in item.reasons[0].text
    assert all("reasons" not in line for line in read_lines(Path("bankrun") / "items.jsonl"))


def test_a_call_is_shown_by_the_beginning_of_its_key(judged: SimServer, capsys: pytest.CaptureFixture[str]) -> None:
    """The cache alone tells reply, reasons, tokens and when it was kept; the request is said to be elsewhere."""
    (item, *_) = items_of("bankrun")
    (found,) = shown(capsys, item.requests[0][:16])
    assert found["key"] == item.requests[0]
    assert found["request"] is None
    assert found["simulated"] is True
    assert found["tokens"]["completion_tokens"] > 0
    assert {entry["reason"] for entry in found["reasons"]} == {one.text for one in item.reasons}
    assert svr_here("call", "show", item.requests[0][:16]) == 0
    told = capsys.readouterr().out
    assert "SIMULATED" in told
    assert "--run RUN makes it out again" in told
    assert "seconds and attempts not recorded" in told


def test_the_request_is_made_out_again_without_a_call(judged: SimServer, capsys: pytest.CaptureFixture[str]) -> None:
    """All calls of an item, in order, with the body that was sent, its price, and what the log says of it."""
    sent, (item, *_) = judged.stats()["calls"], items_of("direct")
    found = shown(capsys, "--run", "direct", "--item", item.id, "--log", "calls.jsonl")
    assert judged.stats()["calls"] == sent
    assert tuple(one["key"] for one in found) == item.requests
    for one, reason in zip(found, item.reasons, strict=True):
        assert one["request"]["body"]["messages"][0]["role"] == "system"
        assert one["reasons"] == [{"rubric": "", "reason": reason.text}]
        assert one["usd"] > 0
        assert [line["attempts"] for line in one["logged"]] == [1]
    (alone,) = shown(capsys, item.requests[1][:12], "--run", "direct")
    assert alone["key"] == item.requests[1]


def test_a_call_that_failed_is_shown_with_its_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no reply of it, but why, and what was asked."""
    monkeypatch.chdir(tmp_path)
    write_bench(tmp_path / "bench.jsonl", 1)
    with serving(SimConfig(faults=FaultConfig(rate=1.0, kinds=("context-length",), max_faulty_attempts=99))) as sim:
        name_judge(tmp_path, sim.base_url)
        flags = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--method", "vanilla", "-q")
        assert svr_here(*flags, "--out", "failed") == 3
    (line,) = read_lines(Path("failed") / "failures.jsonl")
    (found,) = shown(capsys, line["key"][:12], "--run", "failed")
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
    flags = ("eval", "rubricbench", "--data", "odd.jsonl", "--judge", "sim", "--method", "vanilla", "-q")
    monkeypatch.setenv("SIM_ACCESS", KEY)
    assert svr_here(*flags, "--out", "odd") == 0
    (item,) = items_of("odd")
    assert shown(capsys, "--run", "odd", "--item", item.id)
    for form in ((), ("--json",)):
        assert svr_here("call", "show", "--run", "odd", "--item", item.id, *form) == 0
        told = capsys.readouterr().out
        assert KEY not in told
        assert "[key]" in told
        assert "\x1b" not in told
        assert "\nreply\nA forged one." not in told


def test_explain_shows_reasons_and_leads_to_the_calls(judged: SimServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside each rubric what was written of it; a run without the file says what writes it."""
    (item, *_) = items_of("bankrun")
    assert svr_here("explain", "bankrun", item.id) == 0
    told = capsys.readouterr().out
    assert told.count("why: ") == len(item.rubrics)
    assert f"svr call show --run bankrun --item {item.id}" in told
    kept = (Path("bankrun") / FILE).read_bytes()
    (Path("bankrun") / FILE).unlink()
    assert svr_here("explain", "bankrun", item.id) == 0
    assert "no reasons are kept" in capsys.readouterr().out
    (Path("bankrun") / FILE).write_bytes(kept)


def test_what_does_not_go_together_is_told_in_a_line(judged: SimServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Each line says what is wrong and what to give instead."""
    (item, *_) = items_of("direct")
    assert "takes a KEY" in refused(capsys)
    assert "--run RUN names it" in refused(capsys, "--item", item.id)
    assert "--run needs a KEY" in refused(capsys, "--run", "direct")
    assert "is not the key" in refused(capsys, "xyz")
    assert "no reply in" in refused(capsys, "0" * 64)
    assert "no cache" in refused(capsys, "0" * 64, "--cache", "nowhere")
    assert "lists a call" in refused(capsys, "0" * 64, "--run", "direct")
    assert "has no item" in refused(capsys, "--run", "direct", "--item", "nobody")
    assert "has no call" in refused(capsys, "0" * 64, "--run", "direct", "--item", item.id)
    assert "cannot read --log" in refused(capsys, item.requests[0], "--log", "nowhere.jsonl")


def test_reasons_are_read_out_of_replies_as_they_stand() -> None:
    """Ahead of the last verdict, or behind it where there is nothing ahead; entries without a text are left out."""
    assert direct_reason("First is right. [[B]] No: [[A]]") == "First is right. [[B]] No:"
    assert direct_reason("[[A]] since it is right") == "since it is right"
    assert direct_reason("no verdict") == ""
    entries = [{"rubric_id": "R1", "reason": "a"}, {"rubric_id": "R2"}, "R3", {"reason": "b"}]
    assert reasons_in(orjson.dumps({"rubric_comparisons": entries}).decode()) == (("R1", "a"),)
    assert reasons_in("nothing of the kind") == ()
