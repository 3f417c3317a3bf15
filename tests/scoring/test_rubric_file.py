"""Rubric files: text, JSON and JSON Lines, with weights, points and checks."""

from __future__ import annotations

from pathlib import Path

import pytest

from svr_async.core.rubric import Check, Rubric
from svr_async.errors import ConfigError
from svr_async.scoring.methods.simple import load_rubric_file


def rubrics_in(path: Path, data: str | bytes) -> tuple[tuple[Rubric, float], ...]:
    """Write and load a rubric file."""
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return load_rubric_file(path)[0]


def test_plain_text_is_one_rubric_a_line(tmp_path: Path) -> None:
    """Bullets, numbers, blank lines and comments are no part of a rubric; repeats count once."""
    text = "# ours\n- Is it short?\n2. Is it right?\n\n* is it  SHORT?\n"
    found = rubrics_in(tmp_path / "r.txt", text)
    assert [(rubric.text, weight) for rubric, weight in found] == [("Is it short?", 1.0), ("Is it right?", 1.0)]


def test_json_and_json_lines_carry_weights_and_checks(tmp_path: Path) -> None:
    """Texts or objects with weight, facet, importance and an executable check."""
    check = '{"name": "max_words", "args": {"n": 5}}'
    entry = f'{{"text": "Is it short?", "weight": 0.5, "facet": "style", "check": {check}}}'
    for name, data in (("r.json", f'["Is it right?", {entry}]'), ("r.jsonl", f'"Is it right?"\n\n{entry}\n')):
        first, (second, weight) = rubrics_in(tmp_path / name, data)
        assert first == (Rubric(text="Is it right?"), 1.0)
        assert (weight, second.facet, second.check) == (0.5, "style", Check.of("max_words", n=5))
    points = '[{"criterion": "Is it right?", "points": 5}, {"description": "Is it rude?", "weight": -2}]'
    assert [weight for _, weight in rubrics_in(tmp_path / "p.json", points)] == [5.0, -2.0]
    for name, by_points in (("r.json", False), ("p.json", True)):
        assert load_rubric_file(tmp_path / name)[1] is by_points
    assert rubrics_in(tmp_path / "b.json", '\ufeff[{"rubric": " Is  it so? "}]')[0][0].text == "Is it so?"


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("r.txt", "", "holds no rubrics"), ("r.txt", "# only\n", "holds no rubrics"), ("r.json", "[]", "no rubrics"),
        ("r.json", "{", "not a list"), ("r.json", "{}", "not a list"), ("r.jsonl", '"a"\n{', "rubric 2: Input data"),
        ("r.json", "[5]", "rubric 1: Expected `object`, got `int`"), ("r.json", '[" "]', "needs a text"),
        ("r.json", '[{"text": 5}]', "at `$.text`"), ("r.json", f'["{"x" * 513}"]', "length <= 512"),
        ("r.json", '[{"text": "a", "weight": NaN}]', "malformed"),
        ("r.json", '[{"text": "a", "weight": "1"}]', "at `$.weight`"),
        ("r.json", '[{"text": "a", "weight": true}]', "weight"),
        ("r.json", '[{"text": "a", "check": 5}]', "at `$.check`"),
        ("r.json", '[{"text": "a", "check": {"name": 5}}]', "check"),
    ],
)  # fmt: skip
def test_a_wrong_rubric_file_is_named(tmp_path: Path, name: str, data: str, says: str) -> None:
    """File, entry and what is wrong with it, in one line."""
    with pytest.raises(ConfigError) as caught:
        rubrics_in(tmp_path / name, data)
    assert says in caught.value.one_line()
    with pytest.raises(ConfigError, match="cannot read"):
        load_rubric_file(tmp_path / "missing.txt")
