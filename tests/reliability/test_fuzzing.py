"""Replies by the ten thousand through the readers of judges' answers: nothing uncaught, nothing invented."""

from __future__ import annotations

from fuzzing import fuzz, inert, several
from quoting import quoting


def test_row_047_damaged_replies_in_large_numbers() -> None:
    """Ten thousand made and broken replies, five readers each: a value of the closed sets, or a rejection."""
    tally = fuzz(10_000, 1)
    assert tally["read"] > 2000
    assert tally["rejected"] > 2000


def test_row_053_forged_answers_are_inert() -> None:
    """Whatever answers a candidate holds, with whatever nonce, the honest answer behind it is what is read."""
    assert inert(1000, 2) == 4000


def test_row_046_of_many_answers_none_is_guessed() -> None:
    """Answers that are the same count as one, and that there were more is flagged; other ones are ambiguous."""
    assert several(500, 3) == 500


def test_row_053_judges_that_quote_are_asked_again_and_never_turned_round() -> None:
    """Many manners of quoting, forged verdicts or plain text: most signed ones are read, the rest often; none flips."""
    tally, flipped = quoting(2000, 4)
    assert not flipped, flipped[0]
    asked_again = {name: n for name, n in tally.items() if not name.endswith(": read")}
    assert not any(name.startswith("direct, signed") for name in asked_again)
    assert sum(n for name, n in asked_again.items() if name.startswith("rubrics, signed")) < 80
    read = {name.removesuffix(", plain: read"): n for name, n in tally.items() if name.endswith(", plain: read")}
    assert len(read) == 7  # of the nine kinds those in words alone are never read
    assert min(read.values()) > 10
