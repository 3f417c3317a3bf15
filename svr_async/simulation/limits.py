"""Requests and tokens per minute, as token buckets with the headers that OpenAI-compatible endpoints send."""

from __future__ import annotations

import math

from svr_async.simulation.refusals import ApiError


class Bucket:
    """A token bucket filled at a steady rate; it may go into debt for work whose size shows only afterwards."""

    def __init__(self, per_minute: float, burst_s: float) -> None:
        self.per_minute = per_minute
        self.capacity = max(1.0, per_minute * burst_s / 60)
        self.level = self.capacity
        self._at: float | None = None

    def refill(self, now: float) -> None:
        """Add what has come in since the last look; `now` in seconds of any steady clock."""
        elapsed = 0.0 if self._at is None else max(0.0, now - self._at)
        self.level = min(self.capacity, self.level + elapsed * self.per_minute / 60)
        self._at = now

    def wait_s(self, amount: float) -> float:
        """Return the seconds until `amount` (at most the capacity) is there; 0 when it is."""
        missing = min(amount, self.capacity) - self.level
        return max(0.0, missing * 60 / self.per_minute)


class Limits:
    """Both limits of one endpoint; a limit of 0 is off."""

    def __init__(self, rpm: float, tpm: float, burst_s: float) -> None:
        self.requests = Bucket(rpm, burst_s) if rpm else None
        self.tokens = Bucket(tpm, burst_s) if tpm else None

    def admit(self, now: float, tokens: int) -> dict[str, str]:
        """Take one request of so many tokens and return the headers; `ApiError` (429) when it has to wait."""
        wants = [("requests", self.requests, 1.0), ("tokens", self.tokens, float(tokens))]
        asked = [(name, bucket, amount) for name, bucket, amount in wants if bucket is not None]
        for _, bucket, _ in asked:
            bucket.refill(now)
        waits = [(bucket.wait_s(amount), name) for name, bucket, amount in asked]
        longest, name = max(waits, default=(0.0, ""))
        if longest > 0:
            raise ApiError.rate_limited(name, self.headers() | retry_after(longest))
        for _, bucket, amount in asked:
            bucket.level -= amount
        return self.headers()

    def charge(self, tokens: int) -> None:
        """Take tokens that the reply turned out to cost."""
        if self.tokens is not None:
            self.tokens.level -= tokens

    def headers(self) -> dict[str, str]:
        """Return `x-ratelimit-…` for the limits that are on."""
        found: dict[str, str] = {}
        for name, bucket in (("requests", self.requests), ("tokens", self.tokens)):
            if bucket is not None:
                found[f"x-ratelimit-limit-{name}"] = str(int(bucket.per_minute))
                found[f"x-ratelimit-remaining-{name}"] = str(max(0, int(bucket.level)))
                found[f"x-ratelimit-reset-{name}"] = span(bucket.wait_s(bucket.capacity))
        return found


def retry_after(seconds: float) -> dict[str, str]:
    """Return `Retry-After` in seconds and `retry-after-ms`, never shorter than the wait."""
    ms = math.ceil(seconds * 1000)
    return {"Retry-After": f"{ms / 1000:.3f}", "retry-after-ms": str(ms)}


def span(seconds: float) -> str:
    """Write a time span as these headers do: `8ms`, `1.250s`, `6m0s`."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes)}m{rest:.0f}s" if minutes else f"{rest:.3f}s"


def seconds_of(text: str) -> float:
    """Read a time span as `span` writes it."""
    if text.endswith("ms"):
        return float(text[:-2]) / 1000
    minutes, _, rest = text.rstrip("s").rpartition("m")
    return 60 * float(minutes or 0) + float(rest)
