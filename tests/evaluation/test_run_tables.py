"""A run as tables, and as it shows itself; one decision of it by its id."""

from __future__ import annotations

import re
import sys
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pytest
from hostile_run import ATTACK, HARMLESS, armed_run
from made_run import write_run

from svr_async import Run, explain, load_run
from svr_async.errors import UsageError
from svr_async.evaluation.items import RubricRow
from svr_async.evaluation.run import EvalResult
from svr_async.evaluation.run_folder import columns_of


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Load a made run."""
    return load_run(write_run(tmp_path_factory.mktemp("runs") / "made"))


def test_items_and_rubrics_are_tables(run: Run) -> None:
    """A row for each item, and one for each rubric of each, with the values that the items have."""
    items, rubrics = run.to_arrow(), run.to_arrow("rubrics")
    assert items.column("id").to_pylist() == [item.id for item in run.items]
    assert items.column("margin").to_pylist() == [item.margin for item in run.items]
    assert items.column("margin_ab").to_pylist() == [item.margins.get("ab") for item in run.items]
    told = [(item.id, row.text, row.contribution) for item in run.items for row in item.rubrics]
    found = zip(*(rubrics.column(name).to_pylist() for name in ("item", "text", "contribution")), strict=True)
    assert list(found) == told
    assert rubrics.column_names == ["item", *(one.name for one in fields(RubricRow))]
    assert columns_of([], "rubrics")["item"] == []
    with pytest.raises(UsageError, match="no table 'calls'"):
        run.to_arrow("calls")  # type: ignore[arg-type]


def test_pandas_is_used_where_it_is(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its frame is made of the same columns; where it is missing one line says what to install."""
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=dict))
    assert run.to_pandas() == columns_of(run.items)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match=r"to_pandas\(\) needs pandas, which is not installed") as caught:
        run.to_pandas("rubrics")
    assert caught.value.hint == "pip install pandas"


def test_a_run_shows_itself(run: Run) -> None:
    """In a line, and as a table of its domains; the result of an evaluation does the same."""
    assert repr(run).startswith("<Run made, ")
    assert len(repr(run)) < 200
    result = EvalResult(folder=run.path, metrics=run.metrics, items=run.items, total=len(run.items))
    for shown in (run, result):
        page = shown._repr_html_()
        assert "<table" in page
        assert "95 % interval" in page
        assert str(run.metrics["judge_label"]) in page


def test_a_decision_is_taken_apart_by_its_id(run: Run) -> None:
    """Of a run or of its folder: the same explanation, in a line and as a table; a wrong id names near ones."""
    item = next(item for item in run.items if item.rubrics)
    found = explain(run, item.id)
    assert found == explain(run.path, item.id)
    assert repr(found).startswith(f"<Explanation {item.id}: ")
    assert item.rubrics[0].text in found._repr_html_()
    with pytest.raises(UsageError, match="has no item") as caught:
        explain(run, item.id[:-1])
    assert "did you mean" in caught.value.hint


def test_a_hostile_run_is_only_text(tmp_path: Path) -> None:
    """Whatever stands in a run's fields, its views have the tags of a harmless run."""

    def tags_of(text: str) -> list[list[str]]:
        found = armed_run(tmp_path / str(len(text)), text)
        pages = [found._repr_html_(), *(explain(found, item.id)._repr_html_() for item in found.items[:3])]
        return [re.findall(r"</?\w+", page) for page in pages]

    assert tags_of(ATTACK) == tags_of(HARMLESS)
