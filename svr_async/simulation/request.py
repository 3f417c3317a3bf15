"""Reading requests of all shapes, in our layout and the paper's: texts, rubrics, and the role that is asked for."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from svr_async.errors import SvrError
from svr_async.simulation.world import draw_bytes

Rubrics = tuple[tuple[str, str], ...]
Marks = tuple[tuple[str, str], ...]

OPEN = re.compile(r"<<svr:([0-9a-f]{16}):([A-Z_]+)>>\n")
RUBRICS_HEAD = re.compile(r"^Rubrics:[ \t]*$", re.MULTILINE)
RUBRIC_LINE = re.compile(r"(R\d+): ?(.*)")
VOLATILE = ("user", "metadata", "store", "service_tier", "stream_options", "prompt_cache_key", "safety_identifier")
CHARS_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 4

CLOSING = "\n\nOutput: "
_PROMPT, _RUBRICS = ("\nPrompt: ", "PROMPT"), ("\nRubrics:\n", "RUBRICS")
_PAIR: Marks = (("\nCandidate A: ", "RESPONSE_A"), ("\nCandidate B: ", "RESPONSE_B"))
_BRACKETS: Marks = (
    ("\n[Instruction]\n", "PROMPT"),
    ("\n\n[The Start of Candidate Response A]\n", "RESPONSE_A"),
    ("\n[The End of Candidate Response A]\n", ""),
    ("\n[The Start of Candidate Response B]\n", "RESPONSE_B"),
    ("\n[The End of Candidate Response B]", ""),
)
_PAPER: Mapping[str, Marks] = {  # the paper's layouts, by a word of what closes the request
    "preferred_candidate": (_PROMPT, _RUBRICS, ("\nRubric note: ", ""), *_PAIR),
    "rubric_comparisons": (_PROMPT, *_PAIR, _RUBRICS),
    "contrastive_rubrics": (
        _PROMPT,
        ("\nResponse A (preferred): ", "CHOSEN"),
        ("\nResponse B (rejected): ", "REJECTED"),
    ),
    "rubric_note": (_PROMPT,),
    "the other response": (_PROMPT, ("\nReference response: ", "CHOSEN")),
}
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
    """The shape of a request and its reply, by the end of its address."""

    CHAT = "chat/completions"
    MESSAGES = "messages"
    DECISIONS = "decisions"
    SYSTEMONE = "systemone"
    CLASSIFY = "classify"
    POOLING = "pooling"
    SCORE = "score"


REWARDS = (Shape.CLASSIFY, Shape.POOLING, Shape.SCORE)


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
        turns, statements = _shown(body, shape)
        messages = [(turn["role"], _content(turn["content"])) for turn in turns]
        key = request_key(body)
        model = body.get("model", "") if shape in REWARDS else body["model"]
    except (KeyError, TypeError, AttributeError) as error:
        raise ApiError(400, f"the body is not a request of /{shape}: {error}") from error
    if not messages or not isinstance(model, str):
        raise ApiError(400, "the body has to name a model and hold messages")
    texts = [text for _, text in messages] + [text for _, text in statements]
    if shape in REWARDS:
        *prompt, (_, response) = messages
        lone = len(prompt) == 1 and prompt[0][0] == "user"
        shown = prompt[0][1] if lone else "\n\n".join(f"{role}: {text}" for role, text in prompt)
        role, asks, fences = "reward", "", {"PROMPT": shown, "RESPONSE": response}
        rubrics: Rubrics = ()
    else:
        asks, rubrics, fences, stated = _read_messages(messages)
        if body.get("logprobs") and stated:
            statements = (("q1", stated),)
        role = "state" if statements else _role(asks, fences)
    return ChatRequest(
        model=model,
        role=role,
        key=key,
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


def _shown(body: Any, shape: Shape) -> tuple[list[Any], Rubrics]:
    """Return the messages of a body, and the statements to be answered."""
    match shape:
        case Shape.DECISIONS:
            shown = body["input"]
            turns = [{"role": "user", "content": shown}] if isinstance(shown, str) else shown
            return turns, tuple((one["name"], one["instructions"]) for one in body["questions"])
        case Shape.SYSTEMONE:
            stated = tuple((name, one["instructions"]) for name, one in body["questions"].items())
            return [{"role": "user", "content": body["state"]}], stated
        case Shape.SCORE:
            names = (("user", "text_1"), ("assistant", "text_2"))
            return [{"role": role, "content": body[name]} for role, name in names], ()
        case Shape.MESSAGES if body.get("system"):
            return [{"role": "system", "content": body["system"]}, *body["messages"]], ()
        case _:
            return body["messages"], ()


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
    if not fences and (marked := _read_paper(user)) is not None:
        fences, asks = marked
        rubrics, _ = _rubrics(f"Rubrics:\n{fences.pop('RUBRICS', '')}")
        return f"{system}\n{asks}", rubrics, fences, ""
    rubrics, tail = _rubrics(tail)
    statement, asked, _ = tail.strip().rpartition("\n\n")[2].partition("\nIs this statement true?")
    return f"{system}\n{outside}\n{tail}", rubrics, fences or {"PROMPT": user}, statement.strip() if asked else ""


def _read_paper(text: str) -> tuple[dict[str, str], str] | None:
    """Return the texts of a request in the paper's layout, and the words around them; None for any other request."""
    head, instruction, _ = text.partition(_BRACKETS[0][0])
    if instruction and "[[A]]" in head:
        return _cut(text, _BRACKETS, "")
    body, closing, tail = text.rpartition(CLOSING)
    marks = next((marks for word, marks in _PAPER.items() if closing and word in tail), ())
    return _cut(body, marks, tail) if marks else None


def _cut(text: str, marks: Marks, tail: str) -> tuple[dict[str, str], str] | None:
    """Cut a text at its marks; None where one of them is missing."""
    parts, name = dict[str, str](), "HEAD"
    for mark, following in marks:
        parts[name], found, text = text.partition(mark)
        if not found:
            return None
        name = following
    parts[name] = text
    parts.pop("", None)
    return parts, f"{parts.pop('HEAD')}\n{tail}"


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
