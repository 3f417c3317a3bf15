"""The model judge: asks an endpoint through the engine and returns typed answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from svr_async.core.integrity import NO_MARKS, Integrity, Marks
from svr_async.core.pair import Presentation, Prompt
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Outcome
from svr_async.engine.request import Question
from svr_async.judges.profiles import Profile
from svr_async.judges.protocol import Answer, Comparisons, Preference, Reasked, WrittenRubrics
from svr_async.judges.questions import QuestionWriter

if TYPE_CHECKING:
    from svr_async.engine.engine import CallEngine, Completion

T = TypeVar("T")
SIMULATED_FINGERPRINT = "svr-sim"
MOST_CHARS_PER_TOKEN = 8


@dataclass(frozen=True, slots=True)
class ModelJudge:
    """An endpoint as a judge. Rubrics that a reply leaves out are asked again alone, once, and never filled in."""

    engine: CallEngine
    writer: QuestionWriter
    label: str

    @property
    def name(self) -> str:
        """The profile's name."""
        return self.writer.profile.name

    @property
    def marks(self) -> Marks:
        """None, but for replies of `svr sim`, which are recognised by their fingerprint."""
        return marks_of(self.engine)

    async def prefer(self, shown: Presentation) -> Answer[Preference]:
        """Ask for a direct verdict: margin +1 for A, −1 for B, 0 for a tie."""
        done = await self._ask(self.writer.direct(shown))
        return without_value(done) if done.value is None else Answer(value=done.value, requests=(done.key,))

    async def write_rubrics(self, prompt: Prompt) -> Answer[WrittenRubrics]:
        """Ask for rubrics from the prompt alone."""
        done = await self._ask(self.writer.self_rubrics(prompt))
        if done.value is None:
            return without_value(done)
        texts, note = done.value
        written = WrittenRubrics(rubrics=tuple(Rubric(text=text) for text in texts), note=note)
        return Answer(value=written, requests=(done.key,))

    async def compare(
        self, shown: Presentation, rubrics: Sequence[Rubric], *, overall: bool, note: str = ""
    ) -> Answer[Comparisons]:
        """Ask for verdicts on rubrics, all in one call; a list too long for the context is halved."""
        done = await self._ask(self.writer.compare(shown, rubrics, overall=overall, note=note))
        if done.outcome is Outcome.CONTEXT_TOO_LONG and len(rubrics) > 1 and not overall:
            return await self._compare_halves(shown, rubrics)
        if done.value is None:
            return without_value(done)
        ordered, keys = done.value.rows, [done.key]
        if len(ordered) < len(rubrics):
            rows = {row.rubric_id: row for row in ordered}
            missing = [rubric for rubric in rubrics if rubric.id not in rows]
            again = await self._ask(self.writer.compare(shown, missing, overall=False))
            keys.append(Reasked(again.key))
            if again.value is not None:
                rows |= {row.rubric_id: row for row in again.value.rows}
            ordered = tuple([rows[rubric.id] for rubric in rubrics if rubric.id in rows])
        flags = ("inconsistent",) if any(row.inconsistent for row in ordered) else ()
        if len(ordered) < len(rubrics):
            flags = (*flags, "missing_rubrics")
        value = Comparisons(rows=ordered, preferred=done.value.preferred)
        return Answer(value=value, requests=tuple(dict.fromkeys(keys)), flags=flags)

    async def score(self, prompt: Prompt, response: str, rubrics: Sequence[Rubric]) -> Answer[Mapping[str, float]]:
        """Ask for scores of one response alone; missing ones are asked again like missing verdicts."""
        done = await self._ask(self.writer.pointwise(prompt, response, rubrics))
        if done.value is None:
            return without_value(done)
        by_id, keys = dict(done.value), [done.key]
        if missing := [rubric for rubric in rubrics if rubric.id not in by_id]:
            again = await self._ask(self.writer.pointwise(prompt, response, missing))
            keys.append(Reasked(again.key))
            by_id |= again.value or {}
        flags = ("missing_rubrics",) if any(rubric.id not in by_id for rubric in rubrics) else ()
        return Answer(value=by_id, requests=tuple(dict.fromkeys(keys)), flags=flags)

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

    async def _ask(self, question: Question[T]) -> Completion[T]:
        return await ask_within(self.engine, self.writer.profile, question)


def marks_of(engine: CallEngine) -> Marks:
    """Return the marks of what an engine's replies come from: `svr sim` is recognised by its fingerprint."""
    simulated = any(one.startswith(SIMULATED_FINGERPRINT) for one in engine.fingerprints)
    return frozenset({Integrity.SIMULATED}) if simulated else NO_MARKS


async def ask_within(engine: CallEngine, profile: Profile, question: Question[T]) -> Completion[T]:
    """Ask a question; one that is certain to be too long for the endpoint's context is not sent."""
    limit, chars = profile.context_tokens, question.request.prompt_chars
    if limit and chars > limit * MOST_CHARS_PER_TOKEN:
        detail = f"{chars} characters are too many for a context of {limit} tokens; not sent"
        key = question.request.key.hex()
        from svr_async.engine.engine import Completion

        return Completion(value=None, outcome=Outcome.CONTEXT_TOO_LONG, key=key, detail=detail)
    return await engine.complete(question)


def without_value(done: Completion[Any]) -> Answer[Any]:
    """Return the answer that says why a completion has no value."""
    return Answer(value=None, outcome=done.outcome, detail=done.detail, requests=(done.key,))
