"""What a failed call means: try again, wait, give up the item, or stop the run. Pure and table-driven.

The error's code and type are looked at before the status: a 429 may be a rate limit or an empty account.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Any

from svr_async.engine.admission.rates import header_number, read_span
from svr_async.engine.wires.contract import Wire
from svr_async.errors import AuthError, ModelError, QuotaError, RefusedError
from svr_async.vocabulary.verdict import Outcome


class Kind(Enum):
    """What to do about a failed call."""

    TRANSIENT = "transient"
    RATE_LIMITED = "rate_limited"
    ITEM = "item"
    RUN = "run"


class Billed(Enum):
    """Whether the endpoint may have charged for a call whose answer was lost."""

    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One failed call. `wait_s` is what the endpoint asked for; `signature` is equal for equal failures.

    `answered`: the endpoint itself replied, so that the trouble may be this one call's and no outage.
    """

    kind: Kind
    detail: str
    wait_s: float | None = None
    outcome: Outcome = Outcome.API_ERROR
    error: type[RefusedError] = RefusedError
    hint: str = ""
    billed: Billed = Billed.NO
    signature: str = ""
    answered: bool = False
    status: int = 0

    @property
    def crowded(self) -> bool:
        """Whether the endpoint had too much to do: fewer calls at a time may help."""
        return self.status in CROWDED_STATUSES or self.signature == "timeout"

    @property
    def down(self) -> bool:
        """Whether it looks like an outage: nobody there, a broken connection, a server error."""
        harmless = self.signature in OVERSIZE or self.stale or self.no_descriptors
        return self.kind is Kind.TRANSIENT and ((self.status == 0 and not harmless) or self.status >= 500)

    @property
    def stale(self) -> bool:
        """Whether a kept-alive connection had been closed before the request reached anybody: no fault of the call."""
        return self.signature == STALE

    @property
    def no_descriptors(self) -> bool:
        """Whether this machine has no more descriptors or ports for connections."""
        return self.status == 0 and bool(DESCRIPTOR_WORDS.search(self.detail))


STALE = "stale connection"
OVERSIZE = frozenset({"too large", "unpacks to too much"})
REWARD_PATHS = ("/classify", "/pooling", "/score")
QUOTA_CODES = frozenset({
    "insufficient_quota", "credit_balance_exhausted", "billing_hard_limit_reached", "billing_not_active",
    "organization_usage_limit_exceeded", "access_terminated", "payment_required",
})  # fmt: skip
KEY_CODES = frozenset({"invalid_api_key", "invalid_authentication", "authentication_error", "permission_denied"})
MODEL_CODES = frozenset({"model_not_found", "model_not_available", "deployment_not_found"})
CONTEXT_CODES = frozenset({"context_length_exceeded", "string_above_max_length", "context_window_exceeded"})
FILTER_CODES = frozenset({"content_filter", "content_policy_violation", "responsible_ai_policy_violation"})
CONTEXT_WORDS = re.compile(
    r"maximum context length|context window|max_model_len|input (?:is )?too long|prompt is too long|too many tokens"
    r"|request too large",
    re.IGNORECASE,
)
FAULTY_WORDS = re.compile(
    r"\bvalidation errors?\b|\bnot supported\b|must alternate|only user and assistant roles", re.IGNORECASE
)
"""What servers on FastAPI and llama.cpp say of a request that is at fault, in an error 500."""
DESCRIPTOR_WORDS = re.compile(r"too many open files|cannot assign requested address", re.IGNORECASE)
CROWDED_STATUSES = frozenset({503, 504, 529})
TRANSIENT_STATUSES = frozenset({408, 409, 425, 500, 502, 503, 504, 520, 522, 524, 529})
MAX_WAIT_S = 600.0


def classify_reply(wire: Wire, status: int, headers: Mapping[str, str], body: bytes, problem: str) -> Failure:
    """Classify a reply that the wire could not read; `problem` says why."""
    return classify_status(status, headers, wire.error(body), body_preview=problem, path=wire.path)


def classify_status(
    status: int,
    headers: Mapping[str, str],
    error: Mapping[str, Any],
    *,
    body_preview: str = "",
    path: str = "/chat/completions",
) -> Failure:
    """Classify an HTTP reply that is not a usable one to `path`; `error` is the body's error object or empty."""
    words = {str(error.get(name) or "").lower() for name in ("code", "type")}
    status = _status_within(status, error.get("code"))
    message = str(error.get("message") or body_preview or "no message").removeprefix(f"{status}: ")[:300]
    detail = f"HTTP {status}: {message}"
    signature = f"{status}:{message[:120]}"
    fatal = _fatal(status, words, message, detail, path)
    if fatal is not None:
        return fatal
    if words & CONTEXT_CODES or (status in {400, 413, 422, 429} and CONTEXT_WORDS.search(message)):
        return Failure(kind=Kind.ITEM, outcome=Outcome.CONTEXT_TOO_LONG, detail=detail, signature=signature)
    if words & FILTER_CODES:
        return Failure(kind=Kind.ITEM, outcome=Outcome.REFUSAL, detail=detail, signature=signature)
    if status == 429 or "rate_limit_exceeded" in words:
        return _rate_limit(headers, detail)
    faulty = status == 500 and FAULTY_WORDS.search(message)
    success = 200 <= status < 300
    if (status in TRANSIENT_STATUSES or status >= 500 or success) and not faulty:
        return Failure(
            kind=Kind.TRANSIENT,
            detail=detail,
            wait_s=retry_after(headers),
            billed=Billed.UNKNOWN,
            signature=signature,
            answered=success or status == 500,
            status=status,
        )
    return Failure(kind=Kind.ITEM, detail=detail, signature=signature, status=status)


def _status_within(status: int, code: Any) -> int:
    """Return the status that a gateway put into the error of a reply with status 200, where there is one."""
    return code if 200 <= status < 300 and type(code) is int and 400 <= code < 600 else status


def _fatal(status: int, words: set[str], message: str, detail: str, path: str) -> Failure | None:
    if status == 402 or words & QUOTA_CODES or any(word.endswith("_spend_limit_exceeded") for word in words):
        return _run(
            QuotaError, detail, "add credit to the account or name another key, then run the same command again"
        )
    if status in {401, 403} or words & KEY_CODES:
        return _run(
            AuthError, detail, "check the key in its environment variable (svr judges names it), then run again"
        )
    if words & MODEL_CODES or (status == 404 and "model" in message.lower()):
        return _run(ModelError, detail, "svr doctor lists the models that the endpoint serves")
    if status in {404, 405}:
        place = "the address: it stands beside /v1" if path in REWARD_PATHS else "that the base URL ends in /v1"
        return _run(ModelError, detail, f"no {path.strip('/')} here: check {place}")
    if 300 <= status < 400:
        return _run(RefusedError, detail, "the endpoint redirects; redirects are never followed: give its final URL")
    return None


def _run(error: type[RefusedError], detail: str, hint: str) -> Failure:
    return Failure(kind=Kind.RUN, error=error, detail=detail, hint=hint)


def _rate_limit(headers: Mapping[str, str], detail: str) -> Failure:
    wait_s = retry_after(headers)
    if wait_s is not None and wait_s > MAX_WAIT_S:
        hint = "wait, or raise the account's limit, then run the same command again"
        return _run(RefusedError, f"{detail} (asks to wait {wait_s:.0f} s)", hint)
    return Failure(kind=Kind.RATE_LIMITED, detail=detail, wait_s=wait_s, status=429)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the reply's headers ask to wait, or None; dates are measured against the server's own."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        number = header_number(headers.get(name, ""))
        if number is not None:
            return number * scale
    dated = _seconds_until(headers.get("retry-after", ""), headers.get("date", ""))
    if dated is not None:
        return dated
    left = {unit: header_number(headers.get(f"x-ratelimit-remaining-{unit}", "")) for unit in ("requests", "tokens")}
    used_up = [unit for unit, count in left.items() if not count]  # 0, or not said
    resets = [read_span(headers.get(f"x-ratelimit-reset-{unit}", "")) for unit in used_up]
    known = [seconds for seconds in resets if seconds is not None]
    return max(known) if known else None


def _seconds_until(date: str, now: str) -> float | None:
    try:
        gap = (parsedate_to_datetime(date) - parsedate_to_datetime(now)).total_seconds()
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return max(0.0, gap)
