"""`rrd`: Recursive Rubric Decomposition, a prompt's rubrics mined from sampled responses (paper `app:rrd_repro`).

The prompts are ours, written from the paper's description of the method.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import partial
from statistics import fmean, median
from typing import Annotated, Any, TypeVar

import numpy as np
from msgspec import Meta

from svr_async.core.pair import HumanRubrics, Presentation, Prompt, prompt_text
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import EVEN, Chances, Contribution, Outcome, RubricComparison
from svr_async.engine.concurrency import bounded_map
from svr_async.judges.model import Ask, asked, sampled
from svr_async.judges.protocol import Answer, Judge, Preference, Reasked
from svr_async.judges.questions import read_text, read_texts
from svr_async.judges.reader import read_direct, read_mark
from svr_async.scoring.decision import Decision, decided, total, undecided
from svr_async.scoring.methods.contract import Facts, OwnWords, Recipe, named_judge

FALLBACK = "rrd_fallback"  # no rubric was accepted, or they found no difference: the judge was asked directly
MISSING = "missing_rubrics"
NO_VERDICT: Answer[object] = Answer(
    value=None, outcome=Outcome.PARSE_ERROR, detail="the direct comparison has no verdict"
)
ASSUMES = (
    "5 rubrics proposed a prompt, they and their children decomposed, half of what is left repeating another: "
    "for 1,147 prompts the paper counts 1,147 proposals, 13,981 decompositions and 273,232 judgments of samples"
)
TEMPLATES = ("rrd_rubrics", "rrd_decompose", "rrd_judge", "rrd_filter")
PLANNED = "Planned rubric"
PLANNED_DEPTH = 2  # a dry run has rubrics of this depth satisfied by too few samples to be decomposed
T = TypeVar("T")
Verdicts = tuple[bool | None, ...]
Tokens = Annotated[int, Meta(ge=1, le=1_000_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RrdOptions:
    """How rubrics are mined, and who is asked.

    `samples` responses a prompt come from `samplers` in turn, by default the judge, at `temperature` and `top_p`. A
    rubric that more than `broad` of them satisfy is replaced by `children` finer ones, down to `depth`; after
    `rejections` rejected rubrics no further ones are looked at. `strong` and `weak` write the references of the
    direction filter: by default the first sample, and what the judge writes when it is asked for a worse response.
    `initial` bounds the rubrics proposed. `shrink` is how far the covariance of verdicts is drawn to a multiple of the
    identity: 8 samples tell half of what there is to know of as many rubrics. The tokens bound single replies: of a
    judgment, a proposal, a direct comparison, and all others.
    """

    samples: Annotated[int, Meta(ge=1, le=64)] = 8
    samplers: tuple[str, ...] = ()
    temperature: Annotated[float, Meta(ge=0, le=2)] = 0.7
    top_p: Annotated[float, Meta(gt=0, le=1)] = 0.95
    initial: Annotated[int, Meta(ge=1, le=100)] = 10
    broad: Annotated[int, Meta(ge=0, le=64)] = 2
    children: Annotated[int, Meta(ge=1, le=16)] = 2
    depth: Annotated[int, Meta(ge=0, le=8)] = 3
    rejections: Annotated[int, Meta(ge=1, le=1_000)] = 15
    strong: str = ""
    weak: str = ""
    shrink: Annotated[float, Meta(gt=0, le=1)] = 0.5
    tokens: Tokens = 2048
    proposal_tokens: Tokens = 4096
    judge_tokens: Tokens = 256
    direct_tokens: Tokens = 512

    @property
    def others(self) -> tuple[str, ...]:
        """The judges that are named, each once."""
        return tuple(dict.fromkeys(name for name in (*self.samplers, self.strong, self.weak) if name))


class Stage(StrEnum):
    """The stages, in the order in which a prompt goes through them."""

    GENERATION = "generation"
    REFERENCE = "reference"
    PROPOSAL = "proposal"
    SAMPLE = "sample_judgments"
    DECOMPOSITION = "decomposition"
    DIRECTION = "direction_filter"
    REDUNDANCY = "redundancy_filter"
    FINAL = "final_judgments"
    FALLBACK = "fallback"


@dataclass(slots=True)
class Tally:
    """The cache keys of questions by stage, and how many rubrics each prompt was left with."""

    keys: dict[Stage, set[str]] = field(default_factory=lambda: {stage: set() for stage in Stage})
    accepted: dict[int, int] = field(default_factory=dict)

    def as_json(self) -> Mapping[str, Any]:
        """Return the questions of each stage, and how many rubrics the prompts were left with."""
        asked = {stage.value: len(keys) for stage, keys in self.keys.items()}
        return {"asked": asked, "rubrics": list(self.accepted.values())}


def counts_of(tallies: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the sum of the tallies of all shards of a run: questions by stage; mean and median of rubrics a prompt."""
    sizes = [size for tally in tallies for size in tally["rubrics"]]
    asked = {stage.value: sum(tally["asked"][stage.value] for tally in tallies) for stage in Stage}
    mean, middle = (round(fmean(sizes), 2), median(sizes)) if sizes else (None, None)
    return asked | {"rubrics_mean": mean, "rubrics_median": middle}


class Fate(StrEnum):
    """The redundancy filter's answer: how a rubric relates to the accepted ones."""

    NEW = "NEW"
    OVERLAP = "OVERLAP"
    CONFLICT = "CONFLICT"


@dataclass(frozen=True, slots=True)
class Questions:
    """Writes the questions of one prompt, of which `responses` were sampled."""

    options: RrdOptions
    prompt: Prompt
    responses: tuple[str, ...] = ()

    def worse(self, strong: str) -> Ask[str]:
        """Ask for a plausible but worse response than the strong reference."""
        return self._ask("probe", read_text, "Planned worse response.", len(strong) // 4, CHOSEN=strong)

    def proposal(self) -> Ask[tuple[Rubric, ...]]:
        """Ask for the initial rubrics, conditioned on the samples."""
        planned = tuple(Rubric(text=f"{PLANNED} {number}.") for number in range(1, 6))
        read = partial(read_rubrics, key="proposed_rubrics", most=self.options.initial)
        ask = self._ask("rrd_rubrics", read, planned, 200, RESPONSES=self._sampled)
        return replace(ask, most_tokens=self.options.proposal_tokens)

    def decomposition(self, rubric: Rubric) -> Ask[tuple[Rubric, ...]]:
        """Ask for finer rubrics in the place of one."""
        most = self.options.children
        planned = tuple(Rubric(text=f"{rubric.text}{number}.") for number in range(1, most + 1))
        read = partial(read_rubrics, key="finer_rubrics", most=most)
        ask = self._ask("rrd_decompose", read, planned, 40 * most, RESPONSES=self._sampled)
        return replace(ask, rubrics=[rubric], most_tokens=self.options.tokens)

    def satisfied(self, response: str, rubric: Rubric, *, planned: bool) -> Ask[bool]:
        """Ask whether one response satisfies one rubric; a dry run assumes the answer `planned`."""

        def read(text: str) -> bool:
            return read_mark(text, "yes|no", str.upper, "[[YES]] or [[NO]]", (response,)) == "YES"

        ask = self._ask("rrd_judge", read, planned, 30, RESPONSE=response)
        return replace(ask, rubrics=[rubric], most_tokens=self.options.judge_tokens)

    def redundancy(self, rubric: Rubric, accepted: Sequence[Rubric], *, planned: Fate) -> Ask[Fate]:
        """Ask whether a rubric repeats or contradicts an accepted one."""
        ask = self._ask("rrd_filter", _read_fate, planned, 40)
        return replace(ask, rubrics=[rubric, *accepted], most_tokens=self.options.tokens)

    def direct(self, shown: Presentation) -> Ask[Preference]:
        """Ask for a direct comparison, where rubrics decide nothing."""
        responses = (shown.response_a, shown.response_b)
        read = partial(read_direct, quoted=responses)
        texts = {"RESPONSE_A": responses[0], "RESPONSE_B": responses[1]}
        ask = self._ask("direct", read, Preference(margin=1.0), 150, **texts)
        return replace(ask, most_tokens=self.options.direct_tokens)

    def _ask(self, template: str, read: Callable[[str], T], planned: T, tokens: int, **texts: str) -> Ask[T]:
        """Return a question with the prompt; a dry run assumes the answer `planned` of `tokens` tokens."""
        texts = {"PROMPT": prompt_text(self.prompt), **texts}
        return Ask(template=template, texts=texts, read=read, placeholder=planned, tokens=tokens)

    @property
    def _sampled(self) -> str:
        return "\n\n".join(f"Response {number}:\n{text}" for number, text in enumerate(self.responses, 1))


def _read_fate(text: str) -> Fate:
    return Fate(read_mark(text, "new|overlap|conflict", str.upper, "[[NEW]], [[OVERLAP]] or [[CONFLICT]]"))


def read_rubrics(text: str, key: str, most: int) -> tuple[Rubric, ...]:
    """Read the list of rubric texts under a key, at most `most`; ReplyRejectedError if it is empty."""
    rubrics = [Rubric(text=one) for one in read_texts(text, key, most)[0]]
    return tuple({rubric.id: rubric for rubric in rubrics}.values())


class FailedCallError(Exception):
    """A call that failed for good: nothing is made of what a fault left over."""

    def __init__(self, answer: Answer[Any]) -> None:
        super().__init__(answer.detail)
        self.answer = answer


Mined = Sequence[tuple[Rubric, Verdicts]]  # a prompt's accepted rubrics with their verdicts on the samples


@dataclass(slots=True)
class Miner:
    """Mines the rubrics of one prompt, one question after another; `keys` are the cache keys of all of them."""

    judge: Judge
    others: Mapping[str, Judge]
    options: RrdOptions
    tally: Tally
    keys: list[str] = field(default_factory=list)

    async def mine(self, prompt: Prompt) -> Mined:
        """Return the rubrics; none without samples or a proposal. FailedCallError if a call failed."""
        samples = await self._samples(prompt)
        questions = Questions(self.options, prompt, tuple(text for text in samples if text is not None))
        if not questions.responses:
            return ()
        references = await self._references(questions, samples[0])
        proposed = await self.ask(Stage.PROPOSAL, questions.proposal())
        waiting = deque((rubric, 0) for rubric in proposed or ())
        accepted: list[tuple[Rubric, Verdicts]] = []
        seen, rejected = set[str](), 0
        while waiting and rejected < self.options.rejections:
            rubric, depth = waiting.popleft()
            if rubric.id in seen:
                continue
            seen.add(rubric.id)
            planned = depth < PLANNED_DEPTH
            asks = [questions.satisfied(text, rubric, planned=planned) for text in questions.responses]
            found = await self.ask_all(Stage.SAMPLE, asks)
            verdicts = tuple(found)
            if finer := await self._finer(questions, rubric, verdicts, depth):
                waiting.extend((child, depth + 1) for child in finer)
                continue
            known = [one for one, _ in accepted]
            fate = Fate.OVERLAP if len(seen) % 2 else Fate.NEW  # a dry run has half of them repeat another
            wrong = await self._points_wrong(questions, rubric, verdicts, references)
            if wrong or await self._repeats(questions, rubric, known, fate):
                rejected += 1
            else:
                accepted.append((rubric, verdicts))
        return accepted

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
        self.tally.keys[stage].update(answer.requests)
        if answer.value is None and answer.outcome is Outcome.API_ERROR:
            raise FailedCallError(replace(answer, requests=()))
        return answer.value

    async def _sample(self, stage: Stage, name: str, prompt: Prompt, number: int) -> str | None:
        options = self.options
        judge = named_judge(name, self.judge, self.others)
        answer = await sampled(judge, prompt, number, temperature=options.temperature, top_p=options.top_p)
        return self._taken(stage, answer)

    async def _samples(self, prompt: Prompt) -> list[str | None]:
        """Sample responses, from all samplers in turn; each has its own numbers."""
        names = self.options.samplers or ("",)
        places = [(names[turn % len(names)], 1 + turn // len(names)) for turn in range(self.options.samples)]
        return [await self._sample(Stage.GENERATION, name, prompt, number) for name, number in places]

    async def _references(self, questions: Questions, first: str | None) -> tuple[str | None, str | None]:
        """Return the strong and the weak reference; the first sample serves as strong if the same judge wrote it."""
        options, prompt = self.options, questions.prompt
        by_first = not options.strong or options.strong == next(iter(options.samplers), "")
        strong = first if by_first else await self._sample(Stage.REFERENCE, options.strong, prompt, 1)
        if options.weak:
            return strong, await self._sample(Stage.REFERENCE, options.weak, prompt, 1)
        if strong is None:
            return None, None
        weak = await self.ask(Stage.REFERENCE, questions.worse(strong))
        return strong, weak

    async def _finer(self, questions: Questions, rubric: Rubric, found: Verdicts, depth: int) -> tuple[Rubric, ...]:
        """Return finer rubrics in the place of one that too many samples satisfy; none where it stays as it is."""
        if found.count(True) <= self.options.broad or depth >= self.options.depth:
            return ()
        children = await self.ask(Stage.DECOMPOSITION, questions.decomposition(rubric))
        return tuple(child for child in children or () if child.id != rubric.id)

    async def _repeats(self, questions: Questions, rubric: Rubric, accepted: Sequence[Rubric], planned: Fate) -> bool:
        """Whether a rubric repeats or contradicts an accepted one; an unreadable reply counts as no."""
        if not accepted:
            return False
        fate = await self.ask(Stage.REDUNDANCY, questions.redundancy(rubric, accepted, planned=planned))
        return fate not in (Fate.NEW, None)

    async def _points_wrong(
        self, questions: Questions, rubric: Rubric, verdicts: Verdicts, references: tuple[str | None, str | None]
    ) -> bool:
        """Whether the weak reference satisfies a rubric that the strong one does not."""
        strong, weak = references
        if strong is None or weak is None:
            return False
        if not await self.ask(Stage.DIRECTION, questions.satisfied(weak, rubric, planned=False)):
            return False
        if strong in questions.responses:
            return verdicts[questions.responses.index(strong)] is False
        return await self.ask(Stage.DIRECTION, questions.satisfied(strong, rubric, planned=True)) is False


def whitened_uniform(verdicts: Sequence[Sequence[float | None]], *, shrink: float) -> list[float]:
    """Return the weights Σ^(−1/2) · 1 of rubrics, which add up to 1, from their verdicts on the same responses.

    `verdicts` are (rubrics, responses), 1 for a yes and 0 for a no; None, not known, counts as the rubric's mean. Σ is
    the covariance of rubrics over responses, drawn by `shrink` to a multiple of the identity: there are often more
    rubrics than responses, and one that all or none satisfy varies by nothing. Without any variance all weigh the same.
    A weight below 0, which would turn its rubric round, is 0 (the method is RRD's "WU"; shrinking and this bound are
    ours).
    """
    if not verdicts:
        return []
    rows = np.array(verdicts, dtype=np.float64)  # None becomes NaN
    known = np.isfinite(rows)
    means = np.where(known, rows, 0.0).sum(axis=1, keepdims=True) / np.maximum(known.sum(axis=1, keepdims=True), 1)
    centred = np.where(known, rows - means, 0.0)
    covariance = centred @ centred.T / max(1, rows.shape[1])
    scale = float(np.trace(covariance)) / len(rows)
    weights = np.ones(len(rows))
    if scale > 0:
        values, vectors = np.linalg.eigh((1 - shrink) * covariance + shrink * scale * np.eye(len(rows)))
        inverse = 1.0 / np.sqrt(np.maximum(values, 1e-9 * scale))
        weights = np.maximum(vectors @ (inverse * vectors.sum(axis=0)), 0.0)
    if not weights.any():
        weights[:] = 1.0
    return [float(weight) for weight in weights / weights.sum()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rrd:
    """Margin Σ w (g(A) − g(B)) over a prompt's mined rubrics g, each judged YES or NO on A and B apart.

    w are whitened-uniform weights. What is mined depends on the prompt alone: the cache has it for all its pairs.
    Without an accepted rubric, or where the margin is 0, the judge is asked directly.
    """

    options: RrdOptions
    others: Mapping[str, Judge] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    name: str = "rrd"

    @property
    def facts(self) -> Facts:
        """Facts that a run needs."""
        options = self.options
        rubrics = options.initial * sum(options.children**depth for depth in range(options.depth + 1))
        own = OwnWords(
            templates=TEMPLATES,
            bind=lambda others: replace(self, others=others, tally=Tally()),
            others=options.others,
            tallied=self.tally.as_json,
            counted=counts_of,
            assumes=ASSUMES,
            most_calls=2 * options.samples + rubrics * (options.samples + 3),
        )
        return Facts(identity={"rrd": {**asdict(options), "samplers": list(options.samplers)}}, staged=True, own=own)

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: HumanRubrics) -> Decision:  # noqa: ARG002
        """Mine the prompt's rubrics, judge both responses by them, and add up."""
        miner = Miner(judge, self.others, self.options, self.tally)
        try:
            mined = await miner.mine(shown.prompt)
            self.tally.accepted[hash(shown.prompt)] = len(mined)
            made = tuple(Reasked(key) for key in miner.keys)
            miner.keys.clear()
            decision = await self._judged(miner, mined, shown)
            return replace(decision, requests=(*made, *dict.fromkeys(miner.keys)))
        except FailedCallError as failed:
            return undecided(failed.answer, shown, tuple(Reasked(key) for key in miner.keys))

    async def _judged(self, miner: Miner, mined: Mined, shown: Presentation) -> Decision:
        """Judge both responses by the rubrics; without a difference compare them directly."""
        questions = Questions(self.options, shown.prompt)
        weights = whitened_uniform([verdicts for _, verdicts in mined], shrink=self.options.shrink)
        asks = [
            questions.satisfied(response, rubric, planned=response == shown.response_a)
            for response in (shown.response_a, shown.response_b)
            for rubric, _ in mined
        ]
        passed = await miner.ask_all(Stage.FINAL, asks)
        parts = tuple(
            Contribution(rubric=rubric, comparison=_comparison(rubric, a, b), weight=weight)
            for (rubric, _), a, b, weight in zip(
                mined, passed[: len(mined)], passed[len(mined) :], weights, strict=True
            )
        )
        flags = (MISSING,) if any(part.comparison is None for part in parts) else ()
        found = decided(total(parts), shown, parts, (), flags)
        if found.margin:
            return found
        said = await miner.ask(Stage.FALLBACK, questions.direct(shown))
        return undecided(NO_VERDICT, shown) if said is None else decided(said.margin, shown, (), (), (*flags, FALLBACK))


def _comparison(rubric: Rubric, a: bool | None, b: bool | None) -> RubricComparison | None:
    """Return two verdicts as a comparison whose Δ is g(A) − g(B); None if one of them is missing."""
    return None if a is None or b is None else RubricComparison.likely(rubric.id, Chances(float(a), float(b), EVEN))


RECIPES = {"rrd": Recipe(make=lambda _, parts: Rrd(options=parts.options or RrdOptions()), options=RrdOptions)}
