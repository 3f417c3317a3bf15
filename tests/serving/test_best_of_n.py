"""Best of N over a file: forms of rows, the ranked file, the cost of a second run, and pairs with their provenance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from endpoint import SimServer
from rig import RULES, name_judge, read_lines, svr_here
from small_bank import checked_bank

from svr_async.adapters import get_adapter
from svr_async.commands.rank_file import read_groups
from svr_async.core.pair import user_prompt
from svr_async.core.statistics import wilson_interval
from svr_async.errors import DataError, UsageError
from svr_async.serving.best_of_n import (
    ALIKE,
    CLOSE,
    KEPT,
    NO_VERDICT,
    RankedGroup,
    ResponseGroup,
    preference_rows,
    rank_groups,
    summary,
)
from svr_async.serving.ranking import Ranking

SHORT, LONG = "Baked dough.", "Bread is a food that people bake of flour and water, and eat every day of the week."


def write(path: Path, *rows: dict[str, Any]) -> Path:
    """Write rows as jsonl."""
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


def test_forms_of_rows_with_responses(tmp_path: Path) -> None:
    """Texts, messages, objects with a score, and a list of ranks."""
    said = [{"role": "assistant", "content": "b"}]
    path = write(
        tmp_path / "f.jsonl",
        {"id": 7, "prompt": "x", "responses": ["a", said]},
        {"instruction": "x", "completions": [{"response": "a", "score": 2}, {"response": "b", "score": 5}]},
        {"prompt": "x", "answers": ["a", "b", "c"], "ranks": [1, 3, 1]},
        {"prompt": "x", "responses": ["a", "b"], "scores": [1, 1]},
    )
    plain, scored, ranked, alike = read_groups(path)
    assert (plain.id, plain.responses, plain.best) == ("7", ("a", "b"), frozenset())
    assert [set(group.best) for group in (scored, ranked, alike)] == [{1}, {0, 2}, set()]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"prompt": "x"}, "no column 'responses'"),
        ({"responses": ["a"]}, "no prompt in it"),
        ({"prompt": "x", "responses": []}, "expected a list of responses"),
        ({"prompt": "x", "responses": [3]}, "expected responses (texts, messages, or objects with a text)"),
    ],
)
def test_a_row_that_cannot_be_ranked_is_named(row: dict[str, Any], says: str, tmp_path: Path) -> None:
    """Its file, its number and the expected form."""
    with pytest.raises(DataError, match=r"f\.jsonl row 1: ") as raised:
        read_groups(write(tmp_path / "f.jsonl", row))
    assert says in str(raised.value)


async def test_a_summary_counts_ties_as_chances(tmp_path: Path) -> None:
    """A shared top counts half; the longest, the first and chance are baselines."""
    rows = (
        {"prompt": "Say it in a few words: what is bread?", "responses": [LONG, SHORT], "scores": [1, 9]},
        {"prompt": "What is the capital of France?", "responses": ["Paris.", "Lyons."], "scores": [9, 1]},
    )
    groups = read_groups(write(tmp_path / "f.jsonl", *rows))
    found = await rank_groups(groups, bank=checked_bank(), engine="rules")
    facts = summary(found)
    assert (facts["labelled"], facts["decided"], facts["bank"]) == (2, 1, "checked")
    values = {name: one["value"] for name, one in facts["accuracy"].items()}
    assert values == {"judge": 0.75, "longest": 0.25, "first": 0.5, "chance": 0.5}
    first = facts["accuracy"]["first"]
    assert (first["low"], first["high"]) == pytest.approx(wilson_interval(1, 2)), "two groups prove little"
    assert found[0].row()["marks"] == ("offline_rules",)
    assert (0, 1) in found[0].ranking.verdicts


def test_a_file_is_ranked_and_what_was_asked_is_not_paid_again(
    sim: SimServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two prompts were ranked before: the whole file sends what the third needs; the rows are the same anew."""
    monkeypatch.chdir(tmp_path)
    name_judge(tmp_path, sim.base_url)
    rows = [{"prompt": f"Count to {n}.", "responses": ["one", f"one and {n}", "no"]} for n in range(3)]
    write(tmp_path / "two.jsonl", *rows[:2])
    write(tmp_path / "three.jsonl", *rows)
    sent = []
    for name in ("two", "three", "three"):
        before = len(sim.log())
        asked = ("rank", f"{name}.jsonl", "--judge", "sim", "--schedule", "circle", "--out", f"{name}-ranked.jsonl")
        assert svr_here(*asked, "--json") == 0
        facts = orjson.loads(capsys.readouterr().out)
        sent.append(len(sim.log()) - before)
    assert sent == [6, 3, 0]
    assert read_lines(Path("three-ranked.jsonl"))[0]["marks"] == ["simulated"]
    assert (facts["prompts"], facts["questions"], "SIMULATED" in facts["judge"]) == (3, 9, True)
    assert [row["prompt"][0]["content"] for row in read_lines(Path("three-ranked.jsonl"))] == [
        row["prompt"] for row in rows
    ]


def test_pairs_are_built_of_a_ranked_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pair the best with the worst, each row with judge, marks and bank, in a form that the adapter `pairs` reads."""
    monkeypatch.chdir(tmp_path)
    checked_bank().save(tmp_path / "bank")
    write(
        tmp_path / "f.jsonl",
        {"id": "q", "prompt": "Say it in a few words: what is bread?", "responses": [LONG, SHORT, SHORT]},
        {"prompt": "What is the capital of France?", "responses": ["Paris.", "Lyons."]},
    )
    asked = ("rank", "f.jsonl", *RULES, "--bank", "bank", "--out", "ranked.jsonl", "--pairs-out", "pairs.jsonl")
    assert svr_here(*asked, "--json") == 0
    assert orjson.loads(capsys.readouterr().out)["pairs"] == {KEPT: 1, ALIKE: 1}
    (row,) = read_lines(Path("pairs.jsonl"))
    assert (row["chosen"], row["rejected"], row["margin"] > 0) == (SHORT, LONG, True)
    assert row["from"] == {"id": "q", "chosen": 1, "rejected": 0, "of": 3}
    labelled = row["labelled_by"]
    assert (labelled["judge"], labelled["marks"]) == ("rules (offline checks, no model)", ["offline_rules"])
    assert (labelled["bank"]["name"], len(labelled["bank"]["digest"])) == ("checked", 64)
    (pair,) = get_adapter("pairs").load("pairs.jsonl").pairs
    assert (pair.chosen, pair.id) == (SHORT, row["id"])


def test_groups_without_a_margin_make_no_pair() -> None:
    """Missing verdicts, equal scores and close ones are counted; without any pair an error says why."""
    group = ResponseGroup(id="q", prompt=user_prompt("x"), responses=("a", "b", "c"))
    scores = ((1.0, 0.5, -1.5), (0.1, 0.0, -0.1), (None, 0.0, None), (0.0, 0.0, 0.0), (None, 1.0, -1.0))
    ranked = [RankedGroup(group, ranking_of(one)) for one in scores]
    made, counts = preference_rows(ranked, min_margin=1.0)
    assert counts == {KEPT: 2, CLOSE: 1, NO_VERDICT: 1, ALIKE: 1}
    assert [(row["chosen"], row["rejected"], row["margin"]) for row in made] == [("a", "c", 2.5), ("b", "c", 2.0)]
    with pytest.raises(UsageError, match="no pair has a margin"):
        preference_rows(ranked, min_margin=99)


def ranking_of(scores: tuple[float | None, ...]) -> Ranking:
    """Return a ranking with these scores."""
    order = sorted(range(len(scores)), key=lambda n: (scores[n] is None, -(scores[n] or 0.0)))
    return Ranking(order=tuple(order), scores=scores, margins={}, questions=3, method="pairwise", judge="j")
