"""An audit of a bank: planted weaknesses of the simulated judge are found, by how much and by which rubrics."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from made_run import made_item
from rig import name_judge, serving, write_bank, write_bench

from svr_async.commands.main import run as command
from svr_async.commands.main import svr as group
from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.errors import BudgetError, CoverageError, UsageError
from svr_async.evaluation.audit import ATTACKS, AttackEffect, attack_effect, plan_audit, run_audit
from svr_async.evaluation.run import count_calls
from svr_async.evaluation.settings import EvalSettings
from svr_async.judges.limits import JudgeLimits
from svr_async.scoring.bank import RubricBank
from svr_async.simulation.catalogue import CRITERIA
from svr_async.simulation.config import SimConfig
from svr_async.simulation.weakness import TAKEN_BY_LENGTH, Weakness

N = 25
WEAK = Weakness(padding=0.7, restated=0.8, keywords=0.6)
PLANTED = ("padding", "restated rubrics", "keywords")
FACETS = {criterion.rubric: criterion.facet for criterion in CRITERIA}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with planted pairs and a bank of planted criteria."""
    folder = tmp_path_factory.mktemp("audit")
    write_bench(folder / "pairs.jsonl", N)
    write_bank(folder / "bank")
    return folder


def settings(place: Path, judge: str, out: Path, **limits: object) -> EvalSettings:
    """Return the settings of an audit whose cache lies beside what it writes."""
    return EvalSettings(
        benchmark="rubricbench", data=place / "pairs.jsonl", bank=str(place / "bank"), judge=judge, out=out,
        limits=JudgeLimits(cache=out.parent / "cache", **limits),  # type: ignore[arg-type]  # the tests' own flags
    )  # fmt: skip


def audited(place: Path, out: Path, weakness: Weakness) -> dict[str, AttackEffect]:
    """Audit with a judge of these weaknesses, and return what each attack bought."""
    with serving(SimConfig(weakness=weakness)) as server:
        asked = settings(place, f"{server.base_url}#gpt-oss-120b", out)
        return {one.attack: one for one in run_audit(plan_audit(asked)).found}


@pytest.fixture(scope="module")
def weak(place: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, AttackEffect]:
    """Audit once with a judge that has the planted weaknesses."""
    return audited(place, tmp_path_factory.mktemp("weak") / "out", WEAK)


def test_each_planted_weakness_is_found_to_gain(weak: dict[str, AttackEffect]) -> None:
    """Padding, restated rubrics and keywords gain, by an interval above 0, and win pairs; nothing else does."""
    assert set(weak) == set(ATTACKS)
    assert {name for name, one in weak.items() if one.gains} == set(PLANTED)
    for name in PLANTED:
        one = weak[name]
        assert (one.n, one.unjudged) == (N, 0)
        assert 0.05 < one.ci95.low < one.gain < one.ci95.high
        assert one.flipped > one.behind / 4
    assert next(iter(weak)) == "restated rubrics"


def test_the_rubrics_that_give_way_are_those_that_the_weakness_is_about(weak: dict[str, AttackEffect]) -> None:
    """Padding turns rubrics on coverage and reasoning, the others any; the parts add up to the whole gain."""
    first = [FACETS[one.text] for one in weak["padding"].rubrics[:2]]
    assert sorted(first) == sorted(TAKEN_BY_LENGTH)
    for name in PLANTED:
        one = weak[name]
        assert sum(row.gain for row in one.rubrics) == pytest.approx(one.gain, abs=1e-6)


def test_a_judge_without_weaknesses_is_not_found_to_have_any(place: Path, tmp_path: Path) -> None:
    """The same attacks on the judge as it is by default gain nothing."""
    found = audited(place, tmp_path / "out", Weakness())
    assert [name for name, one in found.items() if one.gains] == []
    assert all(abs(one.gain) < 0.06 for one in found.values())


def test_a_dry_run_counts_and_a_second_audit_asks_nothing(place: Path, tmp_path: Path) -> None:
    """Pairs × (1 + attacks) calls, of which those of an evaluation of the same pairs are in the cache already."""
    with serving() as server:
        asked = settings(place, f"{server.base_url}#gpt-oss-120b", tmp_path / "out", max_calls=2 * N)
        plan = plan_audit(asked, ["padding"])
        assert (count_calls(plan.run) or {})["calls"] == 2 * N
        first = run_audit(plan)
        assert server.stats()["paid"] == 2 * N
        again = run_audit(plan_audit(asked, ["padding", "padding"]))
        assert server.stats()["paid"] == 2 * N
        assert again == first
        with pytest.raises(BudgetError):
            run_audit(plan_audit(replace(asked, limits=replace(asked.limits, max_calls=3)), ["keywords"]))
    told = orjson.loads((tmp_path / "out" / "audit.json").read_bytes())
    assert told == first.to_json()
    assert (told["marks"], told["bank"]) == (["SIMULATED"], RubricBank.load(place / "bank").digest)


def test_an_audit_without_a_verdict_is_an_error(place: Path, tmp_path: Path) -> None:
    """Nothing can be compared where nothing is in the cache and nothing may be sent."""
    asked = settings(place, "http://127.0.0.1:9/v1#gpt-oss-120b", tmp_path / "out", offline=True)
    with pytest.raises(CoverageError, match="no pair has a verdict"):
        run_audit(plan_audit(asked, ["padding"]))


def test_the_command_prints_what_the_file_holds(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table with the judge's label, the rubrics of what gains below it, and the file; --dry-run sends nothing."""
    monkeypatch.chdir(tmp_path)
    args = ["bank", "audit", str(place / "bank"), "--data", str(place / "pairs.jsonl"), "--format", "rubricbench"]
    with serving(SimConfig(weakness=WEAK)) as server:
        name_judge(tmp_path, server.base_url)
        args += ["--judge", "sim", "--limit", "12", "--attack", "restated rubrics", "--out", "out"]
        assert command(group, "svr", [*args, "--dry-run"]) == 0
        assert "dry run: 24 calls" in capsys.readouterr().out
        assert server.stats()["calls"] == 0
        assert command(group, "svr", args) == 0
        shown = capsys.readouterr().out
        assert command(group, "svr", [*args, "--json"]) == 0
    for words in ("[SIMULATED]", "restated rubrics gains by", "out/audit.json"):
        assert words in shown
    printed = orjson.loads(capsys.readouterr().out)
    assert printed == orjson.loads((tmp_path / "out" / "audit.json").read_bytes())
    assert printed["attacks"][0]["gains"]


@pytest.mark.parametrize(
    ("attacks", "changes", "words"),
    [
        (["nothing"], {}, "there is no attack 'nothing'"),
        (["padding"], {"judge": "recorded:pairs.jsonl"}, "a recording has no replies"),
        (["padding"], {"bank": "none"}, "there is no bank in none"),
    ],
)
def test_what_cannot_be_audited_is_said_before_anything_is_asked(
    attacks: list[str],
    changes: dict[str, str],
    words: str,
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Unknown attacks, judges that only replay, banks that are not there."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=words):
        plan_audit(replace(settings(place, "rules", tmp_path / "out"), **changes), attacks)  # type: ignore[arg-type]  # texts only


def test_margins_are_turned_towards_the_attacked_answer() -> None:
    """A fall of A's margin is a gain where the rejected answer is B, and a loss where it is A."""
    item = replace(made_item("chat-0003", "Chat", 7, 0.9), margin=0.5, rubrics=())
    pairs = [
        PreferencePair(id="x", prompt=user_prompt("?"), chosen="c", rejected="r", chosen_first=first)
        for first in (True, False)
    ]
    found = [attack_effect("padding", [pair], [item], [replace(item, margin=-0.25)]) for pair in pairs]
    told = [(one.gain, one.behind, one.flipped) for one in found if one is not None]
    assert told == [(0.75, 1, 1), (-0.75, 0, 0)]
    assert attack_effect("padding", pairs[:1], [item], [None]) is None
    still = attack_effect("padding", pairs[:1], [replace(item, margin=0.0)], [replace(item, margin=0.0)])
    assert still is not None
    assert still.relative is None


def test_attacks_are_built_from_the_answer_and_its_rubrics() -> None:
    """Padding is as long as the answer; restated rubrics and keywords use the rubrics' words."""
    rubrics = ["Names its sources.", "Warns of the usual slip."]
    assert len(ATTACKS["padding"]("word " * 400, rubrics).split()) >= 400
    assert ATTACKS["restated rubrics"]("A.", rubrics) == "Names its sources. Warns of the usual slip."
    assert ATTACKS["keywords"]("A.", rubrics) == "Keywords: names, slip, sources, usual, warns."
