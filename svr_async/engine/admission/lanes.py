"""The queue before the lanes: who may leave next, and to which endpoint. One timer, one line, no slot taken to wait."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from svr_async.engine.admission.lane import NEVER, Lane, LaneStoppedError, Permit
from svr_async.engine.admission.lane_stats import LaneStats
from svr_async.engine.http.transport import RawReply, Transport
from svr_async.engine.request import Request

SLOW_S = 1.0  # shortest wait for what headers say that is told
SHORT_LINE = 8  # no new item is begun while so many calls wait
SHORTEST_S = 0.001  # shortest timer, since some event loops count in milliseconds


class Endpoints:
    """Several endpoints that serve one model, as one transport; the engine makes a lane of each, named for people."""

    def __init__(self, members: Mapping[str, Transport]) -> None:
        self.members = dict(members)

    async def send(self, request: Request) -> RawReply:
        """Send through the first."""
        return await next(iter(self.members.values())).send(request)

    async def close(self) -> None:
        """Close all of them."""
        for member in self.members.values():
            await member.close()


def members_of(transport: Transport) -> dict[str, Transport]:
    """Return the endpoints of a transport by name."""
    return transport.members if isinstance(transport, Endpoints) else {"": transport}


def _room(lane: Lane) -> float:
    """How much a lane wants the next call: one that was down and may be tried wants it most."""
    return NEVER if lane.breaker.opened else lane.room


class Lanes:
    """All lanes of one engine, with the calls that wait for one of them, first come, first served.

    A call goes to the lane with the most room that lets it leave now; `ceiling` bounds all lanes together. Where none
    does, it waits for the end of another call or for the first of them to open, never fails.
    """

    def __init__(self, lanes: Sequence[Lane], *, ceiling: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.lanes = tuple(lanes)
        self._only = self.lanes[0] if len(self.lanes) == 1 else None
        self._ceiling = ceiling
        self._clock = clock
        self._line: deque[tuple[asyncio.Future[Permit], int, float]] = deque()
        self.slow: Callable[[Lane], None] = lambda _: None  # told where headers hold up a call
        self.busy: Callable[[], int] = lambda: 0  # questions being asked, less those that wait for their next try
        self._new: deque[asyncio.Future[None]] = deque()
        self.waiting = 0
        self.weighs = any(lane.weighs for lane in self.lanes)  # whether any of them counts tokens
        self.stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = NEVER

    def scale_rates(self, times: float) -> None:
        """Let so many times the rates of the settings leave, on each lane."""
        for lane in self.lanes:
            lane.scale_rates(times, self._clock())

    def bound(self, ceiling: int) -> None:
        """Let so many calls be under way at most, on all lanes together."""
        self._ceiling = ceiling
        for lane in self.lanes:
            lane.limiter.bound(ceiling)
        if self.waiting:
            self._serve()
        self.begin()

    @property
    def in_flight(self) -> int:
        """Calls under way, on all lanes."""
        return sum(lane.in_flight for lane in self.lanes)

    @property
    def limit(self) -> int:
        """Calls that may be under way at the moment, on all lanes."""
        return min(self._ceiling, sum(lane.limiter.limit for lane in self.lanes))

    @property
    def concurrency(self) -> int:
        """The same, under its older name."""
        return self.limit

    @property
    def queue_age_s(self) -> float:
        """How long the first in the line has waited, in seconds; 0 where nobody waits."""
        return max(0.0, self._clock() - self._line[0][2]) if self.waiting and self._line else 0.0

    @property
    def all_down(self) -> bool:
        """Whether no lane admits calls freely, because its endpoint does not answer."""
        return all(lane.breaker.opened for lane in self.lanes)

    def try_enter(self, now: float, tokens: int = 0) -> Permit | None:
        """Return a permit where a call may leave at once and nobody waits before it, or None."""
        if self.waiting or self.stopped:
            return None
        lane = self._only
        if lane is not None and not lane.gated:
            if lane.in_flight >= lane.limiter.limit:
                return None
            lane.in_flight += 1
            lane.sent += 1
            return Permit(lane, now, tokens)
        lane, _ = self._choose(now, tokens)
        return None if lane is None else lane.take(now, tokens)

    async def enter(self, tokens: int = 0) -> Permit:
        """Wait for a permit; LaneStoppedError when the run is being stopped."""
        if self.stopped:
            raise LaneStoppedError
        now = self._clock()
        permit = self.try_enter(now, tokens)
        if permit is not None:
            return permit
        place: asyncio.Future[Permit] = asyncio.get_running_loop().create_future()
        self._line.append((place, tokens, now))
        self.waiting += 1
        self._serve()
        try:
            return await place
        except asyncio.CancelledError:
            self._give_up(place)
            raise

    async def turn(self) -> None:
        """Wait before a new item while many calls wait, or as many questions are busy as calls may be under way.

        Where the limit is yet to be found out there are many more workers than calls; without this their first calls
        would all stand in the line before the second call of any of them. And a spare worker is there for questions
        that wait between two tries, not for more replies that a kill could cost.
        """
        while self._room_for_new() <= 0 and not self.stopped:
            place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._new.append(place)
            try:
                await place
            except asyncio.CancelledError:
                self.begin()
                raise
        self.begin()  # wakes the next item, which looks for room itself

    def leave(self, permit: Permit) -> None:
        """A call has ended; let the next ones leave."""
        permit.lane.leave(permit)
        if self.waiting:
            self._serve()
        self.begin()

    def begin(self) -> None:
        """Let new items begin where there is room: a call has left the line, or a question has ended or waits."""
        room = self._room_for_new() if self._new else 0
        while self._new and room > 0:
            place = self._new.popleft()
            if not place.done():
                place.set_result(None)
                room -= 1

    def _room_for_new(self) -> int:
        return min(SHORT_LINE - self.waiting, self._ceiling - self.busy())

    def stop(self) -> None:
        """Admit nothing more; calls that wait are turned away."""
        self.stopped = True
        self._set_timer(NEVER, 0.0)
        while self._line:
            place, _, _ = self._line.popleft()
            if not place.done():
                place.set_exception(LaneStoppedError())
        self.waiting = 0
        while self._new:
            new = self._new.popleft()
            if not new.done():
                new.set_result(None)

    def stats(self) -> tuple[LaneStats, ...]:
        """Return a snapshot of each lane."""
        now = self._clock()
        return tuple(lane.stats(now) for lane in self.lanes)

    def _give_up(self, place: asyncio.Future[Permit]) -> None:
        """Forget the place of a call that was cancelled, or hand back the permit that it had just been given."""
        if place.cancelled() or not place.done():
            self.waiting -= not self.stopped
        elif place.exception() is None:
            self.leave(place.result())

    def _serve(self) -> None:
        """Let leave, in the order of the line, whoever may."""
        now = self._clock()
        while self._line:
            place, tokens, _ = self._line[0]
            if not place.done():
                lane, at = self._choose(now, tokens)
                if lane is None:
                    self._tell_slow(now, at, tokens)
                    self._set_timer(at, now)
                    return
                self.waiting -= 1
                place.set_result(lane.take(now, tokens))
            self._line.popleft()
        self._set_timer(NEVER, now)

    def _tell_slow(self, now: float, at: float, tokens: int) -> None:
        """Tell of a lane where a call waits for what headers say, if it waits long."""
        if SLOW_S <= at - now < NEVER:
            for lane in self.lanes:
                if lane.told_at(tokens) == at:
                    self.slow(lane)
                    return

    def _choose(self, now: float, tokens: int) -> tuple[Lane | None, float]:
        """Return the lane that a call may leave by, or the moment at which to look again."""
        if self._only is not None:
            at = self._only.opens_at(now, tokens)
            return (self._only, now) if at <= now else (None, at)
        if self.in_flight >= self._ceiling:
            return None, NEVER
        opening = [(lane.opens_at(now, tokens), lane) for lane in self.lanes]
        ready = [lane for at, lane in opening if at <= now]
        if ready:
            return max(ready, key=_room), now
        return None, min(at for at, _ in opening)

    def _set_timer(self, at: float, now: float) -> None:
        if self._timer is not None:
            if at == self._timer_at:
                return
            self._timer.cancel()
            self._timer = None
        self._timer_at = at
        if at < NEVER:
            self._timer = asyncio.get_running_loop().call_later(max(SHORTEST_S, at - now), self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._timer_at = NEVER
        self._serve()
