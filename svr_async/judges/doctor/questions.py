"""The small questions of `svr doctor` and the asking of them: one call each, twice only after a rate limit."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
import orjson

from svr_async.engine.classify import Failure, Kind, classify_reply
from svr_async.engine.fallbacks import find_fallbacks
from svr_async.engine.reply import BadBodyError
from svr_async.engine.request import Request, estimate_tokens
from svr_async.engine.wires import QUESTION, Wire
from svr_async.errors import AuthError, EndpointDownError, RefusedError, SvrError, system_words
from svr_async.judges.access import extras_of
from svr_async.judges.doctor.findings import Answer
from svr_async.judges.keys import key_hint

if TYPE_CHECKING:
    from svr_async.engine.secrets import Secret
    from svr_async.engine.transport import RawReply, Transport
    from svr_async.judges.profile import Profile

MAX_TOKENS = 1024  # longest answer: room for a model that reasons first
EXPECTED_TOKENS = 60
MOST_WAIT_S = 10.0  # longest wait for a rate limit; a longer one is reported
MODELS_TIMEOUT_S = 5.0
MAX_MODELS_BYTES = 2**20
HTTPS_PORT = 443
DOWN = "start it, or check the judge's address"
CHOICES = ("A", "B")
STATEMENT = "The text is in English."
WORD = "Answer with the one word: ready"
CHOOSE = 'Which text is longer? A: "aa" B: "aaaaaa". Answer as JSON with the one field "verdict", "A" or "B".'
SYSTEM_TEXT = "You answer questions in as few words as you can, and never explain yourself. " * 4
PREFIX = "The following facts are about an imaginary library. " + " ".join(
    f"Shelf {number} holds {7 * number % 90 + 10} books about subject {number * 13 % 97}." for number in range(120)
)
SCHEMA = {
    "type": "json_schema",
    "json_schema": {
        "name": "verdict",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"verdict": {"type": "string", "enum": list(CHOICES)}},
            "required": ["verdict"],
            "additionalProperties": False,
        },
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What `GET /models` said: rows by model name (None where it gave no list), and how the connection is protected.

    `reached` is False where there was no reply in time, which only a real call can judge.
    """

    reached: bool = False
    rows: Mapping[str, Mapping[str, Any]] | None = None
    tls: str = ""


def questions(profile: Profile) -> dict[str, Request]:
    """Return the questions by what they find out, the most needed first; settings only of a wire that has them."""
    word = _request(profile, WORD)
    return {
        "answer": word,
        "answer 2": word,
        "answer 3": word,
        **(_settings(profile, word) if profile.spoken.tries_settings else {}),
        "prefix": _request(profile, f"{PREFIX} How many books does shelf 3 hold? Answer with the number."),
        "prefix 2": _request(profile, f"{PREFIX} How many books does shelf 4 hold? Answer with the number."),
    }


def _settings(profile: Profile, word: Request) -> dict[str, Request]:
    choose = _request(profile, CHOOSE)
    told = msgspec.structs.replace(word, messages=profile.placed((("system", SYSTEM_TEXT), *word.messages)))
    return {
        "system": told,
        "schema": _with(choose, response_format=SCHEMA),
        "object": _with(choose, response_format={"type": "json_object"}),
        "effort": _with(word, reasoning_effort=profile.reasoning_effort or "low"),
        "seed": _with(word, seed=7),
    }


def _request(profile: Profile, text: str) -> Request:
    return Request(
        endpoint=profile.identity,
        model=profile.model,
        messages=(("user", text), *_after(profile.spoken)),
        max_tokens=min(MAX_TOKENS, profile.max_tokens),
        max_tokens_field=profile.max_tokens_field,
        params=profile.params(structured=False),
        no_cache=True,
        wire=profile.spoken,
    )


def _after(wire: Wire) -> tuple[tuple[str, str], ...]:
    """Return what a question ends with on a wire that takes no question alone: a statement, or a response to it."""
    return ((QUESTION, STATEMENT),) if wire.questions else (("assistant", WORD),) if wire.score else ()


def _with(request: Request, **params: Any) -> Request:
    kept = {name: value for name, value in request.params if name not in params}
    return msgspec.structs.replace(request, params=(*kept.items(), *params.items()))


def bare(request: Request) -> Request:
    """Return the request without any setting beside model, messages and the length of the answer."""
    return msgspec.structs.replace(request, params=())


def prompt_tokens_of(asked: Mapping[str, Request]) -> int:
    """Return an estimate of the input tokens of these questions."""
    return sum(estimate_tokens(request.prompt_chars) for request in asked.values())


async def ask(transport: Transport, request: Request, *, room: int) -> Answer:
    """Ask; where `room` allows two calls, a rate limit that passes soon is waited for and it is asked once more."""
    answer, failure = await _ask(transport, request)
    if room < 2 or failure is None or failure.kind is not Kind.RATE_LIMITED:
        return answer
    wait_s = failure.wait_s or 1.0
    if wait_s > MOST_WAIT_S:
        return answer
    await asyncio.sleep(wait_s)
    return replace((await _ask(transport, request))[0], calls=2)


async def _ask(transport: Transport, request: Request) -> tuple[Answer, Failure | None]:
    from svr_async.engine.transport import CallFailedError

    at, began = time.time(), time.monotonic()
    try:
        raw = await transport.send(request)
    except CallFailedError as error:
        return Answer(text=None, error=_error_of(error.failure), seconds=time.monotonic() - began), error.failure
    seen = Answer(
        text=None,
        seconds=time.monotonic() - began,
        status=raw.status,
        headers=raw.headers,
        body=_body(raw),
        asked_at=at,
    )
    try:
        reply = request.wire.read(raw.body, raw.status)
    except BadBodyError as problem:
        failure = classify_reply(request.wire, raw.status, raw.headers, raw.body, str(problem))
        cures = find_fallbacks(request, raw.status, request.wire.error(raw.body))
        refused = failure.kind is Kind.ITEM or bool(cures)
        return replace(seen, error=_error_of(failure), refused=refused, cures=cures), failure
    return replace(seen, text=reply.answer, usage=reply.usage, fingerprint=reply.fingerprint), None


def _body(raw: RawReply) -> Mapping[str, Any]:
    try:
        value = orjson.loads(raw.body)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _error_of(failure: Failure) -> SvrError:
    if failure.kind is Kind.RUN:
        return failure.error(failure.detail, hint=failure.hint)
    if failure.kind is Kind.RATE_LIMITED:
        return RefusedError(f"rate limited: {failure.detail}", hint="wait a minute, or set rpm and tpm in judges.toml")
    if failure.kind is Kind.ITEM:
        return RefusedError(failure.detail, hint="the endpoint refuses the question")
    return EndpointDownError(failure.detail, hint=DOWN)


async def served(profile: Profile, key: Secret) -> Served:
    """Ask for the list of models: free of charge, and the first contact. EndpointDownError where nothing answers.

    AuthError where the key is refused here already; an endpoint without a list is no failure.
    """
    import aiohttp

    from svr_async.engine.http import proxy_for

    proxy = proxy_for(profile.base_url)
    tls = "" if proxy else await _tls_of(profile.base_url)
    extras = extras_of(profile)
    headers = extras.head(profile.spoken, key)
    timeout = aiohttp.ClientTimeout(total=MODELS_TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers, proxy=proxy) as session,
            session.get(extras.with_query(f"{profile.base_url}/models"), allow_redirects=False) as reply,
        ):
            data = await reply.content.read(MAX_MODELS_BYTES)
            if reply.status in {401, 403}:
                raise AuthError(f"HTTP {reply.status} for the list of models", hint=key_hint(profile.key_env))
            return Served(reached=True, rows=_rows(extras.hidden(key).mask_bytes(data)), tls=tls)
    except aiohttp.ClientConnectorError as error:
        netloc = urlsplit(profile.base_url).netloc
        raise EndpointDownError(f"cannot connect to {netloc}: {system_words(error.os_error)}", hint=DOWN) from error
    except (aiohttp.ClientError, OSError, TimeoutError):
        return Served()


async def _tls_of(base_url: str) -> str:
    """Return protocol and end of the certificate of an https endpoint, "" for http; an error where it is refused."""
    parts = urlsplit(base_url)
    if parts.scheme != "https":
        return ""
    context = ssl.create_default_context()
    try:
        async with asyncio.timeout(MODELS_TIMEOUT_S):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port or HTTPS_PORT, ssl=context)
    except ssl.SSLCertVerificationError as error:
        what = f"the certificate of {parts.netloc} is not accepted: {error.verify_message}"
        hint = "mend the certificate, use the host name that it is for, or name its authority in $SSL_CERT_FILE"
        raise RefusedError(what, hint=hint) from error
    except (OSError, TimeoutError) as error:
        why = str(error) or f"nothing within {MODELS_TIMEOUT_S:g} s"
        raise EndpointDownError(f"cannot connect to {parts.netloc}: {why}", hint=DOWN) from error
    try:
        tls = writer.get_extra_info("ssl_object")
        return f"{tls.version()}, certificate until {tls.getpeercert().get('notAfter', 'an unknown day')}"
    finally:
        writer.close()


def _rows(data: bytes) -> Mapping[str, Mapping[str, Any]] | None:
    try:
        rows = orjson.loads(data)["data"]
        return {str(row["id"]): row for row in rows}
    except (ValueError, KeyError, TypeError):
        return None
