"""The role `same_criterion`: which new criteria repeat a known one, or an earlier new one, in other words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from svr_async.engine.request import ReplyRejectedError
from svr_async.judges.templates import Material

MOST_KNOWN, MOST_NEW = 200, 40  # criteria listed in one request
TOKENS_PER_LABEL = 8  # of a reply: two labels, quotes, a colon


@dataclass(frozen=True, slots=True)
class CriteriaQuestion:
    """Texts of known and of new criteria; a request labels them K1, K2 … and N1, N2 and so on."""

    known: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def material(self) -> Material:
        """What the author is shown: a line for each criterion."""
        lists = {"KNOWN": ("K", self.known), "NEW": ("N", self.new)}
        return Material({name: _lines(letter, texts) for name, (letter, texts) in lists.items()})

    @property
    def expected_tokens(self) -> int:
        """The likely size of a reply."""
        return TOKENS_PER_LABEL * (2 + len(self.new))

    def read(self, reply: str) -> Mapping[str, str | None]:
        """Return the label that each new label repeats, or None; unreadable entries are left out.

        ReplyRejectedError if the reply holds no object `same_as` at all.
        """
        held = _last_object(reply)
        if held is None:
            raise ReplyRejectedError('Your answer held no JSON object with a "same_as" object.')
        new = [f"N{number}" for number in range(1, len(self.new) + 1)]
        labels = {*new, *(f"K{number}" for number in range(1, len(self.known) + 1)), None}
        return {name: held[name] for name in new if name in held and _label(held[name]) in labels - {name}}


def _lines(letter: str, texts: tuple[str, ...]) -> str:
    return "\n".join(f"{letter}{number}: {' '.join(text.split())}" for number, text in enumerate(texts, 1))


def _label(value: object) -> object:
    return value if isinstance(value, str | None) else ""


def _last_object(reply: str) -> dict[str, str | None] | None:
    """Return the last object under the key `same_as` of any JSON in a reply."""
    decoder, place, found = json.JSONDecoder(), 0, None
    while (start := reply.find("{", place)) >= 0:
        try:
            value, place = decoder.raw_decode(reply, start)
        except ValueError:
            place = start + 1
            continue
        held = value.get("same_as") if isinstance(value, dict) else None
        found = held if isinstance(held, dict) else found
    return found
