"""`svr explain --bank`: one pair judged now, and one-line errors for what does not go together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from endpoint import SimServer
from rig import name_judge, pairs, serving

from svr_async import score_pair
from svr_async.commands.main import run
from svr_async.commands.main import svr as group
from svr_async.core.rubric import Check, Rubric
from svr_async.judges.rules.registry import rubric_for
from svr_async.scoring.bank import BankRubric, RubricBank
from svr_async.simulation.catalogue import CRITERIA

WORDY = "I would say, if you were to ask me about it, that the colour in question is blue."


@pytest.fixture
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RubricBank:
    """Write a bank of two checks and one rubric that only a model can judge, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    rubrics = (
        BankRubric(rubric=rubric_for(Check.of("max_words", n=10)), weight=0.9),
        BankRubric(rubric=rubric_for(Check.of("bullet_list")), weight=0.3),
        BankRubric(rubric=Rubric(text="Sounds like a friend."), weight=0.4),
    )
    held = RubricBank(rubrics=rubrics, name="colours")
    held.save(tmp_path / "bank")
    return held


def explain(*args: str | Path) -> int:
    """Run `svr explain`."""
    return run(group, "svr", ["explain", *map(str, args)])


def asked(*more: str, a: str = WORDY, b: str = "Blue.") -> tuple[str, ...]:
    """Return the flags of a pair."""
    return ("--bank", "bank", "--judge", "rules", "--prompt", "Name a colour.", "--a", a, "--b", b, *more)


def printed(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return the printed JSON."""
    found: dict[str, Any] = orjson.loads(capsys.readouterr().out)
    return found


def test_the_decision_is_told_in_words_with_signed_contributions(
    bank: RubricBank, capsys: pytest.CaptureFixture[str]
) -> None:
    """The winner, the margin, each rubric with its verdicts and sign, who judged, and the texts."""
    assert explain(*asked()) == 0
    shown = capsys.readouterr().out
    for text in (
        "colours · rules (offline checks, no model)", "B is better, margin −0.3", "above 0 for A", "fail  pass",
        "Of 3 rubrics, 0 for A, 1 for B, 2 for neither.", 'What counted most for B: "The response is at most 10',
        "Name a colour.", WORDY, "response B (judge's choice)",
    ):  # fmt: skip
        assert text in shown
    assert "right" not in shown


def test_json_adds_up_and_is_what_the_library_says(bank: RubricBank, capsys: pytest.CaptureFixture[str]) -> None:
    """The rows sum to the margin, and `score_pair` gives the same one."""
    assert explain(*asked("--json")) == 0
    found = printed(capsys)
    verdict = score_pair("Name a colour.", WORDY, "Blue.", bank=bank, engine="rules")
    assert found["item"]["margin"] == pytest.approx(verdict.margin)
    assert sum(row["contribution"] for row in found["item"]["rubrics"]) == pytest.approx(verdict.margin)
    assert (found["item"]["predicted"], found["item"]["gold"], found["texts"]["response_b"]) == ("B", None, "Blue.")
    assert found["judged_by"] == "colours · rules (offline checks, no model)"


def test_without_a_bank_the_general_checks_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`svr explain --judge rules` needs no model, names its judge, and decides as the rules judge alone."""
    monkeypatch.chdir(tmp_path)
    given = asked()[2:]
    assert explain(*given, "--json") == 0
    found = printed(capsys)
    assert found["judged_by"] == "general checks · rules (offline checks, no model)"
    alone = score_pair("Name a colour.", WORDY, "Blue.", engine="rules")
    assert found["item"]["margin"] == pytest.approx(alone.margin)
    assert found["item"]["margin"] == pytest.approx(sum(row["contribution"] for row in found["item"]["rubrics"]))
    assert explain(*given) == 0
    assert "general checks · rules" in capsys.readouterr().out


def test_an_endpoint_judges_and_the_cache_answers_again(
    bank: RubricBank, tmp_path: Path, sim: SimServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Over HTTP: the label says what it is; the cache answers the second time."""
    name_judge(tmp_path, sim.base_url)
    pair = pairs(1)[0]
    planted = tuple(BankRubric(rubric=Rubric(text=entry.rubric)) for entry in CRITERIA[:3])
    RubricBank(rubrics=planted, name="planted").save(tmp_path / "bank")
    (tmp_path / "prompt.txt").write_text(pair.prompt[0].content, "utf-8")
    args = ("--bank", "bank", "--prompt", "@prompt.txt", "--a", pair.chosen, "--b", pair.rejected, "--judge", "sim")
    assert explain(*args, "--json") == 0
    plain, calls = printed(capsys), sim.stats()["calls"]
    assert plain["judged_by"] == "planted · sim (SIMULATED endpoint)"
    assert explain(*args, "--json") == 0
    assert sim.stats()["calls"] == calls


def test_no_verdict_ends_with_three(
    bank: RubricBank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unusable reply is shown as such and does not count as a success."""
    with serving() as server:
        name_judge(tmp_path, server.base_url, context_tokens=1)
        assert explain(*asked("--judge", "sim")) == 3
    shown = capsys.readouterr()
    assert "context_too_long: no verdict" in shown.out
    assert "no verdict: context_too_long" in shown.err
