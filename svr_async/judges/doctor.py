"""Checks of `svr doctor`: cache, data, and a judge's endpoint with at most six small calls.

Each check gives a `Finding`: what was seen, and what to do about it. Findings are yielded as soon as they are known.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import shorten
from typing import Any, Literal
from urllib.parse import urlsplit

import aiohttp
import orjson

from svr_async.core.files import LOOPBACK
from svr_async.core.integrity import Integrity
from svr_async.core.pair import Presentation, user_prompt
from svr_async.core.verdict import Outcome
from svr_async.engine.cache import Cache, place_of, user_cache
from svr_async.engine.caller import EngineConfig
from svr_async.engine.engine import CallEngine
from svr_async.engine.fallbacks import apply_all, permanent
from svr_async.engine.http import proxy_for
from svr_async.engine.rates import header_number
from svr_async.engine.request import Question, Request
from svr_async.engine.secrets import key_from_environment
from svr_async.engine.transport import FailureError, Transport
from svr_async.engine.wires import Form, Params
from svr_async.errors import AuthError, EndpointDownError, RefusedError, StorageError, SvrError, did_you_mean
from svr_async.judges.open_judge import JudgeSpec, extras_of, roles_of, transport_to
from svr_async.judges.profiles import Profile, key_hint, naming_keys
from svr_async.judges.templates import load_templates

MAX_TOKENS = 256  # of each answer
TIMEOUT_S = 30.0  # of each call
MODELS_TIMEOUT_S = 5.0
MIN_FREE_BYTES = 200 * 2**20
MAX_MODELS_BYTES = 2**20
SHOWN_NAMES = 300
UNITS = {"rpm": "requests", "tpm": "tokens"}
DOWN = "start the server, or check the judge's address"
CHOOSE = 'Which text is longer? A: "aa" B: "aaaaaa". Answer with the letter.'
MODES: Mapping[Literal["json_schema", "json_object"], str] = {
    "json_schema": CHOOSE,
    "json_object": f'{CHOOSE} Write it as JSON: {{"verdict": "A"}}, or "B".',
}
SCHEMA = (
    b'{"type":"object","properties":{"verdict":{"type":"string","enum":["A","B"]}},'
    b'"required":["verdict"],"additionalProperties":false}'
)


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check. `hint` says what to do; `exit_code` is that of a failure; `none`: could not be checked."""

    name: str
    state: Literal["ok", "warn", "fail", "none"]
    text: str
    hint: str = ""
    exit_code: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; `ok` is false for a failure only."""
        values = {"check": self.name, "ok": self.state != "fail", "state": self.state}
        return values | {"detail": self.text, "hint": self.hint}

    def line(self) -> str:
        """Return text and hint as one line."""
        return " ".join((f"{self.text} — {self.hint}" if self.hint else self.text).split())


def failed(name: str, error: SvrError) -> Finding:
    """Return the finding for an error."""
    return Finding(name, "fail", error.message, hint=error.hint, exit_code=error.exit_code)


def cache_finding(cache: Path | str) -> Finding:
    """Open the cache, and check the free space on its disk."""
    Cache.open(cache).close()
    place = place_of(cache)
    folder = place if isinstance(place, Path) else user_cache()
    place = next((one for one in (folder, *folder.absolute().parents) if one.exists()), Path.cwd())
    free = shutil.disk_usage(place).free
    if free < MIN_FREE_BYTES:
        raise StorageError(f"only {free / 2**20:.0f} MiB are free for the cache {cache}", hint="free some space")
    return Finding("cache", "ok", f"{cache} opens, {free / 2**30:.1f} GiB free")


async def list_models(profile: Profile) -> list[str]:
    """Return the models that an endpoint lists; empty without a list. The request is free.

    EndpointDownError if nothing answers, AuthError if the key is refused.
    """
    key, extras = key_from_environment(profile.key_env), extras_of(profile)
    timeout = aiohttp.ClientTimeout(total=MODELS_TIMEOUT_S)
    headers, proxy = extras.head(profile.spoken, key), proxy_for(profile.base_url)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers, proxy=proxy) as session,
            session.get(extras.with_query(f"{profile.base_url}/models"), allow_redirects=False) as reply,
        ):
            data = await reply.content.read(MAX_MODELS_BYTES)
    except aiohttp.ClientConnectorError as error:
        raise EndpointDownError(str(error), hint=DOWN) from error
    except (aiohttp.ClientError, OSError):
        return []
    if reply.status in {401, 403}:
        raise AuthError(f"HTTP {reply.status} for the list of models", hint=key_hint(profile.key_env))
    with suppress(ValueError, KeyError, TypeError):
        return [str(row["id"]) for row in orjson.loads(extras.hidden(key).mask_bytes(data))["data"]]
    return []


async def examine(judge: str, base_url: str = "") -> AsyncIterator[Finding]:
    """Check the endpoints of a judge, and yield each finding as soon as it is known; a failure is the last."""
    name = "judge"
    try:
        spec = JudgeSpec.parse(judge, base_url=base_url)
        if spec.profile is None:
            yield Finding(name, "ok", f"{judge} sends nothing")
            return
        variable = spec.profile.key_env
        key = f"${variable} is {'set' if os.environ.get(variable) else 'not set'}" if variable else "no key"
        text = f"{spec.profile.model} at {spec.profile.base_url}, {key} ({spec.profile.source})"
        yield Finding(name, "ok", text)
        name = "answer"
        for number, url in enumerate(spec.profile.base_urls):
            capped = min(MAX_TOKENS, spec.profile.max_tokens)
            profile = replace(spec.profile, base_url=url, base_urls=(), max_tokens=capped)
            with naming_keys([variable]):
                async for finding in _examine_address(replace(spec, profile=profile), profile, thorough=number == 0):
                    yield finding
                    if finding.state == "fail":
                        return
    except SvrError as error:
        yield failed("key" if isinstance(error, AuthError) else name, error)


async def _examine_address(spec: JudgeSpec, profile: Profile, *, thorough: bool) -> AsyncIterator[Finding]:
    """Check one address; without `thorough` only whether it lists the model and answers."""
    yield model_finding(profile, await list_models(profile))
    config = EngineConfig(concurrency=1, attempts=1, repairs=0, first_contact_s=0.0, give_up_after_s=0.0)
    transport = transport_to(profile, profile.base_url, timeout_s=TIMEOUT_S)
    with tempfile.TemporaryDirectory() as folder:
        async with CallEngine(transport, Cache.open(folder), config=config) as engine:
            if spec.writes:
                first_s, _ = await _answer(engine, profile, "Answer with the one word: ready")
                yield _key_finding(profile)
                refused = engine.refused(profile.endpoint, profile.model)
                if refused:
                    text = f"refused settings: {', '.join(map(str, refused))}"
                    yield Finding("settings", "warn", text, hint=permanent(refused))
                if not engine.stats().prompt_tokens:
                    hint = "costs are shown too low and --budget stops too late: use --max-calls"
                    yield Finding("usage", "warn", "no token counts are reported", hint)
            if spec.writes and thorough:
                second_s, cut = await _answer(engine, profile, "Answer with the one word: done")
                text = f"a one-word answer takes {second_s:.2f} s (the first one {first_s:.2f} s)"
                yield Finding("latency", "ok", text + (f", cut off at {MAX_TOKENS} tokens" if cut else ""))
                async for finding in _json_findings(engine, profile, transport):
                    yield finding
            if thorough or not spec.writes:
                yield await _verdict_finding(spec, profile, engine)


def _request(engine: CallEngine, profile: Profile, text: str, params: Params) -> Request:
    """Return a small request, without the settings that the endpoint has refused."""
    request = profile.request((("user", text),), params, no_cache=True)
    return apply_all(engine.refused(profile.endpoint, profile.model), request)


async def _answer(engine: CallEngine, profile: Profile, text: str) -> tuple[float, bool]:
    """Return the seconds of a call, and whether the answer was cut off; SvrError if the call failed."""
    request, begun = _request(engine, profile, text, profile.params(structured=False)), time.monotonic()
    done = await engine.complete(Question(request=request, parse=str, placeholder=str))
    if done.outcome in {Outcome.CONTEXT_TOO_LONG, Outcome.REFUSAL}:
        raise RefusedError(done.detail, hint="the endpoint refuses a one-line question: check its settings")
    if done.reply is None and done.outcome is not Outcome.TRUNCATED:
        raise EndpointDownError(done.detail, hint=DOWN)
    return time.monotonic() - begun, done.reply is None or done.reply.truncated


async def _json_findings(engine: CallEngine, profile: Profile, transport: Transport) -> AsyncIterator[Finding]:
    """Try JSON schemas, then JSON objects, and report the rate limits in the headers of the reply."""
    headers: Mapping[str, str] = {}
    for mode, question in MODES.items():
        try:  # a wire without this mode, a refusal, or a reply that is not JSON
            params = replace(profile, structured=mode).params(structured=True, form=Form(name="verdict", schema=SCHEMA))
            request = _request(engine, profile, question, params)
            raw = await transport.send(request)
            headers = raw.headers
            if orjson.loads(request.wire.read(raw.body, raw.status).answer)["verdict"] in ("A", "B"):
                hint = "" if profile.structured == mode else f'structured = "{mode}" in judges.toml uses it'
                yield Finding("json", "ok", f"{mode} works", hint)
                break
        except (SvrError, FailureError, ValueError, TypeError, KeyError):
            continue
    else:
        hint = "" if profile.structured == "none" else 'set structured = "none" in judges.toml'
        yield Finding("json", "warn", "no JSON mode works; plain replies are read too", hint)
    yield limits_finding(headers, profile)


async def _verdict_finding(spec: JudgeSpec, profile: Profile, engine: CallEngine) -> Finding:
    """Ask for a verdict as an evaluation does."""
    prompt = user_prompt("What is 2 + 2?")
    shown = Presentation(pair_id="doctor", prompt=prompt, response_a="2 + 2 is 4.", response_b="I like turtles.")
    judge, _ = roles_of(spec, profile, engine, load_templates(None, spec.prompts))
    begun = time.monotonic()
    answer = await judge.prefer(shown)
    if answer.value is None:
        text = f"no verdict ({answer.outcome.value}): {answer.detail}"
        if answer.outcome.value == "truncated":
            return Finding(
                "verdict", "none", text, "a model that reasons first needs more tokens than this check gives"
            )
        return Finding("verdict", "fail", text, 'system_role = "user" helps models without a system role', 4)
    right, seconds = answer.value.margin > 0, time.monotonic() - begun
    simulated = " (SIMULATED endpoint)" if Integrity.SIMULATED in judge.marks else ""
    text = f"{'right' if right else 'wrong'}, in {seconds:.2f} s{simulated}"
    hint = "" if right else "this judge may be too weak: compare it with another"
    return Finding("verdict", "ok" if right else "warn", text, hint)


def _key_finding(profile: Profile) -> Finding:
    """Report the key of an endpoint that has answered; warn if it was sent unencrypted over a network."""
    variable, parts = profile.key_env, urlsplit(profile.base_url)
    if not os.environ.get(variable, ""):
        return Finding("key", "ok", f"{parts.netloc} answers without a key")
    text = f"{parts.netloc} accepts the key in ${variable}"
    plain = parts.scheme == "http" and parts.hostname not in LOOPBACK
    return Finding("key", "warn", f"{text}, sent over http", "use https") if plain else Finding("key", "ok", text)


def model_finding(profile: Profile, models: Sequence[str]) -> Finding:
    """Report whether the endpoint lists the model."""
    if not models or not profile.model:
        return Finding("model", "none", "the endpoint does not list its models")
    if any(f"/{name}".endswith(f"/{profile.model}") for name in models):  # some put a folder before the name
        return Finding("model", "ok", f"{profile.model} is served")
    hint = did_you_mean(profile.model, models) or "set one of them: --judge URL#model, or model in judges.toml"
    text = f"{profile.model} is not among the models listed: {shorten(', '.join(models), SHOWN_NAMES)}"
    return Finding("model", "warn", text, hint)


def limits_finding(headers: Mapping[str, str], profile: Profile) -> Finding:
    """Report the rate limits in the headers, and which ones the profile should have."""
    limits = {name: header_number(headers.get(f"x-ratelimit-limit-{unit}", "")) for name, unit in UNITS.items()}
    own = {"rpm": profile.rpm, "tpm": profile.tpm}
    higher = [f"{name} = {most:.0f}" for name, most in limits.items() if most and (own[name] or most + 1) > most]
    text = ", ".join(f"{most:,.0f} {UNITS[name]} a minute" for name, most in limits.items() if most)
    hint = f"{' and '.join(higher)} in judges.toml avoids refused calls" if higher else ""
    return Finding("limits", "ok", text or "none in the headers", hint)
