"""When one call has failed often enough: try again, come back later, or give it up. Pure.

An outage hits all calls alike and loses none: what counts against a call is that it fails while others succeed. A call
that fails in the same way eight times in a row, while nearly all others succeed, is poisoned: it is its own fault.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from svr_async.engine.classify import OVERSIZE, Failure
from svr_async.vocabulary.verdict import Outcome

SAME = 8  # failures in a row with the same signature that make a call poisoned
OVERSIZE_SAME = 2  # the same for replies over the cap: damage seldom repeats, and each costs the whole cap
WELL = 0.95  # share of the other calls that must succeed meanwhile
FEWEST_OTHERS = 3
MISFITS, FIRST_REPLIES = 20, 50
NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")
VISIT = 6  # tries before a call goes to the back of the queue


class Step(Enum):
    """What to do with a call that has failed."""

    AGAIN = "again"
    LATER = "later"
    NEVER = "never"


@dataclass(slots=True)
class Record:
    """How all calls to the endpoints have fared: successes, transient failures, and failures since the last success."""

    good: int = 0
    bad: int = 0
    in_a_row: int = 0
    last_good: float = float("-inf")

    def succeeded(self, now: float) -> None:
        """Note a success."""
        self.good += 1
        self.in_a_row = 0
        self.last_good = now

    def failed(self) -> None:
        """Note a transient failure."""
        self.bad += 1
        self.in_a_row += 1


class Trouble:
    """The failures of one call so far. It is made at the first of them, after that one is in the record."""

    __slots__ = ("_bad", "_good", "_last_at", "_most", "_record", "_same", "_signature", "_started", "against", "tries")

    def __init__(self, record: Record, *, started: float, most: int) -> None:
        self.tries = 0
        self.against = 0
        self._record = record
        self._good, self._bad = record.good, record.bad - 1
        self._most = most
        self._started = self._last_at = started
        self._signature, self._same = "", 0

    @property
    def in_visit(self) -> int:
        """Tries since the call was last put at the back of the queue, from 1."""
        return (self.tries - 1) % VISIT + 1

    def note(self, failure: Failure, now: float, *, alone: bool) -> Step:
        """Count one failure and say what follows; `alone` says that no other question is being asked."""
        self.tries += 1
        self._same = self._same + 1 if failure.signature == self._signature else 1
        self._signature = failure.signature
        self.against += self._record.last_good > (self._started if failure.answered else self._last_at)
        self._last_at = now
        if self._is_poisoned(failure, alone=alone) or self.against >= self._most:
            return Step.NEVER
        if self.tries >= self._most and self._record.good > self._good and (failure.answered or alone):
            return Step.NEVER
        return Step.LATER if self.tries % VISIT == 0 and not alone else Step.AGAIN

    def _is_poisoned(self, failure: Failure, *, alone: bool) -> bool:
        """Whether it is this call's own fault; alone, the endpoint's own words are needed, and that it ever worked."""
        if failure.signature in OVERSIZE:
            return self._same >= OVERSIZE_SAME
        if self._same < SAME:
            return False
        good = self._record.good - self._good
        bad = self._record.bad - self._bad - self.tries
        if good >= FEWEST_OTHERS and good >= WELL * (good + bad):
            return True
        return alone and failure.answered and bad <= 0 and self._record.good > 0


class Misfits:
    """Whether the endpoint refuses whatever we send: 20 times in the same words among the first 50 replies."""

    __slots__ = ("_replies", "_words")

    def __init__(self) -> None:
        self._replies = 0
        self._words: dict[str, int] = {}

    def note(self, failure: Failure, good: int) -> bool:
        """Count one refusal, after so many successes; return whether it is the request's form that is wrong.

        Where one in ten is answered or more, it is not.
        """
        self._replies += 1
        if failure.outcome is not Outcome.API_ERROR or self._replies + good > FIRST_REPLIES:
            return False
        words = NUMBERS.sub("#", failure.signature)
        self._words[words] = count = self._words.get(words, 0) + 1
        return count >= MISFITS and 9 * good <= count
