"""Requests of all shapes, in our layout and the paper's, and the JSON of replies."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from svr_async.errors import SvrError
from svr_async.simulation.world import draw_bytes

Json = dict[str, Any]
Texts = Sequence[tuple[str, str]]  # by local id or name

CHARS_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 4

OPEN = re.compile(r"<<svr:([0-9a-f]{16}):[A-Z_]+>>\n")
RUBRICS = re.compile(r"^Rubrics:[ \t]*\n+((?:R\d+:.*(?:\n|\Z))*)", re.MULTILINE)
RUBRIC = re.compile(r"^(R\d+): *(.*?) *$", re.MULTILINE)
PAPER = Path(__file__).parents[1] / "judges" / "prompts" / "paper"
PLACE = re.compile(r"\{(prompt|response_a|response_b|chosen|rejected|rubrics|note)\}")


class ApiError(SvrError):
    """An error reply in OpenAI's form, which all our wires read."""

    def __init__(self, status: int, message: str, code: str | None = None, *, retry_after: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.headers = {"Retry-After": retry_after} if retry_after else {}
        kind = "server_error" if status >= 500 else "invalid_request_error"
        self.payload = {"error": {"message": message, "type": kind, "param": None, "code": code}}


class Shape(StrEnum):
    """The shape of a request and its reply: a chat, statements to answer with probabilities, a response to score."""

    CHAT = "chat/completions"
    DECISIONS = "decisions"
    REWARD = "classify"


class ChatRequest(NamedTuple):
    """A request as the simulation understands it.

    `key` identifies it; `asks` has the instructions outside the fences; `fences` maps PROMPT, RESPONSE_A … to the text
    inside; `rubrics` are (local id, text); `statements` are (name, text), each to be answered with a probability.
    """

    shape: Shape
    model: str
    key: str
    asks: str
    fences: Mapping[str, str]
    rubrics: Texts
    statements: Texts
    prompt_tokens: int
    max_tokens: int | None


def parse_request(body: Any, shape: Shape = Shape.CHAT) -> ChatRequest:
    """Read the JSON of a request; `ApiError` (400) names the problem."""
    try:
        turns = body["input" if shape is Shape.DECISIONS else "messages"]
        messages = [(turn["role"], turn["content"] or "") for turn in turns]
        statements = [(one["name"], one["instructions"]) for one in body.get("questions", ())]
        if body.get("stream") or not messages or not all(isinstance(text, str) for _, text in messages):
            raise ApiError(400, "the simulated endpoint answers messages of text, and does not stream")
    except (KeyError, TypeError, AttributeError) as error:
        raise ApiError(400, f"the body is not a request of /{shape}: {error}") from error
    texts = [text for _, text in (*messages, *statements)]
    asks, rubrics, fences = _read_messages(messages)
    if shape is Shape.REWARD:
        fences = {"PROMPT": "\n\n".join(texts[:-1]), "RESPONSE": texts[-1]}
    before, asked, _ = asks.partition("\nIs this statement true?")
    if asked and body.get("logprobs"):
        statements = [("q1", before.rpartition("\n\n")[2].strip())]
    canonical = orjson.dumps(body, option=orjson.OPT_SORT_KEYS)
    return ChatRequest(
        shape=shape,
        model=str(body.get("model") or ""),
        key=hashlib.blake2b(canonical, digest_size=16).hexdigest(),
        asks=asks,
        fences=fences,
        rubrics=rubrics,
        statements=statements,
        prompt_tokens=sum(len(text) // CHARS_PER_TOKEN + TOKENS_PER_MESSAGE for text in texts),
        max_tokens=body.get("max_completion_tokens") or body.get("max_tokens"),
    )


def _read_messages(messages: Texts) -> tuple[str, Texts, dict[str, str]]:
    """Return the instructions, the rubrics and the texts by name; later turns only repeat the question."""
    system = "\n".join(text for role, text in messages if role in ("system", "developer"))
    user = next((text for role, text in messages if role == "user"), "")
    fences, outside, tail = _read_fences(user)
    for asks, pattern in _paper_layouts() if not fences else ():
        if found := pattern.fullmatch(user):
            fences = {name.upper(): text for name, text in found.groupdict().items()}
            return f"{system}\n{asks}", RUBRIC.findall(fences.get("RUBRICS", "")), fences
    listed = RUBRICS.search(tail)
    asks = f"{system}\n{outside}\n{RUBRICS.sub('', tail, count=1)}"
    return asks, RUBRIC.findall(listed[1]) if listed else (), fences or {"PROMPT": user}


@lru_cache(maxsize=1)
def _paper_layouts() -> list[tuple[str, re.Pattern[str]]]:
    """Return the shipped layouts of the paper, each with a pattern of the requests that are written in it."""
    found = []
    for path in sorted(PAPER.glob("*.txt")):
        text = path.read_text("utf-8").partition("=== user ===\n")[2].strip()
        parts = PLACE.split(text)
        parts[::2] = map(re.escape, parts[::2])
        parts[1::2] = [f"(?P<{name}>.*?)" for name in parts[1::2]]
        found.append((text, re.compile("".join(parts), re.DOTALL)))
    return found


def _read_fences(text: str) -> tuple[dict[str, str], str, str]:
    """Return the fenced texts, the text before and between them, and the text after the last."""
    first = OPEN.search(text)  # sets the tag: a fence with another one is ordinary text
    if first is None:
        return {}, "", text
    pattern = rf"<<svr:{first[1]}:([A-Z_]+)>>\n(?:(.*?)\n)?<<svr:{first[1]}:END>>"
    *pieces, tail = re.split(pattern, text, flags=re.DOTALL)
    named = list(zip(pieces[1::3], pieces[2::3], strict=True))
    fences = {name: inside or "" for name, inside in reversed(named)}  # of two with one name the first counts
    return fences, "\n".join(pieces[::3]), tail


def reply_to(request: ChatRequest, text: str, fingerprint: str, attempt: int, **answer: Any) -> Json:
    """Return a reply with what all shapes have in common: id, model, fingerprint, usage for the text."""
    read, written = request.prompt_tokens, math.ceil(len(text) / CHARS_PER_TOKEN)
    usage = {"prompt_tokens": read, "completion_tokens": written, "input_tokens": read, "output_tokens": written}
    usage["total_tokens"] = read + written
    return {
        "id": f"sim-{draw_bytes(request.key, attempt).hex()[:24]}",
        "created": 1_750_000_000,  # a fixed moment: replies do not depend on the clock
        "model": request.model,
        "system_fingerprint": fingerprint,
        "usage": usage,
        **answer,
    }


def completion(request: ChatRequest, text: str, fingerprint: str, attempt: int, chance: float | None) -> Json:
    """Return a chat completion, cut at the requested number of tokens; a chance gives log-probabilities."""
    room = (request.max_tokens or len(text)) * CHARS_PER_TOKEN
    shares = [] if chance is None else sorted({"Yes": chance, "No": 1 - chance}.items(), key=lambda one: -one[1])
    # Endpoints write the logarithm of 0 as -9999.
    tops = [{"token": word, "logprob": math.log(share) if share else -9999.0} for word, share in shares]
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text[:room]},
        "logprobs": {"content": [{**tops[0], "top_logprobs": tops}]} if tops else None,
        "finish_reason": "length" if len(text) > room else "stop",
    }
    return reply_to(request, text[:room], fingerprint, attempt, object="chat.completion", choices=[choice])
