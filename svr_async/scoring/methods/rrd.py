"""`rrd`: Recursive Rubric Decomposition, a prompt's rubrics mined from sampled responses (paper `app:rrd_repro`).

The prompts are ours, written from the paper's description of the method.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import partial
from statistics import fmean, median
from typing import Any, TypeVar

import numpy as np

from svr_async.core.pair import HumanRubrics, Presentation, Prompt, prompt_text
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import EVEN, Chances, Contribution, Outcome, RubricComparison
from svr_async.engine.concurrency import bounded_map
from svr_async.errors import UsageError
from svr_async.judges.model import Ask, asked, sampled
from svr_async.judges.protocol import Answer, Judge, Preference, Reasked
from svr_async.judges.questions import read_text, read_texts
from svr_async.judges.reader import read_direct, read_mark
from svr_async.scoring.decision import Decision, decided, undecided
from svr_async.scoring.methods.contract import Facts, OwnWords, Recipe

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
KEY_DIGITS = 16  # of a cache key in hex, enough to distinguish questions
PLANNED_DEPTH = 2  # a dry run has rubrics of this depth satisfied by too few samples to be decomposed
RANGES = {
    "samples": (1, 64), "broad": (0, 64), "children": (1, 16), "depth": (0, 8), "rejections": (1, 1_000),
    "initial": (1, 100),
}  # fmt: skip
TOKENS = dict.fromkeys(("tokens", "proposal_tokens", "judge_tokens", "direct_tokens"), (1, 1_000_000))
T = TypeVar("T")
Verdicts = tuple[bool | None, ...]


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

    samples: int = 8
    samplers: tuple[str, ...] = ()
    temperature: float = 0.7
    top_p: float = 0.95
    initial: int = 10
    broad: int = 2
    children: int = 2
    depth: int = 3
    rejections: int = 15
    strong: str = ""
    weak: str = ""
    shrink: float = 0.5
    tokens: int = 2048
    proposal_tokens: int = 4096
    judge_tokens: int = 256
    direct_tokens: int = 512

    def __post_init__(self) -> None:
        for name, (least, most) in {**RANGES, **TOKENS}.items():
            if not least <= getattr(self, name) <= most:
                raise ValueError(f"{name} is from {least} to {most:,} (got {getattr(self, name)})")
        for name, low, high in (("temperature", 0, 2), ("top_p", 0, 1), ("shrink", 0, 1)):
            value, words = getattr(self, name), "from" if name == "temperature" else "above"
            if not low <= value <= high or (name != "temperature" and not value):
                raise ValueError(f"{name} is {words} {low}, at most {high} (got {value})")

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
    """Questions by stage, and how many rubrics each prompt came to."""

    keys: dict[Stage, set[int]] = field(default_factory=lambda: {stage: set() for stage in Stage})
    accepted: dict[int, int] = field(default_factory=dict)

    def note(self, stage: Stage, keys: Iterable[str]) -> None:
        """Count questions of a stage by their cache keys."""
        self.keys[stage].update(int(key[:KEY_DIGITS], 16) for key in keys)

    def counts(self) -> Mapping[str, Any]:
        """Return the questions of each stage, and mean and median of the rubrics that prompts were left with."""
        return counts_of([self.as_json()])

    def as_json(self) -> Mapping[str, Any]:
        """Return the questions of each stage, and how many rubrics the prompts were left with."""
        return {
            "asked": {stage.value: len(keys) for stage, keys in self.keys.items()},
            "rubrics": list(self.accepted.values()),
        }


def counts_of(tallies: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return what the tallies of processes that judged other prompts each come to: questions by stage, mean, median."""
    sizes = [size for tally in tallies for size in tally["rubrics"]]
    asked = {stage.value: sum(tally["asked"][stage.value] for tally in tallies) for stage in Stage}
    return asked | {
        "rubrics_mean": round(fmean(sizes), 2) if sizes else None,
        "rubrics_median": median(sizes) if sizes else None,
    }


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

    def _texts(self, **more: str) -> Mapping[str, str]:
        return {"PROMPT": prompt_text(self.prompt), **more}

    @property
    def _sampled(self) -> str:
        return "\n\n".join(f"Response {number}:\n{text}" for number, text in enumerate(self.responses, 1))

    def worse(self, strong: str) -> Ask[str]:
        """Ask for a plausible but worse response than the strong reference."""
        return Ask(
            template="probe",
            texts=self._texts(CHOSEN=strong),
            read=read_text,
            placeholder="Planned worse response.",
            tokens=len(strong) // 4,
        )

    def proposal(self) -> Ask[tuple[Rubric, ...]]:
        """Ask for the initial rubrics, conditioned on the samples."""
        return Ask(
            template="rrd_rubrics",
            texts=self._texts(RESPONSES=self._sampled),
            read=lambda text: read_rubrics(text, "proposed_rubrics", self.options.initial),
            placeholder=tuple(Rubric(text=f"{PLANNED} {number}.") for number in range(1, 6)),
            tokens=200,
            most_tokens=self.options.proposal_tokens,
        )

    def decomposition(self, rubric: Rubric) -> Ask[tuple[Rubric, ...]]:
        """Ask for finer rubrics in the place of one."""
        most = self.options.children
        return Ask(
            template="rrd_decompose",
            texts=self._texts(RESPONSES=self._sampled),
            rubrics=[rubric],
            read=lambda text: read_rubrics(text, "finer_rubrics", most),
            placeholder=tuple(Rubric(text=f"{rubric.text}{number}.") for number in range(1, most + 1)),
            tokens=40 * most,
            most_tokens=self.options.tokens,
        )

    def satisfied(self, response: str, rubric: Rubric, *, planned: bool) -> Ask[bool]:
        """Ask whether one response satisfies one rubric; `planned` is what a dry run takes for the answer."""
        return Ask(
            template="rrd_judge",
            texts=self._texts(RESPONSE=response),
            rubrics=[rubric],
            read=lambda text: read_mark(text, "yes|no", str.upper, "[[YES]] or [[NO]]", (response,)) == "YES",
            placeholder=planned,
            tokens=30,
            most_tokens=self.options.judge_tokens,
        )

    def redundancy(self, rubric: Rubric, accepted: Sequence[Rubric], *, planned: Fate) -> Ask[Fate]:
        """Ask whether a rubric repeats or contradicts an accepted one."""
        return Ask(
            template="rrd_filter",
            texts=self._texts(),
            rubrics=[rubric, *accepted],
            read=_read_fate,
            placeholder=planned,
            tokens=40,
            most_tokens=self.options.tokens,
        )

    def direct(self, shown: Presentation) -> Ask[Preference]:
        """Ask for a direct comparison, where rubrics decide nothing."""
        return Ask(
            template="direct",
            texts=self._texts(RESPONSE_A=shown.response_a, RESPONSE_B=shown.response_b),
            read=partial(read_direct, quoted=(shown.response_a, shown.response_b)),
            placeholder=Preference(margin=1.0),
            tokens=150,
            most_tokens=self.options.direct_tokens,
        )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Mined:
    """A prompt's accepted rubrics with their verdicts on the samples."""

    rubrics: tuple[Rubric, ...] = ()
    verdicts: tuple[Verdicts, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A rubric that is not decomposed further, with its verdicts, the references and its number in the search."""

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
        """Return the strong and the weak reference; the first sample serves as strong if the same judge wrote it."""
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
    rows = np.array([[np.nan if one is None else one for one in row] for row in verdicts], dtype=np.float64)
    known = np.isfinite(rows)
    counts = np.maximum(known.sum(axis=1, keepdims=True), 1)
    means = np.where(known, rows, 0.0).sum(axis=1, keepdims=True) / counts
    centred = np.where(known, rows - means, 0.0)
    covariance = centred @ centred.T / max(1, rows.shape[1])
    scale = float(np.trace(covariance)) / len(rows)
    if scale <= 0:
        return [1.0 / len(rows)] * len(rows)
    drawn = (1 - shrink) * covariance + shrink * scale * np.eye(len(rows))
    values, vectors = np.linalg.eigh(drawn)
    inverse = 1.0 / np.sqrt(np.maximum(values, 1e-9 * scale))
    weights = np.maximum(vectors @ (inverse * (vectors.T @ np.ones(len(rows)))), 0.0)
    total = float(weights.sum())
    return [float(one) for one in weights / total] if total > 0 else [1.0 / len(rows)] * len(rows)


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
            self.tally.accepted[hash(shown.prompt)] = len(mined.rubrics)
            made = tuple(Reasked(key) for key in miner.keys)
            miner.keys.clear()
            return await self._judged(miner, mined, shown, made)
        except FailedCallError as failed:
            return undecided(failed.answer, shown, tuple(Reasked(key) for key in miner.keys))

    async def _judged(self, miner: Miner, mined: Mined, shown: Presentation, made: tuple[str, ...]) -> Decision:
        questions = Questions(self.options, shown.prompt)
        weights = whitened_uniform(mined.verdicts, shrink=self.options.shrink)
        asks = [
            questions.satisfied(response, rubric, planned=response == shown.response_a)
            for response in (shown.response_a, shown.response_b)
            for rubric in mined.rubrics
        ]
        passed = await miner.ask_all(Stage.FINAL, asks)
        rows = map(_row, mined.rubrics, passed, passed[len(mined.rubrics) :])
        parts = [
            Contribution(rubric=rubric, comparison=row, weight=weight)
            for rubric, row, weight in zip(mined.rubrics, rows, weights, strict=True)
        ]
        flags = (MISSING,) if any(part.comparison is None for part in parts) else ()
        found = decided(sum(part.value for part in parts), shown, tuple(parts), made, flags)
        if not found.margin:
            found = await self._directly(miner, questions, shown, found)
        return replace(found, requests=(*made, *dict.fromkeys(miner.keys)))

    async def _directly(self, miner: Miner, questions: Questions, shown: Presentation, found: Decision) -> Decision:
        """Decide by a direct comparison, without contributions of rubrics."""
        said = await miner.ask(Stage.FALLBACK, questions.direct(shown))
        if said is None:
            return undecided(NO_VERDICT, shown)
        return decided(said.margin, shown, (), (), (*found.flags, FALLBACK))


def _row(rubric: Rubric, a: bool | None, b: bool | None) -> RubricComparison | None:
    """Return two verdicts as a comparison whose Δ is g(A) − g(B); None where one of them is not known."""
    return None if a is None or b is None else RubricComparison.likely(rubric.id, Chances(float(a), float(b), EVEN))


RECIPES = {"rrd": Recipe(make=lambda _, parts: Rrd(options=parts.options or RrdOptions()), options=RrdOptions)}
