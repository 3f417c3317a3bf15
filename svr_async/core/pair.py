"""Preference pairs, and a pair as a judge sees it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

NO_DOMAIN = "(none)"
ROLES = ("system", "user", "assistant", "tool", "developer")


class Side(StrEnum):
    """One of two responses, as the judge sees them or as the data set lists them."""

    A = "A"
    B = "B"

    def other(self) -> Side:
        """Return the opposite side."""
        return Side.B if self is Side.A else Side.A


class Order(StrEnum):
    """`ab`: the data set's order was shown; `ba`: the two were swapped."""

    AB = "ab"
    BA = "ba"


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: str
    content: str


Prompt = tuple[Message, ...]
"""What the user asked: a conversation that ends with the turn to be answered."""
HumanRubrics = Sequence[tuple[str, float | None]]
"""Rubrics that come with a pair, each with its points where the data have points."""


def user_prompt(text: str) -> Prompt:
    """Return a conversation of one user turn."""
    return (Message("user", text),)


def parse_prompt(value: Any) -> Prompt:
    """Return a `Prompt` from a string or a list of `{role, content}`; ValueError explains an invalid value."""
    if isinstance(value, str):
        return user_prompt(value)
    if not isinstance(value, Sequence) or not value:
        raise ValueError(f"a prompt is a text or a list of messages, not {type(value).__name__}")
    return tuple(_parse_message(turn) for turn in value)


def _parse_message(turn: Any) -> Message:
    if not isinstance(turn, Mapping):
        raise ValueError(f"a message is an object with role and content, not {type(turn).__name__}")
    role, content = turn.get("role", turn.get("from")), turn.get("content", turn.get("value"))
    role = {"human": "user", "gpt": "assistant", "model": "assistant", "bot": "assistant"}.get(str(role), role)
    content = _joined_parts(content)
    if role not in ROLES:
        raise ValueError(f"unknown role {role!r}; expected one of {', '.join(ROLES)}")
    if not isinstance(content, str):
        raise ValueError(f"the content of a {role} message is {type(content).__name__}, not text")
    return Message(str(role), content)


def _joined_parts(content: Any) -> Any:
    """Return the text of content in OpenAI's parts, [{type: text, text: …}]; anything else as it is, also images."""
    if not isinstance(content, Sequence) or isinstance(content, str) or not content:
        return content
    parts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
    texts = [part for part in parts if isinstance(part, str)]
    return "\n".join(texts) if len(texts) == len(parts) else content


def prompt_text(prompt: Prompt) -> str:
    """Return the prompt as one text: a lone user turn as it is, a conversation as "role: content" paragraphs."""
    if len(prompt) == 1 and prompt[0].role == "user":
        return prompt[0].content
    return "\n\n".join(f"{turn.role}: {turn.content}" for turn in prompt)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferencePair:
    """A prompt with a preferred and another response: the triple (x, r⁺, r⁻) of the paper (`sec:setup`).

    `chosen_first` says which of the two the data set lists first (its response A).
    `has_preference` is False for pairs that are judged but have no right answer (RewardBench 2 Ties).
    `item` groups the pairs of one benchmark item; `slot` places this pair inside it.
    `source` names where the data have the pair from; empty where they do not say. `points` are those of `rubrics`,
    negative for what a response should not do; empty if the data have no points.
    """

    id: str
    prompt: Prompt
    chosen: str
    rejected: str
    domain: str = NO_DOMAIN
    subset: str = ""
    chosen_first: bool = True
    has_preference: bool = True
    strength: int | None = None
    rubrics: tuple[str, ...] = ()
    item: str = ""
    slot: tuple[int, ...] = ()
    source: str = ""
    points: tuple[float, ...] = ()

    @property
    def human_rubrics(self) -> HumanRubrics:
        """The rubrics with their points."""
        return tuple(zip(self.rubrics, self.points or (None,) * len(self.rubrics), strict=True))

    @property
    def response_a(self) -> str:
        """The response that the data set lists first."""
        return self.chosen if self.chosen_first else self.rejected

    @property
    def response_b(self) -> str:
        """The response that the data set lists second."""
        return self.rejected if self.chosen_first else self.chosen

    @property
    def gold(self) -> Side | None:
        """The preferred side in the data set's order; None where the pair has no right answer."""
        if not self.has_preference:
            return None
        return Side.A if self.chosen_first else Side.B


@dataclass(frozen=True, slots=True, kw_only=True)
class Presentation:
    """A pair as a judge sees it: no label, in the order shown."""

    pair_id: str
    prompt: Prompt
    response_a: str
    response_b: str
    order: Order = Order.AB


def present(pair: PreferencePair, order: Order) -> Presentation:
    """Show a pair in the data set's order (`ab`) or swapped (`ba`)."""
    a, b = pair.response_a, pair.response_b
    if order is Order.BA:
        a, b = b, a
    return Presentation(pair_id=pair.id, prompt=pair.prompt, response_a=a, response_b=b, order=order)


def hashed_order(pair_id: str, salt: str = "svr") -> Order:
    """Return the order that a bit of SHA-256(salt ‖ pair id) picks: balanced, and free of seeds and threads."""
    digest = hashlib.sha256(f"{salt}\x1f{pair_id}".encode()).digest()
    return Order.BA if digest[0] & 1 else Order.AB


def hashed_fraction(*parts: str) -> float:
    """Return a number in [0, 1) that depends on the parts alone."""
    digest = hashlib.sha256("\x1f".join(parts).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def split_by_prompt(
    pairs: Sequence[PreferencePair], share: float, *, salt: str
) -> tuple[list[PreferencePair], list[PreferencePair]]:
    """Return (the rest, the share): about `share` of the prompts, with all their pairs, in the second list.

    With two prompts or more and a share above 0, each list gets at least one prompt.
    """
    drawn = {text: hashed_fraction("split", salt, text) for text in {prompt_text(pair.prompt) for pair in pairs}}
    if share > 0 and len(drawn) > 1:
        lowest, *_, highest = sorted(drawn.values())
        share = min(max(share, lowest + 1e-15), highest)
    parts: tuple[list[PreferencePair], list[PreferencePair]] = ([], [])
    for pair in pairs:
        parts[drawn[prompt_text(pair.prompt)] < share].append(pair)
    return parts
