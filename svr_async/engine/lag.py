"""The event loop's lag: how late a timer fires while the engine is busy. One timer every 50 ms, no task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from svr_async.engine.histogram import Histogram, Spread

EVERY_S = 0.05
BEAT_S = 1.0
MOST_MISSED = 1200  # of one stall that are counted: a minute


class LagProbe:
    """Measures the loop's lag while `busy` says that there is work, and calls `on_beat` about once a second then.

    A stall hides the timers that would have fired during it, so each of them is counted with its own lag: a quantile
    is a share of time, not of ticks. It stops by itself at the first tick without work; `start` begins again.
    """

    def __init__(self, busy: Callable[[], object], on_beat: Callable[[], None] | None = None) -> None:
        self.running = False
        self._busy = busy
        self._on_beat = on_beat
        self._lags = Histogram()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = self._next_beat = 0.0

    def start(self) -> None:
        """Begin to measure on the running loop; nothing where it is under way."""
        if self.running:
            return
        self.running = True
        self._loop = asyncio.get_running_loop()
        self._next_beat = self._loop.time() + BEAT_S
        self._arm(self._loop)

    def stop(self) -> None:
        """Measure no more."""
        self.running = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def spread(self) -> Spread:
        """Return the lags so far, in seconds."""
        return self._lags.spread()

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = loop.time() + EVERY_S
        self._timer = loop.call_at(self._due, self._tick)

    def _tick(self) -> None:
        loop = self._loop
        assert loop is not None
        now = loop.time()
        self._count(max(0.0, now - self._due))
        going_on = self._busy()
        if self._on_beat is not None and (now >= self._next_beat or not going_on):
            self._next_beat = now + BEAT_S
            self._on_beat()
        if going_on and self.running:
            self._arm(loop)
        else:
            self.stop()

    def _count(self, lag_s: float) -> None:
        self._lags.add(lag_s)
        missed = min(int(lag_s / EVERY_S), MOST_MISSED)
        for number in range(1, missed + 1):
            self._lags.add(lag_s - number * EVERY_S)
