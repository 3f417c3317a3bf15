"""How a bank does on the dev split as it will be used, the settings that do best there, and the round to publish."""

from __future__ import annotations

from collections.abc import Sequence

from svr_async.fit.forward import Selector, alpha_numpy
from svr_async.scoring.bank import InferenceSettings
from svr_async.scoring.selection import TextSimilarities, select
from svr_async.training.asking import PoolTask
from svr_async.training.config import Publish, TrainConfig
from svr_async.training.judging import judge_tasks
from svr_async.training.merge import Candidate
from svr_async.training.session import FittedRound, Session


async def measure(
    session: Session, number: int, bank: Sequence[Candidate], selector: Selector
) -> tuple[InferenceSettings, float]:
    """Judge the dev pairs as at inference, and choose top_k and filler weight by accuracy on them.

    Ties of accuracy go to the smaller top_k, then the smaller filler weight. A tied margin counts half.
    """
    config, material = session.config, session.material
    index = {candidate.rubric.id: place for place, candidate in enumerate(bank)}
    similarities = TextSimilarities([candidate.rubric.text for candidate in bank])
    alphas = {
        row: alpha_numpy(selector, *material.prompts.features(row))
        for row in {material.prompts.row(pair) for pair in material.dev}
    }
    widest = max(config.top_k_choices)
    tasks = []
    for pair in material.dev:
        active = select(
            alphas[material.prompts.row(pair)], selector.weight, similarities, _settings(config, widest, 1.0)
        )
        known = set(session.ledger.asked(pair.id, index).tolist())
        missing = [bank[entry.index].rubric for entry in active if entry.index not in known]
        if missing:
            tasks.append(PoolTask(pair, missing))
    await judge_tasks(session, f"dev-{number}", tasks)
    z = {pair.id: dict(zip(*map(list, session.ledger.entries(pair.id, index)), strict=True)) for pair in material.dev}
    best: tuple[float, InferenceSettings] | None = None
    for top_k in sorted(config.top_k_choices):
        for filler in sorted(config.filler_weights):
            settings = _settings(config, top_k, filler)
            hits = 0.0
            for pair in material.dev:
                active = select(alphas[material.prompts.row(pair)], selector.weight, similarities, settings)
                margin = sum(entry.importance * z[pair.id].get(entry.index, 0.0) for entry in active)
                hits += 0.5 if margin == 0 else float(margin > 0)
            accuracy = round(hits / max(1, len(material.dev)), 6)
            if best is None or accuracy > best[0]:
                best = (accuracy, settings)
    assert best is not None
    return best[1], best[0]


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
