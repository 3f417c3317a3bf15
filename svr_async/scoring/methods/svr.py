"""`svr` and `uniform`: Support Vector Rubrics; the bank chooses rubrics for a prompt, the judge decides, F adds up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from svr_async.core.pair import HumanRubrics, Presentation
from svr_async.core.verdict import Contribution, RubricComparison
from svr_async.judges.protocol import Judge
from svr_async.scoring.decision import Decision, decided, total, undecided
from svr_async.scoring.methods.contract import BankUse, Facts, Parts, Recipe
from svr_async.scoring.methods.simple import Direct
from svr_async.scoring.rephraser import Rephraser, new_wordings, reworded
from svr_async.scoring.selection import Active, Chooser, open_chooser

REPHRASED = "+rephrase"  # end of the name of a method that is given a rephraser once its judge is open


@dataclass(frozen=True, slots=True)
class Svr:
    """F = Σ alpha · weight · Δ over the rubrics that the bank chooses (paper `sec:margin`, `app:topk`).

    `name` is `svr`, or `uniform` for the ablation in which the chosen rubrics weigh 1 each. With a `rephraser` the
    chosen rubrics are put in words that fit the prompt first, which costs a second call a prompt. `svr` asks directly
    with a bank that learned too little to decide by (`InferenceSettings.direct`).
    """

    chooser: Chooser
    name: str = "svr"
    rephraser: Rephraser | None = None

    @property
    def facts(self) -> Facts:
        """Facts that a run needs."""
        chooser = self.chooser
        use = BankUse(
            top_k=chooser.settings.top_k,
            direct=self._is_direct,
            taught_by=frozenset(chooser.bank.data_digests.values()),
            with_top_k=lambda top_k: replace(
                self, chooser=open_chooser(chooser.bank, top_k=top_k, uniform=chooser.uniform)
            ),
            with_rephraser=lambda rephraser: replace(self, rephraser=rephraser),
        )
        return Facts(identity=chooser.identity, staged=self.name.endswith(REPHRASED), bank=use)

    @property
    def _is_direct(self) -> bool:
        return self.chooser.settings.direct and not self.chooser.uniform

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: HumanRubrics) -> Decision:
        """Ask for verdicts on the chosen rubrics, in the bank's stable order of ids, and add them up."""
        if self._is_direct:
            return await Direct().decide(judge, shown, human_rubrics)
        active = self.chooser.choose(shown.prompt)
        rubrics = sorted((self.chooser.bank.rubrics[entry.index].rubric for entry in active), key=lambda r: r.id)
        asked = await new_wordings(self.rephraser, shown.prompt, rubrics)
        if asked.value is None:
            return undecided(asked, shown)
        shown_rubrics = [reworded(rubric, asked.value) for rubric in rubrics]
        answer = await judge.compare(shown, shown_rubrics, overall=False)
        if answer.value is None:
            return undecided(answer, shown, asked.requests)
        parts = self._contributions(active, answer.value.rows, asked.value)
        return decided(total(parts), shown, parts, asked.requests + answer.requests, asked.flags + answer.flags)

    def _contributions(
        self, active: Sequence[Active], rows: Sequence[RubricComparison], texts: Mapping[str, str]
    ) -> tuple[Contribution, ...]:
        by_id = {row.rubric_id: row for row in rows}
        entries = [(entry, self.chooser.bank.rubrics[entry.index].rubric) for entry in active]
        return tuple(
            Contribution(
                rubric=rubric,
                comparison=by_id.get(rubric.id),
                alpha=entry.alpha,
                weight=entry.weight,
                filler=entry.filler,
                rephrased=texts.get(rubric.id),
            )
            for entry, rubric in entries
        )


def _make(name: str, parts: Parts) -> Svr:
    assert parts.bank is not None
    chooser = open_chooser(parts.bank, top_k=parts.top_k, uniform=name == "uniform")
    return Svr(chooser, f"{name}{REPHRASED}" if parts.rephrase else name)


RECIPES = dict.fromkeys(("svr", "uniform"), Recipe(make=_make, takes=frozenset({"bank", "rephrase"}), needs="bank"))
