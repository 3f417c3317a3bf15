"""Statements for a decision judge: typed input in, a request with its reading function out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import orjson

from svr_async.core.rubric import Rubric, positive
from svr_async.core.verdict import is_number
from svr_async.engine.request import Question, ReplyRejectedError, Request
from svr_async.engine.wires import QUESTION
from svr_async.engine.wires.decisions import name_of
from svr_async.errors import ConfigError
from svr_async.judges.profiles import Profile
from svr_async.judges.templates import Templates

FORMS = ("a", "b", "better", "alone", "direct", "ask")
PLACE = "{rubric}"

Chance = float | None
"""P(the statement is true); None where the judge refused to say."""


@dataclass(frozen=True, slots=True)
class Stated:
    """A statement, and whether it is the opposite of what is to be known."""

    text: str
    turned: bool = False

    def of(self, chance: Chance) -> Chance:
        """Return the probability of what is to be known."""
        return 1 - chance if self.turned and chance is not None else chance


@dataclass(frozen=True, slots=True)
class StatementWriter:
    """Writes requests in the words of the template `decide` for the endpoint of `profile`, which has a wire for them.

    `forms` are the sentences of the template by name, as they are shown.
    """

    profile: Profile
    instructions: str
    forms: Mapping[str, str]

    @classmethod
    def of(cls, profile: Profile, templates: Templates) -> Self:
        """Read the template; ConfigError for one that lacks a sentence, or the place of the rubric in it."""
        template = templates["decide"]
        lines = (line.partition(": ") for line in template.closing.splitlines() if line.strip())
        forms = {name.strip(): text.strip() for name, _, text in lines}
        for name in FORMS:
            if not forms.get(name) or (PLACE in forms[name]) is not (name in FORMS[:4]):
                needed = f"with {PLACE} in it" if name in FORMS[:4] else f"without {PLACE}"
                raise ConfigError(f"the prompt decide needs a line '{name}: …' {needed}", hint="see the shipped one")
        return cls(profile, template.instructions, forms)

    @property
    def most(self) -> int:
        """How many statements a request may hold."""
        return self.profile.spoken.questions

    def about(self, form: str, rubric: Rubric) -> Stated:
        """State that a rubric is satisfied; one that denies something is put in the positive, and turned round."""
        plain = positive(" ".join(rubric.text.split()))
        return Stated(self.forms[form].replace(PLACE, plain.text), plain.turned)

    def direct(self) -> Stated:
        """State that response A is the better one."""
        return Stated(self.forms["direct"])

    def question(self, material: str, statements: Sequence[Stated]) -> Question[Mapping[int, Chance]]:
        """Ask for the probabilities of statements about what is shown, by their number."""
        ask = f"\n{self.forms['ask']}" if self.most == 1 else ""
        request = Request(
            endpoint=self.profile.endpoint,
            model=self.profile.model,
            messages=self.profile.placed(
                (
                    ("system", self.instructions),
                    ("user", material),
                    *((QUESTION, f"{stated.text}{ask}") for stated in statements),
                )
            ),
            max_tokens=1,
            max_tokens_field=self.profile.max_tokens_field,
            params=self.profile.params(structured=False),
            wire=self.profile.spoken,
        )
        return Question(
            request=request,
            parse=partial(read_chances, count=len(statements)),
            placeholder=lambda: dict.fromkeys(range(len(statements)), 0.9),
            expected_tokens=1 if self.most == 1 else 0,
        )


def read_chances(text: str, count: int) -> dict[int, Chance]:
    """Return the probabilities in a reply by the statement's number; ReplyRejectedError where there are none.

    A statement that the reply leaves out is absent; one that was refused is None.
    """
    try:
        found: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        found = None
    held = found if isinstance(found, dict) else {}
    numbered = ((number, name_of(number)) for number in range(count))
    chances = {number: held[name] for number, name in numbered if name in held and _is_chance(held[name])}
    if not chances:
        raise ReplyRejectedError(
            "The reply tells no probability: a chat's first token is neither Yes nor No, as where it reasons first."
        )
    return chances


def _is_chance(value: Any) -> bool:
    return value is None or (is_number(value) and 0 <= value <= 1)
