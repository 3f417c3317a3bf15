"""Replies: the stored form of a model's answer, and helpers that all wires read it with."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
import orjson

MAX_CREDIBLE_TOKENS = 100_000_000
OPENING = re.compile(r"\s*<(think|thinking|thought|reasoning)>")
THOUGHTS_END = "</think>"
LONE_END = re.compile(rf"{THOUGHTS_END}[ \t]*$", re.MULTILINE)
WHOLE = frozenset({"stop", "STOP", "end_turn", "stop_sequence", "eos", "eos_token", "complete", "COMPLETE", ""})
TRUNCATED = frozenset({"length", "max_tokens", "MAX_TOKENS", "max_output_tokens", "model_length"})
REFUSED = frozenset({
    "content_filter", "refusal", "safety", "SAFETY", "RECITATION", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII",
    "guardrail_intervened", "sensitive",
})  # fmt: skip
"""Finish reasons of the endpoints that we know. Any other (error, abort …) is an incomplete answer."""


Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_CREDIBLE_TOKENS)]
Dollars = Annotated[float, msgspec.Meta(ge=0)]


class BadBodyError(ValueError):
    """The body is not a complete answer: truncated, not JSON, or without the fields that the wire reads."""


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens of one reply, None if not reported. `batch`: bought in a batch file. `cost_usd`: the endpoint's own count.

    Gateways report the cost: OpenRouter as `usage.cost`, LiteLLM in the header `x-litellm-response-cost`.
    """

    prompt_tokens: Count | None = None
    cached_tokens: Count | None = None
    completion_tokens: Count | None = None
    batch: bool = False
    cost_usd: Dollars | None = None


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One complete answer of a model, as stored in the cache. `reasoning` is set if it came separately."""

    text: str
    finish_reason: str = "stop"
    usage: Usage = Usage()
    model: str = ""
    fingerprint: str = ""
    id: str = ""
    tries: Count = 1
    reasoning: str = ""

    @property
    def answer(self) -> str:
        """The text without the thoughts before the answer."""
        return without_thoughts(self.text)

    @property
    def whole(self) -> bool:
        """Whether the model ended the answer itself, according to the endpoint."""
        return self.finish_reason in WHOLE

    @property
    def truncated(self) -> bool:
        """Whether the answer ran into the token limit."""
        return self.finish_reason in TRUNCATED

    @property
    def refused(self) -> bool:
        """Whether a content filter or the model's refusal field ended the answer."""
        return self.finish_reason in REFUSED


def json_of(body: bytes, status: int = HTTPStatus.OK) -> Any:
    """Return the JSON of a reply; BadBodyError if the status is not 2xx or the body is not JSON.

    Complete JSON is the only proof of a complete body: a connection that closes early can look like success.
    """
    if not 200 <= status < HTTPStatus.MULTIPLE_CHOICES:
        raise BadBodyError(preview(body) or "an empty body")
    try:
        value = json_value(body)
    except ValueError:
        raise BadBodyError(f"the body of {len(body)} bytes is not JSON: {preview(body)}") from None
    if isinstance(value, dict) and value.get("error"):
        raise BadBodyError("the reply is an error")
    return value


def preview(body: bytes, limit: int = 120) -> str:
    """Return the start of a body as one printable line."""
    text = body[: 4 * limit].decode("utf-8", "replace")
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line[:limit] + ("…" if len(line) > limit else "")


def without_thoughts(text: str) -> str:
    """Return a reply without leading thoughts: `<think>…</think>`, or everything up to a lone `</think>` line.

    Some chat templates put the opening tag into the prompt, so the reply has only the closing tag. A tag within a line
    is a quotation. Unfinished thoughts leave an empty answer.
    """
    if THOUGHTS_END not in text and not OPENING.match(text):
        return text
    opened = OPENING.match(text)
    if opened is None:
        found = LONE_END.search(text)
        return text if found is None or text.lstrip().startswith("{") else text[found.end() :].lstrip()
    _, ended, rest = text[opened.end() :].partition(f"</{opened[1]}>")
    return rest.lstrip() if ended else ""


def identity(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a reply that name the model, the serving configuration and the reply itself."""
    model, fingerprint, identifier = value.get("model"), value.get("system_fingerprint"), value.get("id")
    return {"model": str(model or ""), "fingerprint": str(fingerprint or ""), "id": str(identifier or "")}


def token_count(value: Any) -> int | None:
    """Return a number of tokens, or None if the value is not a credible count."""
    return value if type(value) is int and 0 <= value <= MAX_CREDIBLE_TOKENS else None


def dollars(value: Any) -> float | None:
    """Return a reported cost in US dollars, or None if the value is not a finite number >= 0."""
    try:
        cost = float(value)
    except (TypeError, ValueError):
        return None
    return cost if math.isfinite(cost) and cost >= 0 and not isinstance(value, bool) else None


def json_value(data: bytes) -> Any:
    """Parse JSON as endpoints send it; ValueError if it is not JSON.

    The strict parser comes first. The lenient one accepts what has been paid for and is readable: half a surrogate
    pair, NaN, a byte-order mark, raw control characters, broken UTF-8.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return _clean(json.loads(data.decode("utf-8-sig", "replace"), strict=False, parse_int=_whole))
    except RecursionError:
        raise ValueError("JSON that is nested too deep") from None


def _whole(digits: str) -> int | float:
    """Return an integer, or a float beyond 64 bits, as the strict parser does."""
    return int(digits) if len(digits) < 19 else float(digits)


def clean_text(text: str) -> str:
    """Return a text that can be encoded as UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_clean(element) for element in value]
    if isinstance(value, dict):
        return {clean_text(name): _clean(element) for name, element in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
