"""Selects a bank's rubrics for a prompt: the most important ones, then the most different ones for free slots.

Also says why a verdict on one pair is weak: a bank without similar training prompts, checks without a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svr_async.core.integrity import Integrity, Marks
from svr_async.core.pair import Prompt, prompt_text
from svr_async.core.similarity import similarity
from svr_async.fit.forward import alpha_numpy, selector_of
from svr_async.fit.tfidf import Vocabulary, fold, transform
from svr_async.judges.rules.content import stem
from svr_async.judges.rules.lexicon import STOPWORDS
from svr_async.judges.rules.text import TextView
from svr_async.scoring.bank import UNIFORM, InferenceSettings, RubricBank
from svr_async.scoring.decision import Decision

Floats = NDArray[np.float32]
MAX_KEPT_CHOICES = 4096
SHOWN_WORDS = 5
DIRECT = "on held-out prompts the bank was no better than guessing, so the judge was asked directly"


@dataclass(frozen=True, slots=True)
class Active:
    """A rubric in use for a prompt, by its place in the bank. A filler has alpha 1 and the filler weight as weight."""

    index: int
    alpha: float
    weight: float
    filler: bool = False

    @property
    def importance(self) -> float:
        """Alpha times weight: the factor of this rubric's Δ in the margin."""
        return self.alpha * self.weight


_similarity = lru_cache(1 << 17)(similarity)  # of the texts of a few banks


def select(
    alpha: Floats, weight: Floats, texts: Sequence[str], settings: InferenceSettings, disabled: Sequence[int] = ()
) -> tuple[Active, ...]:
    """Return the rubrics to use, in the order chosen (paper `app:topk`).

    `alpha`, `weight` and `texts` have one entry for each rubric. The pool is the best `selection_pool` by importance
    alpha · weight (ties: the larger weight, then the earlier rubric). Up to `top_k` of it with importance > 0 come
    first. Free slots go, one by one, to the rubric of the pool whose largest similarity to those chosen is lowest
    (ties: the better one), each weighing `filler_weight`; a filler weight of 0 leaves them free. Top_k and pool are
    clipped to the bank. Rubrics at the places `disabled` are in no pool.
    """
    if alpha.shape != weight.shape or alpha.ndim != 1:
        raise ValueError(f"alpha and weight must be vectors of one length (got {alpha.shape} and {weight.shape})")
    importance = alpha.astype(np.float64) * weight
    order = np.lexsort((-weight, -importance))
    pool = order[~np.isin(order, disabled)][: max(settings.selection_pool, settings.top_k)].tolist()
    best = [index for index in pool if importance[index] > 0][: settings.top_k]
    chosen = tuple(Active(index, float(alpha[index]), float(weight[index])) for index in best)
    free = min(settings.top_k, len(pool)) - len(best) if settings.filler_weight > 0 else 0
    fillers = _different([index for index in pool if index not in best], best, free, texts)
    return chosen + tuple(Active(index, 1.0, settings.filler_weight, filler=True) for index in fillers)


def _different(pool: Sequence[int], chosen: Sequence[int], wanted: int, texts: Sequence[str]) -> list[int]:
    """Return `wanted` of the pool, each the least similar to all that are chosen by then; ties in the pool's order."""
    if wanted <= 0:
        return []
    nearest = {i: max((_similarity(texts[i], texts[other]) for other in chosen), default=0.0) for i in pool}
    fillers: list[int] = []
    while nearest and len(fillers) < wanted:
        taken = min(nearest, key=lambda index: nearest[index])  # the first of equals, so the better one
        del nearest[taken]
        fillers.append(taken)
        for index, value in nearest.items():
            nearest[index] = max(value, _similarity(texts[index], texts[taken]))
    return fillers


@dataclass(kw_only=True)
class Chooser:
    """Chooses a bank's rubrics for a prompt, before any response is seen. NumPy only.

    With `uniform` each of them weighs 1.
    """

    bank: RubricBank
    settings: InferenceSettings
    uniform: bool = False

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Everything of the bank that can change an item: its digest and how its rubrics are selected."""
        return {"bank": [self.bank.digest, self.settings.as_json()]}

    def choose(self, prompt: Prompt) -> tuple[Active, ...]:
        """Return the rubrics for a prompt, most important first."""
        return self._chosen(prompt_text(prompt))

    @cached_property
    def _chosen(self) -> Callable[[str], tuple[Active, ...]]:
        """Return what chooses for the text of a prompt, and keeps its last choices."""
        bank, alpha = self.bank, _alpha_of(self.bank)
        weights, texts = bank.weights, bank.texts
        disabled = [place for place, entry in enumerate(bank.rubrics) if entry.disabled]

        def choose(text: str) -> tuple[Active, ...]:
            active = select(alpha(text), weights, texts, self.settings, disabled)
            return tuple(replace(entry, alpha=1.0, weight=1.0) for entry in active) if self.uniform else active

        return lru_cache(MAX_KEPT_CHOICES)(choose)


def _alpha_of(bank: RubricBank) -> Callable[[str], Floats]:
    """Return what computes alpha of a prompt's text; without a fitted selector it is the same for all."""
    if bank.selector_kind == UNIFORM:
        return lambda _: np.full(len(bank), 1.0 / len(bank), dtype=np.float32)
    selector = selector_of(bank.selector_kind, bank.selector)
    vocabulary = Vocabulary(terms=dict(bank.vocabulary), idf=np.array(bank.idf))
    added = [place for place, entry in enumerate(bank.rubrics) if entry.added]

    def alpha(text: str) -> Floats:
        _, index, value = transform(vocabulary, [text])
        found = alpha_numpy(selector, index, value)
        found[added] = 1.0
        return found

    return alpha


def open_chooser(bank: RubricBank, *, top_k: int | None = None, uniform: bool = False) -> Chooser:
    """Return the chooser of a bank, with another `top_k` than the bank's if given: then rubrics decide."""
    settings = bank.inference
    if top_k is not None:
        settings = replace(settings, direct=False, top_k=top_k, selection_pool=max(settings.selection_pool, top_k))
    return Chooser(bank=bank, settings=settings, uniform=uniform)


# ── why a verdict on one pair is weak ──


def doubts_of(
    decision: Decision, prompt: Prompt, bank: RubricBank | None, marks: Marks, *, direct: bool = False
) -> tuple[str, ...]:
    """Return why a decision is weak, the most important reason first; empty without a reason.

    `marks` are the judge's. `direct` says that a bank left the verdict to the judge.
    """
    if decision.margin is None or "identical" in decision.flags:
        return ()
    found = [DIRECT] if direct else []
    if bank is not None and not direct and bank.selector_kind != UNIFORM:
        found += _unlike(prompt, bank)
    if Integrity.OFFLINE_RULES in marks:
        found += _alike(decision, "check" if bank is None or direct else "rubric")
    return tuple(found)


def _unlike(prompt: Prompt, bank: RubricBank) -> Iterator[str]:
    """Yield a doubt if at least half of the content words of a prompt are in no training prompt."""
    head = TextView(fold(prompt_text(prompt))).head.lower_words
    words = dict.fromkeys(word for word in head if len(word) > 2 and word.isalpha() and word not in STOPWORDS)
    known = {stem(word) for term in bank.vocabulary for word in term.split()}
    new = [word for word in words if stem(word) not in known]
    if new and 2 * len(new) >= len(words):
        shown = ", ".join(new[:SHOWN_WORDS]) + (" …" if len(new) > SHOWN_WORDS else "")
        yield f"the bank was trained on no similar prompt: {shown} never occurred"


def _alike(decision: Decision, what: str) -> Iterator[str]:
    """Describe doubts about checks: no rubric separates the responses, or words of the request decide."""
    deciding = [entry for entry in decision.contributions if entry.value]
    check = max(deciding, key=lambda entry: abs(entry.value)).rubric.check if deciding else None
    if check is not None and check.name == "refuses_harm":
        yield "a list of words, not a reader, took the request for harmful"
    if not any(one.comparison is not None and one.comparison.a != one.comparison.b for one in deciding):
        alike = f"no {what} is met by one response and missed by the other"
        closer = f"{alike}: the verdict only says which is closer, a guess"
        yield closer if decision.margin else f"no difference found: {alike}"
        yield "offline checks look at form, wording and safety, never at whether an answer is true"
