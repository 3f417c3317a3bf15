"""A gate fails on a loss that is shown, warns where the pairs do not decide, and refuses what cannot be compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from made_run import made_items, made_manifest, write_run

from svr_async.commands.main import run as run_command
from svr_async.commands.main import svr as group
from svr_async.errors import GateError, UsageError
from svr_async.evaluation.compare import ALLOWABLE
from svr_async.evaluation.gate import Verdict, gate_runs, raise_unless_passed
from svr_async.evaluation.items import Item, Items
from svr_async.evaluation.run_folder import Run
from svr_async.reports.sheets import FORMATS


def loaded(folder: Path, lost: int = 0, **changes: Any) -> Run:
    """Write and load a run of 320 pairs that is right on all but every tenth, and on `lost` more."""
    items = [_decided(item, right=n % 10 != 0 and n >= lost) for n, item in enumerate(made_items())]
    return Run.load(write_run(folder, items=items, **changes))


def _decided(item: Item, *, right: bool) -> Item:
    other = {"A": "B", "B": "A"}[item.gold or "A"]
    return replace(item, outcome="scored", predicted=item.gold if right else other, correct=right)


@pytest.fixture
def baseline(tmp_path: Path) -> Run:
    """Give a run to hold others up to."""
    return loaded(tmp_path / "baseline")


def test_a_loss_that_is_shown_fails_and_a_tolerated_one_passes(baseline: Run, tmp_path: Path) -> None:
    """36 of 320 pairs lost fail without a margin, are undecided at 10 points, and pass at 20."""
    worse = loaded(tmp_path / "worse", lost=40)
    found = [gate_runs(worse, baseline, margin=margin) for margin in (0.0, 0.1, 0.2)]

    assert [one.verdict for one in found] == [Verdict.FAILED, Verdict.UNDECIDED, Verdict.PASSED]
    assert found[0].test is not None
    assert found[0].test.difference == pytest.approx(-36 / 320)
    with pytest.raises(GateError, match=r"A loss is shown: −11\.2 points"):
        raise_unless_passed(found[0])
    for passing in found[1:]:
        raise_unless_passed(passing)
    with pytest.raises(GateError, match="but up to"):
        raise_unless_passed(found[1], strict=True)


JUDGE = made_manifest()["judge"]
CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "judge": ({"judge": {**JUDGE, "name": "sim"}}, "judge: sim, the baseline has gpt-oss-120b"),
    "model": ({"judge": {**JUDGE, "models_seen": ["b"]}}, "model, seen: b, the baseline has a"),
    "data": ({"data": {"digest": "blake2b:0"}}, "data, digest: blake2b:0, the baseline has blake2b:5f0e7c4412aa93d1"),
    "prompts": ({"prompts": {"compare": "x", "prefer": "sha256:77d0a4c3"}}, "prompts, compare: x, the baseline has"),
    "settings": ({"config": {"order": "both"}}, "settings, order: both, the baseline has hash"),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_what_must_be_the_same_is_named_where_it_is_not(kind: str, tmp_path: Path) -> None:
    """Another judge, model, data, prompt or setting is refused in a separate line, and let through where allowed."""
    manifest, says = CHANGES[kind]
    seen = {"judge": {**JUDGE, "models_seen": ["a"]}}
    baseline = loaded(tmp_path / "baseline", manifest=seen)
    other = loaded(tmp_path / "other", manifest={**seen, **manifest})
    found = gate_runs(other, baseline)

    assert found.verdict is Verdict.REFUSED
    assert len(found.refusals) == 1
    assert found.refusals[0].startswith(says)
    assert found.test is None
    with pytest.raises(UsageError) as refused:
        raise_unless_passed(found)
    assert found.refusals[0] in refused.value.one_line()
    assert (f"--allow {kind}" in refused.value.one_line()) == (kind in ALLOWABLE)
    if kind in ALLOWABLE:
        allowed = gate_runs(other, baseline, allow=[kind])
        assert allowed.verdict is Verdict.PASSED
        assert allowed.warnings == (f"allowed to differ: {found.refusals[0]}",)


def test_other_pairs_and_partial_runs_are_refused(baseline: Run, tmp_path: Path) -> None:
    """A run that did not finish, over some of the pairs, is refused for both; neither can be allowed."""
    short = loaded(tmp_path / "short", metrics={"complete": False})
    found = gate_runs(replace(short, items=Items(short.items[:300])), baseline, allow=ALLOWABLE)

    assert [line.partition(":")[0] for line in found.refusals] == ["partial", "data"]
    assert "300 pairs, the baseline has 320; 300 are the same" in found.refusals[1]


def test_method_and_bank_may_differ(baseline: Run, tmp_path: Path) -> None:
    """The compared method is not a difference; version and lost verdicts are warnings."""
    manifest = {"config": {"order": "hash", "bank": "new", "top_k": 3}, "svr_version": "9"}
    other = loaded(tmp_path / "other", manifest=manifest, metrics={"n_scored": 318})
    found = gate_runs(other, baseline)

    assert found.verdict is Verdict.PASSED
    printed = " | ".join(found.warnings)
    for words in (
        "svr-async 9, the baseline with",
        "wrong: 2 of the run",
    ):
        assert words in printed


def test_every_form_tells_verdict_numbers_and_domains(baseline: Run, tmp_path: Path) -> None:
    """Text, JSON, GitHub's annotations and Markdown agree; what could break out of an annotation is escaped."""
    worse = loaded(tmp_path / "worse", lost=60)
    found = replace(gate_runs(worse, baseline, margin=0.02), warnings=("100 %\n::error::boo",))

    shown = {name: write(found) for name, write in FORMATS.items()}
    assert shown["text"].startswith("FAILED: A loss of more than 2 points is shown: −16.9 points")
    assert "\n! Chat lost: " in shown["text"]
    assert orjson.loads(orjson.dumps(found, default=list))["test"]["only_first"] == 54
    lines = shown["github"].splitlines()
    assert lines[0].startswith("::error title=svr gate failed::svr · gpt-oss-120b")
    assert lines[1] == "::warning title=svr gate::100 %25 ::error::boo"
    assert "| points tolerated | 2 |" in shown["md"]
    refused = gate_runs(replace(worse, manifest={**worse.manifest, "data": {}}), baseline)
    assert "- data, digest" in FORMATS["md"](refused)
    assert FORMATS["github"](refused).splitlines()[1].startswith("::error title=svr gate::data, digest")


def test_the_command_ends_with_nine_two_or_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`svr gate`: 0 passed or undecided, 9 failed, 2 refused or wrong; the report on stdout, one line on stderr."""
    loaded(tmp_path / "a")
    loaded(tmp_path / "b", lost=40)
    loaded(tmp_path / "c", manifest={"data": {"digest": "x"}})
    baseline = str(tmp_path / "a")
    for args, code, says in (
        (["b"], 9, "svr: A loss is shown"),
        (["b", "--margin", "10"], 0, ""),
        (["b", "--margin", "10", "--strict"], 9, "judge more pairs"),
        (["c"], 2, "cannot be compared: data, digest"),
        (["b", "--margin", "-1"], 2, "--margin"),
        (["b", "--allow", "data"], 2, "--allow"),
    ):
        assert run_command(group, "svr", ["gate", str(tmp_path / args[0]), baseline, *args[1:]]) == code, args
        err = capsys.readouterr().err
        assert says in err
        assert err.count("\n") == (code != 0)
