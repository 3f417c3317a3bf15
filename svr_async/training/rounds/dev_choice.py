"""How a bank does on the dev split as it will be used, the settings that do best there, and the round to publish."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svr_async.fit.arrays import FitArrays
from svr_async.fit.choices import Choice
from svr_async.fit.forward import Selector, alpha_numpy
from svr_async.scoring.bank import InferenceSettings
from svr_async.scoring.selection import TextSimilarities, select
from svr_async.training.bank.merge import Candidate
from svr_async.training.rounds.config import Publish, TrainConfig
from svr_async.training.rounds.judge_calls import PoolTask
from svr_async.training.rounds.pools import judge_tasks
from svr_async.training.rounds.session import FittedRound, Session


async def judge_missing(session: Session, number: int, bank: Sequence[Candidate], selector: Selector) -> None:
    """Judge the dev pairs on what they would be judged on at inference, where they were not yet."""
    config, material = session.config, session.material
    index = {candidate.rubric.id: place for place, candidate in enumerate(bank)}
    similarities = TextSimilarities([candidate.rubric.text for candidate in bank])
    alphas = {
        row: alpha_numpy(selector, *material.prompts.features(row))
        for row in {material.prompts.row(pair) for pair in material.dev}
    }
    tasks = []
    for pair in material.dev:
        active = select(alphas[material.prompts.row(pair)], selector.weight, similarities, _widest(config))
        known = set(session.ledger.asked(pair.id, index).tolist())
        missing = [bank[entry.index].rubric for entry in active if entry.index not in known]
        if missing:
            tasks.append(PoolTask(pair, missing))
    await judge_tasks(session, f"dev-{number}", tasks)


def choose_settings(
    config: TrainConfig, selector: Selector, texts: Sequence[str], dev: FitArrays, choice: Choice | None = None
) -> tuple[InferenceSettings, float]:
    """Choose top_k and filler weight by accuracy on dev pairs, judged as at inference; return it beside them.

    A top_k that was chosen with the structure, on many more pairs, stands. A structure that did no better than a coin
    leaves pairs to the judge's direct verdict.

    `texts` are those of the selector's rubrics, `dev` holds their entries. Ties of accuracy go to the smaller top_k,
    then the smaller filler weight. A tied margin counts half; an entry that is not there counts 0.
    """
    similarities = TextSimilarities(texts)
    fillers = sorted(config.filler_weights)
    tried = [_settings(config, top_k, filler) for top_k, filler in product(_top_ks(config, choice), fillers)]
    hits = np.zeros(len(tried))
    for alpha, entries in _with_alpha(selector, dev):
        for place, settings in enumerate(tried):
            active = select(alpha, selector.weight, similarities, settings)
            margin = sum(entry.importance * entries.get(entry.index, 0.0) for entry in active)
            hits[place] += 0.5 if margin == 0 else float(margin > 0)
    accuracy = [round(float(right) / max(1, dev.n_pairs), 6) for right in hits]
    best = accuracy.index(max(accuracy))
    return replace(tried[best], direct=choice is not None and not choice.is_proven), accuracy[best]


def unjudged_share(settings: InferenceSettings, selector: Selector, texts: Sequence[str], dev: FitArrays) -> float:
    """Return the share of the entries that dev pairs would be judged on with these settings and that are not there.

    0 right after `judge_missing`, but for abstentions. A store that was judged for another bank may lack many.
    """
    similarities = TextSimilarities(texts)
    wanted = missing = 0
    for alpha, entries in _with_alpha(selector, dev):
        active = select(alpha, selector.weight, similarities, settings)
        wanted += len(active)
        missing += sum(entry.index not in entries for entry in active)
    return missing / max(1, wanted)


def _with_alpha(selector: Selector, dev: FitArrays) -> Iterator[tuple[NDArray[np.float32], dict[int, Any]]]:
    """Yield alpha and the entries by rubric of each pair, pairs of a prompt together: one alpha is held at a time."""
    weighted: NDArray[np.float32] = dev.weighted
    row, alpha = -1, selector.weight
    for pair in np.argsort(dev.pair_prompt, kind="stable").tolist():
        if row != (row := int(dev.pair_prompt[pair])):
            alpha = alpha_numpy(selector, *dev.features(row))
        start, stop = int(dev.z_indptr[pair]), int(dev.z_indptr[pair + 1])
        yield alpha, dict(zip(dev.z_rubric[start:stop].tolist(), weighted[start:stop], strict=True))


def _top_ks(config: TrainConfig, choice: Choice | None) -> list[int]:
    return sorted(config.top_k_choices) if choice is None else [choice.structure.top_k]


def _widest(config: TrainConfig) -> InferenceSettings:
    return _settings(config, max(*config.top_k_choices, *config.fit.top_ks), 1.0)


def chosen_round(rounds: Sequence[FittedRound], n_dev: int, publish: Publish = "auto") -> FittedRound:
    """Return the round whose bank is published; `n_dev` dev pairs were judged.

    `last` is Algorithm 1. `best` is by dev accuracy, of equals the first, as the authors' public code does; on a small
    dev split that picks a round by chance, and later rounds have seen more judgements. `auto`, which is ours, is the
    last unless an earlier one is better by more than a standard error.
    """
    top = max(rounds, key=lambda one: one.dev_accuracy)
    if publish != "auto":
        return top if publish == "best" else rounds[-1]
    error = (top.dev_accuracy * (1 - top.dev_accuracy) / max(1, n_dev)) ** 0.5
    return next(one for one in reversed(rounds) if one.dev_accuracy >= top.dev_accuracy - error)


def _settings(config: TrainConfig, top_k: int, filler: float) -> InferenceSettings:
    return InferenceSettings(top_k=top_k, selection_pool=max(config.selection_pool, top_k), filler_weight=filler)
