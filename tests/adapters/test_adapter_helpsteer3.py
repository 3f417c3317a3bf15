"""HelpSteer3: the sign of the preference, ties left out and counted, plain text."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from svr_async.adapters import get_adapter
from svr_async.adapters.training_sets import TIE
from svr_async.core.pair import Side

ADAPTER = get_adapter("helpsteer3")


def row(preference: float | str | bool | None = -2, **change: Any) -> dict[str, Any]:
    """Return one row of the data, with a preference."""
    base = {
        "domain": "code",
        "language": "python",
        "context": [{"role": "user", "content": "Write a loop."}],
        "response1": "for x in y: pass",
        "response2": "no",
        "overall_preference": preference,
        "individual_preference": [{"score": preference, "reasoning": "because"}],
    }
    return {**base, **change}


@pytest.mark.parametrize(("preference", "gold", "chosen"), [(-3, Side.A, "for x in y: pass"), (1, Side.B, "no")])
def test_the_sign_says_which_response_is_better(
    write: Callable[..., Path], preference: int, gold: Side, chosen: str
) -> None:
    """Below 0 response1 is chosen, above 0 response2; the strength is the distance from 0."""
    (pair,) = ADAPTER.load(write("train.jsonl.gz", [row(preference)])).pairs
    assert (pair.gold, pair.chosen, pair.strength) == (gold, chosen, abs(preference))
    assert (pair.response_a, pair.domain, pair.subset) == ("for x in y: pass", "code", "python")


def test_ties_are_left_out_and_counted(write: Callable[..., Path]) -> None:
    """A preference of 0 is no triple, and is counted instead of being read as either side."""
    rows = [row(0, response1=f"tie {n}") for n in range(3)]
    dataset = ADAPTER.load(write("train.jsonl", [*rows, row(1)]))
    assert len(dataset.pairs) == 1
    assert dataset.skipped == {TIE: 3}
    assert [pair.has_preference for pair in dataset.tied] == [False] * 3
    assert dataset.n_rows == 4
