"""How fast calls may leave: buckets in units a second, pure, with the time passed in.

A call leaves when every bucket lets it: the rate that the user named, the one in the endpoint's headers, and the one
that its refusals tell. All follow the generic cell rate algorithm: a level that fills at a steady rate up to a cap.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

BURST_S = 0.5  # a bucket holds the units of this many seconds where the endpoint names no burst
MARGIN_S = 0.05  # seconds' worth of the endpoint's level that is not used, since calls arrive later than they leave
SAFE = 0.985  # share of a rate just read off at which calls leave
REST_S = 8.0  # least seconds at a rate before a higher one is tried
REST_CALLS = 60.0  # least calls at a rate before a higher one is tried
CONTRADICTIONS, DISOWNED_S = 5, 30.0  # refusals below the known rate after which it is given up, and for how long
TRIAL, TRIAL_REST_S = 5, 120.0  # calls at once that try a slow rate, and how long it then is not tried again
SHORTEST_S = 0.02  # a shorter delay of a refusal counts as this long
SURE = 6  # readings from which on the rest is as long as REST_S says; before, it is shorter in proportion
REST_PER_PAUSE = 20.0  # the rest is at least so many times the pause of the last refusal
PROBE, DOUBLING_S = 0.01, 2.0  # after the rest the rate grows by one per cent, then twice that every two seconds
FORGOTTEN = 16.0  # at so many times the rate that was read off, the reading is dropped
WINDOW_S = 20.0  # a rate is read from the refusals of so many seconds
SLOWEST = 1 / 60  # lowest rate, calls a second
FEW, MANY = 5, 20  # calls between two refusals: least to read a rate from, and enough to read it well


class Bucket:
    """A token bucket: `rate` units a second, at most `cap` at once."""

    __slots__ = ("_empty_at", "cap", "rate")

    def __init__(self, rate: float, *, cap: float | None = None) -> None:
        self.rate = rate
        self.cap = max(1.0, BURST_S * rate) if cap is None else cap
        self._empty_at = float("-inf")  # the moment at which the level was, or will be, zero

    def level(self, now: float) -> float:
        """Units that may leave now; below zero while a debt is paid off."""
        return min(self.cap, (now - self._empty_at) * self.rate)

    def opens_at(self, units: float) -> float:
        """Return the moment from which so many units may leave; more than the cap may leave when it is full."""
        return self._empty_at + min(units, self.cap) / self.rate

    def take(self, now: float, units: float) -> None:
        """Let units leave; the level may fall below zero."""
        self._empty_at = max(self._empty_at, now - self.cap / self.rate) + units / self.rate

    def change(self, now: float, rate: float) -> None:
        """Go on at another rate, from the level that there is."""
        if rate != self.rate:
            level, self.rate, self.cap = self.level(now), rate, max(1.0, BURST_S * rate)
            self._empty_at = now - level / rate

    def set_level(self, now: float, units: float) -> None:
        """Take over a level that is known from elsewhere."""
        self.cap = max(self.cap, units, 1.0)
        self._empty_at = now - units / self.rate


class SeenRate:
    """The rate that an endpoint's refusals tell, where it does not say it.

    At every refusal the endpoint's own bucket is empty: what it let in between two of them, over the time between, is
    the rate at which it fills. We leave a little below that, and after a while of peace ever more above it, until the
    next refusal tells the rate anew. Refusals of calls that left before the last one was heard of are the same event.
    """

    __slots__ = (
        "_anchors", "_bucket", "_contradictions", "_disowned_s", "_disowned_until", "_event", "_first", "_number",
        "_quiet_until", "_rate", "_refused", "_refused_after", "_resumed_at", "_sent", "_to_try", "_tried_from",
        "_tried_refused", "_trusted_s", "_trusted_until", "_unheard_s", "readings",
    )  # fmt: skip

    def __init__(self) -> None:
        self.readings = 0
        self._refused = 0
        self._number = self._refused_after = 0  # the event's first call, and refusals of later ones
        self._unheard_s = 0.0  # seconds from when that call left to when its refusal came
        self._anchors: deque[tuple[float, int]] = deque()  # when the endpoint's bucket was empty; calls let in
        self._event: tuple[float, float, int] | None = None  # when refused, for how long, calls sent till then
        self._first: tuple[float, int] | None = None  # seconds until the first refusal, and calls let in till then
        self._bucket: Bucket | None = None
        self._rate = 0.0
        self._quiet_until = 0.0
        self._tried_from: int | None = None  # the last call before those of a trial
        self._tried_refused = self._to_try = 0
        self._trusted_until, self._trusted_s = float("-inf"), TRIAL_REST_S
        self._sent = 0  # calls sent until the last refusal that was read
        self._contradictions = 0
        self._resumed_at = self._disowned_until = float("-inf")
        self._disowned_s = DISOWNED_S

    @property
    def rate(self) -> float | None:
        """Calls a second at the moment, or None while nothing is known."""
        return self._bucket.rate if self._bucket else None

    def is_kept(self, now: float) -> bool:
        """Whether a refusal now is not about the rate: calls leave no faster than is known to be taken."""
        return now < self._disowned_until or (self.readings >= SURE and now < self._quiet_until)

    def opens_at(self, now: float) -> float:
        """Return the moment from which one call may leave."""
        if self._event is not None:
            if now < self._event[0] + self._event[1]:
                return self._event[0] + self._event[1]
            self._settle(now)
        return self._bucket.opens_at(1.0) if self._bucket and not self._to_try else float("-inf")

    def take(self, now: float) -> None:
        """Let a call leave."""
        if not self._anchors:
            self._anchors.append((now, 0))
        if self._to_try:
            self._to_try -= 1
            return
        if self._bucket is not None:
            self._grow(now)
        if self._bucket is not None:
            self._bucket.take(now, 1.0)

    def refused(self, now: float, sent_at: float, *, number: int, sent: int, pause_s: float) -> None:
        """Note a call that met the rate limit, the `number`-th; `sent` have left so far, none will for `pause_s`."""
        self._refused += 1
        if self._tried_from is not None:
            self._tried_refused += self._tried_from < number <= self._tried_from + TRIAL
        if self._event is not None:
            at, longest_s, till = self._event
            self._event = (at, max(pause_s, longest_s), till)
            self._refused_after += number > self._number
        elif not self._anchors or sent_at >= self._anchors[-1][0]:
            self._event = (now, pause_s, sent)
            self._number, self._unheard_s, self._refused_after = number, now - sent_at, 0
        else:
            self._take_back(sent_at)

    def _take_back(self, sent_at: float) -> None:
        """A call that was counted as let in is heard to have been refused: it counts at no moment after it left."""
        for place in range(len(self._anchors) - 1, 0, -1):
            at, let_in = self._anchors[place]
            if at < sent_at:
                break
            self._anchors[place] = (at, let_in - 1)

    def _settle(self, now: float) -> None:
        """Read the rate off, when the calls that were refused together have all come back."""
        assert self._event is not None
        at, pause_s, sent = self._event
        self._event = None
        let_in = sent - self._refused
        tried = self._tried_from is not None and self._number <= self._tried_from + TRIAL
        disowned, self._resumed_at = self._is_disowned(at, let_in), now
        self._sent, sent_before = sent, self._sent
        if disowned:
            self._anchors = deque([(at, let_in)])
            return
        if len(self._anchors) > 1 and not self._anchors[0][1]:
            self._anchors.popleft()  # a count since the start includes the first burst
        while len(self._anchors) > 1 and at - self._anchors[0][0] > WINDOW_S:
            self._anchors.popleft()
        seen = self._read(at, let_in, sent - sent_before)
        if len(self._anchors) == 1 and self._first is None:
            self._first = (at - self._anchors[0][0], let_in)
        self._anchors.append((at, let_in))
        if seen is None or tried:  # what a trial is refused says whether the rate is one, not which
            return
        self._rate = seen
        self.readings += 1
        rest_s = max(REST_S, REST_CALLS / seen) * min(1.0, self.readings / SURE)  # the first readings are rough
        self._bucket = Bucket(seen, cap=max(1.0, 0.1 * seen))
        self._bucket.set_level(now, self._saved(seen * (now - at)))
        if self._tried_from is None and at >= self._trusted_until and seen * (now - at) < 1:
            self._tried_from, self._tried_refused, self._to_try = sent, 0, TRIAL
        self._quiet_until = now + max(rest_s, REST_PER_PAUSE * pause_s)

    def _is_disowned(self, at: float, let_in: int) -> bool:
        """Whether refusals are not about a rate: five although calls left slower than what was let in before.

        Such refusals come at random, or for the number of calls at a time. Then no rate is kept to for a while, twice
        as long each time, since a rate that is read off calls slower than it would only ever fall.
        """
        if at < self._disowned_until:
            return True
        if self._bucket is None or at >= self._quiet_until:
            self._contradictions = 0
        elif self._let_in_as_before(at, let_in):
            self._contradictions += 1
        if self._end_trial(at):
            self._contradictions = CONTRADICTIONS
        if self._contradictions < CONTRADICTIONS:
            return False
        self._contradictions = 0
        self._disowned_until = at + self._disowned_s
        self._disowned_s *= 2
        self._bucket, self._rate, self.readings = None, 0.0, 0
        self._tried_from, self._to_try = None, 0
        return True

    def _end_trial(self, at: float) -> bool:
        """Whether most calls of a trial were let in, though an empty bucket lets in none, and a later one was refused.

        Most refused: the rate is one, and is not tried again for a while.
        """
        if self._tried_from is None:
            return False
        if 2 * self._tried_refused > TRIAL:
            self._tried_from, self._to_try = None, 0
            self._trusted_until = at + self._trusted_s
            self._trusted_s *= 2
            return False
        return self._number > self._tried_from + TRIAL

    def _let_in_as_before(self, at: float, let_in: int) -> bool:
        """Whether nearly all was let in that left since the last refusal."""
        assert self._bucket is not None
        return let_in - self._anchors[-1][1] >= max(FEW, 0.9 * self._bucket.rate * (at - self._resumed_at))

    def _read(self, at: float, let_in: int, sent_since: int) -> float | None:
        """Return the rate to go on with.

        Where calls left slower than the endpoint lets in, its bucket ran over and tells too little: so the highest of
        the last readings is taken, and where all are well below a pace that had grown, something between. Where
        hardly a call was let in since the last refusal, the pace was too high, whatever the readings say; where hardly
        one had left, and most of those were let in, only the readings count.
        """
        counts = [(let_in - before, at - since) for since, before in self._anchors if at > since]
        wanted = MANY if any(count >= MANY for count, _ in counts) else FEW
        readings = [count / seconds for count, seconds in counts if count >= wanted and seconds < 3 * WINDOW_S]
        readings += self._let_in_after(let_in)
        pace = self._bucket.rate if self._bucket else None
        let_in_since = let_in - self._anchors[-1][1]
        if pace is not None and let_in_since < FEW:
            few_left = sent_since < FEW and 2 * let_in_since > sent_since
            return max(SLOWEST, min(SAFE * max(readings, default=pace), pace if few_left else 0.9 * pace))
        if not readings:
            return None if pace is None else max(SLOWEST, 0.7 * pace)
        best = max(readings)
        grown = pace is not None and at >= self._quiet_until and best < 0.9 * pace
        return (best * pace) ** 0.5 if pace is not None and grown else SAFE * best

    def _let_in_after(self, let_in: int) -> list[float]:
        """Return the rate of what was let in after the refused call had left and before we heard of it, if much was.

        From an empty bucket little comes: where most of these calls were let in, the refusal was not for the rate.
        """
        sent_after = let_in + self._refused - self._number
        count = sent_after - self._refused_after - max(FEW, 0.2 * sent_after)
        return [count / max(self._unheard_s, SHORTEST_S)] if count > 0 else []

    def _saved(self, came_in: float) -> float:
        """Return how much of what came in during the pause is there: no more than the endpoint let in at first."""
        if self._first is None:
            return 0.0
        seconds, let_in = self._first
        return max(0.0, min(came_in, 0.8 * (let_in - self._rate * seconds)))

    def _grow(self, now: float) -> None:
        over = now - self._quiet_until
        if over <= 0 or self._bucket is None:
            return
        factor = 1.0 + PROBE * (2.0 ** min(40.0, over / DOUBLING_S) - 1.0)
        if factor > FORGOTTEN:
            self._bucket, self._rate = None, 0.0
        else:
            self._bucket.rate = self._rate * factor


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What the headers of a reply say about one limit: units a minute, units left, seconds until all are back."""

    limit: float
    remaining: float | None
    reset_s: float | None


class EndpointRate:
    """The endpoint's own bucket, as its headers tell it: `x-ratelimit-limit-…`, `-remaining-…` and `-reset-…`."""

    __slots__ = ("_bucket", "_heard", "_taken")

    def __init__(self) -> None:
        self._bucket: Bucket | None = None
        self._heard = -1.0
        self._taken = 0.0

    @property
    def rate(self) -> float | None:
        """Units a second, or None while the endpoint has not said."""
        return self._bucket.rate if self._bucket else None

    @property
    def taken(self) -> float:
        """Units that have left in all; remembered with each call, it says what left after it."""
        return self._taken

    def opens_at(self, units: float) -> float:
        """Return the moment from which so many units may leave."""
        return self._bucket.opens_at(units) if self._bucket else float("-inf")

    def take(self, now: float, units: float) -> None:
        """Let units leave."""
        self._taken += units
        if self._bucket is not None:
            self._bucket.take(now, units)

    def hear(self, now: float, notice: Notice, *, sent_at: float, since: float) -> None:
        """Take over what a reply says; `since` are the units that have left after its call.

        They are taken off, and what came in meanwhile is added. Older replies than the last are ignored.
        """
        if notice.limit <= 0 or sent_at < self._heard:
            return
        self._heard = sent_at
        rate = notice.limit / 60.0
        if self._bucket is None:
            self._bucket = Bucket(rate)
        self._bucket.rate = rate
        if notice.remaining is None:
            return
        age = now - sent_at
        level = notice.remaining - MARGIN_S * rate + age * rate - since
        if notice.reset_s is not None and notice.reset_s <= age:
            level = max(level, self._bucket.cap - since)
        self._bucket.set_level(now, min(level, max(self._bucket.cap, notice.remaining)))


def read_notices(headers: Mapping[str, str]) -> tuple[Notice | None, Notice | None]:
    """Return what the headers say about requests and about tokens."""
    return _read_notice(headers, "requests"), _read_notice(headers, "tokens")


def _read_notice(headers: Mapping[str, str], unit: str) -> Notice | None:
    limit = header_number(headers.get(f"x-ratelimit-limit-{unit}", ""))
    if limit is None or limit <= 0:
        return None
    remaining = header_number(headers.get(f"x-ratelimit-remaining-{unit}", ""))
    return Notice(limit=limit, remaining=remaining, reset_s=read_span(headers.get(f"x-ratelimit-reset-{unit}", "")))


_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,9})?")
_SPAN = re.compile(r"(?:(\d{1,9})h)?(?:(\d{1,9})m(?!s))?(?:(\d{1,9}(?:\.\d{1,9})?)s)?(?:(\d{1,9}(?:\.\d{1,9})?)ms)?")


def header_number(text: str) -> float | None:
    """Read a plain number >= 0, as headers have it; None for anything else."""
    return float(text) if _NUMBER.fullmatch(text.strip()) else None


def read_span(text: str) -> float | None:
    """Read "6m0s", "1.5s", "20ms" or a plain number of seconds."""
    text = text.strip()
    plain = header_number(text)
    if plain is not None or not text:
        return plain
    match = _SPAN.fullmatch(text)
    if not match:
        return None
    hours, minutes, seconds, millis = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds + millis / 1000
