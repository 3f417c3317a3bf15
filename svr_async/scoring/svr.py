"""Support Vector Rubrics at inference: the bank chooses rubrics for a prompt, the judge decides, F adds up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from svr_async.fit.forward import Selector, alpha_numpy, selector_of
from svr_async.fit.tfidf import Vocabulary, transform
from svr_async.judges.protocol import Judge
from svr_async.scoring.bank import UNIFORM, InferenceSettings, RubricBank
from svr_async.scoring.decision import Decision
from svr_async.scoring.methods import Pointwise, decided, total, undecided
from svr_async.scoring.rephrasing import Rephraser, worded
from svr_async.scoring.selection import Active, TextSimilarities, select
from svr_async.vocabulary.pair import Presentation, Prompt, prompt_text
from svr_async.vocabulary.verdict import Contribution, RubricComparison

MAX_KEPT_CHOICES = 4096


@dataclass(slots=True)
class Chooser:
    """Chooses a bank's rubrics for a prompt, before any response is seen. NumPy only."""

    bank: RubricBank
    settings: InferenceSettings
    uniform: bool = False
    _selector: Selector | None = None
    _vocabulary: Vocabulary | None = None
    _similarities: TextSimilarities | None = None
    _kept: dict[str, tuple[Active, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.bank.selector_kind != UNIFORM:
            self._selector = selector_of(self.bank.selector_kind, self.bank.selector)
            self._vocabulary = Vocabulary(terms=dict(self.bank.vocabulary), idf=np.array(self.bank.idf))
        self._similarities = TextSimilarities(self.bank.texts)

    def choose(self, prompt: Prompt) -> tuple[Active, ...]:
        """Return the rubrics for a prompt, most important first; with `uniform` each of them weighs 1."""
        text = prompt_text(prompt)
        known = self._kept.get(text)
        if known is None:
            known = self._choose(text)
            if len(self._kept) < MAX_KEPT_CHOICES:
                self._kept[text] = known
        return known

    def _choose(self, text: str) -> tuple[Active, ...]:
        assert self._similarities is not None
        active = select(self._alpha(text), self.bank.weights, self._similarities, self.settings)
        if self.uniform:
            return tuple(replace(entry, alpha=1.0, weight=1.0) for entry in active)
        return active

    def _alpha(self, text: str) -> NDArray[np.float32]:
        if self._selector is None or self._vocabulary is None:
            return np.full(len(self.bank), 1.0 / len(self.bank), dtype=np.float32)
        _, index, value = transform(self._vocabulary, [text])
        return alpha_numpy(self._selector, index, value)


@dataclass(frozen=True, slots=True)
class Svr:
    """F = Σ alpha · weight · Δ over the rubrics that the bank chooses (paper `sec:margin`, `app:topk`).

    `name` is `svr`, or `uniform` for the ablation in which the chosen rubrics weigh 1 each. With a `rephraser` the
    chosen rubrics are put in words that fit the prompt first, which costs a second call a prompt.
    """

    chooser: Chooser
    name: str = "svr"
    rephraser: Rephraser | None = None

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: Sequence[str]) -> Decision:  # noqa: ARG002
        """Ask for verdicts on the chosen rubrics, in the bank's stable order of ids, and add them up."""
        active = self.chooser.choose(shown.prompt)
        rubrics = sorted((self.chooser.bank.rubrics[entry.index].rubric for entry in active), key=lambda r: r.id)
        asked = await worded(self.rephraser, shown.prompt, rubrics)
        if asked.value is None:
            return undecided(asked, shown)
        answer = await judge.compare(shown, asked.value.rubrics, overall=False)
        if answer.value is None:
            return undecided(answer, shown, asked.requests)
        parts = self._contributions(active, answer.value.rows, asked.value.texts)
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


@dataclass(frozen=True, slots=True)
class SvrPointwise:
    """The pointwise ablation: each response scored alone on the chosen rubrics, z = score_a − score_b."""

    chooser: Chooser
    name: str = "pointwise"

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: Sequence[str]) -> Decision:
        """Score both responses and add up the weighted differences."""
        active = self.chooser.choose(shown.prompt)
        weighted = tuple((self.chooser.bank.rubrics[entry.index].rubric, entry.importance) for entry in active)
        return await Pointwise(tuple(sorted(weighted, key=lambda item: item[0].id))).decide(judge, shown, human_rubrics)


def open_chooser(bank: RubricBank, *, top_k: int | None = None, uniform: bool = False) -> Chooser:
    """Return the chooser of a bank, with another `top_k` than the bank's where one is given."""
    settings = bank.inference
    if top_k is not None:
        settings = replace(settings, top_k=top_k, selection_pool=max(settings.selection_pool, top_k))
    return Chooser(bank, settings, uniform)
