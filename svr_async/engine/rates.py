"""How fast calls may leave: token buckets for requests and tokens per minute, and `Retry-After`. Pure.

A call leaves when every bucket allows it: the rate of the settings, and the rate in the endpoint's headers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

BURST_S = 0.5  # a bucket holds the units of this many seconds unless the endpoint reports a larger burst
MARGIN_S = 0.05  # seconds' worth of the reported level that stays unused: calls arrive later than they leave


class Bucket:
    """A token bucket: `rate` units a second, at most `cap` at once."""

    __slots__ = ("_empty_at", "cap", "rate")

    def __init__(self, rate: float, *, cap: float | None = None) -> None:
        self.rate = rate
        self.cap = max(1.0, BURST_S * rate) if cap is None else cap
        self._empty_at = float("-inf")  # when the level was, or will be, zero

    def opens_at(self, units: float) -> float:
        """Return the time from which units may leave; more than the cap may leave when the bucket is full."""
        return self._empty_at + min(units, self.cap) / self.rate

    def take(self, now: float, units: float) -> None:
        """Let units leave; the level may become negative."""
        self._empty_at = max(self._empty_at, now - self.cap / self.rate) + units / self.rate

    def set_level(self, now: float, units: float) -> None:
        """Set the level to a known one."""
        self.cap = max(self.cap, units, 1.0)
        self._empty_at = now - units / self.rate


@dataclass(frozen=True, slots=True, kw_only=True)
class RateHeaders:
    """One limit in the headers of a reply: units a minute, units left, seconds until all are back."""

    limit: float
    remaining: float | None
    reset_s: float | None


class ReportedRate:
    """The endpoint's own bucket, from `x-ratelimit-limit-…`, `-remaining-…` and `-reset-…`."""

    __slots__ = ("_bucket", "_heard", "taken")

    def __init__(self) -> None:
        self._bucket: Bucket | None = None
        self._heard = -1.0
        self.taken = 0.0  # units that have left in all

    @property
    def rate(self) -> float | None:
        """Units a second, or None if the endpoint has not reported a limit."""
        return self._bucket.rate if self._bucket else None

    def opens_at(self, units: float) -> float:
        """Return the time from which this number of units may leave."""
        return self._bucket.opens_at(units) if self._bucket else float("-inf")

    def take(self, now: float, units: float) -> None:
        """Let units leave."""
        self.taken += units
        if self._bucket is not None:
            self._bucket.take(now, units)

    def update(self, now: float, headers: RateHeaders, *, sent_at: float, since: float) -> None:
        """Adopt the headers of a reply to a call sent at `sent_at`; `since` are the units that left after it."""
        if headers.limit <= 0 or sent_at < self._heard:
            return
        self._heard = sent_at
        rate = headers.limit / 60.0
        if self._bucket is None:
            self._bucket = Bucket(rate)
        self._bucket.rate = rate
        if headers.remaining is None:
            return
        age = now - sent_at
        level = headers.remaining - MARGIN_S * rate + age * rate - since
        if headers.reset_s is not None and headers.reset_s <= age:
            level = max(level, self._bucket.cap - since)
        self._bucket.set_level(now, min(level, max(self._bucket.cap, headers.remaining)))


def read_rate_headers(headers: Mapping[str, str], unit: str) -> RateHeaders | None:
    """Return the reported limit of `requests` or `tokens`, or None."""
    limit = header_number(headers.get(f"x-ratelimit-limit-{unit}", ""))
    if limit is None or limit <= 0:
        return None
    remaining = header_number(headers.get(f"x-ratelimit-remaining-{unit}", ""))
    return RateHeaders(limit=limit, remaining=remaining, reset_s=_reset_s(headers, unit))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the headers ask to wait, or None. Dates are compared with the server's own clock."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        number = header_number(headers.get(name, ""))
        if number is not None:
            return number * scale
    with suppress(TypeError, ValueError, IndexError, OverflowError, KeyError):
        gap = parsedate_to_datetime(headers["retry-after"]) - parsedate_to_datetime(headers["date"])
        return max(0.0, gap.total_seconds())
    units = ("requests", "tokens")
    used_up = [unit for unit in units if not header_number(headers.get(f"x-ratelimit-remaining-{unit}", ""))]
    return max((seconds for unit in used_up if (seconds := _reset_s(headers, unit)) is not None), default=None)


_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,9})?")
_SPAN = re.compile(r"(?:(\d{1,9})h)?(?:(\d{1,9})m(?!s))?(?:(\d{1,9}(?:\.\d{1,9})?)s)?(?:(\d{1,9}(?:\.\d{1,9})?)ms)?")


def header_number(text: str) -> float | None:
    """Read a plain number >= 0; None for anything else."""
    return float(text) if _NUMBER.fullmatch(text.strip()) else None


def _reset_s(headers: Mapping[str, str], unit: str) -> float | None:
    """Read "6m0s", "1.5s", "20ms" or a plain number of seconds."""
    text = headers.get(f"x-ratelimit-reset-{unit}", "").strip()
    match = _SPAN.fullmatch(text)
    if not text or not match:
        return header_number(text)
    hours, minutes, seconds, millis = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds + millis / 1000
