"""Which rubrics of a bank a prompt is judged by."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svr_async.core.pair import Prompt, prompt_text
from svr_async.fit.forward import Selector, alpha_numpy, selector_of
from svr_async.fit.tfidf import Vocabulary, transform
from svr_async.scoring.bank import UNIFORM, InferenceSettings, RubricBank
from svr_async.scoring.selection import Active, TextSimilarities, select

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
    _digest: str = ""
    _kept: dict[str, tuple[Active, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.bank.selector_kind != UNIFORM:
            self._selector = selector_of(self.bank.selector_kind, self.bank.selector)
            self._vocabulary = Vocabulary(terms=dict(self.bank.vocabulary), idf=np.array(self.bank.idf))
        self._similarities = TextSimilarities(self.bank.texts)

    @property
    def identity(self) -> dict[str, Any]:
        """What of the bank can change an item: its digest and how its rubrics are selected."""
        if not self._digest:  # it takes as long as judging a pair otherwise does
            self._digest = self.bank.digest
        return {"bank": [self._digest, self.settings.as_json()]}

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
        disabled = [place for place, entry in enumerate(self.bank.rubrics) if entry.disabled]
        active = select(self._alpha(text), self.bank.weights, self._similarities, self.settings, disabled)
        if self.uniform:
            return tuple(replace(entry, alpha=1.0, weight=1.0) for entry in active)
        return active

    def _alpha(self, text: str) -> NDArray[np.float32]:
        if self._selector is None or self._vocabulary is None:
            return np.full(len(self.bank), 1.0 / len(self.bank), dtype=np.float32)
        _, index, value = transform(self._vocabulary, [text])
        alpha = alpha_numpy(self._selector, index, value)
        alpha[[place for place, entry in enumerate(self.bank.rubrics) if entry.added]] = 1.0
        return alpha


def open_chooser(bank: RubricBank, *, top_k: int | None = None, uniform: bool = False) -> Chooser:
    """Return the chooser of a bank, with another `top_k` than the bank's where one is given: then rubrics decide."""
    settings = bank.inference
    if top_k is not None:
        settings = replace(settings, direct=False, top_k=top_k, selection_pool=max(settings.selection_pool, top_k))
    return Chooser(bank, settings, uniform)
