"""How a bank does on the dev split as it will be used, and the settings that do best there."""

from __future__ import annotations

from collections.abc import Sequence

from svr_async.fit.forward import Selector, alpha_numpy
from svr_async.scoring.bank import InferenceSettings
from svr_async.scoring.selection import TextSimilarities, select
from svr_async.training.asking import PoolTask
from svr_async.training.config import TrainConfig
from svr_async.training.judging import judge_tasks
from svr_async.training.merge import Candidate
from svr_async.training.session import Session


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


def _settings(config: TrainConfig, top_k: int, filler: float) -> InferenceSettings:
    return InferenceSettings(top_k=top_k, selection_pool=max(config.selection_pool, top_k), filler_weight=filler)
