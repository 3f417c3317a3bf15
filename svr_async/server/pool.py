"""Groups whose members come one by one, from as many processes as a trainer has: found by (group, attempt, member).

A member that comes again is told what it was told, or waits with itself, and costs nothing. A waiter that leaves does
not end what goes on. A member that comes after its group was closed has the declared fallback. Groups are forgotten
a while after they are settled; there are never more of them than `max_groups`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from svr_async.core.pair import Prompt, prompt_text
from svr_async.server.group import Ask, Group, Member, digest
from svr_async.server.refusal import RefusalError
from svr_async.server.rewards import LATE, Reward, fallback
from svr_async.server.settings import ServerSettings
from svr_async.server.tally import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Where a response belongs: its group, which try of it, who it is in it, and how many there are.

    Without an `attempt`, a new response after the group was closed begins the next one. Without a `member`, equal
    responses that wait at the same time are different members, and one that comes back later is the same.
    """

    group: str
    size: int
    attempt: str | None = None
    member: Member | None = None


@dataclass(slots=True)
class _Pooled:
    group: Group
    prompt: bytes
    waiting: Counter[bytes]


class Pool:
    """The groups of a server."""

    def __init__(self, settings: ServerSettings, ask: Ask, tally: Tally) -> None:
        self._settings = settings
        self._ask = ask
        self._tally = tally
        self._groups: dict[tuple[str, str | None], _Pooled] = {}

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def gathering(self) -> int:
        """Groups that wait for members."""
        return sum(pooled.group.open for pooled in self._groups.values())

    async def reward(self, seat: Seat, prompt: Prompt, response: str) -> Reward:
        """Return the reward of a member once its group is settled. RefusalError for what does not fit its group."""
        pooled = self._pooled(seat, prompt, response)
        with _present(pooled, seat, response) as member:
            if not pooled.group.join(member, response):
                return fallback(self._settings.fallback, LATE, members=pooled.group.size)
            rewards: Mapping[Member, Reward] = await asyncio.shield(pooled.group.result)
            return rewards[member]

    def close_gates(self) -> None:
        """Wait for no more members in any group, as when no more can come."""
        for pooled in self._groups.values():
            pooled.group.close()

    async def close(self) -> None:
        """End all groups."""
        groups = [pooled.group for pooled in self._groups.values()]
        self._groups.clear()
        await asyncio.gather(*(group.abandon() for group in groups))

    def _pooled(self, seat: Seat, prompt: Prompt, response: str) -> _Pooled:
        key, asked = (seat.group, seat.attempt), digest(prompt_text(prompt))
        found = self._groups.get(key)
        if found is None or (seat.attempt is None and self._is_next(found, seat, response)):
            found = self._groups[key] = self._begin(key, seat, prompt, asked)
        if found.prompt != asked:
            raise RefusalError(409, f"group {seat.group!r} has another prompt", hint="give each prompt its own group")
        if found.group.size != seat.size:
            raise RefusalError(409, f"group {seat.group!r} has {found.group.size} members, not {seat.size}")
        return found

    def _is_next(self, found: _Pooled, seat: Seat, response: str) -> bool:
        """Whether a response to a group that tells no attempt is of the next one."""
        if found.group.open:
            return False
        text = digest(response)
        member = (text, found.waiting[text]) if seat.member is None else seat.member
        return not found.group.has(member, response)

    def _begin(self, key: tuple[str, str | None], seat: Seat, prompt: Prompt, asked: bytes) -> _Pooled:
        self._make_room()
        group = Group(prompt, seat.size, self._settings, self._ask)
        pooled = _Pooled(group, asked, Counter())
        group.result.add_done_callback(lambda _: self._settled(key, pooled))
        return pooled

    def _make_room(self) -> None:
        if len(self._groups) < self._settings.max_groups:
            return
        oldest = next((key for key, pooled in self._groups.items() if pooled.group.result.done()), None)
        if oldest is None:
            raise RefusalError(429, f"{len(self._groups)} groups wait already", hint="ask again, or raise --max-groups")
        del self._groups[oldest]

    def _settled(self, key: tuple[str, str | None], pooled: _Pooled) -> None:
        self._tally.groups["short" if pooled.group.short else "full"] += 1
        pooled.group.forget_texts()
        asyncio.get_running_loop().call_later(self._settings.keep_s, self._forget, key, pooled)

    def _forget(self, key: tuple[str, str | None], pooled: _Pooled) -> None:
        if self._groups.get(key) is pooled:
            del self._groups[key]


@contextmanager
def _present(pooled: _Pooled, seat: Seat, response: str) -> Iterator[Member]:
    """Yield who a response is in its group, and count it as waiting meanwhile."""
    if seat.member is not None:
        yield seat.member
        return
    text = digest(response)
    member = (text, pooled.waiting[text])
    pooled.waiting[text] += 1
    try:
        yield member
    finally:
        pooled.waiting[text] -= 1
        if not pooled.waiting[text]:
            del pooled.waiting[text]
