"""When a call is given up: its own fault, never an outage; and when what we send is refused whatever it is."""

from __future__ import annotations

import pytest

from svr_async.engine.admission.poison import MISFITS, SAME, VISIT, Misfits, Record, Step, Trouble
from svr_async.engine.classify import Failure, Kind
from svr_async.vocabulary.verdict import Outcome

SERVER_ERROR = Failure(kind=Kind.TRANSIENT, detail="HTTP 500", signature="500:boom", status=500, answered=True)
RESET = Failure(kind=Kind.TRANSIENT, detail="reset", signature="reset")


class Case:
    """One call in trouble among others."""

    def __init__(self, *, most: int = 20, good: int = 0) -> None:
        self.record = Record()
        self.now = 100.0
        for _ in range(good):
            self.record.succeeded(self.now)
        self.started = self.now = 101.0
        self.trouble: Trouble | None = None
        self.most = most

    def fail(self, failure: Failure = SERVER_ERROR, *, others: int = 0, bad: int = 0, alone: bool = False) -> Step:
        """Let the call fail, after so many successes and failures of others."""
        for _ in range(others):
            self.now += 0.01
            self.record.succeeded(self.now)
        for _ in range(bad):
            self.record.failed()
        self.now += 0.01
        self.record.failed()
        if self.trouble is None:
            self.trouble = Trouble(self.record, started=self.started, most=self.most)
        return self.trouble.note(failure, self.now, alone=alone)


def test_the_same_failure_eight_times_while_others_succeed_is_poison() -> None:
    """It is given up at the eighth, not before; on the way it goes to the back of the queue once."""
    case = Case()
    steps = [case.fail(others=5) for _ in range(SAME)]
    assert steps == [Step.AGAIN] * (VISIT - 1) + [Step.LATER, Step.AGAIN, Step.NEVER]


def test_failures_that_differ_are_no_poison() -> None:
    """Eight different failures are bad luck: it goes on, to twenty."""
    case = Case()
    kinds = (SERVER_ERROR, RESET)
    steps = [case.fail(kinds[n % 2], others=5) for n in range(20)]
    assert steps.index(Step.NEVER) == 19


@pytest.mark.parametrize("failure", [SERVER_ERROR, RESET])
def test_an_outage_gives_nothing_up(failure: Failure) -> None:
    """While all others fail too, no number of failures is too many."""
    case = Case(good=500)
    assert Step.NEVER not in [case.fail(failure, bad=20) for _ in range(300)]


def test_a_bad_time_for_many_is_no_poison() -> None:
    """Where a tenth of the others fail as well, eight in a row may happen to anyone."""
    case = Case()
    assert Step.NEVER not in [case.fail(others=9, bad=1) for _ in range(SAME + 4)]


def test_alone_the_endpoints_own_words_are_needed() -> None:
    """The last call of a run, answered with the same error eight times, is given up; one that finds nobody waits."""
    case = Case(good=10)
    assert [case.fail(alone=True) for _ in range(SAME)][-1] is Step.NEVER
    down = Case(good=10)
    assert Step.NEVER not in [down.fail(RESET, alone=True) for _ in range(100)]
    never_worked = Case()
    assert Step.NEVER not in [never_worked.fail(alone=True) for _ in range(100)]


def test_a_call_that_is_alone_does_not_wait_behind_nobody() -> None:
    """To the back of the queue goes only who has others before it."""
    case = Case(good=1)
    assert [case.fail(RESET, alone=True) for _ in range(VISIT)][-1] is Step.AGAIN


def test_twenty_refusals_alike_among_the_first_are_our_own_fault() -> None:
    """The twentieth tells; numbers in the words do not make them different."""
    misfits = Misfits()
    told = [
        misfits.note(Failure(kind=Kind.ITEM, detail="", signature=f"400:unknown field (request {n})"), 0)
        for n in range(MISFITS)
    ]
    assert told == [False] * 19 + [True]


def test_refusals_of_some_items_are_theirs() -> None:
    """Where others are answered, where the words differ, where it is the content, or later on, nothing is concluded."""
    plain = Failure(kind=Kind.ITEM, detail="", signature="400:no")
    assert not any(misfits.note(plain, 5) for misfits in [Misfits()] for _ in range(40))
    assert not any(misfits.note(plain, 40) for misfits in [Misfits()] for _ in range(40))
    words = [Failure(kind=Kind.ITEM, detail="", signature=f"400:{chr(97 + n % 20)}") for n in range(45)]
    various = Misfits()
    assert not any(various.note(one, 0) for one in words)
    filtered = Failure(kind=Kind.ITEM, detail="", signature="400:filtered", outcome=Outcome.REFUSAL)
    content = Misfits()
    assert not any(content.note(filtered, 0) for _ in range(45))
