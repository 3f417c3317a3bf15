"""Judges that answer with numbers: decision judges give probabilities, scalar reward models score a response."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Self

import msgspec

from svr_async.core.pair import Presentation, Prompt, prompt_text
from svr_async.core.rubric import Rubric, Statement, positive
from svr_async.core.verdict import Chances, Outcome, RubricComparison
from svr_async.engine.request import Question, ReplyRejectedError
from svr_async.engine.wires import QUESTION
from svr_async.engine.wires.decisions import name_of
from svr_async.errors import ConfigError
from svr_async.judges.model import EndpointJudge, answered
from svr_async.judges.profiles import Profile
from svr_async.judges.protocol import Answer, Comparisons, Preference, Reasked
from svr_async.judges.templates import Material, Templates, clean

STATED = ("a", "b", "better")  # the statements about a rubric, in this order
RUBRIC_FORMS = (*STATED, "alone")
OTHER_FORMS = ("direct", "ask")
PLACE = "{rubric}"
MAX_REASKS = 2
FAILED_CALL = frozenset({Outcome.API_ERROR, Outcome.CONTEXT_TOO_LONG})

Chance = float | None
"""P(the statement is true); None if the judge refused to answer."""

Score = Annotated[float, msgspec.Meta(ge=-1e300, le=1e300)]
"""A score; the difference of two is still a number."""

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_Probability = Annotated[float, msgspec.Meta(ge=0, le=1)] | None


class _ScoreReply(msgspec.Struct):
    score: Score


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

    def about(self, form: str, rubric: Rubric) -> Statement:
        """State that a rubric is satisfied; a negated rubric is stated in the positive, and turned."""
        plain = positive(" ".join(rubric.text.split()))
        return Statement(self.forms[form].replace(PLACE, plain.text), plain.turned)

    def question(self, material: str, statements: Sequence[Statement]) -> Question[Mapping[int, Chance]]:
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

    ReplyRejectedError without any.
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
class DecisionJudge(EndpointJudge):
    """An endpoint that answers statements with probabilities; a refusal is an abstention.

    A rubric without all three probabilities is left out, never filled in. Statements that a reply leaves out are asked
    again alone, at most twice.
    """

    writer: StatementWriter

    @property
    def name(self) -> str:
        """The profile's name."""
        return self.writer.profile.name

    async def prefer(self, shown: Presentation) -> Answer[Preference]:
        """Ask how likely A is to be the better response: margin 2 P − 1, in [−1, 1]."""
        found = await self._chances(Material.pair(shown), [Statement(self.writer.forms["direct"])])
        return found.map(lambda chances: Preference(margin=sum(2 * one - 1 for one in chances if one is not None)))

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

        def rows(chances: Sequence[Chance]) -> Iterator[RubricComparison]:
            for number, rubric in enumerate(rubrics):
                a, b, better = chances[3 * number : 3 * number + 3]
                if a is not None and b is not None and better is not None:
                    yield RubricComparison.likely(rubric.id, Chances(a, b, better))

        return found.map(lambda chances: Comparisons(rows=tuple(rows(chances))))

    async def score(self, prompt: Prompt, response: str, rubrics: Sequence[Rubric]) -> Answer[Mapping[str, float]]:
        """Ask how likely one response alone is to satisfy each rubric."""
        material = Material({"PROMPT": prompt_text(prompt), "RESPONSE": response})
        found = await self._chances(material, [self.writer.about("alone", rubric) for rubric in rubrics])
        ids = [rubric.id for rubric in rubrics]
        return found.map(lambda chances: {name: one for name, one in zip(ids, chances, strict=True) if one is not None})

    async def _chances(self, material: Material, statements: Sequence[Statement]) -> Answer[Any]:
        """Ask for the probabilities of statements, as many in a call as the wire takes; ask again for missing ones.

        The value is a tuple of `Chance`. A failed call fails all; without any probability, the outcome is the last
        failure's.
        """
        chances: dict[int, Chance] = {}
        keys: dict[str, None] = {}
        failure: Answer[Any] = Answer(value=None, outcome=Outcome.PARSE_ERROR, detail="the replies have no statement")
        text, most = material.fenced(), self.writer.most
        for turn in range(1 + MAX_REASKS):
            missing = [number for number in range(len(statements)) if number not in chances]
            for part in (missing[start : start + most] for start in range(0, len(missing), most)):
                question = self.writer.question(text, [statements[number] for number in part])
                done = await answered(self.engine, self.writer.profile, question)
                keys |= dict.fromkeys(map(Reasked, done.requests) if turn else done.requests)
                if done.outcome in FAILED_CALL:
                    return replace(done, requests=tuple(keys))
                if done.value is None:
                    failure = done
                    chances |= dict.fromkeys(part)  # unreadable: not asked again
                else:
                    chances |= {part[n]: statements[part[n]].chance(p) for n, p in done.value.items()}
        value = tuple(chances.get(number) for number in range(len(statements)))
        if value and all(chance is None for chance in value):
            return replace(failure, requests=tuple(keys))
        refused = ("refused_rubrics",) if None in chances.values() else ()
        flags = (*refused, "missing_rubrics") if len(chances) < len(statements) else refused
        return Answer(value=value, requests=tuple(keys), flags=flags)


@dataclass(frozen=True, slots=True)
class ScalarJudge(EndpointJudge):
    """An endpoint that scores responses: the margin is the difference of two scores, and equal scores are a tie.

    A request holds one prompt and one response, so the cache serves a response's score to all its pairs and orders.
    """

    profile: Profile

    @property
    def name(self) -> str:
        """The profile's name."""
        return self.profile.name

    @property
    def label(self) -> str:
        """The label of results."""
        return f"{self.name} (scalar reward model)"

    async def prefer(self, shown: Presentation) -> Answer[Preference]:
        """Score both responses; the reason names the scores."""
        a, b = [
            await answered(self.engine, self.profile, scoring(self.profile, shown.prompt, response))
            for response in (shown.response_a, shown.response_b)
        ]
        requests = tuple(dict.fromkeys(a.requests + b.requests))
        if a.value is None or b.value is None:
            lost: Answer[Any] = a if a.value is None else b
            return replace(lost, requests=requests)
        return Answer(value=by_scores(a.value, b.value), requests=requests)


def by_scores(a: float, b: float) -> Preference:
    """Return the preference of two scores: their difference."""
    return Preference(margin=a - b, reason=f"Response A scores {a:.6g}, response B {b:.6g}.", scores=(a, b))


def scoring(profile: Profile, prompt: Prompt, response: str) -> Question[float]:
    """Return the question for a response's score: the prompt as a conversation that ends with the response."""
    turns = tuple((turn.role, clean(turn.content)) for turn in prompt)
    request = replace(profile, max_tokens=1).request((*turns, ("assistant", clean(response))))
    return Question(request=request, parse=read_score, placeholder=lambda: float(len(response)), expected_tokens=0)


def read_score(text: str) -> float:
    """Return the score in a reply; ReplyRejectedError if it is missing."""
    try:
        return msgspec.json.decode(text, type=_ScoreReply).score
    except msgspec.DecodeError:
        raise ReplyRejectedError("The reply has no score.") from None
