"""`svr` and `uniform`: Support Vector Rubrics; the bank chooses rubrics for a prompt, the judge decides, F adds up.

As an option, a model first adapts the chosen rubrics to the prompt, before any response is seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from svr_async.core.pair import HumanRubrics, Presentation, Prompt
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Contribution, Outcome
from svr_async.errors import UsageError
from svr_async.judges.protocol import Answer, Judge
from svr_async.judges.rules.judge import check_of
from svr_async.scoring.decision import Decision, decided, total, undecided
from svr_async.scoring.methods.registry import Facts, Parts, Recipe
from svr_async.scoring.methods.simple import Direct
from svr_async.scoring.selection import Chooser, open_chooser

REPHRASED = "+rephrase"  # suffix of the name of a method with a rephraser
KEPT = "rephrase_kept"  # some rubrics got no clear wording and kept their original text
FAILED = "rephrase_failed"  # without a readable reply: all rubrics kept their original text


@runtime_checkable
class Rephraser(Protocol):
    """Something that rewrites rubrics for a prompt."""

    async def rephrase(self, prompt: Prompt, rubrics: Sequence[Rubric]) -> Answer[Mapping[str, str]]:
        """Return new wordings by rubric id; a rubric without a sure one is absent."""


def rephraser_of(author: object, judge: str) -> Rephraser:
    """Return the author as a rephraser; UsageError where it cannot rephrase."""
    if isinstance(author, Rephraser):
        return author
    hint = "name the judge of an endpoint, or judge with the rubrics as they are"
    raise UsageError(f"the judge {judge} cannot rephrase rubrics: it has no model", hint=hint)


@dataclass(frozen=True, slots=True)
class Svr:
    """F = Σ alpha · weight · Δ over the rubrics that the bank chooses (paper `sec:margin`, `app:topk`).

    `name` is `svr`, or `uniform` for the ablation in which the chosen rubrics weigh 1 each. A `rephraser` costs a
    second call a prompt. `svr` asks directly with a bank that learned too little (`InferenceSettings.direct`).
    """

    chooser: Chooser
    name: str = "svr"
    rephraser: Rephraser | None = None

    @property
    def facts(self) -> Facts:
        """Facts that a run needs."""
        chooser = self.chooser
        return Facts(
            identity=chooser.identity,
            staged=self.name.endswith(REPHRASED),
            direct=chooser.settings.direct and not chooser.uniform,
            taught_by=frozenset(chooser.bank.data_digests.values()),
        )

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: HumanRubrics) -> Decision:
        """Ask for verdicts on the chosen rubrics, in the bank's stable order of ids, and add them up."""
        if self.chooser.settings.direct and not self.chooser.uniform:
            return await Direct().decide(judge, shown, human_rubrics)
        active = [(entry, self.chooser.bank.rubrics[entry.index].rubric) for entry in self.chooser.choose(shown.prompt)]
        rubrics = sorted((rubric for _, rubric in active), key=lambda rubric: rubric.id)
        wordings = await self._wordings(shown.prompt, rubrics)
        if wordings.value is None:
            return undecided(wordings, shown)
        texts = wordings.value
        answer = await judge.compare(shown, [_reworded(rubric, texts) for rubric in rubrics], overall=False)
        if answer.value is None:
            return undecided(answer, shown, wordings.requests)
        rows = {row.rubric_id: row for row in answer.value.rows}
        parts = tuple(
            Contribution(
                rubric=rubric,
                comparison=rows.get(rubric.id),
                alpha=entry.alpha,
                weight=entry.weight,
                filler=entry.filler,
                rephrased=texts.get(rubric.id),
            )
            for entry, rubric in active
        )
        return decided(total(parts), shown, parts, wordings.requests + answer.requests, wordings.flags + answer.flags)

    async def _wordings(self, prompt: Prompt, rubrics: Sequence[Rubric]) -> Answer[Mapping[str, str]]:
        """Return texts that fit the prompt, by rubric id; empty without a rephraser.

        A rubric that the reply leaves out keeps its own text, and so do all if the model refuses or its reply cannot
        be parsed: both are flagged. If the endpoint failed the value is missing, so that a fault changes no margin.
        """
        if self.rephraser is None or not rubrics:
            return Answer(value={})
        answer = await self.rephraser.rephrase(prompt, rubrics)
        if answer.value is None and answer.outcome is Outcome.API_ERROR:
            return answer
        texts = answer.value or {}
        flags = () if len(texts) == len(rubrics) else (KEPT if texts else FAILED,)
        return Answer(value=texts, requests=answer.requests, flags=flags)


def _reworded(rubric: Rubric, texts: Mapping[str, str]) -> Rubric:
    """Return the rubric with its new text and its old id; a check that its own text stands for stays its check."""
    new = texts.get(rubric.id)
    return rubric if new is None else replace(rubric, text=new, check=check_of(rubric))


def _make(name: str, parts: Parts) -> Svr:
    assert parts.bank is not None
    chooser = open_chooser(parts.bank, top_k=parts.top_k, uniform=name == "uniform")
    return Svr(chooser, f"{name}{REPHRASED}" if parts.rephrase else name)


RECIPES = dict.fromkeys(("svr", "uniform"), Recipe(make=_make, takes=frozenset({"bank", "rephrase"}), needs="bank"))
