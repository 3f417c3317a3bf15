"""The classification of failed calls, table by table."""

from __future__ import annotations

import socket
import ssl
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey
from yarl import URL

from svr_async.core.verdict import Outcome
from svr_async.engine.classify import KEY_CODES, MAX_WAIT_S, MODEL_CODES, QUOTA_CODES, Kind, classify_status
from svr_async.engine.http import classify_exception
from svr_async.engine.rates import retry_after
from svr_async.errors import AuthError, ModelError, QuotaError, RefusedError

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def date(seconds: float) -> str:
    """Return the HTTP date of NOW plus some seconds."""
    return format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize("status", [201, 204, 408, 409, 425, 500, 501, 502, 503, 504, 505, 520, 522, 524, 529, 599])
def test_server_errors_are_retried_and_may_be_billed(status: int) -> None:
    """Timeouts, conflicts and every 5xx are transient; whether they are billed is unknown."""
    failure = classify_status(status, {}, {"message": "oops"})
    assert (failure.kind, failure.outcome, failure.billed) == (Kind.TRANSIENT, Outcome.API_ERROR, True)
    assert failure.wait_s is None
    assert failure.signature == f"{status}:oops"


@pytest.mark.parametrize(
    "message",
    ["1 validation error: Input should be 'x'", "logprobs is not supported as loaded", "System role not supported"],
)
def test_a_500_about_the_request_is_not_retried(message: str) -> None:
    """Some servers wrap every error into a 500; the message shows that the request is at fault."""
    assert classify_status(500, {}, {"message": message, "type": "internal_server_error"}).kind is Kind.ITEM
    assert classify_status(503, {}, {"message": message}).kind is Kind.TRANSIENT


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (401, {}, AuthError), (403, {}, AuthError),
        *((status, {field: code}, AuthError) for status in (400, 429, 500) for field in ("code", "type")
          for code in sorted(KEY_CODES)),
        (402, {}, QuotaError), (402, {"code": "rate_limit_exceeded"}, QuotaError),
        *((status, {field: code}, QuotaError) for status in (400, 403, 429, 200) for field in ("code", "type")
          for code in sorted(QUOTA_CODES)),
        (429, {"code": "project_spend_limit_exceeded"}, QuotaError),
        (429, {"type": "INSUFFICIENT_QUOTA"}, QuotaError),
        *((status, {"code": code}, ModelError) for status in (400, 404) for code in sorted(MODEL_CODES)),
        (404, {"message": "The model `x` does not exist"}, ModelError),
        (404, {"message": "Not Found"}, ModelError), (405, {}, ModelError),
        *((status, {}, RefusedError) for status in (300, 301, 302, 303, 307, 308)),
    ],
)  # fmt: skip
def test_key_quota_model_and_redirects_stop_the_run(status: int, error: dict[str, Any], expected: type) -> None:
    """An error that no retry can cure ends the run, with its own type and a hint, whatever the status."""
    failure = classify_status(status, {"retry-after": "1"}, error)
    assert (failure.kind, failure.error) == (Kind.RUN, expected)
    assert failure.hint


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"code": "context_length_exceeded", "message": "x"}),
        (400, {"code": "string_above_max_length"}),
        (400, {"message": "This model's maximum context length is 8192 tokens. However you requested 9000"}),
        (400, {"message": "The prompt is too long: 9000 tokens, max_model_len 8192"}),
        (413, {"message": "Input is too long for requested model"}),
        (422, {"message": "ContextWindowExceededError: the context window is 4096"}),
        (500, {"code": "context_window_exceeded"}),
        (429, {"message": "Request too large for m on tokens per min (TPM): Limit 9, Requested 10"}),
    ],
)
def test_requests_that_never_fit_are_context_too_long(status: int, error: dict[str, Any]) -> None:
    """Every wording of "too long" is this outcome of the item, never a retry."""
    failure = classify_status(status, {}, error)
    assert (failure.kind, failure.outcome) == (Kind.ITEM, Outcome.CONTEXT_TOO_LONG)


@pytest.mark.parametrize(
    ("code", "kind"),
    [(429, Kind.RATE_LIMITED), (503, Kind.TRANSIENT), (401, Kind.RUN), (400, Kind.ITEM), (99, Kind.TRANSIENT)],
)
def test_an_error_inside_a_200_is_classified_by_its_code(code: int, kind: Kind) -> None:
    """Some gateways wrap the upstream status in a 200; without a code the call is retried."""
    assert classify_status(200, {}, {"code": code, "message": "upstream"}).kind is kind
    assert classify_status(200, {}, {}).kind is Kind.TRANSIENT


def test_rate_limits_carry_the_requested_wait() -> None:
    """A 429 waits as long as the endpoint asks; more than ten minutes ends the run and names the time."""
    assert classify_status(429, {}, {}).kind is Kind.RATE_LIMITED
    assert classify_status(503, {}, {"code": "rate_limit_exceeded"}).kind is Kind.RATE_LIMITED
    assert classify_status(429, {"retry-after": "17"}, {}).wait_s == 17
    assert classify_status(429, {"retry-after": str(MAX_WAIT_S)}, {}).kind is Kind.RATE_LIMITED
    late = classify_status(429, {"retry-after": "86400"}, {})
    assert (late.kind, late.error) == (Kind.RUN, RefusedError)
    assert "86400 s" in late.detail
    assert classify_status(503, {"retry-after": "5"}, {}).wait_s == 5


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None), ({"retry-after": "0"}, 0.0), ({"retry-after": "2.5"}, 2.5), ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25), ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "31536000"}, 31_536_000.0), ({"retry-after": "-5"}, None), ({"retry-after": "nan"}, None),
        ({"retry-after": "1e999"}, None), ({"retry-after": "in a while"}, None), ({"retry-after": ""}, None),
        ({"retry-after": date(30), "date": date(0)}, 30.0), ({"retry-after": date(-30), "date": date(0)}, 0.0),
        ({"retry-after": date(30)}, None), ({"retry-after": date(30), "date": "yesterday"}, None),
        ({"retry-after": "Sun, 01 Mar 99999999999 12:00:00 GMT", "date": date(0)}, None),
        ({"retry-after": "Sun, 01 Mar 2026 12:00:30 -0000", "date": date(0)}, None),
        ({"x-ratelimit-reset-requests": "1s"}, 1.0), ({"x-ratelimit-reset-tokens": "6m0s"}, 360.0),
        ({"x-ratelimit-reset-requests": "20ms", "x-ratelimit-reset-tokens": "1.5s"}, 1.5),
        ({"x-ratelimit-reset-requests": "1h2m3s"}, 3723.0), ({"x-ratelimit-reset-requests": "12"}, 12.0),
        ({"x-ratelimit-reset-requests": "soon", "x-ratelimit-reset-tokens": " 2s "}, 2.0),
        ({"x-ratelimit-reset-requests": "2026-03-01T12:00:30Z"}, None),
        ({"retry-after": "1", "x-ratelimit-reset-requests": "300s"}, 1.0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "2s",
          "x-ratelimit-remaining-tokens": "500", "x-ratelimit-reset-tokens": "1s"}, 2.0),
        ({"x-ratelimit-remaining-requests": "14370", "x-ratelimit-reset-requests": "23h59m0s"}, None),
    ],
)  # fmt: skip
def test_every_form_of_retry_after_is_read(headers: dict[str, str], expected: float | None) -> None:
    """Seconds, milliseconds, dates against the server's clock, and reset headers; nonsense is ignored."""
    assert retry_after(headers) == expected


KEY: Any = ConnectionKey("judge.example", 443, False, True, None, None, None)


@pytest.mark.parametrize(
    ("error", "kind", "billed", "message"),
    [
        (aiohttp.ServerDisconnectedError(), Kind.TRANSIENT, True, "judge.example:443 failed"),
        (aiohttp.ClientOSError(104, "reset"), Kind.TRANSIENT, True, "judge.example:443 failed"),
        (aiohttp.ClientPayloadError("cut"), Kind.TRANSIENT, True, "judge.example:443 failed"),
        (OSError(24, "Too many open files"), Kind.TRANSIENT, True, "Too many open files"),
        (ValueError("header"), Kind.TRANSIENT, True, "header"),
        (aiohttp.ClientConnectorError(KEY, OSError(111, "refused")), Kind.TRANSIENT, False,
         "cannot connect to judge.example:443: Connection refused"),
        (aiohttp.ClientConnectorDNSError(KEY, socket.gaierror(socket.EAI_NONAME, "x")), Kind.RUN, False,
         "unknown host 'judge.example'"),
        (aiohttp.InvalidURL("http://[", "x"), Kind.RUN, False, "unknown host"),
        (ssl.SSLCertVerificationError(1, "expired"), Kind.RUN, False, "certificate of judge.example:443"),
    ],
)  # fmt: skip
def test_exceptions_of_the_http_client_are_classified(error: Exception, kind: Kind, billed: bool, message: str) -> None:
    """A lost connection is retried and may be billed; a wrong certificate or address ends the run."""
    failure = classify_exception(error, URL("https://judge.example/v1"))
    assert (failure.kind, failure.billed) == (kind, billed)
    assert message in failure.detail
