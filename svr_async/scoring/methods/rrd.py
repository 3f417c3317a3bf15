"""`rrd`: Recursive Rubric Decomposition, a prompt's rubrics mined from sampled responses (paper `app:rrd_repro`).

The prompts are ours, written from the paper's description of the method.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from statistics import fmean, median
from typing import Annotated, Any, TypeVar

import numpy as np
from msgspec import Meta

from svr_async.core.pair import HumanRubrics, Presentation, Prompt, prompt_text
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import EVEN, Chances, Outcome, RubricComparison
from svr_async.engine.concurrency import bounded_map
from svr_async.judges.model import Ask, asked, sampled
from svr_async.judges.protocol import Answer, Judge, Preference, Reasked
from svr_async.judges.questions import read_text, read_texts
from svr_async.judges.reader import read_direct, read_mark
from svr_async.scoring.decision import Decision, contributions, decided, distinct, total, undecided
from svr_async.scoring.methods.registry import Facts, OwnWords, Recipe, named_judge

FALLBACK = "rrd_fallback"  # no rubric was accepted, or they found no difference: the judge was asked directly
MISSING = "missing_rubrics"
ASSUMES = (
    "5 rubrics proposed a prompt, they and their children decomposed, half of the rest repeating another: "
    "for 1,147 prompts the paper counts 1,147 proposals, 13,981 decompositions and 273,232 judgments of samples"
)
TEMPLATES = ("rrd_rubrics", "rrd_decompose", "rrd_judge", "rrd_filter")
STAGES = (
    "generation", "reference", "proposal", "sample_judgments", "decomposition", "direction_filter",
    "redundancy_filter", "final_judgments", "fallback",
)  # fmt: skip
WRITTEN = {"proposal": ("rrd_rubrics", "proposed_rubrics"), "decomposition": ("rrd_decompose", "finer_rubrics")}
LIMITS = {"rrd_rubrics": "proposal_tokens", "rrd_judge": "judge_tokens", "direct": "direct_tokens"}  # other: "tokens"
PLANNED_DEPTH = 2  # a dry run has rubrics of this depth satisfied by too few samples to be decomposed
T = TypeVar("T")
Verdicts = Sequence[bool | None]
Mined = Sequence[tuple[Rubric, Verdicts]]  # a prompt's accepted rubrics with their verdicts on the samples
Tokens = Annotated[int, Meta(ge=1, le=1_000_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RrdOptions:
    """How rubrics are mined, and by which judges.

    `samples` responses a prompt come from `samplers` in turn, by default the judge, at `temperature` and `top_p`. A
    rubric that more than `broad` of them satisfy is replaced by `children` finer ones, down to `depth`; after
    `rejections` rejected rubrics the search ends. `strong` and `weak` write the references of the direction filter: by
    default the first sample, and the judge's own worse response. `initial` bounds the rubrics proposed. `shrink` draws
    the covariance of verdicts to a multiple of the identity: 8 samples say little of as many rubrics. The tokens bound
    single replies: of a judgment, a proposal, a direct comparison, and all others.
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


@dataclass(slots=True)
class Tally:
    """The first stage of each question, by its cache key; the number of rubrics of each prompt."""

    stages: dict[str, str] = field(default_factory=dict)
    accepted: dict[int, int] = field(default_factory=dict)

    def as_json(self) -> Mapping[str, Any]:
        """Return the number of questions by stage, and of rubrics by prompt."""
        asked = Counter(self.stages.values())
        return {"asked": {stage: asked[stage] for stage in STAGES}, "rubrics": list(self.accepted.values())}


def counts_of(tallies: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the sum of the tallies of all shards of a run: questions by stage; mean and median of rubrics a prompt."""
    sizes = [size for tally in tallies for size in tally["rubrics"]]
    asked = {stage: sum(tally["asked"][stage] for tally in tallies) for stage in STAGES}
    mean, middle = (round(fmean(sizes), 2), median(sizes)) if sizes else (None, None)
    return asked | {"rubrics_mean": mean, "rubrics_median": middle}


class FailedCallError(Exception):
    """A call failed for good, with its answer: no decision is made without it."""


@dataclass(slots=True)
class Miner:
    """Asks the questions of one prompt, with `responses` the samples; `keys` are the cache keys of all questions."""

    method: Rrd
    judge: Judge
    prompt: Prompt
    responses: tuple[str, ...] = ()
    keys: list[str] = field(default_factory=list)

    async def mine(self) -> Mined:
        """Return the rubrics; empty without samples or a proposal. FailedCallError if a call failed."""
        options = self.method.options
        names = options.samplers or ("",)  # they take turns, and each has its own numbers
        places = [(names[turn % len(names)], 1 + turn // len(names)) for turn in range(options.samples)]
        samples = [await self._sample("generation", name, number) for name, number in places]
        self.responses = tuple(text for text in samples if text is not None)
        if not self.responses:
            return ()
        references = await self._references(samples[0])
        waiting = deque((rubric, 0) for rubric in await self._rubrics("proposal", options.initial))
        accepted: list[tuple[Rubric, Verdicts]] = []
        seen, rejected = set[str](), 0
        while waiting and rejected < options.rejections:
            rubric, depth = waiting.popleft()
            if rubric.id in seen:
                continue
            seen.add(rubric.id)
            asks = [self.satisfies(text, rubric, planned=depth < PLANNED_DEPTH) for text in self.responses]
            verdicts = await self.ask("sample_judgments", *asks)
            if verdicts.count(True) > options.broad and depth < options.depth:
                written = await self._rubrics("decomposition", options.children, [rubric])
                finer = [(child, depth + 1) for child in written if child.id != rubric.id]
                waiting.extend(finer)
                if finer:
                    continue
            planned_fate = "OVERLAP" if len(seen) % 2 else "NEW"  # a dry run has half of them repeat another
            if await self._is_rejected(rubric, [one for one, _ in accepted], *references, planned_fate):
                rejected += 1
            else:
                accepted.append((rubric, verdicts))
        return accepted

    async def ask(self, stage: str, *asks: Ask[T]) -> list[T | None]:
        """Put questions, all at once, and count them; None if a reply cannot be read."""
        async with aclosing(bounded_map(partial(asked, self.judge), asks, workers=len(asks))) as answers:
            found = {place: answer async for place, answer in answers}
        return [self._value(stage, found[place]) for place in range(len(asks))]  # keys in the order of the questions

    def satisfies(self, response: str, rubric: Rubric, *, planned: bool) -> Ask[bool]:
        """Ask whether one response satisfies one rubric; a dry run assumes the answer `planned`."""

        def read(text: str) -> bool:
            return read_mark(text, "yes|no", str.upper, "[[YES]] or [[NO]]", (response,)) == "YES"

        return self.question("rrd_judge", read, planned, 30, [rubric], RESPONSE=response)

    async def _rubrics(self, stage: str, most: int, replaced: Sequence[Rubric] = ()) -> Sequence[Rubric]:
        """Have rubrics written, conditioned on the samples: initial ones, or finer ones in place of one."""
        template, key = WRITTEN[stage]
        names = [f"{rubric.text}{number}." for rubric in replaced for number in range(1, most + 1)]
        planned = distinct(names or [f"Planned rubric {number}." for number in range(1, 6)])
        samples = "\n\n".join(f"Response {number}:\n{text}" for number, text in enumerate(self.responses, 1))

        def read(text: str) -> tuple[Rubric, ...]:
            return distinct(read_texts(text, key, most)[0])

        ask = self.question(template, read, planned, 40 * len(planned), replaced, RESPONSES=samples)
        return (await self.ask(stage, ask))[0] or ()

    async def _is_rejected(
        self, rubric: Rubric, accepted: Sequence[Rubric], strong: str | None, weak: str | None, planned: str
    ) -> bool:
        """Whether the weak reference alone satisfies a rubric, or it repeats or contradicts an accepted one."""

        async def passes(response: str, *, planned: bool) -> bool | None:
            return (await self.ask("direction_filter", self.satisfies(response, rubric, planned=planned)))[0]

        if strong and weak and await passes(weak, planned=False) and await passes(strong, planned=True) is False:
            return True
        if not accepted:
            return False

        def read(text: str) -> str:
            return read_mark(text, "new|overlap|conflict", str.upper, "[[NEW]], [[OVERLAP]] or [[CONFLICT]]")

        ask = self.question("rrd_filter", read, planned, 40, [rubric, *accepted])
        return (await self.ask("redundancy_filter", ask))[0] not in {"NEW", None}

    async def _references(self, first: str | None) -> tuple[str | None, str | None]:
        """Return the strong and the weak reference."""
        options = self.method.options
        strong = await self._sample("reference", options.strong) if options.strong else first
        if options.weak:
            return strong, await self._sample("reference", options.weak)
        if strong is None:
            return None, None
        ask = self.question("probe", read_text, "Planned worse response.", len(strong) // 4, CHOSEN=strong)
        return strong, (await self.ask("reference", ask))[0]

    async def _sample(self, stage: str, name: str, number: int = 1) -> str | None:
        judge, options = named_judge(name, self.judge, self.method.others), self.method.options
        answer = await sampled(judge, self.prompt, number, temperature=options.temperature, top_p=options.top_p)
        return self._value(stage, answer)

    def _value(self, stage: str, answer: Answer[T]) -> T | None:
        self.keys += answer.requests
        for key in answer.requests:
            self.method.tally.stages.setdefault(key, stage)
        if answer.value is None and answer.outcome is Outcome.API_ERROR:
            raise FailedCallError(answer)
        return answer.value

    def question(
        self, name: str, read: Callable[[str], T], planned: T, tokens: int, rubrics: Sequence[Rubric] = (), **texts: str
    ) -> Ask[T]:
        """Return a question with the prompt; a dry run assumes the answer `planned` of `tokens` tokens."""
        limit = None if name == "probe" else getattr(self.method.options, LIMITS.get(name, "tokens"))
        return Ask(
            template=name,
            texts={"PROMPT": prompt_text(self.prompt), **texts},
            read=read,
            placeholder=planned,
            tokens=tokens,
            most_tokens=limit,
            rubrics=rubrics or None,
        )


def whitened_uniform(verdicts: Sequence[Sequence[float | None]], *, shrink: float) -> list[float]:
    """Return the weights Σ^(−1/2) · 1 of rubrics, which add up to 1, from their verdicts on the same responses.

    `verdicts` are (rubrics, responses), 1 for a yes and 0 for a no; None counts as the rubric's mean. Σ is their
    covariance over responses, drawn by `shrink` to a multiple of the identity, since there are often more rubrics than
    responses. Without any variance all weigh the same. A negative weight, which would reverse its rubric, is 0. The
    method is RRD's "WU"; shrinking and this bound are ours.
    """
    if not verdicts:
        return []
    rows = np.ma.masked_invalid(np.array(verdicts, dtype=np.float64))  # None becomes NaN
    centred = (rows - rows.mean(axis=1, keepdims=True)).filled(0.0)
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

    w are whitened-uniform weights. The mined rubrics depend on the prompt alone, so the cache serves all its pairs.
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
        own = OwnWords(
            templates=TEMPLATES,
            bind=lambda others: replace(self, others=others, tally=Tally()),
            others=tuple(dict.fromkeys(filter(None, (*options.samplers, options.strong, options.weak)))),
            tallied=self.tally.as_json,
            counted=counts_of,
            assumes=ASSUMES,
        )
        return Facts(identity={"rrd": {**asdict(options), "samplers": list(options.samplers)}}, staged=True, own=own)

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: HumanRubrics) -> Decision:  # noqa: ARG002
        """Mine the prompt's rubrics, judge both responses by them, and add up."""
        miner = Miner(self, judge, shown.prompt)
        try:
            mined = await miner.mine()
            self.tally.accepted[hash(shown.prompt)] = len(mined)
            n_mining = len(miner.keys)
            decision = await self._judged(miner, mined, shown)
        except FailedCallError as failed:
            return undecided(replace(failed.args[0], requests=()), shown, tuple(map(Reasked, miner.keys)))
        mining, judging = miner.keys[:n_mining], dict.fromkeys(miner.keys[n_mining:])
        return replace(decision, requests=(*map(Reasked, mining), *judging))

    async def _judged(self, miner: Miner, mined: Mined, shown: Presentation) -> Decision:
        """Judge both responses by the rubrics; without a difference compare them directly."""
        asks = [
            miner.satisfies(response, rubric, planned=response == shown.response_a)
            for response in (shown.response_a, shown.response_b)
            for rubric, _ in mined
        ]
        passed = await miner.ask("final_judgments", *asks)
        weights = whitened_uniform([verdicts for _, verdicts in mined], shrink=self.options.shrink)
        rubrics = [rubric for rubric, _ in mined]
        rows = [
            RubricComparison.likely(rubric.id, Chances(float(a), float(b), EVEN))  # its Δ is g(A) − g(B)
            for rubric, a, b in zip(rubrics, passed[: len(mined)], passed[len(mined) :], strict=True)
            if a is not None and b is not None
        ]
        parts = contributions(tuple(zip(rubrics, weights, strict=True)), rows)
        flags = (MISSING,) if len(rows) < len(mined) else ()
        found = decided(total(parts), shown, parts, (), flags)
        if found.margin:
            return found
        texts = {"RESPONSE_A": shown.response_a, "RESPONSE_B": shown.response_b}
        read = partial(read_direct, quoted=tuple(texts.values()))
        ask = miner.question("direct", read, Preference(margin=1.0), 150, (), **texts)
        (preference,) = await miner.ask("fallback", ask)
        if preference is None:
            detail = "the direct comparison has no verdict"
            return Decision(margin=None, outcome=Outcome.PARSE_ERROR, shown=shown.order, detail=detail)
        return decided(preference.margin, shown, (), (), (*flags, FALLBACK))


RECIPES = {"rrd": Recipe(make=lambda _, parts: Rrd(options=parts.options or RrdOptions()), options=RrdOptions)}
