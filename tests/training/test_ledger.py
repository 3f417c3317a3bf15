"""The ledger: orientation of every entry, and what missing means."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from svr_async.core.pair import Order, PreferencePair, Side, hashed_order, present, user_prompt
from svr_async.core.verdict import RubricComparison, Verdict
from svr_async.judges.protocol import Comparisons
from svr_async.training.rounds.judge_calls import oriented
from svr_async.training.rounds.session import Ledger


def pair(*, chosen_first: bool = True) -> PreferencePair:
    """Return a pair."""
    return PreferencePair(id="p", prompt=user_prompt("q"), chosen="good", rejected="bad", chosen_first=chosen_first)


@pytest.mark.parametrize("chosen_first", [True, False])
@pytest.mark.parametrize("order", list(Order))
def test_z_is_positive_where_the_chosen_response_wins_however_it_was_shown(chosen_first: bool, order: Order) -> None:
    """All four cases of data order and order shown: a verdict for the chosen response is +1.25, against it −1.25."""
    made = next(
        found
        for n in range(99)
        if hashed_order((found := replace(pair(chosen_first=chosen_first), id=f"p{n}")).id) is order
    )
    shown = present(made, order)
    chosen = Side.A if shown.response_a == made.chosen else Side.B
    verdicts = {chosen: Verdict.PASS, chosen.other(): Verdict.FAIL}
    rows = (
        RubricComparison("for", a=verdicts[Side.A], b=verdicts[Side.B], better=chosen),
        RubricComparison("against", a=verdicts[Side.B], b=verdicts[Side.A], better=chosen.other()),
        RubricComparison("slightly", a=Verdict.PASS, b=Verdict.PASS, better=chosen),
        RubricComparison("alike", a=Verdict.PASS, b=Verdict.PASS, better=None),
    )
    deltas = oriented(made, [Comparisons(rows=rows[:2]), Comparisons(rows=rows[2:])])
    assert deltas == {"for": 1.25, "against": -1.25, "slightly": 0.25, "alike": 0.0}


def test_missing_stays_missing() -> None:
    """A rubric without a verdict was asked and has no entry; one that was not asked is neither; 0 is an entry."""
    ledger = Ledger()
    ledger.note("p", ["a", "b", "c"], {"c": 0.0, "a": -0.75})
    index = {"c": 0, "a": 1, "b": 2, "never": 3}
    rubric, z = ledger.entries("p", index)
    assert (rubric.tolist(), z.tolist()) == ([0, 1], [0.0, -0.75])
    assert ledger.asked("p", index).tolist() == [0, 1, 2]
    assert (rubric.dtype, z.dtype) == (np.dtype(np.int32), np.dtype(np.float32))
    assert [part.tolist() for part in ledger.entries("unknown", index)] == [[], []]
    assert ledger.asked("unknown", index).tolist() == []


def test_entries_follow_the_bank_that_is_asked_for() -> None:
    """Another index, in another order or without some rubrics, gives the same entries under its own numbers."""
    ledger = Ledger()
    ledger.note("p", ["a", "b"], {"a": 0.25, "b": 1.25})
    for index in ({"a": 0, "b": 1}, {"b": 0, "a": 1}, {"b": 0}, {"x": 0}):
        rubric, z = ledger.entries("p", index)
        assert dict(zip(rubric.tolist(), z.tolist(), strict=True)) == {
            index[name]: value for name, value in (("a", 0.25), ("b", 1.25)) if name in index
        }
    index = {"a": 0, "b": 1, "new": 2}
    assert ledger.asked("p", index).tolist() == [0, 1]
    ledger.note("p", ["new"], {"new": -0.25})
    assert ledger.asked("p", index).tolist() == [0, 1, 2]
    assert ledger.entries("p", index)[1].tolist() == [0.25, 1.25, -0.25]


def test_the_last_verdict_counts() -> None:
    """A rubric that is noted again, in another order and beside new ones, has the later z."""
    ledger = Ledger()
    ledger.note("p", ["b", "a"], {"b": 0.25, "a": -0.25})
    ledger.note("p", ["c", "b"], {"c": 0.75, "b": 1.25})
    assert ledger.entries("p", {"a": 0, "b": 1, "c": 2})[1].tolist() == [-0.25, 1.25, 0.75]


def test_an_entry_takes_a_few_bytes() -> None:
    """Tens of millions of entries, all pairs on a whole bank, fit into a machine's memory."""
    ids = [f"r{number}" for number in range(500)]
    z = dict.fromkeys(ids, 0.25)
    ledger = Ledger()
    tracemalloc.start()
    for pair_number in range(100):
        ledger.note(f"p{pair_number}", ids, z)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 20 * 100 * len(ids)
