"""RMB: pairs by category, unusable answers counted, best-of-N lists where there is nothing else."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from svr_async.adapters import get_adapter
from svr_async.adapters.contract import Adapter

RMB = get_adapter("rmb")
PAIRS = get_adapter("pairs")
EITHER = pytest.mark.parametrize("adapter", [RMB, PAIRS], ids=["rmb", "pairs"])


def answer(text: str) -> dict[str, str]:
    """Return an answer as RMB stores it."""
    return {"llm_name": "m", "answer": text}


def pairwise(
    n: int | str = 1,
    chosen: str = "good",
    rejected: str = "bad",
    path: str | None = "Pairwise_set/Helpfulness/Chat/Discussion",
) -> dict[str, Any]:
    """Return a record of the pairwise set."""
    return {
        "pair_uid": str(n),
        "conversation_input": [{"role": "user", "content": "hi", "language": "English"}],
        "chosen": answer(chosen),
        "reject": answer(rejected),
        "category_path": path,
    }


@EITHER
def test_a_record_becomes_a_pair_with_its_category(write: Callable[..., Path], adapter: Adapter) -> None:
    """The top category is the domain, the rest of the path the subset."""
    (pair,) = adapter.load(write("a.json", [pairwise(7)])).pairs
    assert (pair.id, pair.chosen, pair.rejected) == ("7", "good", "bad")
    assert (pair.domain, pair.subset) == ("helpfulness", "Chat/Discussion")


@EITHER
def test_empty_and_identical_answers_are_left_out_and_counted(write: Callable[..., Path], adapter: Adapter) -> None:
    """A record with an empty answer, or with the same answer twice, teaches nothing; each kind is counted."""
    rows = [pairwise(1), pairwise(2, chosen=""), pairwise(3, rejected=" \n"), pairwise(4, chosen="x", rejected="x")]
    dataset = adapter.load(write("a.json.gz", rows))
    assert [pair.id for pair in dataset.pairs] == ["1"]
    assert dataset.skipped == {"an answer is empty": 2, "the two answers are identical": 1}
