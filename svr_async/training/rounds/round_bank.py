"""From a fitted round to a bank: the rubrics with what is known about each, the selector, the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svr_async.fit.forward import Selector, alpha_numpy
from svr_async.fit.tfidf import Vocabulary
from svr_async.scoring.bank import BankHistory, BankRubric, InferenceSettings, RubricBank
from svr_async.training.bank.merge import EXAMPLES, Candidate, bank_rubric
from svr_async.training.rounds.fits import rated
from svr_async.training.rounds.session import FittedRound, Session

BEFORE_EQUALS = 1e-9  # breaks ties only: far below the difference of two alphas in single precision
DIRECT = (
    "The fit was no better than a coin on prompts that were left out, so with this bank the judge is asked directly. "
    "--top-k lets the rubrics decide all the same."
)
Features = tuple[NDArray[np.integer], NDArray[np.float32]]


def build_bank(
    session: Session,
    fitted: FittedRound,
    *,
    dev_metrics: Mapping[str, Any],
    licence: str,
    judge: str = "",
    prompts_digest: str = "",
    history: BankHistory | None = None,
) -> RubricBank:
    """Return the bank of a round; `judge` labels its results, if more is known than the judge's own label."""
    prompts = session.material.prompts
    first: dict[int, str] = {}
    for pair in session.material.train:
        first.setdefault(prompts.row(pair), pair.id)
    rows = [list(first)[place] for place in rated(len(first)).tolist()]
    rubrics = describe(
        fitted.bank,
        fitted.selector,
        [(first[row], prompts.features(row)) for row in rows],
        support=fitted.support_counts,
        domains={pair.id: pair.domain for pair in session.material.train},
    )
    return assemble(
        rubrics,
        fitted.selector,
        session.material.vocabulary,
        fitted.settings,
        fit_settings=session.config.as_json(),
        dev_metrics=dict(dev_metrics),
        judge=judge or session.judges.judge.label,
        marks=session.judges.judge.marks,
        licence=licence,
        prompts_digest=prompts_digest,
        data_digests={"pairs": session.material.digest},
        history=history,
    )


def assemble(
    rubrics: tuple[BankRubric, ...],
    selector: Selector,
    vocabulary: Vocabulary,
    settings: InferenceSettings,
    **fields: Any,
) -> RubricBank:
    """Join rubrics, selector and features to a bank, with further fields of `RubricBank`."""
    return RubricBank(
        rubrics=rubrics,
        selector_kind=selector.kind,
        selector=selector.tensors(),
        vocabulary=vocabulary.terms,
        idf=vocabulary.idf,
        inference=settings,
        notes=(DIRECT,) if settings.direct else (),
        **fields,
    )


def describe(
    bank: Sequence[Candidate],
    selector: Selector,
    prompts: Sequence[tuple[str, Features]],
    *,
    support: Mapping[str, int],
    domains: Mapping[str, str],
) -> tuple[BankRubric, ...]:
    """Return the rubrics with weight, mean alpha and the prompts that activate each most.

    `prompts` are (pair id, features) of the training prompts that are rated, each once. Of equals, as all prompts of a
    cluster are, those that the rubric was mined from come first, then the earlier.
    """
    total, best = np.zeros(len(bank)), np.zeros((len(bank), EXAMPLES))
    places = np.full((len(bank), EXAMPLES), -1, dtype=np.int64)
    every = np.arange(len(bank))
    mined: dict[str, list[int]] = {}
    for place, candidate in enumerate(bank):
        for pair_id in candidate.source_pair_ids:
            mined.setdefault(pair_id, []).append(place)
    for number, (pair_id, features) in enumerate(prompts):
        alpha = alpha_numpy(selector, *features).astype(np.float64)
        total += alpha
        alpha[[place for place in mined.get(pair_id, ()) if alpha[place] > 0]] += BEFORE_EQUALS
        lowest = np.where(best == best.min(axis=1, keepdims=True), places, -2).argmax(axis=1)  # of equals, the latest
        better = alpha > best[every, lowest]
        best[better, lowest[better]] = alpha[better]
        places[better, lowest[better]] = number
    rates = np.minimum(1.0, total / max(1, len(prompts)))
    order = np.lexsort((places, -best))
    return tuple(
        bank_rubric(
            candidate,
            weight=float(selector.weight[place]),
            activation_rate=float(rates[place]),
            support_count=support.get(candidate.rubric.id, 0),
            example_prompts=[prompts[int(n)][0] for n in places[place][order[place]] if n >= 0],
            domains=domains,
        )
        for place, candidate in enumerate(bank)
    )
