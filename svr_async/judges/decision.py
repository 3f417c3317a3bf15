"""Decision judges: endpoints that answer statements with probabilities, from which Δ is expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Self

import msgspec

from svr_async.core.integrity import Marks
from svr_async.core.pair import Presentation, Prompt, prompt_text
from svr_async.core.rubric import Rubric, positive
from svr_async.core.verdict import Chances, Outcome, RubricComparison
from svr_async.engine.request import Question, ReplyRejectedError
from svr_async.engine.wires import QUESTION
from svr_async.engine.wires.decisions import name_of
from svr_async.errors import ConfigError
from svr_async.judges.model import answered, marks_of
from svr_async.judges.profiles import Profile
from svr_async.judges.protocol import Answer, Comparisons, Judge, Preference, Reasked
from svr_async.judges.templates import Material, Templates

if TYPE_CHECKING:
    from svr_async.engine.engine import CallEngine

STATED = ("a", "b", "better")  # the statements about a rubric, in this order
RUBRIC_FORMS = (*STATED, "alone")
OTHER_FORMS = ("direct", "ask")
PLACE = "{rubric}"
MAX_REASKS = 2
FAILED_CALL = frozenset({Outcome.API_ERROR, Outcome.CONTEXT_TOO_LONG})

Chance = float | None
"""P(the statement is true); None if the judge refused to answer."""

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_Probability = Annotated[float, msgspec.Meta(ge=0, le=1)] | None


@dataclass(frozen=True, slots=True)
class Stated:
    """A statement; `turned` if it says the opposite of the rubric."""

    text: str
    turned: bool = False

    def of(self, chance: Chance) -> Chance:
        """Return the probability of the rubric."""
        return 1 - chance if self.turned and chance is not None else chance


@dataclass(frozen=True, slots=True)
class StatementWriter:
    """Writes requests with the sentences of the template `decide`, by name in `forms`."""

    profile: Profile
    instructions: str
    forms: Mapping[str, str]

    @classmethod
    def of(cls, profile: Profile, templates: Templates) -> Self:
        """Read the template; ConfigError if a sentence, or the place of its rubric, is missing."""
        template = templates["decide"]
        lines = (line.partition(": ") for line in template.closing.splitlines() if line.strip())
        forms = {name.strip(): text.strip() for name, _, text in lines}
        for name in (*RUBRIC_FORMS, *OTHER_FORMS):
            if not forms.get(name) or (PLACE in forms[name]) is not (name in RUBRIC_FORMS):
                needed = f"with {PLACE} in it" if name in RUBRIC_FORMS else f"without {PLACE}"
                raise ConfigError(f"the prompt decide needs a line '{name}: …' {needed}", hint="see the shipped one")
        return cls(profile, template.instructions, forms)

    @property
    def most(self) -> int:
        """The number of statements that a request may hold."""
        return self.profile.spoken.questions

    def about(self, form: str, rubric: Rubric) -> Stated:
        """State that a rubric is satisfied; a negated rubric is stated in the positive, and turned."""
        plain = positive(" ".join(rubric.text.split()))
        return Stated(self.forms[form].replace(PLACE, plain.text), plain.turned)

    def question(self, material: str, statements: Sequence[Stated]) -> Question[Mapping[int, Chance]]:
        """Return the question for the probabilities of statements, by their number."""
        ask = f"\n{self.forms['ask']}" if self.most == 1 else ""
        stated = [(QUESTION, f"{statement.text}{ask}") for statement in statements]
        messages = (("system", self.instructions), ("user", material), *stated)
        request = replace(self.profile, max_tokens=1).request(messages)
        return Question(
            request=request,
            parse=partial(read_chances, count=len(statements)),
            placeholder=lambda: dict.fromkeys(range(len(statements)), 0.9),
            expected_tokens=1 if self.most == 1 else 0,
        )


def read_chances(text: str, count: int) -> dict[int, Chance]:
    """Return the probabilities in a reply by statement: absent if left out, None if refused.

    ReplyRejectedError if there are none.
    """
    chances: dict[int, Chance] = {}
    try:
        found = _decode(text)
    except msgspec.DecodeError:
        found = {}
    for number in range(count):
        value = found.get(name_of(number), "")
        try:
            chances[number] = msgspec.convert(value, _Probability)
        except msgspec.ValidationError:
            continue
    if not chances:
        raise ReplyRejectedError(
            "The reply has no probability. A chat model's first token was neither Yes nor No; perhaps it reasons first."
        )
    return chances


@dataclass(frozen=True, slots=True)
class DecisionJudge(Judge):
    """An endpoint that answers statements with probabilities; a refusal is an abstention.

    A rubric without all three probabilities is left out, never filled in. Statements that a reply leaves out are asked
    again alone, at most twice.
    """

    engine: CallEngine
    writer: StatementWriter

    @property
    def name(self) -> str:
        """The profile's name."""
        return self.writer.profile.name

    @property
    def marks(self) -> Marks:
        """Empty, except for replies of `svr sim`."""
        return marks_of(self.engine)

    async def prefer(self, shown: Presentation) -> Answer[Preference]:
        """Ask how likely A is to be the better response: margin 2 P − 1, in [−1, 1]."""
        found = await self._chances(Material.pair(shown), [Stated(self.writer.forms["direct"])])
        if found.value is None:
            return found
        margin = sum(2 * chance - 1 for chance in found.value if chance is not None)
        return Answer(value=Preference(margin=margin), requests=found.requests, flags=found.flags)

    async def compare(
        self,
        shown: Presentation,
        rubrics: Sequence[Rubric],
        *,
        overall: bool,  # noqa: ARG002
        note: str = "",
    ) -> Answer[Comparisons]:
        """Ask three statements for each rubric; the overall preference follows from them."""
        statements = [self.writer.about(form, rubric) for rubric in rubrics for form in STATED]
        found = await self._chances(Material.pair(shown, note=note), statements)
        if found.value is None:
            return found
        rows = []
        for number, rubric in enumerate(rubrics):
            a, b, better = found.value[3 * number : 3 * number + 3]
            if a is not None and b is not None and better is not None:
                rows.append(RubricComparison.likely(rubric.id, Chances(a, b, better)))
        return Answer(value=Comparisons(rows=tuple(rows)), requests=found.requests, flags=found.flags)

    async def score(self, prompt: Prompt, response: str, rubrics: Sequence[Rubric]) -> Answer[Mapping[str, float]]:
        """Ask how likely one response alone is to satisfy each rubric."""
        material = Material({"PROMPT": prompt_text(prompt), "RESPONSE": response})
        found = await self._chances(material, [self.writer.about("alone", rubric) for rubric in rubrics])
        if found.value is None:
            return found
        scored = zip(rubrics, found.value, strict=True)
        scores = {rubric.id: chance for rubric, chance in scored if chance is not None}
        return Answer(value=scores, requests=found.requests, flags=found.flags)

    async def _chances(self, material: Material, statements: Sequence[Stated]) -> Answer[Any]:
        """Ask for the probabilities of statements, as many in a call as the wire takes; ask again for missing ones.

        The value is a tuple of `Chance`. A failed call fails all; without any probability, the outcome is the last
        failure's.
        """
        chances: dict[int, Chance] = {}
        keys: list[str] = []
        failure: Answer[Any] = Answer(value=None, outcome=Outcome.PARSE_ERROR, detail="the replies have no statement")
        text, most, failed = material.fenced(), self.writer.most, False
        for turn in range(1 + MAX_REASKS):
            missing = [number for number in range(len(statements)) if number not in chances]
            for part in (missing[start : start + most] for start in range(0, len(missing), most)):
                question = self.writer.question(text, [statements[number] for number in part])
                done = await answered(self.engine, self.writer.profile, question)
                keys += map(Reasked, done.requests) if turn else done.requests
                if done.value is None:
                    failure = done
                    chances |= dict.fromkeys(part)  # unreadable: not asked again
                    failed = failed or done.outcome in FAILED_CALL
                    if failed:
                        break
                else:
                    chances |= {part[n]: statements[part[n]].of(chance) for n, chance in done.value.items()}
            if failed:
                break
        requests = tuple(dict.fromkeys(keys))
        value = tuple(chances.get(number) for number in range(len(statements)))
        if failed or (value and all(chance is None for chance in value)):
            return replace(failure, requests=requests)
        refused = ("refused_rubrics",) if None in chances.values() else ()
        flags = (*refused, "missing_rubrics") if len(chances) < len(statements) else refused
        return Answer(value=value, requests=requests, flags=flags)
