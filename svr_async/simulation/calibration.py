"""What judges of the planted world score on fresh pairs, computed without any server: the figures to expect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from svr_async.core.pair import Order, Side, hashed_order, present, prompt_text
from svr_async.simulation.judge import PlantedJudge
from svr_async.simulation.language import Language
from svr_async.simulation.models import MODELS
from svr_async.simulation.planted import PlantedPair, PlantedWorld
from svr_async.simulation.readings import PromptReading, ResponseReading

JUDGE = "gpt-oss-120b"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Accuracies of a served model on `n` pairs, fractions of 1; each is a way of deciding with its noisy verdicts."""

    model: str
    n: int
    direct: float
    self_written: float
    human: float
    human_true_weights: float
    all_wordings: float
    longest: float


@dataclass(frozen=True, slots=True)
class _Shown:
    """A pair read by the simulation in the order that the judge sees."""

    item: PlantedPair
    prompt: PromptReading
    a: ResponseReading
    b: ResponseReading
    lengths: tuple[int, int]
    gold: Side


def calibrate(world: PlantedWorld, n: int = 1000, *, model: str = JUDGE, split: str = "calibration") -> Calibration:
    """Decide `n` fresh pairs in every way and return the share that each gets right."""
    return calibrate_items(world, list(world.pairs(n, split)), model=model)


def calibrate_items(world: PlantedWorld, items: Sequence[PlantedPair], *, model: str = JUDGE) -> Calibration:
    """Decide the given pairs in every way and return the share that each gets right."""
    judge = PlantedJudge(world, world.model(MODELS[model]))
    shown = [_show(world.language, item) for item in items]
    return Calibration(
        model=model,
        n=len(shown),
        direct=_share(judge.prefer(s.prompt, s.a, s.b) is s.gold for s in shown),
        self_written=_share(_by_rubrics(judge, s, judge.write_rubrics(s.prompt)) is s.gold for s in shown),
        human=_share(_by_rubrics(judge, s, world.human_rubrics(s.item)) is s.gold for s in shown),
        human_true_weights=_share(_by_truth(judge, s) is s.gold for s in shown),
        all_wordings=_share(_by_truth(judge, s, wordings=None) is s.gold for s in shown),
        longest=_share((Side.A if s.lengths[0] > s.lengths[1] else Side.B) is s.gold for s in shown),
    )


def share_by_weights(
    world: PlantedWorld,
    items: Sequence[PlantedPair],
    weights_of: Callable[[str], Iterable[tuple[int, float]]],
    *,
    model: str = JUDGE,
) -> float:
    """Decide the given pairs by the criteria and weights that each prompt's text tells; return the share right."""
    judge = PlantedJudge(world, world.model(MODELS[model]))
    told = [(_show(world.language, item), weights_of(prompt_text(item.pair.prompt))) for item in items]
    return _share(_weighed(judge, shown, weights) is shown.gold for shown, weights in told)


def _show(language: Language, item: PlantedPair) -> _Shown:
    order = hashed_order(item.pair.id)
    shown = present(item.pair, order)
    gold = item.pair.gold or Side.A
    a, b = shown.response_a, shown.response_b
    return _Shown(
        item,
        language.read_prompt(prompt_text(item.pair.prompt)),
        language.read_response(a),
        language.read_response(b),
        (len(a), len(b)),
        gold if order is Order.AB else gold.other(),
    )


def _by_rubrics(judge: PlantedJudge, shown: _Shown, rubrics: Iterable[str]) -> Side:
    read = judge.world.language.read_rubric
    return judge.overall([judge.compare(shown.prompt, shown.a, shown.b, read(text)) for text in rubrics])


def _by_truth(judge: PlantedJudge, shown: _Shown, *, wordings: int | None = 1) -> Side:
    """Decide by the criteria that the type really cares about, with their true weights, each in so many wordings."""
    kind = judge.world.kinds[shown.item.kind]
    return _weighed(judge, shown, zip(kind.cares, kind.weights, strict=True), wordings)


def _weighed(
    judge: PlantedJudge, shown: _Shown, weighed: Iterable[tuple[int, float]], wordings: int | None = 1
) -> Side:
    """Decide by criteria with weights; a criterion's verdict is the mean over its first wordings, None: over all."""
    language, total = judge.world.language, 0.0
    for number, weight in weighed:
        texts = language.wordings(number)[:wordings]
        rows = [judge.compare(shown.prompt, shown.a, shown.b, language.read_rubric(text)) for text in texts]
        total += weight * sum(row.delta or 0.0 for row in rows) / len(rows)
    return Side.A if total > 0 else Side.B


def _share(hits: Iterable[bool]) -> float:
    marks = list(hits)
    return sum(marks) / max(1, len(marks))
