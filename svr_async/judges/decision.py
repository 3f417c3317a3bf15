"""The decision judge: asks an endpoint how likely statements are to be true, and expects Δ from its probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from svr_async.core.integrity import Marks
from svr_async.core.pair import PreferencePair, Presentation, Prompt, prompt_text
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Chances, Outcome, RubricComparison
from svr_async.errors import UsageError
from svr_async.judges.material import Material
from svr_async.judges.model import ask_within, marks_of, without_value
from svr_async.judges.protocol import Answer, Comparisons, Preference, Reasked, WrittenRubrics
from svr_async.judges.statements import Chance, Stated, StatementWriter

if TYPE_CHECKING:
    from svr_async.engine.engine import CallEngine, Completion

STATED = ("a", "b", "better")  # the statements about a rubric, in this order
LOST = frozenset({Outcome.API_ERROR, Outcome.CONTEXT_TOO_LONG})  # the call failed, not its statement alone
REFUSED, MISSING = "refused_rubrics", "missing_rubrics"
NOTHING: Answer[Any] = Answer(value=None, outcome=Outcome.PARSE_ERROR, detail="the replies leave out every statement")
WRITER = "it answers with numbers, not texts: name a text judge of `svr judges`"


@dataclass(frozen=True, slots=True)
class DecisionJudge:
    """An endpoint that answers statements with probabilities. What it refuses to say is an abstention.

    A rubric without all of its three probabilities is left out, never filled in. What a reply leaves out is asked again
    alone, at most twice.
    """

    engine: CallEngine
    writer: StatementWriter
    label: str

    @property
    def name(self) -> str:
        """The profile's name."""
        return self.writer.profile.name

    @property
    def marks(self) -> Marks:
        """None, but for replies of `svr sim`."""
        return marks_of(self.engine)

    async def prefer(self, shown: Presentation) -> Answer[Preference]:
        """Ask how likely A is to be the better response: margin 2 P − 1, in [−1, 1]."""
        material = Material.pair(shown).fenced()
        asked = await self._chances(material, [self.writer.direct()])
        if asked.value is None:
            return _nothing_of(asked)
        margin = sum(2 * chance - 1 for chance in asked.value if chance is not None)
        return Answer(value=Preference(margin=margin), requests=asked.requests, flags=asked.flags)

    async def write_rubrics(self, prompt: Prompt) -> Answer[WrittenRubrics]:  # noqa: ARG002
        """Refuse in a line: a decision judge writes nothing."""
        raise UsageError(f"the judge {self.name} cannot write rubrics", hint=WRITER)

    async def compare(
        self,
        shown: Presentation,
        rubrics: Sequence[Rubric],
        *,
        overall: bool,  # noqa: ARG002
        note: str = "",
    ) -> Answer[Comparisons]:
        """Ask three statements a rubric; there is no overall preference but the mean of what is expected."""
        material = Material.pair(shown, note=note).fenced()
        asked = await self._chances(material, [self.writer.about(form, one) for one in rubrics for form in STATED])
        if asked.value is None:
            return _nothing_of(asked)
        rows = [_row(rubric, asked.value[3 * n : 3 * n + 3]) for n, rubric in enumerate(rubrics)]
        value = Comparisons(rows=tuple(row for row in rows if row is not None))
        return Answer(value=value, requests=asked.requests, flags=asked.flags)

    async def score(self, prompt: Prompt, response: str, rubrics: Sequence[Rubric]) -> Answer[Mapping[str, float]]:
        """Ask how likely one response alone is to satisfy each rubric."""
        material = Material({"PROMPT": prompt_text(prompt), "RESPONSE": response}).fenced()
        asked = await self._chances(material, [self.writer.about("alone", rubric) for rubric in rubrics])
        if asked.value is None:
            return _nothing_of(asked)
        found = {rubric.id: chance for rubric, chance in zip(rubrics, asked.value, strict=True) if chance is not None}
        return Answer(value=found, requests=asked.requests, flags=asked.flags)

    async def _chances(self, material: str, statements: Sequence[Stated]) -> Answer[tuple[Chance, ...]]:
        """Ask for the probabilities of statements, as many in a call as the wire takes, and again for those left out.

        A call that failed fails the whole; where no statement has an answer, the outcome says why.
        """
        told, most = _Told(), self.writer.most
        for turn in range(2):
            missing = [number for number in range(len(statements)) if number not in told.chances]
            for part in (missing[start : start + most] for start in range(0, len(missing), most)):
                question = self.writer.question(material, [statements[number] for number in part])
                done = await ask_within(self.engine, self.writer.profile, question)
                told.note(done, part, statements, again=turn > 0)
                if done.outcome in LOST:
                    return told.answer(None)
        chances = tuple(told.chances.get(number) for number in range(len(statements)))
        return told.answer(None if statements and all(chance is None for chance in chances) else chances)


@dataclass(frozen=True, slots=True)
class NoAuthor:
    """Stands where a decision judge would have to write, and refuses in a line."""

    name: str

    async def induce(self, pair: PreferencePair, *, contrastive: bool = True) -> Answer[tuple[Rubric, ...]]:  # noqa: ARG002
        """Refuse: it induces nothing."""
        raise UsageError(f"the judge {self.name} cannot induce rubrics", hint=f"{WRITER} with --author, or rules")

    async def probe(self, pair: PreferencePair) -> Answer[str]:  # noqa: ARG002
        """Refuse: it writes no response."""
        raise UsageError(f"the judge {self.name} cannot write a response", hint=f"{WRITER} with --author, or rules")


@dataclass(slots=True)
class _Told:
    """What the calls of one question have told so far: probabilities by number, cache keys, and the last failure."""

    chances: dict[int, Chance] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    failed: Answer[Any] = NOTHING

    def note(
        self, done: Completion[Mapping[int, Chance]], part: Sequence[int], statements: Sequence[Stated], *, again: bool
    ) -> None:
        """Take in what a call came to; a statement without a readable answer has none, however often it is asked."""
        self.keys.append(Reasked(done.key) if again else done.key)
        if done.value is None:
            self.failed = without_value(done)
            self.chances |= dict.fromkeys(part, None)
        else:
            self.chances |= {part[n]: statements[part[n]].of(chance) for n, chance in done.value.items()}

    def answer(self, chances: tuple[Chance, ...] | None) -> Answer[tuple[Chance, ...]]:
        """Return the answer, with what was unusual; without probabilities, with the outcome that says why."""
        requests = tuple(dict.fromkeys(self.keys))
        if chances is None:
            return replace(self.failed, requests=requests)
        refused = any(chance is None for chance in self.chances.values())
        flags = ((REFUSED,) if refused else ()) + ((MISSING,) if len(self.chances) < len(chances) else ())
        return Answer(value=chances, requests=requests, flags=flags)


def _nothing_of(asked: Answer[Any]) -> Answer[Any]:
    return replace(asked, value=None)


def _row(rubric: Rubric, chances: Sequence[Chance]) -> RubricComparison | None:
    """Return the comparison that three probabilities make; None where one of them is not there."""
    a, b, better = chances
    if a is None or b is None or better is None:
        return None
    return RubricComparison.likely(rubric.id, Chances(a, b, better))
