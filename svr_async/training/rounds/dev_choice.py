"""How a bank does on the dev split as it will be used: settings, the round to publish, and simpler ways to decide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svr_async.core.pair import hashed_order, present
from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import Choice
from svr_async.fit.forward import Baselines, Selector, alpha_numpy, linear_margins
from svr_async.scoring.bank import InferenceSettings
from svr_async.scoring.dev_pairs import enough
from svr_async.scoring.selection import TextSimilarities, select
from svr_async.training.bank.merge import Candidate
from svr_async.training.rounds.config import Publish, TrainConfig
from svr_async.training.rounds.judge_calls import PoolTask, cached_preferences, sign_of
from svr_async.training.rounds.pools import judge_tasks
from svr_async.training.rounds.session import FittedRound, Session

Hits = NDArray[np.float64]  # for each dev pair 1 if it is decided as people did, 0.5 for a tie, else 0
USES = {
    "the unweighted vote": "svr eval --method uniform with this bank",
    "one weight per rubric for all prompts": "svr-fit {store} --out DIR --sweep groups=1",
    "the judge asked directly": "svr eval --method direct with this judge",
}


async def judge_missing(session: Session, number: int, bank: Sequence[Candidate], selector: Selector) -> None:
    """Judge the dev pairs on the rubrics that they would get at inference, unless they were judged."""
    config, material = session.config, session.material
    index = {candidate.rubric.id: place for place, candidate in enumerate(bank)}
    similarities = TextSimilarities([candidate.rubric.text for candidate in bank])
    rows = {material.prompts.row(pair) for pair in material.dev}
    alphas = {row: alpha_numpy(selector, *material.prompts.features(row)) for row in rows}
    widest = _settings(config, max(*config.top_k_choices, *config.fit.top_ks), 1.0)
    tasks = []
    for pair in material.dev:
        active = select(alphas[material.prompts.row(pair)], selector.weight, similarities, widest)
        known = set(session.ledger.asked(pair.id, index).tolist())
        missing = [bank[entry.index].rubric for entry in active if entry.index not in known]
        if missing:
            tasks.append(PoolTask(pair, missing))
    await judge_tasks(session, f"dev-{number}", tasks)


def choose_settings(
    config: TrainConfig, selector: Selector, texts: Sequence[str], dev: FitArrays, choice: Choice | None = None
) -> tuple[InferenceSettings, Hits]:
    """Choose top_k and filler weight by accuracy on dev pairs, judged as at inference; also return the hits.

    A top_k that was chosen with the structure, on many more pairs, stays. A structure that did no better than a coin
    leaves pairs to the judge's direct verdict. `texts` are those of the selector's rubrics, `dev` holds their entries.
    Ties of accuracy go to the smaller top_k, then the smaller filler weight; a missing entry counts 0.
    """
    similarities = TextSimilarities(texts)
    top_ks = sorted(config.top_k_choices) if choice is None else [choice.structure.top_k]
    tried = [_settings(config, top_k, filler) for top_k, filler in product(top_ks, sorted(config.filler_weights))]
    hits = np.zeros((len(tried), dev.n_pairs))
    for pair, alpha, entries in _with_alpha(selector, dev):
        for place, settings in enumerate(tried):
            active = select(alpha, selector.weight, similarities, settings)
            hits[place, pair] = hits_of(sum(entry.importance * entries.get(entry.index, 0.0) for entry in active))
    best = int(np.argmax(hits.sum(axis=1)))
    return replace(tried[best], direct=choice is not None and not choice.is_proven), hits[best]


def hits_of(margins: Any) -> Any:
    """Return 1 for a margin above 0, 0.5 for a tie, 0 below."""
    return (1 + np.sign(margins)) / 2


def unjudged_share(settings: InferenceSettings, selector: Selector, texts: Sequence[str], dev: FitArrays) -> float:
    """Return the share of the entries that these settings need for the dev pairs and that are missing.

    After `judge_missing` only abstentions are. A store that was judged for another bank may lack many.
    """
    similarities = TextSimilarities(texts)
    wanted = missing = 0
    for _, alpha, entries in _with_alpha(selector, dev):
        active = select(alpha, selector.weight, similarities, settings)
        wanted += len(active)
        missing += sum(entry.index not in entries for entry in active)
    return missing / max(1, wanted)


def _with_alpha(selector: Selector, dev: FitArrays) -> Iterator[tuple[int, NDArray[np.float32], dict[int, Any]]]:
    """Yield each pair with alpha and its entries by rubric, pairs of a prompt together: one alpha is held at a time."""
    weighted: NDArray[np.float32] = dev.weighted
    row, alpha = -1, selector.weight
    for pair in np.argsort(dev.pair_prompt, kind="stable").tolist():
        if row != (row := int(dev.pair_prompt[pair])):
            alpha = alpha_numpy(selector, *dev.features(row))
        span = slice(int(dev.z_indptr[pair]), int(dev.z_indptr[pair + 1]))
        yield pair, alpha, dict(zip(dev.z_rubric[span].tolist(), weighted[span], strict=True))


def _settings(config: TrainConfig, top_k: int, filler: float) -> InferenceSettings:
    return InferenceSettings(top_k=top_k, selection_pool=max(config.selection_pool, top_k), filler_weight=filler)


def chosen_round(rounds: Sequence[FittedRound], n_dev: int, publish: Publish = "auto") -> FittedRound:
    """Return the round whose bank is published; `n_dev` dev pairs were judged.

    `last` is Algorithm 1. `best` is by dev accuracy, the first of equals, as in the authors' public code; on a small
    dev split that is chance, and later rounds have seen more judgements. `auto`, which is ours, is the last unless an
    earlier one is better by more than a standard error.
    """
    top = max(rounds, key=lambda one: one.dev_accuracy)
    if publish != "auto":
        return top if publish == "best" else rounds[-1]
    error = (top.dev_accuracy * (1 - top.dev_accuracy) / max(1, n_dev)) ** 0.5
    return next(one for one in reversed(rounds) if one.dev_accuracy >= top.dev_accuracy - error)


# ── simpler ways to decide ──────────────────────────────────────────────────────────────────────────────────────────


async def direct_hits(session: Session) -> Hits | None:
    """Return the hits of the judge's direct verdicts on the dev pairs; None unless all are in the cache."""
    shown = [present(pair, hashed_order(pair.id)) for pair in session.material.dev]
    found = await cached_preferences(session.judges, shown)
    if found is None:
        return None
    return np.array([hits_of(sign_of(pair) * margin) for pair, margin in zip(session.material.dev, found, strict=True)])


def baseline_hits(found: Baselines | None, dev: FitArrays) -> dict[str, Hits]:
    """Return the hits of the vote and of one weight per rubric on dev pairs, by name."""
    if found is None:
        return {}
    dev, even = dev.without_own(), np.ones(dev.n_rubrics)
    return {
        "the unweighted vote": hits_of(linear_margins(even, dev)),
        "one weight per rubric for all prompts": hits_of(linear_margins(found.weight, dev)),
    }


def better_than_bank(bank: Hits, others: Mapping[str, Hits | None], store: str) -> str:
    """Return a sentence if another way decides the dev pairs better by more than the standard error; else "".

    The error is that of the mean difference, pair by pair. With too few dev pairs nothing is reported.
    """
    found = []
    for name, hits in others.items():
        if hits is not None and enough(len(bank)):
            gains = hits - bank
            error = float(gains.std(ddof=1)) / len(gains) ** 0.5
            if gains.mean() > error:
                found.append((float(gains.mean()), error, name))
    if not found:
        return ""
    gain, error, name = max(found)
    accuracy = f"{100 * (float(bank.mean()) + gain):.1f} % against {100 * float(bank.mean()):.1f} %"
    how = USES[name].format(store=store)
    return f"{name} is better than the bank on {len(bank)} held-out pairs ({accuracy}, ± {100 * error:.1f}): use {how}"
