"""One decision taken apart, and which mistakes were the surest."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_run import write_run

from svr_async.errors import UsageError
from svr_async.evaluation.details import nearest_ids
from svr_async.evaluation.items import confident_mistakes
from svr_async.evaluation.run_folder import Run, RunFolder
from svr_async.reports.explain import explain


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Give a run."""
    return RunFolder.load(write_run(tmp_path))


def test_contributions_come_largest_first_and_add_up_to_the_margin(run: Run) -> None:
    """The rows are the item's rubrics by size, and their sum is the margin."""
    item = confident_mistakes(run.items)[0]
    found = explain(run, item.id)

    sizes = [abs(row.contribution) for row in found.rows]
    assert sizes == sorted(sizes, reverse=True)
    assert found.largest == sizes[0]
    assert sum(row.contribution for row in found.rows) == pytest.approx(item.margin)
    assert found.caption == "RubricBench · svr · gpt-oss-120b"


def test_an_unknown_id_suggests_the_nearest(run: Run) -> None:
    """A typing mistake gets the id that was meant, without regard to case."""
    with pytest.raises(UsageError, match="has no item 'CHAT-001'") as caught:
        explain(run, "CHAT-001")

    assert "did you mean chat-0010, chat-0011, chat-0012?" in caught.value.hint
    assert nearest_ids(run.items, "caht-0042")[0] == "chat-0042"
    with pytest.raises(UsageError) as caught:
        explain(run, "§§§")
    assert "items.jsonl" in caught.value.hint
