"""A model behind an endpoint: as judge and author, behind checks (`J+rules`), and for a method's own questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import structs

from svr_async.core.integrity import NO_MARKS, Integrity, Marks
from svr_async.core.pair import PreferencePair, Presentation, Prompt
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Outcome, RubricComparison
from svr_async.engine.request import Question, Request
from svr_async.engine.wires import Settings
from svr_async.errors import UsageError
from svr_async.judges.profiles import Profile
from svr_async.judges.protocol import Answer, Comparisons, CriteriaQuestion, Judge, Preference, Reasked, WrittenRubrics
from svr_async.judges.questions import QuestionWriter, read_text
from svr_async.judges.templates import Material, clean

if TYPE_CHECKING:
    from svr_async.engine.engine import CallEngine

T = TypeVar("T")
SIMULATED_FINGERPRINT = "svr-sim"
MOST_CHARS_PER_TOKEN = 8
TOKENS_OF_A_SAMPLE = 400


async def answered(engine: CallEngine, profile: Profile, question: Question[T]) -> Answer[T]:
    """Ask a question; one that is certain to be too long for the endpoint's context is not sent."""
    limit, chars = profile.context_tokens, question.request.prompt_chars
    if limit and chars > limit * MOST_CHARS_PER_TOKEN:
        detail = f"{chars} characters are too many for a context of {limit} tokens; not sent"
        requests = (question.request.key.hex(),)
        return Answer(value=None, outcome=Outcome.CONTEXT_TOO_LONG, detail=detail, requests=requests)
    done = await engine.complete(question)
    if done.value is None:
        return Answer(value=None, outcome=done.outcome, detail=done.detail, requests=(done.key,))
    return Answer(value=done.value, requests=(done.key,))


@dataclass(frozen=True, slots=True)
class EndpointJudge(Judge):
    """A judge that asks an endpoint through an engine."""

    engine: CallEngine

    @property
    def marks(self) -> Marks:
        """Empty, except for replies of `svr sim`, which are recognised by their fingerprint."""
        simulated = any(one.startswith(SIMULATED_FINGERPRINT) for one in self.engine.fingerprints)
        return frozenset({Integrity.SIMULATED}) if simulated else NO_MARKS


@dataclass(frozen=True, slots=True)
class ModelJudge(EndpointJudge):
    """An endpoint as a judge and as an author.

    Rubrics that a reply leaves out are asked again alone, once, and never filled in.
    """

    writer: QuestionWriter

    @property
    def name(self) -> str:
        """The profile's name."""
        return self.writer.profile.name

    async def prefer(self, shown: Presentation) -> Answer[Preference]:
        """Ask for a direct verdict: margin +1 for A, −1 for B, 0 for a tie."""
        return await self._ask(self.writer.direct(shown))

    async def write_rubrics(self, prompt: Prompt) -> Answer[WrittenRubrics]:
        """Ask for rubrics from the prompt alone."""
        return await self._ask(self.writer.self_rubrics(prompt))

    async def compare(
        self, shown: Presentation, rubrics: Sequence[Rubric], *, overall: bool, note: str = ""
    ) -> Answer[Comparisons]:
        """Ask for verdicts on rubrics, all in one call; a list too long for the context is halved."""
        done = await self._ask(self.writer.compare(shown, rubrics, overall=overall, note=note))
        if done.outcome is Outcome.CONTEXT_TOO_LONG and len(rubrics) > 1 and not overall:
            return await self._compare_halves(shown, rubrics)
        if done.value is None:
            return done
        ordered, requests = done.value.rows, done.requests
        if len(ordered) < len(rubrics):
            rows = {row.rubric_id: row for row in ordered}
            missing = [rubric for rubric in rubrics if rubric.id not in rows]
            again = await self._ask(self.writer.compare(shown, missing, overall=False))
            requests += tuple(map(Reasked, again.requests))
            if again.value is not None:
                rows |= {row.rubric_id: row for row in again.value.rows}
            ordered = tuple([rows[rubric.id] for rubric in rubrics if rubric.id in rows])
        flags = ("inconsistent",) if any(row.inconsistent for row in ordered) else ()
        if len(ordered) < len(rubrics):
            flags = (*flags, "missing_rubrics")
        value = Comparisons(rows=ordered, preferred=done.value.preferred)
        return Answer(value=value, requests=tuple(dict.fromkeys(requests)), flags=flags)

    async def score(self, prompt: Prompt, response: str, rubrics: Sequence[Rubric]) -> Answer[Mapping[str, float]]:
        """Ask for scores of one response alone; missing ones are asked again like missing verdicts."""
        done = await self._ask(self.writer.pointwise(prompt, response, rubrics))
        if done.value is None:
            return done
        by_id, requests = dict(done.value), done.requests
        if missing := [rubric for rubric in rubrics if rubric.id not in by_id]:
            again = await self._ask(self.writer.pointwise(prompt, response, missing))
            requests += tuple(map(Reasked, again.requests))
            by_id |= again.value or {}
        flags = ("missing_rubrics",) if any(rubric.id not in by_id for rubric in rubrics) else ()
        return Answer(value=by_id, requests=tuple(dict.fromkeys(requests)), flags=flags)

    async def induce(self, pair: PreferencePair, *, contrastive: bool = True) -> Answer[tuple[Rubric, ...]]:
        """Ask for 2 to 6 rubrics."""
        return await self._ask(self.writer.induction(pair, contrastive=contrastive))

    async def probe(self, pair: PreferencePair) -> Answer[str]:
        """Ask for a plausible but worse response."""
        return await self._ask(self.writer.probe(pair))

    async def same_criterion(self, asked: CriteriaQuestion) -> Answer[Mapping[str, str | None]]:
        """Ask which new criteria repeat listed ones in other words."""
        return await self._ask(self.writer.same_criterion(asked))

    async def rephrase(self, prompt: Prompt, rubrics: Sequence[Rubric]) -> Answer[Mapping[str, str]]:
        """Ask for rubrics in words that fit a prompt: texts by id, without those that have no clear wording."""
        return await self._ask(self.writer.rephrase(prompt, rubrics))

    async def _compare_halves(self, shown: Presentation, rubrics: Sequence[Rubric]) -> Answer[Comparisons]:
        middle = len(rubrics) // 2
        first = await self.compare(shown, rubrics[:middle], overall=False)
        second = await self.compare(shown, rubrics[middle:], overall=False)
        requests = first.requests + second.requests
        if first.value is None or second.value is None:
            return replace(first if first.value is None else second, requests=requests)
        value = Comparisons(rows=first.value.rows + second.value.rows)
        flags = tuple(dict.fromkeys(first.flags + second.flags))
        return Answer(value=value, requests=requests, flags=flags)

    async def _ask(self, question: Question[T]) -> Answer[T]:
        return await answered(self.engine, self.writer.profile, question)


@dataclass(frozen=True, slots=True)
class HybridJudge(Judge):
    """A model judge with the rules judge in front of it."""

    model: Judge
    rules: Judge

    @property
    def name(self) -> str:
        """Both names, joined by a plus."""
        return f"{self.model.name}+rules"

    @property
    def label(self) -> str:
        """How its results are labelled."""
        return f"{self.model.label} + offline checks"

    @property
    def marks(self) -> Marks:
        """The marks of the model."""
        return self.model.marks

    async def prefer(self, shown: Presentation) -> Answer[Preference]:
        """Ask the model: a direct verdict has no rubrics to share out."""
        return await self.model.prefer(shown)

    async def write_rubrics(self, prompt: Prompt) -> Answer[WrittenRubrics]:
        """Join the model's rubrics with the constraints that checks read out of the prompt."""
        written = await self.model.write_rubrics(prompt)
        read = (await self.rules.write_rubrics(prompt)).value

        def joined(own: WrittenRubrics) -> WrittenRubrics:
            by_id = {rubric.id: rubric for rubric in (*own.rubrics, *(read.rubrics if read else ()))}
            return WrittenRubrics(rubrics=tuple(by_id.values()), note=own.note)

        return written.map(joined)

    async def compare(
        self, shown: Presentation, rubrics: Sequence[Rubric], *, overall: bool, note: str = ""
    ) -> Answer[Comparisons]:
        """Decide what checks can decide; ask the model for the rest, and for the overall preference."""
        checked = (await self.rules.compare(shown, rubrics, overall=False)).value
        decided = {row.rubric_id: row for row in checked.rows if row.better is not None} if checked else {}
        rest = [rubric for rubric in rubrics if rubric.id not in decided]
        if not rest and not overall:
            return Answer(value=Comparisons(rows=_in_order(rubrics, decided)))
        asked = await self.model.compare(shown, rubrics if overall else rest, overall=overall, note=note)
        if asked.value is None:
            return asked
        rows = {row.rubric_id: row for row in asked.value.rows} | decided
        return replace(asked, value=Comparisons(rows=_in_order(rubrics, rows), preferred=asked.value.preferred))

    async def score(self, prompt: Prompt, response: str, rubrics: Sequence[Rubric]) -> Answer[Mapping[str, float]]:
        """Score what checks can score; ask the model for the rest."""
        known = dict((await self.rules.score(prompt, response, rubrics)).value or {})
        rest = [rubric for rubric in rubrics if rubric.id not in known]
        if not rest:
            return Answer(value=known)
        asked = await self.model.score(prompt, response, rest)
        return asked.map(lambda scores: {**scores, **known})


def _in_order(rubrics: Sequence[Rubric], rows: Mapping[str, RubricComparison]) -> tuple[RubricComparison, ...]:
    return tuple(rows[rubric.id] for rubric in rubrics if rubric.id in rows)


# --- questions of methods ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask(Generic[T]):
    """A question: a template, the texts at its places by the names of their fences, and how its reply is read.

    `read` raises ReplyRejectedError. `placeholder` is the answer of a dry run, `tokens` its estimated length.
    `most_tokens` replaces the profile's limit.
    """

    template: str
    texts: Mapping[str, str]
    read: Callable[[str], T]
    placeholder: T
    tokens: int
    most_tokens: int | None = None
    rubrics: Sequence[Rubric] | None = None


def model_behind(judge: Judge) -> ModelJudge:
    """Return the model behind a judge; UsageError for one that writes nothing."""
    model = judge.model if isinstance(judge, HybridJudge) else judge
    if isinstance(model, ModelJudge):
        return model
    raise UsageError(f"the judge {judge.name} writes no texts", hint="name a text judge of `svr judges`")


async def asked(judge: Judge, ask: Ask[T]) -> Answer[T]:
    """Put a question to the model behind a judge."""
    model = model_behind(judge)
    material = Material(ask.texts, ask.rubrics)
    question = model.writer.question(ask.template, material, ask.read, lambda: ask.placeholder, ask.tokens)
    if ask.most_tokens is not None:
        question = structs.replace(question, request=structs.replace(question.request, max_tokens=ask.most_tokens))
    return await answered(model.engine, model.writer.profile, question)


async def sampled(judge: Judge, prompt: Prompt, number: int, *, temperature: float, top_p: float) -> Answer[str]:
    """Have the model behind a judge respond to a prompt; each `number`, from 1 on, is another response.

    A setting that the profile does not send is not sent here either.
    """
    model = model_behind(judge)
    request = conversation(model.writer.profile, prompt, number, temperature=temperature, top_p=top_p)
    question = Question(
        request=request,
        parse=read_text,
        placeholder=lambda: f"Planned response {number}.",
        expected_tokens=model.writer.reasoning + TOKENS_OF_A_SAMPLE,
    )
    return await answered(model.engine, model.writer.profile, question)


def conversation(
    profile: Profile, prompt: Prompt, number: int = 0, *, temperature: float | None = None, top_p: float | None = None
) -> Request:
    """Return the request that shows a conversation as it is.

    A `number` from 1 on asks for another answer: it is in the cache key, and the seed if the wire knows seeds.
    """
    wire, seed = profile.spoken, profile.seed
    if number:
        knows_seeds = wire.params(Settings(seed=1)) != wire.params(Settings())
        seed = (profile.seed or 0) + number if knows_seeds else None
    drawn = replace(
        profile,
        temperature=profile.temperature if None in (profile.temperature, temperature) else temperature,
        top_p=profile.top_p if None in (profile.top_p, top_p) else top_p,
        seed=seed,
    )
    messages = tuple((turn.role, clean(turn.content)) for turn in prompt)
    return drawn.request(messages, sample=number, no_cache=number > 0)
