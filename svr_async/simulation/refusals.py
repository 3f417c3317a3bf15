"""What the endpoint refuses: errors in the shape of OpenAI, unsupported settings, rate limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from svr_async.errors import SvrError


class ApiError(SvrError):
    """An error reply: HTTP status, OpenAI's `type` and `code`, and headers that go with it."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str,
        code: str | None,
        headers: Mapping[str, str] | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.code = code
        self.param = param
        self.headers = dict(headers or {})

    @classmethod
    def bad_request(cls, message: str, code: str | None = None) -> ApiError:
        """Return a 400."""
        return cls(400, message, kind="invalid_request_error", code=code)

    @classmethod
    def no_setting(cls, param: str, message: str, code: str) -> ApiError:
        """Return the 400 for a setting that the model does not take."""
        return cls(400, message, kind="invalid_request_error", code=code, param=param)

    @classmethod
    def no_model(cls, name: str) -> ApiError:
        """Return the 404 for a model that is not served."""
        message = f"The model `{name}` does not exist or you do not have access to it."
        return cls(404, message, kind="invalid_request_error", code="model_not_found")

    @classmethod
    def too_long(cls, limit: int, tokens: int) -> ApiError:
        """Return the 400 for a request that does not fit the model's context."""
        message = f"This model's maximum context length is {limit} tokens, but the messages hold {tokens} tokens."
        return cls.bad_request(message, "context_length_exceeded")

    @classmethod
    def bad_key(cls, given: str) -> ApiError:
        """Return the 401 for a wrong or missing key; no part of the key is repeated."""
        message = "Incorrect API key provided." if given else "You did not provide an API key."
        return cls(401, message, kind="invalid_request_error", code="invalid_api_key")

    @classmethod
    def no_quota(cls) -> ApiError:
        """Return the 429 for an account without credit, which waiting does not cure."""
        message = "You exceeded your current quota, please check your plan and billing details."
        return cls(429, message, kind="insufficient_quota", code="insufficient_quota")

    @classmethod
    def rate_limited(cls, what: str, headers: Mapping[str, str]) -> ApiError:
        """Return the 429 for too many requests or tokens a minute."""
        message = f"Rate limit reached on {what} per minute."
        return cls(429, message, kind=what, code="rate_limit_exceeded", headers=headers)

    @classmethod
    def moved(cls, where: str) -> ApiError:
        """Return a 307 to another address."""
        return cls(307, "moved", kind="moved", code=None, headers={"Location": where})

    @classmethod
    def server(cls, status: int, message: str) -> ApiError:
        """Return a 5xx."""
        return cls(status, message, kind="server_error", code=None)

    def payload(self) -> dict[str, Any]:
        """Return the JSON of the error."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}


DECODING = ("temperature", "top_p")


def refuse_settings(body: Mapping[str, Any]) -> None:
    """Raise the 400 of OpenAI's reasoning models for the first setting that they do not take."""
    if body.get("max_tokens") is not None:
        message = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        )
        raise ApiError.no_setting("max_tokens", message, "unsupported_parameter")
    for name in DECODING:
        value = body.get(name)
        if value not in (None, 1):
            message = (
                f"Unsupported value: '{name}' does not support {value} with this model. "
                "Only the default (1) value is supported."
            )
            raise ApiError.no_setting(name, message, "unsupported_value")


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
