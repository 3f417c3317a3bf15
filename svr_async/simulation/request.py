"""Reading requests of all shapes, in our layout and the paper's: texts, rubrics, and the role that is asked for."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from svr_async.errors import SvrError
from svr_async.simulation.world import draw_bytes

Rubrics = tuple[tuple[str, str], ...]

OPEN = re.compile(r"<<svr:([0-9a-f]{16}):([A-Z_]+)>>\n")
RUBRICS_HEAD = re.compile(r"^Rubrics:[ \t]*$", re.MULTILINE)
RUBRIC_LINE = re.compile(r"(R\d+): ?(.*)")
VOLATILE = ("user", "metadata", "store", "service_tier", "stream_options", "prompt_cache_key", "safety_identifier")
CHARS_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 4

PAPER = Path(__file__).parents[1] / "judges" / "prompts" / "paper"
PLACE = re.compile(r"\{(prompt|response_a|response_b|chosen|rejected|rubrics|note)\}")

ROLES = (  # by a word of the instructions
    ("rubric_comparisons", "compare"),
    ("rubric_scores", "score"),
    ("contrastive_rubrics", "induce"),
    ("rubric_note", "write"),
    ("rephrased_rubrics", "rephrase"),
    ('"same_as"', "same criterion"),
    ("proposed_rubrics", "propose"),
    ("finer_rubrics", "decompose"),
    ("[[YES", "satisfy"),
    ("[[OVERLAP", "filter"),
    ("[[10]]", "grade"),
    ("[Hard Rule]", "list"),
    ("[[A]]", "direct"),
)


class ApiError(SvrError):
    """An error reply in OpenAI's form, which all our wires read: status, message, code, type, parameter, headers."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = dict(headers or {})
        self.payload = {"error": {"message": message, "type": kind, "param": param, "code": code}}


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
    rubrics: Rubrics
    prompt_tokens: int
    max_tokens: int | None
    shape: Shape
    statements: Rubrics


def parse_request(body: Any, shape: Shape = Shape.CHAT) -> ChatRequest:
    """Read the JSON of a request; `ApiError` (400) says what is wrong with it."""
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
    if shape is Shape.REWARD:
        rubrics: Rubrics = ()
        asks, fences, stated = "", {"PROMPT": _conversation(messages[:-1]), "RESPONSE": texts[-1]}, ""
    else:
        asks, rubrics, fences, stated = _read_messages(messages)
    if stated and body.get("logprobs"):
        statements = (("q1", stated),)
    role = "reward" if shape is Shape.REWARD else "state" if statements else _role(asks, fences)
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


def _conversation(messages: list[tuple[str, str]]) -> str:
    lone = len(messages) == 1 and messages[0][0] == "user"
    return messages[0][1] if lone else "\n\n".join(f"{role}: {text}" for role, text in messages)


def _content(value: Any) -> str:
    """Return the text of a message: a string, nothing, or a list of parts."""
    if isinstance(value, list):
        return "".join(part.get("text", "") for part in value)
    if value is None or isinstance(value, str):
        return value or ""
    raise TypeError(f"the content of a message is {type(value).__name__}")


def _read_messages(messages: list[tuple[str, str]]) -> tuple[str, Rubrics, dict[str, str], str]:
    """Return the instructions, the rubrics, the texts by name, and the statement of a chat about its truth."""
    system = "\n".join(text for role, text in messages if role in ("system", "developer"))
    user = next((text for role, text in messages if role == "user"), "")
    fences, outside, tail = _fences(user)
    for asks, pattern in _paper_layouts() if not fences else ():
        if found := pattern.fullmatch(user):
            fences = {name.upper(): text for name, text in found.groupdict().items()}
            rubrics, _ = _rubrics(f"Rubrics:\n{fences.pop('RUBRICS', '')}")
            return f"{system}\n{asks}", rubrics, fences, ""
    rubrics, tail = _rubrics(tail)
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


def _fences(text: str) -> tuple[dict[str, str], str, str]:
    """Return the fenced texts, the text before and between them, and the text after the last.

    The first fence sets the tag; a fence with another tag is ordinary text.
    """
    tag, position = "", 0
    fences: dict[str, str] = {}
    outside: list[str] = []
    while found := OPEN.search(text, position):
        if tag and found[1] != tag:
            outside.append(text[position : found.end()])
            position = found.end()
            continue
        closing = f"\n<<svr:{found[1]}:END>>"
        end = text.find(closing, found.end() - 1)
        if end < 0:
            break
        tag = found[1]
        outside.append(text[position : found.start()])
        fences.setdefault(found[2], text[found.end() : end])
        position = end + len(closing)
    return fences, "\n".join(outside), text[position:]


def _rubrics(tail: str) -> tuple[Rubrics, str]:
    """Take the rubric lines that follow "Rubrics:" out of a text; return them and what is left."""
    head = RUBRICS_HEAD.search(tail)
    if head is None:
        return (), tail
    lines = tail[head.end() :].lstrip("\n").split("\n")
    matches = [RUBRIC_LINE.fullmatch(line) for line in lines]
    count = matches.index(None) if None in matches else len(matches)
    found = tuple((match[1], match[2].strip()) for match in matches[:count] if match)
    return found, "\n".join([tail[: head.start()], *lines[count:]])


def _role(asks: str, fences: Mapping[str, str]) -> str:
    named = next((role for word, role in ROLES if word in asks), None)
    return named or ("probe" if "CHOSEN" in fences else "respond")
