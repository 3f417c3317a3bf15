"""The model judge: asks an endpoint through the engine and returns typed answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from svr_async.core.integrity import NO_MARKS, Integrity, Marks
from svr_async.core.pair import Presentation, Prompt, Side
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Outcome, RubricComparison
from svr_async.engine.request import Question
from svr_async.judges.brackets import direct_reason
from svr_async.judges.material import local_ids
from svr_async.judges.profiles import Profile
from svr_async.judges.protocol import Answer, Comparisons, Preference, Reasked, WrittenRubrics
from svr_async.judges.questions import QuestionWriter
from svr_async.judges.reply_text import NO_NONCE

if TYPE_CHECKING:
    from svr_async.engine.engine import CallEngine, Completion

T = TypeVar("T")
SIMULATED_FINGERPRINT = "svr-sim"
MAX_REASKS = 2
MOST_CHARS_PER_TOKEN = 8


@dataclass(frozen=True, slots=True)
class ModelJudge:
    """An endpoint as a judge. Rubrics that a reply leaves out are asked again alone, at most twice, never filled in."""

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
        """Ask for a direct verdict: margin +1 for A, −1 for B."""
        done = await self._ask(self.writer.direct(shown))
        if done.value is None:
            return without_value(done)
        margin = 1.0 if done.value is Side.A else -1.0
        answer = "" if done.reply is None else done.reply.answer
        return Answer(value=Preference(margin=margin, reason=direct_reason(answer)), requests=(done.key,))

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
        rows, keys = _global_rows(done.value.rows, rubrics), [done.key]
        for _ in range(MAX_REASKS):
            missing = [rubric for rubric in rubrics if rubric.id not in rows]
            if not missing:
                break
            again = await self._ask(self.writer.compare(shown, missing, overall=False))
            keys.append(Reasked(again.key))
            if again.value is not None:
                rows |= _global_rows(again.value.rows, missing)
        ordered = tuple(rows[rubric.id] for rubric in rubrics if rubric.id in rows)
        flags = (NO_NONCE,) if NO_NONCE in done.value.flags else ()
        if any(row.inconsistent for row in ordered):
            flags = (*flags, "inconsistent")
        if len(ordered) < len(rubrics):
            flags = (*flags, "missing_rubrics")
        value = Comparisons(rows=ordered, preferred=done.value.preferred)
        return Answer(value=value, requests=tuple(dict.fromkeys(keys)), flags=flags)

    async def score(self, prompt: Prompt, response: str, rubrics: Sequence[Rubric]) -> Answer[Mapping[str, float]]:
        """Ask for scores of one response alone; missing ones are asked again like missing verdicts."""
        done = await self._ask(self.writer.pointwise(prompt, response, rubrics))
        if done.value is None:
            return without_value(done)
        by_id, keys = _global_scores(done.value, rubrics), [done.key]
        for _ in range(MAX_REASKS):
            missing = [rubric for rubric in rubrics if rubric.id not in by_id]
            if not missing:
                break
            again = await self._ask(self.writer.pointwise(prompt, response, missing))
            keys.append(Reasked(again.key))
            if again.value is not None:
                by_id |= _global_scores(again.value, missing)
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


def _named(rubrics: Sequence[Rubric]) -> list[tuple[str, Rubric]]:
    return list(zip(local_ids(rubrics), rubrics, strict=True))


def _global_rows(rows: Mapping[str, RubricComparison], rubrics: Sequence[Rubric]) -> dict[str, RubricComparison]:
    return {rubric.id: rows[local].of(rubric.id) for local, rubric in _named(rubrics) if local in rows}


def _global_scores(scores: Mapping[str, float], rubrics: Sequence[Rubric]) -> dict[str, float]:
    return {rubric.id: scores[local] for local, rubric in _named(rubrics) if local in scores}
