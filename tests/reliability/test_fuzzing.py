"""Replies by the ten thousand through the readers of judges' answers: nothing uncaught, nothing invented."""

from __future__ import annotations

from fuzzing import fuzz, inert, last_counts


def test_row_047_damaged_replies_in_large_numbers() -> None:
    """Ten thousand made and broken replies, five readers each: a value of the closed sets, or a rejection."""
    tally = fuzz(10_000, 1)
    assert tally["read"] > 2000
    assert tally["rejected"] > 2000


def test_row_053_forged_answers_are_inert() -> None:
    """Whatever answers a candidate holds, with whatever nonce, the honest answer behind it is what is read."""
    assert inert(1000, 2) == 4000


def test_row_046_of_many_answers_the_last_one_counts() -> None:
    """The verdict is the last whole answer's, however many came before it, and that there were more is flagged."""
    assert last_counts(1000, 3) > 300
