"""One group of responses to a prompt: pairs are judged once both members are there, and all have their reward in time.

    open      members come; each pair of the schedule is judged once both of its members are there
    closed    all members came, or the time to come is over: what of the schedule is missing is judged for those present
    settled   all is judged, or the deadline is over: the least-squares scores of the margins that there are

A judgement that is under way at the deadline goes on: it is paid for, and its reply is kept in the cache.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import blake2b

from svr_async.core.pair import Prompt
from svr_async.server.penalties import above_mean, length_of, style_of
from svr_async.server.refusal import RefusalError
from svr_async.server.rewards import ALONE, DEADLINE, UNCONNECTED, Reward, fallback
from svr_async.server.settings import ServerSettings
from svr_async.serving.pairs import PairVerdict
from svr_async.serving.potentials import Margins, potentials
from svr_async.serving.schedules import Pair, Schedule, pairs_at_once, scheduled

Ask = Callable[[Prompt, str, str], Awaitable[PairVerdict]]
Member = Hashable


@lru_cache(maxsize=64)
def planned(schedule: Schedule, size: int) -> tuple[Pair, ...]:
    """Return the pairs of places that are judged as soon as both are taken; Swiss rounds wait for all."""
    return () if schedule == "swiss" else tuple(pairs_at_once(schedule, size))


def digest(*texts: str) -> bytes:
    """Return 16 bytes that stand for texts."""
    found = blake2b(digest_size=16)
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        found.update(len(data).to_bytes(8, "big") + data)
    return found.digest()


@dataclass(frozen=True, slots=True)
class _Seat:
    place: int
    text: bytes


class Group:
    """Responses that are compared among each other; `result` has the reward of each member, by its name.

    It begins to run when it is made, on the running event loop. A member whose name is its place, from 0, has that
    place in the schedule, so that scores do not hang on who came first; any other takes the first free one.
    """

    def __init__(self, prompt: Prompt, size: int, settings: ServerSettings, ask: Ask) -> None:
        self.prompt = prompt
        self.size = size
        self.open = True
        self.short = False
        self.result: asyncio.Future[Mapping[Member, Reward]] = asyncio.get_running_loop().create_future()
        self.verdicts: dict[Pair, PairVerdict] = {}
        self.texts: dict[int, str] = {}
        self._settings = settings
        self._ask = ask
        self._seats: dict[Member, _Seat] = {}
        self._tasks: dict[Pair, asyncio.Task[None]] = {}
        self._closed = asyncio.Event()
        self._began = asyncio.get_running_loop().time()
        self._run = asyncio.create_task(self._life())

    def has(self, member: Member, text: str) -> bool:
        """Whether a member has a place, with this response."""
        seat = self._seats.get(member)
        return seat is not None and seat.text == digest(text)

    def join(self, member: Member, text: str) -> bool:
        """Take a place, or come back to it; False for one that is late. RefusalError where it had another response."""
        if self.has(member, text):
            return True
        if member in self._seats:
            raise RefusalError(
                409, f"member {member!r} came with another response before", hint="a new try is a new attempt"
            )
        if not self.open:
            return False
        place = self._place(member)
        self._seats[member] = _Seat(place, digest(text))
        self.texts[place] = text
        for pair in planned(self._settings.schedule, self.size):
            if place in pair and all(one in self.texts for one in pair):
                self._start(pair)
        if len(self.texts) == self.size:
            self.close()
        return True

    def close(self) -> None:
        """Wait for no more members."""
        self.open = False
        self._closed.set()

    async def abandon(self) -> None:
        """End all that goes on."""
        tasks = [self._run, *self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if not self.result.done():
            self.result.set_result(self._nobody(DEADLINE))

    def forget_texts(self) -> None:
        """Keep only what a member that comes back is told."""
        self.prompt = ()
        self.texts.clear()
        self.verdicts.clear()
        self._tasks = {pair: task for pair, task in self._tasks.items() if not task.done()}

    def _place(self, member: Member) -> int:
        if isinstance(member, int) and 0 <= member < self.size and member not in self.texts:
            return member
        return next(place for place in range(self.size) if place not in self.texts)

    def _start(self, pair: Pair) -> asyncio.Task[None]:
        if pair not in self._tasks:
            self._tasks[pair] = task = asyncio.create_task(self._judge(pair, *(self.texts[place] for place in pair)))
            task.add_done_callback(_look_at)
        return self._tasks[pair]

    async def _judge(self, pair: Pair, a: str, b: str) -> None:
        self.verdicts[pair] = await self._ask(self.prompt, a, b)

    async def _life(self) -> None:
        try:
            async with asyncio.timeout_at(self._began + self._settings.wait_s):
                await self._closed.wait()
        except TimeoutError:
            self.close()
        self.short = len(self.texts) < self.size
        try:
            async with asyncio.timeout_at(self._began + self._settings.deadline_s):
                await self._judge_present()
        except TimeoutError:
            pass
        self._settle()

    async def _judge_present(self) -> None:
        """Judge what the schedule says of those that came, and wait for it."""
        present = sorted(self.texts)
        if self._settings.schedule == "swiss":
            judge = partial(self._round, present)
            await scheduled("swiss", len(present), judge, rounds=self._settings.rounds)
        else:
            for i, j in planned(self._settings.schedule, len(present)):
                self._start((present[i], present[j]))
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    async def _round(self, present: Sequence[int], pairs: Sequence[Pair]) -> Margins:
        await asyncio.wait([self._start((present[i], present[j])) for i, j in pairs])
        return {(i, j): margin for i, j in pairs if (margin := self._margin((present[i], present[j]))) is not None}

    def _margin(self, pair: Pair) -> float | None:
        verdict = self.verdicts.get(pair)
        return None if verdict is None else verdict.margin

    def _settle(self) -> None:
        if self.result.done():
            return
        error = next(filter(None, map(_look_at, self._tasks.values())), None)
        if error is not None:
            self.result.set_exception(error)
            self.result.exception()  # its waiters may all have left
        elif len(self.texts) < 2:
            self.result.set_result(self._nobody(ALONE))
        else:
            rewards = self._rewards()
            self.result.set_result({member: rewards[seat.place] for member, seat in self._seats.items()})

    def _nobody(self, reason: str) -> dict[Member, Reward]:
        return {member: fallback(self._settings.fallback, reason, members=len(self.texts)) for member in self._seats}

    def _rewards(self) -> dict[int, Reward]:
        """Return the reward of each place: its score less its penalties, the fallback where it has none."""
        present = sorted(self.texts)
        row = {place: number for number, place in enumerate(present)}
        margins = {(row[i], row[j]): margin for i, j in self._tasks if (margin := self._margin((i, j))) is not None}
        scores = dict(zip(present, potentials(len(present), margins), strict=True))
        scored = [place for place in present if scores[place] is not None]
        lengths = above_mean([length_of(self.texts[place]) for place in scored])
        styles = above_mean([style_of(self.texts[place]) for place in scored])
        found = {
            place: self._reward(place, scores[place] or 0.0, length=length, style=style)
            for place, length, style in zip(scored, lengths, styles, strict=True)
        }
        missing = {place: self._without(place) for place in present if place not in found}
        return found | missing

    def _reward(self, place: int, score: float, *, length: float, style: float) -> Reward:
        long, styled = self._settings.length_penalty * length, self._settings.style_penalty * style
        return Reward(
            value=score - long - styled,
            score=score,
            coverage=self._coverage(place),
            members=len(self.texts),
            length_penalty=long or 0.0,
            style_penalty=styled or 0.0,
        )

    def _coverage(self, place: int) -> float:
        own = [pair for pair in self._tasks if place in pair]
        return sum(self._margin(pair) is not None for pair in own) / len(own) if own else 0.0

    def _without(self, place: int) -> Reward:
        """Return the fallback of a place, with the first reason why it has no score."""
        reasons = [self._reason(pair) for pair in self._tasks if place in pair]
        reason = next((one for one in reasons if one), UNCONNECTED)
        return fallback(self._settings.fallback, reason, members=len(self.texts))

    def _reason(self, pair: Pair) -> str:
        verdict = self.verdicts.get(pair)
        if verdict is None:
            return DEADLINE
        return verdict.outcome.value if verdict.margin is None else ""


def _look_at(task: asyncio.Task[None]) -> BaseException | None:
    """Return what a task ended in, if it has; an exception that is looked at is not complained about."""
    return task.exception() if task.done() and not task.cancelled() else None
