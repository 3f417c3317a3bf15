"""The books of a run on a cluster: whatever workers say, in whatever order, and however often the ledger is lost."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from svr_async.evaluation.running.cluster.ledger import LEASE_S, PART_S, Ledger, Loan, Word
from svr_async.judges.shares import all_places, places_of

COUNT, CALLS, USD, PIECES = 3, 40, 0.5, 12


@dataclass(slots=True)
class Member:
    """A worker as it knows itself."""

    life: int = 0
    held: list[int] = field(default_factory=list)
    calls: int = 0
    usd: float = 0.0
    part: float = 0.0
    until: float = 0.0


class Books(RuleBasedStateMachine):
    """Workers speak, end pieces, die and come again; the ledger is lost and made anew from what they say."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.members = [Member() for _ in range(COUNT)]
        self.gone, self.lost, self.done = (0, 0.0), set[int](), set[int]()
        self.ledger = Ledger(COUNT, calls=CALLS, usd=USD)
        self.ledger.supply(range(PIECES))

    @rule(number=st.integers(0, COUNT - 1), work=st.booleans(), caps=st.booleans())
    def speak(self, number: int, work: bool, caps: bool) -> None:
        """A worker says what it holds and takes what it is lent."""
        mine = self.members[number]
        word = Word(
            life=mine.life, held=tuple(mine.held), calls=mine.calls, usd=mine.usd, part=mine.part,
            wants_work=work, wants_calls=caps, wants_usd=caps,
        )  # fmt: skip
        loan = self.ledger.hear(number, word, self.now)
        assert loan is not None
        if loan.piece is not None:
            assert loan.piece not in self.done
            assert all(loan.piece not in one.held for one in self.members)
            mine.held.append(loan.piece)
        mine.calls, mine.usd = mine.calls + loan.calls, mine.usd + loan.usd
        mine.part, mine.until = loan.part, self.now + PART_S

    @precondition(lambda self: any(one.held for one in self.members))
    @rule()
    def finish(self) -> None:
        """A worker ends a piece."""
        self.done.add(next(one for one in self.members if one.held).held.pop())

    @rule(number=st.integers(0, COUNT - 1))
    def die(self, number: int) -> None:
        """A worker dies, another comes in its place; what it held is supplied anew."""
        drawn, mine = self.ledger.forget(number), self.members[number]
        assert drawn[0] <= mine.calls
        self.gone = self.gone[0] + mine.calls, self.gone[1] + mine.usd
        self.ledger.supply(mine.held)
        late = self.ledger.hear(number, Word(life=mine.life, held=tuple(mine.held)), self.now)
        assert late is None or mine.calls == drawn[0] == 0  # of a worker that never spoke nothing is known
        self.members[number] = Member(life=mine.life + 1, until=self.now)
        self.speak(number, work=False, caps=False)

    @rule(seconds=st.sampled_from([0.1, PART_S / 2, PART_S + 0.1]))
    def wait(self, seconds: float) -> None:
        """Time passes; what is not lent anew is over."""
        self.now += seconds
        for number in range(COUNT):
            if self.members[number].until <= self.now:
                self.speak(number, work=False, caps=False)

    @rule()
    def lose(self) -> None:
        """The ledger is lost: the next one is told only what workers that are gone had drawn."""
        self.ledger = Ledger(COUNT, calls=CALLS, usd=USD, gone=self.gone, took_over=self.now)
        held = {piece for one in self.members for piece in one.held}
        for number in range(COUNT):
            assert not self.ledger.settled(self.now)
            self.speak(number, work=True, caps=True)
        assert self.ledger.settled(self.now)
        assert {piece for pieces in self.ledger.held.values() for piece in pieces} == held
        self.ledger.supply(set(range(PIECES)) - held - self.done)

    @invariant()
    def nothing_is_lent_twice(self) -> None:
        """Each piece waits, is held by one, or is done; parts and caps are never more than the whole."""
        held = [piece for one in self.members for piece in one.held]
        assert sorted([*self.ledger.ready, *held, *self.done]) == list(range(PIECES))
        assert sum(one.part for one in self.members if self.now < one.until) <= 1 + 1e-9
        assert self.gone[0] + sum(one.calls for one in self.members) <= CALLS
        assert self.gone[1] + sum(one.usd for one in self.members) <= USD + 1e-9


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)


def test_work_and_rates_go_to_those_who_are_left() -> None:
    """With two of three workers gone, the third is lent all of the rates, and more pieces than its even part."""
    ledger = Ledger(3)
    ledger.supply(range(9))
    for number in range(3):
        assert ledger.hear(number, Word(life=0, wants_work=True), 0.0) == Loan(piece=number, part=1 / 3)
    for number in (0, 1):
        ledger.forget(number)
        assert ledger.hear(number, Word(life=0), 1.0) is None  # what is given up is not heard
    ledger.supply((0, 1))
    first = ledger.hear(2, Word(life=0, held=(2,), part=1 / 3, wants_work=True), 1.0)
    assert first is not None
    assert first.piece == 3
    later = ledger.hear(2, Word(life=0, held=(2, 3), part=1 / 3), PART_S + 1.0)
    assert later is not None
    assert later.part == pytest.approx(1.0)


def test_who_is_silent_is_told_and_a_new_ledger_waits_for_all() -> None:
    """A worker that has spoken and speaks no more is silent after a lease; one that is yet to begin is not."""
    ledger = Ledger(2)
    ledger.hear(0, Word(life=0), 0.0)
    assert ledger.silent(LEASE_S - 1) == []
    assert ledger.silent(LEASE_S) == [0]
    second = Ledger(2, took_over=100.0)
    second.supply((5,))
    assert second.hear(0, Word(life=3, held=(1,), part=0.5, wants_work=True), 101.0) == Loan(part=0.5)
    assert not second.settled(102.0)
    assert (second.silent(100.0 + LEASE_S), second.settled(100.0 + LEASE_S)) == ([1], True)


def test_all_shares_are_found_in_one_look() -> None:
    """The places of every share are those that each share finds for itself."""
    prompts = [f"prompt {number % 7}" for number in range(40)]
    assert all_places(prompts, 5) == [places_of(prompts, (number, 5)) for number in range(5)]
