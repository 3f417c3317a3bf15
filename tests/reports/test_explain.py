"""One decision taken apart; a run and a decision as they show themselves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hostile_run import ATTACK, HARMLESS, armed_run
from made_run import write_run

from svr_async import Run
from svr_async.errors import UsageError
from svr_async.evaluation.items import confident_mistakes
from svr_async.reports.explain import explain


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Load a made run."""
    return Run.load(write_run(tmp_path / "made"))


def test_contributions_come_largest_first_and_add_up_to_the_margin(run: Run) -> None:
    """The rows are the item's rubrics by size, and their sum is the margin."""
    item = confident_mistakes(run.items)[0]
    found = explain(run, item.id)

    sizes = [abs(row.contribution) for row in found.rows]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(row.contribution for row in found.rows) == pytest.approx(item.margin)
    assert found.caption == "RubricBench · svr · gpt-oss-120b"


def test_an_unknown_id_suggests_the_nearest(run: Run) -> None:
    """A typing mistake gets the id that was meant."""
    with pytest.raises(UsageError, match="has no item 'caht-0042'") as caught:
        explain(run, "caht-0042")

    assert "did you mean chat-0042?" in caught.value.hint
    with pytest.raises(UsageError) as caught:
        explain(run, "§§§")
    assert "items.jsonl" in caught.value.hint


def test_a_run_shows_itself(run: Run) -> None:
    """In a line, and as a table of its domains."""
    assert repr(run).startswith("<Run made, ")
    assert len(repr(run)) < 200
    page = run._repr_html_()
    assert "<table" in page
    assert "95 % interval" in page
    assert str(run.metrics["judge_label"]) in page


def test_a_decision_shows_itself(run: Run) -> None:
    """In a line and as a table."""
    item = next(item for item in run.items if item.rubrics)
    found = run.explain(item.id)
    assert repr(found).startswith(f"<Explanation {item.id}: ")
    assert item.rubrics[0].text in found._repr_html_()


def test_a_hostile_run_is_only_text(tmp_path: Path) -> None:
    """Whatever stands in a run's fields, its views have the tags of a harmless run."""

    def tags_of(text: str) -> list[list[str]]:
        found = Run.load(armed_run(tmp_path / str(len(text)), text).path)
        pages = [found._repr_html_(), *(found.explain(item.id)._repr_html_() for item in found.items[:3])]
        return [re.findall(r"</?\w+", page) for page in pages]

    assert tags_of(ATTACK) == tags_of(HARMLESS)
