"""Rows 43 to 58 of the fault table that no other test carries: what a model writes. See `rows.py` for the rest."""

from __future__ import annotations

import json
import random
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rig import ask, completion, name_judge, scripted_engine, serving, svr, write_bench

from svr_async.engine.request import AmbiguousReplyError, ReplyRejectedError
from svr_async.errors import ModelError
from svr_async.judges.brackets import read_brackets
from svr_async.judges.reply_text import read_comparisons
from svr_async.simulation.config import SimConfig
from svr_async.simulation.faults import FaultConfig

NONCE = "0123456789abcdef"
IDS = ("R1", "R2", "R3", "R4")


def row(local: str, a: str = "pass", b: str = "fail", better: str = "A") -> dict[str, str]:
    """Return one entry of a judge's answer."""
    return {"rubric_id": local, "candidate_a_verdict": a, "candidate_b_verdict": b, "better": better}


@settings(deadline=None, max_examples=60)
@given(st.permutations([row("R1"), row("R2", "fail", "pass", "B"), row("R3", "pass", "pass", "B"), row("R4")]))
def test_row_050_rows_in_any_order(entries: list[dict[str, str]]) -> None:
    """Verdicts are matched by id: the order in which a judge lists them changes nothing."""
    text = json.dumps({"nonce": NONCE, "rubric_comparisons": entries})
    ordered = json.dumps({"nonce": NONCE, "rubric_comparisons": sorted(entries, key=lambda one: one["rubric_id"])})
    assert read_comparisons(text, NONCE, IDS, overall=False).rows == dict(
        read_comparisons(ordered, NONCE, IDS, overall=False).rows
    )


@pytest.mark.parametrize("spelling", ["true", "1", "Pass ", "passed", "yes", "PASS\u200b", "", "null"])
def test_row_047_only_documented_spellings(spelling: str) -> None:
    """A verdict that is spelled otherwise is missing; it is never guessed."""
    text = json.dumps({"nonce": NONCE, "rubric_comparisons": [row("R1", spelling), row("R2")]})
    assert set(read_comparisons(text, NONCE, IDS, overall=False).rows) == {"R2"}


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999", "{}", "[" * 2000 + "]" * 2000, "true", "-0"])
def test_row_047_values_that_are_no_text(value: str) -> None:
    """NaN, numbers out of range, nesting without end: such a row is missing or the reply rejected, nothing else."""
    text = (
        f'{{"nonce": "{NONCE}", "rubric_comparisons": [{{"rubric_id": "R1", "candidate_a_verdict": {value}, '
        f'"candidate_b_verdict": "fail", "better": "A"}}, {json.dumps(row("R2"))}]}}'
    )
    for repair in (False, True):
        try:
            found = read_comparisons(text, NONCE, IDS, overall=False, repair=repair)
        except ReplyRejectedError:
            continue
        assert set(found.rows) <= {"R2"}


def test_row_046_answers_that_differ_are_ambiguous() -> None:
    """Several answers with the right nonce count where they agree, and are flagged; where they differ none does."""
    rng = random.Random(46)
    for _ in range(200):
        verdicts = [rng.choice([("pass", "fail", "A"), ("fail", "pass", "B")]) for _ in range(3)]
        objects = [json.dumps({"nonce": NONCE, "rubric_comparisons": [row("R1", *one)]}) for one in verdicts]
        text = " and then ".join(objects) + objects[0][: rng.randrange(1, 30)]
        if len(set(verdicts)) > 1:
            with pytest.raises(AmbiguousReplyError):
                read_comparisons(text, NONCE, IDS, overall=False)
        else:
            assert "multiple_verdicts" in read_comparisons(text, NONCE, IDS, overall=False).flags


@settings(deadline=None, max_examples=100)
@given(st.text(alphabet="[]AB x\n", max_size=40), st.sampled_from("AB"))
def test_row_053_brackets_decide_where_all_say_the_same(before: str, side: str) -> None:
    """The other side's mark before a verdict makes it ambiguous; nothing turns it round."""
    try:
        assert read_brackets(f"{before}\n[[{side}]]").value == side
    except AmbiguousReplyError:
        assert "[[" in before


def test_row_055_another_model_is_told_once_or_refused(tmp_path: Path) -> None:
    """Another model's answers are noted; with --strict-model the run ends with exit 4, and so do kept ones later on."""
    flags = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--concurrency", "4")
    write_bench(tmp_path / "bench.jsonl", 30)
    faults = FaultConfig(rate=1.0, kinds=("wrong-model",), max_faulty_attempts=10)
    with serving(SimConfig(faults=faults)) as odd:
        name_judge(tmp_path, odd.base_url)
        strict = svr(*flags, "--strict-model", "--cache", "strict", "--out", "one", cwd=tmp_path)
        assert (strict.returncode, strict.stderr.count("--strict-model)")) == (4, 1), strict.stderr
        assert "answered as 'gpt-oss-120b-preview', not 'gpt-oss-120b'" in strict.stderr
        assert odd.stats()["completed"] <= 8
        kept = svr("cache", "stats", "--cache", "strict", "--json", cwd=tmp_path)
        assert orjson.loads(kept.stdout)["rows"] == 0
        plain = svr(*flags, "--cache", "plain", "--out", "two", cwd=tmp_path)
        assert (plain.returncode, plain.stderr.count("answered as 'gpt-oss-120b-preview'")) == (0, 1), plain.stderr
    later = svr(*flags, "--strict-model", "--cache", "plain", "--out", "three", "--offline", cwd=tmp_path)
    assert (later.returncode, "the endpoint, as the cache has it, answered as" in later.stderr) == (4, True), (
        later.stderr
    )


@pytest.mark.parametrize(
    ("named", "accepted"),
    [("m", True), ("", True), ("m-2024-08-06", True), ("m-0613", True), ("m-mini", False), ("M", False), ("n", False)],
)
async def test_row_055_which_names_are_the_models_own(cache_folder: Path, named: str, accepted: bool) -> None:
    """The same name, none, or a dated version of it is accepted under --strict-model; nothing else is."""
    async with scripted_engine(cache_folder, lambda *_: completion("yes", model=named), strict_model=True) as (
        engine,
        _,
    ):
        if accepted:
            assert (await engine.complete(ask())).value == "yes"
        else:
            with pytest.raises(ModelError, match="answered as"):
                await engine.complete(ask())
