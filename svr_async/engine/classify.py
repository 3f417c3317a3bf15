"""Classifies failed calls: retry, wait, give up the item, or stop the run. Pure and table-driven.

The error's code and type come before the status: a 429 may be a rate limit or an empty account.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from svr_async.core.verdict import Outcome
from svr_async.engine.rates import retry_after
from svr_async.errors import AuthError, ModelError, QuotaError, RefusedError


class Kind(Enum):
    """What to do about a failed call."""

    TRANSIENT = "transient"
    RATE_LIMITED = "rate_limited"
    ITEM = "item"
    RUN = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One failed call. `wait_s` is the wait that the endpoint asks for; equal failures have equal `signature`s.

    `billed`: the endpoint may charge for the lost answer. `answered`: the endpoint itself replied, so the fault may be
    this call's alone. `unknown_model`: the endpoint does not serve the model under this name.
    """

    kind: Kind
    detail: str
    wait_s: float | None = None
    outcome: Outcome = Outcome.API_ERROR
    error: type[RefusedError] = RefusedError
    hint: str = ""
    billed: bool = False
    signature: str = ""
    answered: bool = False
    status: int = 0
    unknown_model: bool = False

    @property
    def crowded(self) -> bool:
        """Whether fewer calls at a time may help: the endpoint is overloaded, or this machine lacks descriptors."""
        short = self.status == 0 and bool(DESCRIPTOR_WORDS.search(self.detail))
        return self.status in CROWDED_STATUSES or self.signature == "timeout" or short

    @property
    def down(self) -> bool:
        """Whether it looks like an outage: no connection, a broken one, or a server error."""
        return self.kind is Kind.TRANSIENT and (self.status == 0 or self.status >= 500)


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
"""How servers on FastAPI and llama.cpp report a faulty request in an error 500."""
DESCRIPTOR_WORDS = re.compile(r"too many open files|cannot assign requested address", re.IGNORECASE)
CROWDED_STATUSES = frozenset({503, 504, 529})
TRANSIENT_STATUSES = frozenset({408, 409, 425, 500, 502, 503, 504, 520, 522, 524, 529})
MAX_WAIT_S = 600.0


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
    code = error.get("code")
    if 200 <= status < 300 and type(code) is int and 400 <= code < 600:  # some gateways wrap the upstream status
        status = code
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
        answered = success or status == 500
        return Failure(
            kind=Kind.TRANSIENT, detail=detail, wait_s=retry_after(headers), billed=True, signature=signature,
            answered=answered, status=status,
        )  # fmt: skip
    return Failure(kind=Kind.ITEM, detail=detail, signature=signature, status=status)


def _fatal(status: int, words: set[str], message: str, detail: str, path: str) -> Failure | None:
    if status == 402 or words & QUOTA_CODES or any(word.endswith("_spend_limit_exceeded") for word in words):
        return _run(QuotaError, detail, "add credit to the account or use another key, then run the same command again")
    if status in {401, 403} or words & KEY_CODES:
        hint = "check the key in its environment variable (svr judges names it), then run again"
        return _run(AuthError, detail, hint)
    if words & MODEL_CODES or (status == 404 and "model" in message.lower()):
        hint = "svr doctor lists the models that the endpoint serves"
        return Failure(kind=Kind.RUN, error=ModelError, detail=detail, hint=hint, unknown_model=True)
    if status in {404, 405}:
        place = "the address: this path is outside /v1" if path in REWARD_PATHS else "that the base URL ends in /v1"
        return _run(ModelError, detail, f"no {path.strip('/')} here: check {place}")
    if 300 <= status < 400:
        return _run(RefusedError, detail, "redirects are not followed: give the final URL of the endpoint")
    return None


def _run(error: type[RefusedError], detail: str, hint: str) -> Failure:
    return Failure(kind=Kind.RUN, error=error, detail=detail, hint=hint)


def _rate_limit(headers: Mapping[str, str], detail: str) -> Failure:
    wait_s = retry_after(headers)
    if wait_s is not None and wait_s > MAX_WAIT_S:
        hint = "wait, or raise the account's limit, then run the same command again"
        return _run(RefusedError, f"{detail} (asks to wait {wait_s:.0f} s)", hint)
    return Failure(kind=Kind.RATE_LIMITED, detail=detail, wait_s=wait_s, status=429)
