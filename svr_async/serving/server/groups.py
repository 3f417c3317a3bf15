"""Groups of responses to one prompt whose members arrive in separate requests, from any process of a trainer.

A pair of the schedule is judged as soon as both members are there. A group is closed when all members are there, or
after a share of the deadline; at the deadline it is settled with the verdicts that are known. A member that is sent
again gets the same answer and asks nothing. A client that leaves cancels nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated

import msgspec

from svr_async.core.pair import Prompt, prompt_text
from svr_async.serving.pairs import PairVerdict
from svr_async.serving.ranking import Pair, pairs_of, potentials
from svr_async.serving.scores import Reward
from svr_async.serving.server.settings import DEADLINE, RefusalError, ServerSettings, fallback

GATHER_SHARE = 0.6  # of the deadline: time for the members of a group to arrive
ALONE = "alone"  # the only member that arrived
UNCONNECTED = "unconnected"  # judged, but not connected with most of its group
Judge = Callable[[Prompt, str, str], Awaitable[PairVerdict]]
Name = int | Annotated[str, msgspec.Meta(max_length=512)]
Member = int | str | tuple[str, int]
"""A name, or the text of a response without a name and its number among equal ones that wait."""


class Group:
    """Responses that are compared with each other; `result` maps each member to its reward.

    A member named by its place, from 0, gets that place in the schedule, so scores do not depend on arrival order.
    """

    def __init__(self, prompt: Prompt, size: int, settings: ServerSettings, judge: Judge) -> None:
        self.prompt = prompt
        self.size = size
        self.texts: dict[int, str] = {}
        self.verdicts: dict[Pair, PairVerdict] = {}
        self.places: dict[Member, int] = {}
        self._settings = settings
        self._judge = judge
        self._planned = pairs_of(settings.schedule, size)
        self._tasks: dict[Pair, asyncio.Task[None]] = {}
        self.closed = asyncio.Event()
        self.result: asyncio.Task[dict[Member, Reward]] = asyncio.create_task(self._settle())

    def has(self, member: Member, text: str) -> bool:
        """Whether a member is in the group with this response."""
        return member in self.places and self.texts[self.places[member]] == text

    def join(self, member: Member, text: str) -> None:
        """Add a member; RefusalError if it sent another response before."""
        if self.has(member, text):
            return
        if member in self.places:
            hint = "send it after the group is settled, or name another attempt"
            raise RefusalError(409, f"member {member!r} came with another response before", hint=hint)
        place = self._place(member)
        self.places[member], self.texts[place] = place, text
        for pair in self._planned:
            if place in pair and self.texts.keys() >= set(pair):
                self._start(pair)
        if len(self.texts) == self.size:
            self.close()

    def close(self) -> None:
        """Accept no more members."""
        self.closed.set()

    def _place(self, member: Member) -> int:
        if isinstance(member, int) and 0 <= member < self.size and member not in self.texts:
            return member
        return next(place for place in range(self.size) if place not in self.texts)

    def _start(self, pair: Pair) -> None:
        async def ask() -> None:
            self.verdicts[pair] = await self._judge(self.prompt, self.texts[pair[0]], self.texts[pair[1]])

        if pair not in self._tasks:
            self._tasks[pair] = asyncio.create_task(ask())

    async def _settle(self) -> dict[Member, Reward]:
        deadline = asyncio.get_running_loop().time() + self._settings.deadline_s
        try:
            async with asyncio.timeout(GATHER_SHARE * self._settings.deadline_s):
                await self.closed.wait()
        except TimeoutError:
            self.close()
        present = sorted(self.texts)
        for i, j in pairs_of(self._settings.schedule, len(present)):
            self._start((present[i], present[j]))
        if self._tasks:
            rest = max(0.0, deadline - asyncio.get_running_loop().time())
            done, _ = await asyncio.wait(self._tasks.values(), timeout=rest)
            for task in done:
                task.result()  # an error of the request, as a judge that cannot compare, is the group's
        rewards = self._rewards(present)
        return {member: rewards[place] for member, place in self.places.items()}

    def _rewards(self, present: list[int]) -> dict[int, Reward]:
        if len(present) < 2:
            return {place: fallback(self._settings, ALONE, members=len(present)) for place in present}
        margins = {pair: verdict.margin for pair, verdict in self.verdicts.items() if verdict.margin is not None}
        scores = potentials(present, margins)
        return {place: self._reward(place, scores.get(place)) for place in present}

    def _reward(self, place: int, score: float | None) -> Reward:
        own = [self.verdicts.get(pair) for pair in self._tasks if place in pair]
        if score is not None:
            known = sum(verdict is not None and verdict.margin is not None for verdict in own)
            return Reward(value=score, coverage=known / max(1, len(own)), members=len(self.texts))
        reasons = [
            DEADLINE if verdict is None or verdict.detail == DEADLINE else verdict.outcome.value
            for verdict in own
            if verdict is None or verdict.margin is None
        ]
        return fallback(self._settings, next(iter(reasons), UNCONNECTED), members=len(self.texts))


class Seat(msgspec.Struct, frozen=True):
    """The place of a response: its group, the attempt at it, its name in the group, and the group's size.

    A new response after the group was closed starts the next group of this name. Without `member`, equal responses that
    wait at the same time are different members.
    """

    group: Name | None = None
    attempt: Name | None = None
    member: Name | None = None
    group_size: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0

    @property
    def key(self) -> str:
        """The name of the group and the attempt."""
        return str(self.group) if self.attempt is None else f"{self.group}, attempt {self.attempt}"


class Pool:
    """The groups of a server; each is forgotten `keep_s` after it is settled."""

    def __init__(self, settings: ServerSettings, judge: Judge) -> None:
        self._settings = settings
        self._judge = judge
        self._groups: dict[str, Group] = {}
        self._waiting: Counter[tuple[Group, str]] = Counter()

    async def reward(self, seat: Seat, prompt: Prompt, response: str) -> Reward:
        """Return the reward of a member once its group is settled; RefusalError if it does not fit its group."""
        group = self._group(seat, prompt, response)
        with self._member(group, seat, response) as member:
            group.join(member, response)
            return (await asyncio.shield(group.result))[member]

    def close(self) -> None:
        """Close all groups to further members."""
        for group in self._groups.values():
            group.close()

    def _group(self, seat: Seat, prompt: Prompt, response: str) -> Group:
        group = self._groups.get(seat.key)
        if group is None or self._is_next(group, seat, response):
            group = self._groups[seat.key] = Group(prompt, seat.group_size, self._settings, self._judge)
            group.result.add_done_callback(partial(self._settled, seat.key, group))
        if prompt_text(group.prompt) != prompt_text(prompt):
            problem = f"group {seat.key[:80]!r} has another prompt"
            raise RefusalError(409, problem, hint="name a group for each prompt")
        if group.size != seat.group_size:
            raise RefusalError(409, f"group {seat.key[:80]!r} has {group.size} members, not {seat.group_size}")
        return group

    def _is_next(self, group: Group, seat: Seat, response: str) -> bool:
        if not group.closed.is_set():
            return False
        unnamed = (response, self._waiting[group, response])
        return not group.has(unnamed if seat.member is None else seat.member, response)

    def _settled(self, key: str, group: Group, task: asyncio.Task[dict[Member, Reward]]) -> None:
        if not task.cancelled():
            task.exception()  # all waiters may have left
        asyncio.get_running_loop().call_later(self._settings.keep_s, self._forget, key, group)

    def _forget(self, key: str, group: Group) -> None:
        if self._groups.get(key) is group:
            del self._groups[key]

    @contextmanager
    def _member(self, group: Group, seat: Seat, response: str) -> Iterator[Member]:
        """Yield the name of a response in its group; unnamed ones are counted while they wait."""
        if seat.member is not None:
            yield seat.member
            return
        key = (group, response)
        self._waiting[key] += 1
        try:
            yield response, self._waiting[key] - 1
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key]
