"""`svr report`, `svr compare` and `svr explain` as a user meets them: output, JSON, files, errors in one line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import orjson
import pytest
from click.testing import CliRunner
from small_runs import item, row, write_run

from svr_async.commands.explain import explain
from svr_async.commands.pages import report
from svr_async.commands.results import compare
from svr_async.errors import ArtefactError, UsageError

ESCAPES = "\x1b]8;;https://example.org\x1b\\click\x1b]8;;\x1b\\ \x1b[31mred\u202e [bold]x[/] :smile:"


def call(command: click.Command, *args: Any) -> str:
    """Run a command and return its standard output; errors are raised."""
    result = CliRunner().invoke(command, [str(arg) for arg in args], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """Give a run that is right on 30 of 40."""
    return write_run(tmp_path / "good", [item(i, correct=i >= 10, margin=1 + i / 10) for i in range(40)])


@pytest.fixture
def poor(tmp_path: Path) -> Path:
    """Give a simulated run that is right on 10 of the same 40."""
    items = [item(i, correct=i < 10) for i in range(40)]
    return write_run(tmp_path / "poor", items, method="direct", manifest={"judge": {"marks": ["simulated"]}})


@pytest.mark.parametrize(
    ("name", "start"), [("r.html", "<!doctype html>"), ("r.md", "**Preference"), ("r.tex", "%"), ("r.CSV", "run,")]
)
def test_report_writes_what_the_suffix_says(good: Path, tmp_path: Path, name: str, start: str) -> None:
    """One command, four formats; the line says where the file is."""
    out = call(report, good, "--out", tmp_path / name)

    assert (tmp_path / name).read_text().lstrip().startswith(start)
    assert f"wrote {tmp_path / name}" in out.replace("\n", "")


def test_report_goes_into_the_run_unless_told_otherwise(good: Path) -> None:
    """Without --out one run's page is report.html in its folder."""
    answer = orjson.loads(call(report, good, "--json"))

    assert answer["out"] == str(good / "report.html")
    assert (good / "report.html").stat().st_size == answer["bytes"]


def test_report_of_several_runs_compares_them(
    good: Path, poor: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several runs make one page in the working directory, with the paired test."""
    monkeypatch.chdir(tmp_path)
    call(report, good, poor)

    assert "McNemar" in (tmp_path / "comparison.html").read_text()


def test_report_refuses_an_unknown_suffix_before_it_reads(tmp_path: Path) -> None:
    """A wrong suffix is named, with the right ones."""
    with pytest.raises(UsageError, match=r"\.docx: no format") as caught:
        call(report, tmp_path / "nowhere", "--out", "x.docx")
    assert ".html" in caught.value.hint


def test_a_garbled_run_is_one_line(good: Path) -> None:
    """A broken file ends the command with its place, not with a trace."""
    (good / "items.jsonl").write_text("{")

    with pytest.raises(ArtefactError, match="line 1"):
        call(report, good)


def test_compare_shows_the_test_and_the_marks(good: Path, poor: Path) -> None:
    """Accuracy side by side, discordant counts, the verdict, and what makes it doubtful."""
    out = call(compare, good, poor)

    assert "75.0" in out
    assert "25.0" in out
    assert "30:10" in out
    assert "SIMULATED" in out
    assert "Only some runs are marked" in out
    assert "svr · tiny is better by 50.0 points of strict accuracy on 40 shared pairs." in out


def test_compare_as_json(good: Path, poor: Path) -> None:
    """The same numbers for machines, the same for the same seed."""
    found = orjson.loads(call(compare, good, poor, "--json"))

    assert found["duels"][0]["overall"]["only_first"] == 30
    assert found == orjson.loads(call(compare, good, poor, "--json"))


def test_compare_needs_two(good: Path) -> None:
    """One run is refused with the way to call it."""
    with pytest.raises(UsageError, match="at least two runs"):
        call(compare, good)


def test_compare_fits_a_narrow_terminal(good: Path, poor: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On eighty columns the main numbers are whole, none is cut."""
    monkeypatch.setattr("svr_async.commands.screen.PLAIN_WIDTH", 80)
    out = call(compare, good, poor)

    assert max(map(len, out.splitlines())) <= 80
    assert "−50.0" in out
    assert "…" not in out


def test_explain_lists_the_surest_mistakes(good: Path) -> None:
    """Without an item: the wrong ones, the largest margin first."""
    lines = call(explain, good).splitlines()

    assert [line.split()[0] for line in lines[2:12]] == [f"q-{i:03d}" for i in reversed(range(10))]


def test_explain_says_when_there_is_no_mistake(tmp_path: Path) -> None:
    """A run without mistakes says so."""
    assert "no pair was decided for the wrong" in call(explain, write_run(tmp_path / "r", [item(1)]))


def test_explain_shows_contributions_as_bars(good: Path) -> None:
    """Rubric, verdicts, a bar to the favoured side and the signed number."""
    wrong, right = call(explain, good, "q-003"), call(explain, good, "q-030")

    assert "chose B (wrong), margin −1.30" in wrong
    assert "│━━━━━━━━━━━━" in wrong
    assert "−1.30" in wrong.split("Gives the price")[1]
    assert "━━━━━━━━━━━━│" in right
    assert "the run folder keeps no texts of this pair" in right


def test_explain_shows_texts_shortened(tmp_path: Path) -> None:
    """Kept texts are shown with what is left out, marked as right answer and judge's choice."""
    texts = {"id": "q-001", "prompt": "How much?", "response_a": "Four coins.", "response_b": "w " * 2_000}
    out = call(explain, write_run(tmp_path / "r", [item(1, correct=False)], examples=[texts]), "q-001")

    assert "response A (right answer)" in out
    assert "response B (judge's choice)" in out
    assert "… 3,300 more characters" in out


def test_explain_reads_texts_from_data(tmp_path: Path, good: Path) -> None:
    """--data finds the texts of the pair; another file is refused."""
    data = tmp_path / "pairs.jsonl"
    data.write_bytes(orjson.dumps({"id": "q-030", "prompt": "Say hi", "chosen": "Hi!", "rejected": "No."}) + b"\n")

    out = call(explain, good, "q-030", "--data", data)
    assert "Say hi" in out
    assert "Hi!" in out
    with pytest.raises(UsageError, match="has no pair 'q-031'"):
        call(explain, good, "q-031", "--data", data)


def test_explain_as_json(good: Path) -> None:
    """Item and list as JSON."""
    assert orjson.loads(call(explain, good, "q-003", "--json"))["item"]["margin"] == -1.3
    assert len(orjson.loads(call(explain, good, "--json"))) == 10


def test_explain_suggests_the_nearest_id(good: Path) -> None:
    """A typing mistake is answered with ids."""
    with pytest.raises(UsageError) as caught:
        call(explain, good, "q-3")
    assert "did you mean" in caught.value.one_line() or "items.jsonl" in caught.value.one_line()


def test_untrusted_texts_cannot_steer_the_terminal(tmp_path: Path) -> None:
    """Escape sequences, bidi marks, links and console markup in any field print as plain words or not at all."""
    base = item(1, correct=False)
    bad = replace(
        base, id=f"q{ESCAPES}", domain=ESCAPES, detail=ESCAPES, flags=(ESCAPES,), rubrics=(row(ESCAPES, -0.5),)
    )
    texts = {"id": bad.id, "prompt": ESCAPES, "response_a": ESCAPES, "response_b": ESCAPES}
    runs = [
        write_run(tmp_path / name, [bad, item(2)], examples=[texts], method=ESCAPES, judge_label=ESCAPES)
        for name in ("a", "b")
    ]
    out = call(explain, runs[0]) + call(explain, runs[0], bad.id) + call(compare, *runs)

    assert not {"\x1b", "\u202e", "\x07"} & set(out)
    assert "https://example.org" not in out
    assert "[bold]x[/] :smile:" in out


@pytest.mark.parametrize("command", [report, compare, explain])
def test_help_has_an_example(command: click.Command) -> None:
    """Each command explains itself with a line to copy."""
    out = call(command, "--help")

    assert "Example" in out
    assert f"svr {command.name} runs/" in out
    assert "--json" in out


def test_many_rubrics_that_count_nothing_are_counted_only(tmp_path: Path) -> None:
    """A bank of a hundred rubrics is explained by those that count; of a few all are listed."""
    told = {}
    for n in (3, 20):
        rows = (row("counts", -0.4), *(row(f"idle {i}", 0.001) for i in range(n)))
        told[n] = call(explain, write_run(tmp_path / str(n), [replace(item(1, margin=-0.4), rubrics=rows)]), "q-001")
    assert "idle 2" in told[3]
    assert "idle" not in told[20]
    assert "counts" in told[20]
    assert "and 20 that count less than 0.005" in told[20]
