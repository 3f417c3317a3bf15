"""Reading requests in our layout and the paper's: texts, rubrics, and the role that is asked for."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from svr_async.simulation.refusals import ApiError
from svr_async.simulation.world import draw_bytes

Marks = tuple[tuple[str, str], ...]

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
_LAYOUTS: Mapping[str, Marks] = {  # by a word of what closes the request
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


@dataclass(frozen=True, slots=True)
class Marked:
    """The texts of a request by the names that fences have, its rubrics as lines, and the words around all of it."""

    texts: Mapping[str, str]
    rubrics: str
    asks: str


def read_marked(text: str) -> Marked | None:
    """Return what a request in the paper's layout shows; None for any other."""
    head, instruction, _ = text.partition(_BRACKETS[0][0])
    if instruction and "[[A]]" in head:
        return _cut(text, _BRACKETS, "")
    body, closing, tail = text.rpartition(CLOSING)
    marks = next((marks for word, marks in _LAYOUTS.items() if closing and word in tail), ())
    return _cut(body, marks, tail) if marks else None


def _cut(text: str, marks: Marks, tail: str) -> Marked | None:
    """Cut a text at its marks; None where one of them is missing."""
    head, name, parts = "", "", dict[str, str]()
    for mark, following in marks:
        part, found, text = text.partition(mark)
        if not found:
            return None
        head, parts, name = (head, parts | {name: part}, following) if head else (part, parts, following)
    parts[name] = text
    rubrics = parts.pop("RUBRICS", "")
    return Marked({name: part for name, part in parts.items() if name}, rubrics, f"{head}\n{tail}")


OPEN = re.compile(r"<<svr:([0-9a-f]{16}):([A-Z_]+)>>\n")
RUBRICS_HEAD = re.compile(r"^Rubrics:[ \t]*$", re.MULTILINE)
RUBRIC_LINE = re.compile(r"R(\d+): ?(.*)")
VOLATILE = ("user", "metadata", "store", "service_tier", "stream_options", "prompt_cache_key", "safety_identifier")
CHARS_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 4


class Shape(StrEnum):
    """In which shape a request came, and wants its reply."""

    CHAT = "chat"
    DECISIONS = "decisions"
    SYSTEMONE = "systemone"
    MESSAGES = "messages"
    CLASSIFY = "classify"
    POOLING = "pooling"
    SCORE = "score"


class Role(StrEnum):
    """What a request asks for, told by the JSON keys that its instructions name, or by statements in it."""

    COMPARE = "compare"
    SCORE = "score"
    INDUCE = "induce"
    WRITE = "write"
    REPHRASE = "rephrase"
    SAME_CRITERION = "same_criterion"
    DIRECT = "direct"
    PROBE = "probe"
    STATE = "state"
    REWARD = "reward"
    PROPOSE = "propose"
    DECOMPOSE = "decompose"
    SATISFY = "satisfy"
    FILTER = "filter"
    LIST = "list"
    GRADE = "grade"
    RESPOND = "respond"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A chat request as the simulation understands it.

    `fences` maps PROMPT, RESPONSE_A … to the text inside; `rubrics` are (local id, text); `asks` are the instructions
    alone, without fenced text and rubrics; `topic` stands for the fenced texts and the role, whatever is asked again.
    `statements` are (name, text), each to be answered with a probability. `effort` is how much to reason.
    """

    model: str
    role: Role
    key: str
    topic: bytes
    asks: str
    fences: Mapping[str, str]
    rubrics: tuple[tuple[str, str], ...]
    contents: tuple[str, ...]
    n: int
    max_tokens: int | None
    shape: Shape = Shape.CHAT
    statements: tuple[tuple[str, str], ...] = ()
    effort: str = ""

    @property
    def wants_overall(self) -> bool:
        """Whether the reply has to name the preferred candidate besides the rows."""
        return "preferred_candidate" in self.asks

    @property
    def prompt_tokens(self) -> int:
        """The size of the request in simulated tokens: a quarter of its characters, and a few a message."""
        return sum(len(text) // CHARS_PER_TOKEN + TOKENS_PER_MESSAGE for text in self.contents)


def request_key(body: Mapping[str, Any]) -> str:
    """Return the identity of a request: BLAKE2b of its canonical JSON without the fields that change no answer."""
    plain = {name: value for name, value in body.items() if name not in VOLATILE}
    return hashlib.blake2b(orjson.dumps(plain, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()


def parse_request(body: Any) -> ChatRequest:
    """Read the JSON of a chat request; `ApiError` (400) says what is wrong with it."""
    if not isinstance(body, dict) or not isinstance(body.get("model"), str):
        raise ApiError.bad_request("the body has to be an object that names a model")
    if body.get("stream"):
        raise ApiError.bad_request("the simulated endpoint does not stream")
    messages = _messages(body)
    system = "\n".join(text for role, text in messages if role in ("system", "developer"))
    user = next((text for role, text in messages if role == "user"), "")
    fences, outside, tail = _fences(user)
    rubrics, tail = _rubrics(tail)
    asks = f"{system}\n{outside}\n{tail}"
    marked = None if fences else read_marked(user)
    if marked is not None:
        fences, asks = dict(marked.texts), f"{system}\n{marked.asks}"
        rubrics, _ = _rubrics(f"Rubrics:\n{marked.rubrics}")
    statements = _statements(tail) if body.get("logprobs") and body.get("top_logprobs") else ()
    role = Role.STATE if statements else _role(asks, fences)
    return ChatRequest(
        model=body["model"],
        role=role,
        key=request_key(body),
        topic=draw_bytes(body["model"], role, *[part for pair in sorted(fences.items()) for part in pair]),
        asks=asks,
        fences=fences or {"PROMPT": user},
        rubrics=rubrics,
        contents=tuple(text for _, text in messages),
        n=_whole(body, "n") or 1,
        max_tokens=_whole(body, "max_completion_tokens") or _whole(body, "max_tokens"),
        statements=statements,
        effort=effort_in(body),
    )


def effort_in(body: Mapping[str, Any]) -> str:
    """Return the effort that a body asks for, under any of the names that endpoints have for it; "" for none."""
    held = [body.get(name) for name in ("reasoning", "output_config")]
    told = next((one.get("effort") for one in held if isinstance(one, dict)), body.get("reasoning_effort"))
    return "" if told in (None, "none") else str(told)


def _statements(tail: str) -> tuple[tuple[str, str], ...]:
    """Return what is stated after the material, in the paragraph that asks whether it is true; nothing elsewhere."""
    paragraph = tail.strip().rpartition("\n\n")[2]
    text, mark, _ = paragraph.partition("\nIs this statement true?")
    return (("q1", text.strip()),) if mark else ()


def _messages(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    turns = body.get("messages")
    if not isinstance(turns, list) or not turns or not all(isinstance(turn, dict) for turn in turns):
        raise ApiError.bad_request("messages has to be a list of objects, at least one")
    return [(str(turn.get("role")), _content(turn.get("content"))) for turn in turns]


def _content(value: Any) -> str:
    if isinstance(value, list):
        return "".join(str(part.get("text", "")) for part in value if isinstance(part, dict))
    if value is None or isinstance(value, str):
        return value or ""
    raise ApiError.bad_request(f"the content of a message is a text or a list of parts, not {type(value).__name__}")


def _whole(body: Mapping[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ApiError.bad_request(f"{name} has to be a whole number of at least 1 (got {value!r})")
    return value


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


def _rubrics(tail: str) -> tuple[tuple[tuple[str, str], ...], str]:
    """Take the rubric lines that follow "Rubrics:" out of a text; return them and what is left."""
    head = RUBRICS_HEAD.search(tail)
    if head is None:
        return (), tail
    lines = tail[head.end() :].lstrip("\n").split("\n")
    found: list[tuple[str, str]] = []
    for line in lines:
        match = RUBRIC_LINE.fullmatch(line)
        if match is None:
            break
        found.append((f"R{match[1]}", match[2].strip()))
    return tuple(found), "\n".join([tail[: head.start()], *lines[len(found) :]])


def _role(asks: str, fences: Mapping[str, str]) -> Role:
    keys = (
        ("rubric_comparisons", Role.COMPARE),
        ("rubric_scores", Role.SCORE),
        ("contrastive_rubrics", Role.INDUCE),
        ("rubric_note", Role.WRITE),
        ("rephrased_rubrics", Role.REPHRASE),
        ('"same_as"', Role.SAME_CRITERION),
        ("proposed_rubrics", Role.PROPOSE),
        ("finer_rubrics", Role.DECOMPOSE),
        ("[[YES", Role.SATISFY),
        ("[[OVERLAP", Role.FILTER),
        ("[[10]]", Role.GRADE),
        ("[Hard Rule]", Role.LIST),
        ("[[A]]", Role.DIRECT),
    )
    named = next((role for key, role in keys if key in asks), None)
    return named or (Role.PROBE if "CHOSEN" in fences else Role.RESPOND)
