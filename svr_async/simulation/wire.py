"""Requests of all shapes, in our layout and the paper's, and the JSON of replies."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from svr_async.errors import SvrError
from svr_async.simulation.world import draw_bytes

Texts = tuple[tuple[str, str], ...]  # by local id or name

CREATED = 1_750_000_000  # a fixed moment: replies do not depend on the clock
CHARS_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 4
MASS = 0.98  # of a token's probability, what Yes and No have together
NEVER = -9999.0  # the log-probability of what cannot be, as endpoints write it
VOLATILE = ("user", "metadata", "store", "service_tier", "stream_options", "prompt_cache_key", "safety_identifier")

OPEN = re.compile(r"<<svr:([0-9a-f]{16}):[A-Z_]+>>\n")
RUBRICS = re.compile(r"^Rubrics:[ \t]*\n+((?:R\d+:.*(?:\n|\Z))*)", re.MULTILINE)
RUBRIC = re.compile(r"^(R\d+): ?(.*)$", re.MULTILINE)
PAPER = Path(__file__).parents[1] / "judges" / "prompts" / "paper"
PLACE = re.compile(r"\{(prompt|response_a|response_b|chosen|rejected|rubrics|note)\}")
ROLES = {  # methods of `simulator.Case`, by a text of the instructions
    "rubric_comparisons": "compare",
    "rubric_scores": "score",
    "contrastive_rubrics": "induce",
    "rubric_note": "write",
    "rephrased_rubrics": "rephrase",
    '"same_as"': "same_criterion",
    "proposed_rubrics": "propose",
    "finer_rubrics": "decompose",
    "[[YES": "satisfy",
    "[[OVERLAP": "overlap",
    "[[10]]": "grade",
    "[Hard Rule]": "number",
    "[[A]]": "direct",
}


class ApiError(SvrError):
    """An error reply in OpenAI's form, which all our wires read."""

    def __init__(self, status: int, message: str, code: str | None = None, *, retry_after: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = {"Retry-After": retry_after} if retry_after else {}
        kind = "insufficient_quota" if code == "insufficient_quota" else "invalid_request_error"
        if status >= 500:
            kind = "server_error"
        self.payload = {"error": {"message": message, "type": kind, "param": None, "code": code}}

    def response(self) -> web.Response:
        """Return it as a reply over HTTP."""
        return web.json_response(self.payload, status=self.status, headers=self.headers)


class Shape(StrEnum):
    """The shape of a request and its reply: a chat, statements to answer with probabilities, a response to score."""

    CHAT = "chat/completions"
    DECISIONS = "decisions"
    REWARD = "classify"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A request as the simulation understands it.

    `fences` maps PROMPT, RESPONSE_A … to the text inside; `rubrics` are (local id, text). `topic` stands for the texts
    and the role, whatever is asked again. `statements` are (name, text), each to be answered with a probability.
    `overall`: the reply has to name the preferred candidate too.
    """

    model: str
    role: str
    key: str
    topic: bytes
    overall: bool
    fences: Mapping[str, str]
    rubrics: Texts
    prompt_tokens: int
    max_tokens: int | None
    shape: Shape
    statements: Texts


def parse_request(body: Any, shape: Shape = Shape.CHAT) -> ChatRequest:
    """Read the JSON of a request; `ApiError` (400) names the problem."""
    try:
        if body.get("stream"):
            raise ApiError(400, "the simulated endpoint does not stream")
        turns = body["input"] if shape is Shape.DECISIONS else body["messages"]
        messages = [(turn["role"], _content(turn["content"])) for turn in turns]
        statements = tuple((one["name"], one["instructions"]) for one in body.get("questions", ()))
        model = body["model"] if shape is not Shape.REWARD else body.get("model", "")
    except (KeyError, TypeError, AttributeError) as error:
        raise ApiError(400, f"the body is not a request of /{shape}: {error}") from error
    if not messages or not isinstance(model, str):
        raise ApiError(400, "the body has to name a model and hold messages")
    texts = [text for _, text in (*messages, *statements)]
    asks, rubrics, stated = "", Texts(), ""
    if shape is Shape.REWARD:
        said = texts[0] if len(messages) == 2 else "\n\n".join(f"{role}: {text}" for role, text in messages[:-1])
        fences, role = {"PROMPT": said, "RESPONSE": texts[-1]}, "reward"
    else:
        asks, rubrics, fences, stated = _read_messages(messages)
        if stated and body.get("logprobs"):
            statements = (("q1", stated),)
        role = "state" if statements else _role(asks, fences)
    return ChatRequest(
        model=model,
        role=role,
        key=request_key(body),
        topic=draw_bytes(model, role, *[part for pair in sorted(fences.items()) for part in pair]),
        overall="preferred_candidate" in asks,
        fences=fences,
        rubrics=rubrics,
        prompt_tokens=sum(len(text) // CHARS_PER_TOKEN + TOKENS_PER_MESSAGE for text in texts),
        max_tokens=body.get("max_completion_tokens") or body.get("max_tokens"),
        shape=shape,
        statements=statements,
    )


def request_key(body: Mapping[str, Any]) -> str:
    """Return the identity of a request: BLAKE2b of its canonical JSON without the fields that change no answer."""
    plain = {name: value for name, value in body.items() if name not in VOLATILE}
    return hashlib.blake2b(orjson.dumps(plain, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()


def _content(value: Any) -> str:
    """Return the text of a message: a string, nothing, or a list of parts."""
    if isinstance(value, list):
        return "".join(part.get("text", "") for part in value)
    if value is None or isinstance(value, str):
        return value or ""
    raise TypeError(f"the content of a message is {type(value).__name__}")


def _read_messages(messages: list[tuple[str, str]]) -> tuple[str, Texts, dict[str, str], str]:
    """Return the instructions, the rubrics, the texts by name, and the statement of a chat about its truth."""
    system = "\n".join(text for role, text in messages if role in ("system", "developer"))
    user = next((text for role, text in messages if role == "user"), "")
    fences, outside, tail = _read_fences(user)
    for asks, pattern in _paper_layouts() if not fences else ():
        if found := pattern.fullmatch(user):
            fences = {name.upper(): text for name, text in found.groupdict().items()}
            rubrics, _ = _take_rubrics(f"Rubrics:\n{fences.pop('RUBRICS', '')}")
            return f"{system}\n{asks}", rubrics, fences, ""
    rubrics, tail = _take_rubrics(tail)
    statement, asked, _ = tail.strip().rpartition("\n\n")[2].partition("\nIs this statement true?")
    return f"{system}\n{outside}\n{tail}", rubrics, fences or {"PROMPT": user}, statement.strip() if asked else ""


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
    """Return the fenced texts, the text before and between them, and the text after the last.

    The first fence sets the tag; a fence with another tag is ordinary text.
    """
    first = OPEN.search(text)
    if first is None:
        return {}, "", text
    pattern = rf"<<svr:{first[1]}:([A-Z_]+)>>\n(?:(.*?)\n)?<<svr:{first[1]}:END>>"
    *pieces, tail = re.split(pattern, text, flags=re.DOTALL)
    named = list(zip(pieces[1::3], pieces[2::3], strict=True))
    fences = {name: inside or "" for name, inside in reversed(named)}  # of two with one name the first counts
    return fences, "\n".join(pieces[::3]), tail


def _take_rubrics(tail: str) -> tuple[Texts, str]:
    """Take the rubric lines that follow "Rubrics:" out of a text; return them and the rest."""
    found = RUBRICS.search(tail)
    if found is None:
        return (), tail
    rubrics = tuple((name, text.strip()) for name, text in RUBRIC.findall(found[1]))
    return rubrics, f"{tail[: found.start()]}\n{tail[found.end() :]}"


def _role(asks: str, fences: Mapping[str, str]) -> str:
    named = next((role for text, role in ROLES.items() if text in asks), None)
    return named or ("probe" if "CHOSEN" in fences else "respond")


# --- replies ----------------------------------------------------------------------------------------------------------


def completion(request: ChatRequest, text: str, fingerprint: str, attempt: int, fault: str) -> dict[str, Any]:
    """Return a chat completion, cut at the requested number of tokens, or the fault `truncated` or `refused`."""
    room = len(text) // 2 if fault == "truncated" else (request.max_tokens or len(text)) * CHARS_PER_TOKEN
    finish = "length" if len(text) > room else "stop"
    text = text[:room]
    written = -(-len(text) // CHARS_PER_TOKEN)
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
    if fault == "refused":
        message, finish = message | {"content": None, "refusal": "I cannot help with that."}, "content_filter"
    return {
        "id": f"chatcmpl-{draw_bytes(request.key, attempt).hex()[:24]}",
        "object": "chat.completion",
        "created": CREATED,
        "model": request.model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": request.prompt_tokens,
            "completion_tokens": written,
            "total_tokens": request.prompt_tokens + written,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
        "system_fingerprint": fingerprint,
    }


def numbers_reply(
    request: ChatRequest, chances: Mapping[str, float], score: float | None, fingerprint: str, attempt: int
) -> dict[str, Any]:
    """Return a probability for each statement, or one score; neither for an empty reply."""
    answers = [{"type": "predicate", "name": name, "probability": chance} for name, chance in chances.items()]
    return {
        "id": f"sim-{draw_bytes(request.key, attempt).hex()[:24]}",
        "model": request.model,
        "system_fingerprint": fingerprint,
        "answers": answers,
        "data": [] if score is None else [{"index": 0, "probs": [score]}],
        "usage": {"prompt_tokens": request.prompt_tokens, "input_tokens": request.prompt_tokens, "output_tokens": 0},
    }


def token_logprobs(chance: float) -> dict[str, Any]:
    """Return the `logprobs` of a choice whose one token answers a statement."""
    shares = {"Yes": MASS * chance, "No": MASS * (1 - chance), "Perhaps": 1 - MASS}
    ranked = sorted(shares.items(), key=lambda one: -one[1])
    tops = [{"token": token, "logprob": math.log(share) if share else NEVER} for token, share in ranked]
    return {"content": [{**tops[0], "top_logprobs": tops}], "refusal": None}
