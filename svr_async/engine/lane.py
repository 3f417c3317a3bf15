"""The lane to one endpoint: how many calls may be under way, how fast they may leave, and a pause for all of them."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import deque
from dataclasses import dataclass

PAUSE_JITTER = 0.1
DEFAULT_PAUSE_S = 1.0
MIN_PAUSE_S = 0.05  # an endpoint that says "0 seconds" is still not asked again at once


@dataclass(slots=True)
class _Bucket:
    """A rate in units per minute, as a virtual time before which the next unit may not leave (GCRA)."""

    per_minute: float
    free_at: float = 0.0

    def reserve(self, units: float, now: float) -> float:
        """Take units and return the seconds to wait before they may leave; one second's worth may leave at once."""
        start = max(self.free_at, now - 1.0)
        self.free_at = start + units * 60.0 / self.per_minute
        return max(0.0, start - now)


class LaneStoppedError(Exception):
    """The lane admits no further calls: the run is being stopped."""


class Lane:
    """Admission to one endpoint. A rate limit that one call meets pauses all of them, with jitter on the way out."""

    def __init__(self, *, concurrency: int, rpm: float | None = None, tpm: float | None = None) -> None:
        self.concurrency = concurrency
        self.in_flight = 0
        self.last_success = time.monotonic()
        self.succeeded = False
        self._requests = _Bucket(rpm) if rpm else None
        self._tokens = _Bucket(tpm) if tpm else None
        self._paused_until = 0.0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._stopped = False

    @property
    def waiting(self) -> int:
        """Calls that wait for a slot."""
        return len(self._waiters)

    async def enter(self, tokens: int) -> None:
        """Wait for a slot, for the rate and for the end of a pause; LaneStoppedError when the run is being stopped."""
        await self._take_slot()
        try:
            await self._wait_for_rate(tokens)
        except BaseException:
            self.leave()
            raise

    def leave(self) -> None:
        """Give the slot back."""
        self.in_flight -= 1
        self._wake()

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                break

    def succeed(self) -> None:
        """Note that the endpoint answered."""
        self.succeeded = True
        self.last_success = time.monotonic()

    def pause(self, seconds: float | None) -> None:
        """Let no call leave for `seconds` (one where the endpoint named none); the later of two deadlines counts."""
        wait_s = DEFAULT_PAUSE_S if seconds is None else max(MIN_PAUSE_S, seconds)
        self._paused_until = max(self._paused_until, time.monotonic() + wait_s)

    def stop(self) -> None:
        """Admit nothing more; calls that wait are turned away."""
        self._stopped = True
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_exception(LaneStoppedError())

    async def _take_slot(self) -> None:
        while True:
            if self._stopped:
                raise LaneStoppedError
            if self.in_flight < self.concurrency:
                self.in_flight += 1
                return
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                self._pass_on(waiter)
                raise

    def _pass_on(self, waiter: asyncio.Future[None]) -> None:
        """Hand the wake-up of a call that was cancelled at that moment to the next one, or forget its place."""
        if waiter.done() and not waiter.cancelled():
            self._wake()
        else:
            with contextlib.suppress(ValueError):
                self._waiters.remove(waiter)

    async def _wait_for_rate(self, tokens: int) -> None:
        now = time.monotonic()
        delay = self._requests.reserve(1, now) if self._requests else 0.0
        if self._tokens:
            delay = max(delay, self._tokens.reserve(tokens, now))
        if delay > 0:
            await self._sleep(delay)
        while not self._stopped and (left := self._paused_until - time.monotonic()) > 0:
            await self._sleep(left * (1 + PAUSE_JITTER * random.random()))  # noqa: S311  (jitter, not a secret)
        if self._stopped:
            raise LaneStoppedError

    async def _sleep(self, seconds: float) -> None:
        """Sleep in short steps, so that a stop is noticed within a fraction of a second."""
        end = time.monotonic() + seconds
        while not self._stopped and (left := end - time.monotonic()) > 0:  # noqa: ASYNC110  (two conditions)
            await asyncio.sleep(min(left, 0.25))
