"""RRD's construction: a prompt's rubrics, mined from sampled responses alone, with no pair and no label in sight."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from svr_async.core.pair import Prompt
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Outcome
from svr_async.engine.concurrency import bounded_map
from svr_async.errors import UsageError
from svr_async.judges.model import Ask, asked, sampled
from svr_async.judges.protocol import Answer, Judge
from svr_async.scoring.rrd.options import RrdOptions
from svr_async.scoring.rrd.questions import Fate, Questions
from svr_async.scoring.rrd.tally import Stage, Tally

T = TypeVar("T")
PLANNED_DEPTH = 2  # a dry run has rubrics of this depth satisfied by too few samples to be decomposed
Verdicts = tuple[bool | None, ...]


class FailedCallError(Exception):
    """A call that failed for good: nothing is made of what a fault left over."""

    def __init__(self, answer: Answer[Any]) -> None:
        super().__init__(answer.detail)
        self.answer = answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Mined:
    """A prompt's accepted rubrics with their verdicts on the samples."""

    rubrics: tuple[Rubric, ...] = ()
    verdicts: tuple[Verdicts, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A rubric that is not decomposed further: its verdicts on the samples, the references, the how manieth it is."""

    rubric: Rubric
    verdicts: Verdicts
    strong: str | None
    weak: str | None
    turn: int


@dataclass(slots=True)
class Miner:
    """Mines the rubrics of one prompt, one question after another; `keys` are the cache keys of all of them."""

    judge: Judge
    others: Mapping[str, Judge]
    options: RrdOptions
    tally: Tally
    keys: list[str] = field(default_factory=list)

    async def mine(self, prompt: Prompt) -> Mined:
        """Return the rubrics; none where there are no samples or no proposal. FailedCallError where a call failed."""
        samples = await self._samples(prompt)
        questions = Questions(self.options, prompt, tuple(text for text in samples if text is not None))
        if not questions.responses:
            return Mined()
        strong, weak = await self._references(questions, samples[0])
        proposed = await self.ask(Stage.PROPOSAL, questions.proposal())
        waiting = deque((rubric, 0) for rubric in proposed or ())
        rubrics: list[Rubric] = []
        verdicts: list[Verdicts] = []
        seen, rejected = set[str](), 0
        while waiting and rejected < self.options.rejections:
            rubric, depth = waiting.popleft()
            if rubric.id in seen:
                continue
            seen.add(rubric.id)
            found = await self._verdicts(questions, rubric, planned=depth < PLANNED_DEPTH)
            finer = await self._finer(questions, rubric, found, depth)
            if finer:
                waiting.extend((child, depth + 1) for child in finer)
            elif await self._passes(questions, Candidate(rubric, found, strong, weak, len(seen)), rubrics):
                rubrics.append(rubric)
                verdicts.append(found)
            else:
                rejected += 1
        return Mined(rubrics=tuple(rubrics), verdicts=tuple(verdicts))

    async def ask(self, stage: Stage, ask: Ask[T]) -> T | None:
        """Ask and count; None where the reply cannot be read, FailedCallError where the call failed."""
        return self._taken(stage, await asked(self.judge, ask))

    async def ask_all(self, stage: Stage, asks: Sequence[Ask[T]]) -> list[T | None]:
        """Ask several questions at once, as `ask` does."""
        async with aclosing(bounded_map(partial(asked, self.judge), asks, workers=len(asks))) as answers:
            found: dict[int, Answer[T]] = {place: answer async for place, answer in answers}
        return [self._taken(stage, found[place]) for place in range(len(asks))]

    def _taken(self, stage: Stage, answer: Answer[T]) -> T | None:
        self.keys += answer.requests
        self.tally.note(stage, answer.requests)
        if answer.value is None and answer.outcome is Outcome.API_ERROR:
            raise FailedCallError(replace(answer, requests=()))
        return answer.value

    def _named(self, name: str) -> Judge:
        if not name:
            return self.judge
        if name not in self.others:
            raise UsageError(
                f"the judge {name} of the options is not open here", hint="only the run of svr eval opens it"
            )
        return self.others[name]

    async def _sample(self, stage: Stage, name: str, prompt: Prompt, number: int) -> str | None:
        options = self.options
        answer = await sampled(self._named(name), prompt, number, temperature=options.temperature, top_p=options.top_p)
        return self._taken(stage, answer)

    async def _samples(self, prompt: Prompt) -> list[str | None]:
        """Sample responses, from all samplers in turn; each has its own numbers."""
        names = self.options.samplers or ("",)
        places = [(names[turn % len(names)], 1 + turn // len(names)) for turn in range(self.options.samples)]
        return [await self._sample(Stage.GENERATION, name, prompt, number) for name, number in places]

    async def _references(self, questions: Questions, first: str | None) -> tuple[str | None, str | None]:
        """Return the strong and the weak reference; the first sample is the strong one of whoever wrote it."""
        options, prompt = self.options, questions.prompt
        by_first = not options.strong or options.strong == next(iter(options.samplers), "")
        strong = first if by_first else await self._sample(Stage.REFERENCE, options.strong, prompt, 1)
        if options.weak:
            return strong, await self._sample(Stage.REFERENCE, options.weak, prompt, 1)
        weak = None
        if strong is not None:
            weak = await self.ask(Stage.REFERENCE, questions.worse(strong))
        return strong, weak

    async def _verdicts(self, questions: Questions, rubric: Rubric, *, planned: bool) -> Verdicts:
        asks = [questions.satisfied(text, rubric, planned=planned) for text in questions.responses]
        found = await self.ask_all(Stage.SAMPLE, asks)
        return tuple(found)

    async def _finer(self, questions: Questions, rubric: Rubric, found: Verdicts, depth: int) -> tuple[Rubric, ...]:
        """Return finer rubrics in the place of one that too many samples satisfy; none where it stays as it is."""
        if found.count(True) <= self.options.broad or depth >= self.options.depth:
            return ()
        children = await self.ask(Stage.DECOMPOSITION, questions.decomposition(rubric))
        return tuple(child for child in children or () if child.id != rubric.id)

    async def _passes(self, questions: Questions, candidate: Candidate, accepted: Sequence[Rubric]) -> bool:
        """Whether a rubric points the right way, and neither repeats nor contradicts an accepted one."""
        if await self._points_wrong(questions, candidate):
            return False
        if not accepted:
            return True
        planned = Fate.OVERLAP if candidate.turn % 2 else Fate.NEW  # a dry run has half of them repeat another
        ask = questions.redundancy(candidate.rubric, accepted, planned=planned)
        return await self.ask(Stage.REDUNDANCY, ask) in (Fate.NEW, None)

    async def _points_wrong(self, questions: Questions, candidate: Candidate) -> bool:
        """Whether the weak reference satisfies a rubric that the strong one does not."""
        if candidate.strong is None or candidate.weak is None:
            return False
        if not await self.ask(Stage.DIRECTION, questions.satisfied(candidate.weak, candidate.rubric, planned=False)):
            return False
        if candidate.strong in questions.responses:
            return candidate.verdicts[questions.responses.index(candidate.strong)] is False
        strong = questions.satisfied(candidate.strong, candidate.rubric, planned=True)
        return await self.ask(Stage.DIRECTION, strong) is False
