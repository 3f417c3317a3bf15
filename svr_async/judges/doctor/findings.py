"""What `svr doctor` makes of an endpoint's answers: pure functions from what came back to a line with a cure."""

from __future__ import annotations

import difflib
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

import orjson

from svr_async.engine.fallbacks import PERMANENT, ParameterFallback, permanent
from svr_async.engine.rates import header_number
from svr_async.engine.reply import Usage, token_count
from svr_async.engine.request import Request
from svr_async.errors import SvrError

State = Literal["ok", "warn", "fail", "none"]
SLOW_S = 30.0  # a small answer that takes longer is reported as slow
SKEW_S = 30.0
LIMIT_HEADERS = ("x-ratelimit-limit-requests", "x-ratelimit-limit-tokens")
CONTEXT_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length")
SHOWN_NAMES = 300
SYSTEM_TOKENS = 20  # the least that a system message of some sixty adds to a question


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check: how it stands, what was seen, the cure where one is needed, and the exit code of a failure.

    `none` means that it could not be told, or was not asked.
    """

    name: str
    state: State
    text: str
    cure: str = ""
    exit_code: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; `ok` is false for a failure only."""
        values = {"check": self.name, "ok": self.state != "fail", "state": self.state}
        return values | {"detail": self.text, "cure": self.cure}

    def line(self) -> str:
        """Return what was seen and the cure as one line."""
        return " ".join((f"{self.text} — {self.cure}" if self.cure else self.text).split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one question came to. `text` is None where no usable answer came; `error` then says why.

    `refused`: the endpoint did answer, with an error for this very question; `cures` are what heals it.
    """

    text: str | None
    seconds: float = 0.0
    status: int | None = None
    headers: Mapping[str, str] | None = None
    body: Mapping[str, Any] | None = None
    usage: Usage = field(default_factory=Usage)
    fingerprint: str = ""
    error: SvrError | None = None
    refused: bool = False
    cures: tuple[ParameterFallback, ...] = ()
    asked_at: float = 0.0
    calls: int = 1

    @property
    def reasoning_tokens(self) -> int | None:
        """Tokens of reasoning, where the endpoint reports them as OpenAI does."""
        usage = (self.body or {}).get("usage")
        details = usage.get("completion_tokens_details") if isinstance(usage, Mapping) else None
        return token_count(details.get("reasoning_tokens")) if isinstance(details, Mapping) else None

    @property
    def why(self) -> str:
        """Why there is no answer."""
        return self.error.message if self.error else "no answer"


def failed(name: str, error: SvrError) -> Finding:
    """Return the finding for an error."""
    return Finding(name=name, state="fail", text=error.message, cure=error.hint, exit_code=error.exit_code)


def transport_finding(base_url: str, tls: str, *, has_key: bool) -> Finding:
    """Say how the endpoint is reached; a key that travels in the clear over a network is worth a warning."""
    parts = urlsplit(base_url)
    if parts.scheme == "https":
        return Finding(name="reach", state="ok", text=f"{parts.netloc} answers, {tls or 'https'}")
    if has_key and not is_local(parts.hostname or ""):
        cure = "use https, or a tunnel: who listens on the way reads the key and every prompt"
        return Finding(name="reach", state="warn", text=f"{parts.netloc} answers over http, in the clear", cure=cure)
    return Finding(name="reach", state="ok", text=f"{parts.netloc} answers over http")


def is_local(host: str) -> bool:
    """Whether a host is this machine or lies in a private network."""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host == "localhost" or "." not in host


def model_finding(model: str, names: Sequence[str] | None, *, answers: bool) -> Finding:
    """Say whether the endpoint lists the model; near names where it does not."""
    if not names:
        return Finding(name="models", state="none", text="the endpoint does not list its models")
    listed = f"the endpoint serves {_shown(names)}"
    if model in names:
        return Finding(name="models", state="ok", text=listed)
    near = difflib.get_close_matches(model, names, 1, cutoff=0.4)
    cure = f"did you mean {near[0]}?" if near else "name one of them: --judge URL#model, or model = in judges.toml"
    text = f"{model} is not among the models listed: {_shown(names)}"
    if answers:
        return Finding(name="models", state="warn", text=f"{text}; it answers all the same", cure=cure)
    return Finding(name="models", state="fail", text=text, cure=cure, exit_code=4)


def _shown(names: Sequence[str]) -> str:
    text = ", ".join(names)
    return text if len(text) <= SHOWN_NAMES else f"{text[:SHOWN_NAMES]}… ({len(names)} models)"


def latency_finding(answers: Sequence[Answer]) -> Finding:
    """Say how long the equal small calls took."""
    times = sorted(answer.seconds for answer in answers if answer.text is not None)
    if not times:
        return Finding(name="latency", state="none", text="no call was answered")
    p50, p90 = times[(len(times) - 1) // 2], times[min(len(times) - 1, int(0.9 * len(times)))]
    text = f"p50 {p50:.2f} s, p90 {p90:.2f} s over {len(times)} small answers"
    if p50 <= SLOW_S:
        return Finding(name="latency", state="ok", text=text)
    cure = "raise --concurrency to keep the rate up, and --timeout above the longest answer"
    return Finding(name="latency", state="warn", text=text, cure=cure)


def steadiness_finding(answers: Sequence[Answer]) -> list[Finding]:
    """Say how many calls got no answer though nothing was wrong with them; nothing where all did."""
    lost = [answer for answer in answers if answer.text is None and not answer.refused]
    if not lost:
        return []
    text = f"{len(lost)} of {len(answers)} calls got no answer: {lost[0].why}"
    return [Finding(name="steady", state="warn", text=text, cure="svr asks such calls again, with growing waits")]


def usage_finding(answer: Answer) -> Finding:
    """Say whether tokens are reported: costs and budgets depend on it."""
    counts = (answer.usage.prompt_tokens, answer.usage.completion_tokens)
    if None not in counts:
        return Finding(name="usage", state="ok", text=f"tokens are reported ({counts[0]} in, {counts[1]} out)")
    cure = "costs will be shown too low and --budget cannot stop in time: cap with --max-calls"
    return Finding(name="usage", state="warn", text="the endpoint reports no token counts", cure=cure)


def limits_finding(answer: Answer, rpm: float | None, tpm: float | None) -> Finding:
    """Say which limits the headers name, and how to enter one that the profile does not have."""
    headers = answer.headers or {}
    found = {name: _whole(headers.get(name)) for name in LIMIT_HEADERS}
    requests, tokens = found.values()
    if requests is None and tokens is None:
        known = [f"{name} = {value:g}" for name, value in (("rpm", rpm), ("tpm", tpm)) if value]
        return Finding(name="limits", state="ok", text=f"none in the headers{_list('; the profile has ', known)}")
    parts = [
        f"{limit:,} {what} a minute ({_left(headers, what)} left)"
        for what, limit in (("requests", requests), ("tokens", tokens))
        if limit is not None
    ]
    cures = [
        f"{name} = {limit}"
        for name, limit, own in (("rpm", requests, rpm), ("tpm", tokens, tpm))
        if limit is not None and (own is None or own > limit)
    ]
    cure = f"{' and '.join(cures)} in judges.toml spares calls that would be refused" if cures else ""
    return Finding(name="limits", state="ok", text=", ".join(parts), cure=cure)


def _left(headers: Mapping[str, str], what: str) -> str:
    left = _whole(headers.get(f"x-ratelimit-remaining-{what}"))
    return "?" if left is None else f"{left:,}"


def _list(lead: str, values: Sequence[str]) -> str:
    return lead + " and ".join(values) if values else ""


def _whole(text: str | None) -> int | None:
    number = header_number(text or "")
    return None if number is None else int(number)


def settings_finding(refused: Answer, request: Request) -> Finding:
    """Say which settings are refused: those that a run leaves out by itself, or all that were sent, to be tried."""
    if refused.cures:
        cure = f"a run learns that at one call more; {permanent(refused.cures)}"
        return Finding(name="settings", state="warn", text=f"a setting is refused: {refused.why}", cure=cure)
    sent = [name for name, _ in request.params]
    ways = dict.fromkeys(PERMANENT.get(name, "a shorter extra_body") for name in sent)
    text = f"refused with {', '.join(sent)}: {refused.why}"
    cure = f"each of {', '.join(ways)} in judges.toml leaves one of them out"
    return Finding(name="settings", state="fail", text=text, cure=cure, exit_code=4)


def schema_finding(answer: Answer, allowed: Sequence[str]) -> Finding:
    """Say whether an answer keeps to a JSON schema whose only field is one of a few values."""
    name = "schema"
    if answer.text is None:
        cure = 'svr does without it, or with structured = "json_object_schema" where the endpoint spells it so'
        return _refused(name, "response_format json_schema", answer, cure)
    value = _json(answer.text)
    if isinstance(value, dict) and set(value) == {"verdict"} and value["verdict"] in allowed:
        return Finding(name=name, state="ok", text="response_format json_schema is honoured")
    text = f"response_format json_schema is accepted but ignored: {answer.text[:60]!r}"
    return Finding(name=name, state="warn", text=text, cure="svr does without it: replies are checked here")


def system_finding(answer: Answer, first: Answer) -> Finding:
    """Say whether a long message of the system counts among the tokens of a question that was `first` asked alone."""
    name, cure = "system", "system_role = \"user\" in judges.toml puts the judge's instructions into the user's message"
    if answer.text is None:
        return _refused(name, "a system message", answer, cure)
    alone, both = first.usage.prompt_tokens, answer.usage.prompt_tokens
    if alone is None or both is None:
        return Finding(name=name, state="none", text="without token counts it cannot be told whether it is read")
    if both > alone + SYSTEM_TOKENS:
        return Finding(name=name, state="ok", text=f"the system message is read ({both - alone} tokens more)")
    text = f"the system message is dropped: {both} tokens in with it, {alone} without"
    return Finding(name=name, state="warn", text=text, cure=cure)


def object_finding(answer: Answer, structured: str) -> Finding:
    """Say whether `response_format json_object` gives an object, and whether the profile should use it."""
    name = "object"
    if answer.text is None:
        cure = 'set structured = "none" in judges.toml' if structured == "json_object" else "svr does without it"
        return _refused(name, "response_format json_object", answer, cure)
    if isinstance(_json(answer.text), dict):
        cure = "" if structured == "json_object" else 'structured = "json_object" in judges.toml uses it'
        return Finding(name=name, state="ok", text="response_format json_object is honoured", cure=cure)
    text = f"response_format json_object is accepted but ignored: {answer.text[:60]!r}"
    return Finding(name=name, state="warn", text=text, cure="svr does without it: replies are checked here")


def effort_finding(answer: Answer, style: str) -> Finding:
    """Say whether `reasoning_effort` is accepted, and whether reasoning tokens are reported."""
    if answer.text is None:
        cure = 'set effort_style = "none" in judges.toml' if style == "field" else "leave reasoning_effort out"
        return _refused("effort", "reasoning_effort", answer, cure)
    spent = answer.reasoning_tokens
    told = "" if spent is None else f"; {spent} tokens of reasoning were reported"
    return Finding(name="effort", state="ok", text=f"reasoning_effort is accepted{told}")


def seed_finding(answer: Answer) -> Finding:
    """Say whether `seed` is accepted beside temperature 0."""
    if answer.text is None:
        return _refused("seed", "seed", answer, "svr sends none")
    return Finding(name="seed", state="ok", text="seed and temperature 0 are accepted")


def _refused(name: str, what: str, answer: Answer, cure: str) -> Finding:
    """Return a warning where the endpoint refused a setting, and no verdict where it did not answer at all."""
    if answer.refused:
        return Finding(name=name, state="warn", text=f"{what} is refused: {answer.why}", cure=cure)
    return Finding(name=name, state="none", text=f"{what} could not be tried: {answer.why}")


def same_finding(answers: Sequence[Answer]) -> Finding:
    """Say whether equal calls had equal answers."""
    texts = [answer.text for answer in answers if answer.text is not None]
    marks = {answer.fingerprint for answer in answers if answer.text is not None}
    shown = ", ".join(sorted(filter(None, marks))) or "none given"
    if len(texts) < 2:
        return Finding(name="same", state="none", text="too few answers to compare")
    if len(set(texts)) == 1:
        return Finding(name="same", state="ok", text=f"{len(texts)} equal calls, equal answers (fingerprint {shown})")
    text = f"equal calls gave {len(set(texts))} different answers (fingerprint {shown})"
    return Finding(name="same", state="warn", text=text, cure="keep the cache: it is what makes a run repeatable")


def prefix_finding(second: Answer) -> Finding:
    """Say whether the second of two calls with a common beginning was served from a prefix cache."""
    if second.text is None:
        return Finding(name="prefix", state="none", text=f"could not be tried: {second.why}")
    cached, total = second.usage.cached_tokens, second.usage.prompt_tokens or 0
    if cached is None:
        return Finding(name="prefix", state="none", text="the endpoint does not say what its prefix cache served")
    if cached > 0:
        text = f"{cached:,} of {total:,} input tokens came from the cache the second time"
        return Finding(name="prefix", state="ok", text=text)
    cure = "vLLM has --enable-prefix-caching; a hosted endpoint may only cache longer or more frequent prefixes"
    text = f"0 of {total:,} input tokens came from a cache the second time"
    return Finding(name="prefix", state="warn", text=text, cure=cure)


def context_finding(row: Mapping[str, Any], own: int) -> Finding:
    """Compare the context length that the list of models names with the profile's."""
    told = next((row[name] for name in CONTEXT_FIELDS if type(row.get(name)) is int and row[name] > 0), None)
    if told is None:
        known = f"; the profile says {own:,} tokens" if own else ""
        return Finding(name="context", state="none", text=f"the endpoint does not say{known}")
    if own > told:
        cure = f"context_tokens = {told} in judges.toml"
        text = f"{told:,} tokens, fewer than the {own:,} of the profile"
        return Finding(name="context", state="warn", text=text, cure=cure)
    return Finding(name="context", state="ok", text=f"{told:,} tokens")


def clock_finding(answer: Answer, server_time: float | None) -> Finding:
    """Compare the clocks: the reply's Date against the middle of the call, both in seconds since the epoch."""
    if server_time is None:
        return Finding(name="clock", state="none", text="the replies carry no date")
    skew = server_time - (answer.asked_at + answer.seconds / 2)
    text = f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} ours"
    if abs(skew) <= SKEW_S:
        return Finding(name="clock", state="ok", text="within a few seconds of ours" if abs(skew) < 3 else text)
    cure = "set the clock (NTP); waits that the endpoint asks for are measured by its own"
    return Finding(name="clock", state="warn", text=f"the endpoint's is {text}", cure=cure)


def _json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
