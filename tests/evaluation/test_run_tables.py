"""A run as tables, and as it shows itself; one decision of it by its id."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hostile_run import ATTACK, HARMLESS, armed_run
from made_run import write_run

from svr_async import Run
from svr_async.errors import UsageError


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Load a made run."""
    return Run.load(write_run(tmp_path_factory.mktemp("runs") / "made"))


def test_a_run_shows_itself(run: Run) -> None:
    """In a line, and as a table of its domains."""
    assert repr(run).startswith("<Run made, ")
    assert len(repr(run)) < 200
    page = run._repr_html_()
    assert "<table" in page
    assert "95 % interval" in page
    assert str(run.metrics["judge_label"]) in page


def test_a_decision_is_taken_apart_by_its_id(run: Run) -> None:
    """In a line and as a table; a wrong id names near ones."""
    item = next(item for item in run.items if item.rubrics)
    found = run.explain(item.id)
    assert repr(found).startswith(f"<Explanation {item.id}: ")
    assert item.rubrics[0].text in found._repr_html_()
    with pytest.raises(UsageError, match="has no item") as caught:
        run.explain(item.id[:-1])
    assert "did you mean" in caught.value.hint


def test_a_hostile_run_is_only_text(tmp_path: Path) -> None:
    """Whatever stands in a run's fields, its views have the tags of a harmless run."""

    def tags_of(text: str) -> list[list[str]]:
        found = Run.load(armed_run(tmp_path / str(len(text)), text).path)
        pages = [found._repr_html_(), *(found.explain(item.id)._repr_html_() for item in found.items[:3])]
        return [re.findall(r"</?\w+", page) for page in pages]

    assert tags_of(ATTACK) == tags_of(HARMLESS)
