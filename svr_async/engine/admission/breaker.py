"""The circuit breaker of one endpoint: when most calls fail, none is sent but one to try; pure, the time passed in.

It opens when half of at least twenty calls in ten seconds have failed, or twenty in a row: good answers of the ten
seconds before an outage would otherwise delay it.
"""

from __future__ import annotations

from collections import deque

WINDOW_S = 10.0
TICK_S = 1.0
LEAST = 20  # least calls in the window, or failures in a row, that can open it
SHARE = 0.5  # share of failures in the window that opens it
LONGEST_S = 15.0  # longest time between two trials


class Breaker:
    """Closed: calls pass. Open: none does before `retry_at`. Then half open: one real call, whose end decides.

    `wait_s` is the first time it stays open; each failed trial doubles it, up to 15 seconds. What calls tell that left
    before it opened is not taken for the end of a trial.
    """

    __slots__ = (
        "_bad", "_good", "_in_a_row", "_last_bad", "_least", "_longest_s", "_marks", "_next_mark", "_wait_s", "opened",
        "retry_at", "trial",
    )  # fmt: skip

    def __init__(self, *, wait_s: float = 0.5, longest_s: float = LONGEST_S, least: int = LEAST) -> None:
        self.opened = 0  # how often in a row it has opened; 0 while it is closed
        self.retry_at = 0.0
        self.trial = False  # whether the one call that tries the endpoint is under way
        self._wait_s = wait_s
        self._longest_s = min(longest_s, LONGEST_S)
        self._least = least
        self._good = self._bad = self._in_a_row = 0
        self._marks: deque[tuple[float, int, int]] = deque()
        self._next_mark = self._last_bad = float("-inf")

    def succeeded(self, now: float, sent_at: float) -> None:
        """Note a call that the endpoint answered."""
        if now >= self._next_mark:
            self._mark(now)
        self._good += 1
        self._in_a_row = 0
        if self.opened and sent_at >= self.retry_at:
            self.opened = 0
            self.trial = False
            self._marks.clear()
            self._mark(now)

    def failed(self, now: float, sent_at: float) -> bool:
        """Note a call that found nobody, or a server error; return whether the breaker is opened by it."""
        if self.opened:
            if sent_at < self.retry_at:
                return False
            self._open(now)
            return True
        if now >= self._next_mark:
            self._mark(now)
        self._bad += 1
        self._in_a_row = self._in_a_row + 1 if now - self._last_bad <= WINDOW_S else 1
        self._last_bad = now
        good, bad = self._in_window(now)
        if self._in_a_row < self._least and (good + bad < self._least or bad < SHARE * (good + bad)):
            return False
        self._open(now)
        return True

    def _open(self, now: float) -> None:
        self.retry_at = now + min(self._longest_s, self._wait_s * 2.0 ** min(30, self.opened))
        self.opened += 1
        self.trial = False

    def _in_window(self, now: float) -> tuple[int, int]:
        while len(self._marks) > 1 and now - self._marks[0][0] > WINDOW_S:
            self._marks.popleft()
        _, good, bad = self._marks[0]
        return self._good - good, self._bad - bad

    def _mark(self, now: float) -> None:
        """Remember the tallies as they were before this moment."""
        if self._marks and now - self._marks[-1][0] > WINDOW_S:
            self._marks.clear()
        self._marks.append((now, self._good, self._bad))
        self._in_window(now)
        self._next_mark = now + TICK_S
