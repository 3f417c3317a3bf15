"""`rrd`: Recursive Rubric Decomposition, a prompt's rubrics mined from sampled responses (paper `app:rrd_repro`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from svr_async.core.pair import HumanRubrics, Presentation
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import EVEN, Chances, Contribution, Outcome, RubricComparison
from svr_async.judges.protocol import Answer, Judge, Reasked
from svr_async.scoring.decision import Decision
from svr_async.scoring.methods.contract import Facts, OwnWords, Parts, Recipe
from svr_async.scoring.methods.decisions import decided, undecided
from svr_async.scoring.rrd.mining import FailedCallError, Mined, Miner
from svr_async.scoring.rrd.options import RrdOptions
from svr_async.scoring.rrd.questions import TEMPLATES, Questions
from svr_async.scoring.rrd.tally import Stage, Tally, counts_of
from svr_async.scoring.rrd.weights import whitened_uniform

FALLBACK = "rrd_fallback"  # no rubric was accepted, or they found no difference: the judge was asked directly
MISSING = "missing_rubrics"
NO_VERDICT: Answer[object] = Answer(
    value=None, outcome=Outcome.PARSE_ERROR, detail="the direct comparison has no verdict"
)
ASSUMES = (
    "5 rubrics proposed a prompt, they and their children decomposed, half of what is left repeating another: "
    "for 1,147 prompts the paper counts 1,147 proposals, 13,981 decompositions and 273,232 judgments of samples"
)


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
        """What a run has to know of it."""
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


def _make(_name: str, parts: Parts) -> Rrd:
    return Rrd(options=parts.options or RrdOptions())


RECIPE = Recipe(make=_make, options=RrdOptions)
