"""Rewards for TRL: `reward_funcs=svr_reward`, in GRPOTrainer, RLOOTrainer and AsyncGRPOTrainer."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any

from svr_async.errors import EndpointDownError, UsageError
from svr_async.scoring.bank import RubricBank
from svr_async.serving.engine import Engine
from svr_async.serving.hooks.judging import PREFIX, HookSettings, configure, current, read_settings, with_engine
from svr_async.serving.pairs import all_of, number
from svr_async.serving.ranking import Ranking, arank
from svr_async.serving.scores import Score, ascore
from svr_async.serving.texts import as_prompt, as_response

__all__ = ["SvrReward", "configure", "svr_reward"]
SHOWN_RUBRICS = 3
logger = logging.getLogger(__name__)


async def svr_reward(
    prompts: Sequence[Any], completions: Sequence[Any], *, rubrics: Sequence[Any] | None = None, **given: Any
) -> list[float | None]:
    """Return a reward for each completion; None without a verdict, which TRL masks.

    The settings are those of `configure(judge=…, bank=…)`, or of SVR_HOOK_JUDGE and the like. Groups of one prompt are
    ranked within themselves; with method `pointwise` each completion is scored alone. A dataset column `rubrics` (a
    list of criteria with points for each row) is used instead of both: Σ points · satisfied. If TRL passes `log_extra`
    and `log_metric`, reasons and shares are logged.
    """
    return await SvrReward(**asdict(current()))(prompts, completions, rubrics=rubrics, **given)


class SvrReward:
    """`svr_reward` with its own settings: `SvrReward(judge="…", bank="…")`; TRL awaits it from 1.14 on."""

    def __init__(self, *, name: str = "svr_reward", **settings: Any) -> None:
        self.__name__ = name
        self.settings = read_settings(settings)

    async def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], *, rubrics: Sequence[Any] | None = None, **given: Any
    ) -> list[float | None]:
        """Return a reward for each completion, and log reasons and numbers if TRL offers it."""
        rewards = await group_rewards(self.settings, prompts, completions, rubrics)
        if (log_extra := given.get("log_extra")) is not None:
            log_extra("svr_why", rewards.reasons)
            log_extra("svr_judge", [rewards.judge] * len(rewards.values))
        if (log_metric := given.get("log_metric")) is not None:
            for name, value in rewards.metrics().items():
                log_metric(name, value)
        return rewards.values


@dataclass(slots=True)
class Rewards:
    """A reward and its reason for each completion; `spreads` are best minus worst of each group."""

    values: list[float | None]
    reasons: list[str]
    judge: str = ""
    questions: int = 0
    spreads: list[float] = field(default_factory=list)

    def metrics(self) -> dict[str, float]:
        """Return numbers to log, always under the same names."""
        missing = sum(value is None for value in self.values)
        return {
            "svr/no_reward": missing / max(1, len(self.values)),
            "svr/questions": float(self.questions),
            "svr/spread": sum(self.spreads) / max(1, len(self.spreads)),
        }

    def add_ranking(self, places: Sequence[int], ranking: Ranking) -> None:
        """Set the rewards of a group."""
        self.questions += ranking.questions
        known = [value for value in ranking.scores if value is not None]
        self.spreads += [max(known) - min(known)] if known else []
        for own, place in enumerate(places):
            self.values[place] = ranking.scores[own]
            self.reasons[place] = reason_of(ranking, own)

    def add_score(self, place: int, score: Score) -> None:
        """Set the reward of a completion that was scored alone."""
        self.questions += len(score.requests)
        self.values[place] = score.value
        parts = {part.rubric.text: part.importance * part.value for part in score.parts if part.value is not None}
        failed = f"no score: {score.outcome.value} {score.detail}".strip()
        self.reasons[place] = failed if score.value is None else _shown(parts)


async def group_rewards(
    settings: HookSettings, prompts: Sequence[Any], completions: Sequence[Any], rubrics: Sequence[Any] | None = None
) -> Rewards:
    """Reward completions: by rubrics with points, each alone, or ranked within their group.

    A completion that is not a text, or alone in its group, has no reward. UsageError if a group is cut.
    """
    rewards = Rewards([None] * len(prompts), ["no verdict"] * len(prompts))
    texts: dict[int, str] = {}
    for place, completion in enumerate(completions):
        try:
            texts[place] = as_response(completion, as_prompt(prompts[place]))
        except UsageError as error:
            rewards.reasons[place] = error.message

    async def ask(engine: Engine, bank: RubricBank | None) -> None:
        common: dict[str, Any] = {"bank": bank, "engine": engine, "top_k": settings.top_k}

        async def score(place: int) -> None:
            criteria = () if rubrics is None else rubrics[place] or ()
            rewards.add_score(place, await ascore(prompts[place], texts[place], rubrics=criteria, **common))

        async def rank(places: Sequence[int]) -> None:
            how: dict[str, Any] = {"method": "pairwise" if bank is None else settings.method, "order": settings.order}
            members = [texts[place] for place in places]
            ranking = await arank(prompts[places[0]], members, schedule=settings.schedule, **how, **common)
            rewards.add_ranking(places, ranking)

        if rubrics is not None or settings.method == "pointwise":
            await all_of(score, list(texts), engine)
        else:
            groups = [[place for place in places if place in texts] for places in _groups(settings.group, prompts)]
            await all_of(rank, [places for places in groups if len(places) > 1], engine)
        rewards.judge = engine.label  # a simulated endpoint is known after its replies

    try:
        await with_engine(settings, ask)
    except EndpointDownError as error:
        if settings.on_failure == "raise":
            raise
        logger.warning("no rewards: %s", error.one_line())
        return Rewards([None] * len(prompts), [error.one_line()] * len(prompts))
    return rewards


def _groups(size: int | None, prompts: Sequence[Any]) -> Iterator[Sequence[int]]:
    """Yield the places of each group: `size` consecutive ones, or else runs of equal prompts."""
    if size is None:
        yield from ([*run] for _, run in groupby(range(len(prompts)), key=prompts.__getitem__))
        return
    for start in range(0, len(prompts), size):
        places = range(start, min(start + size, len(prompts)))
        if len(places) < size or any(prompts[place] != prompts[start] for place in places):
            raise UsageError(
                f"{PREFIX}GROUP is {size}: a batch of {len(prompts)} completions cuts a group",
                hint="make the batch of a process a multiple of num_generations, or use method pointwise",
            )
        yield places


def reason_of(ranking: Ranking, place: int) -> str:
    """Return the rubrics that moved a response of a ranking most: means over its pairs, positive in its favour."""
    if ranking.scores[place] is None:
        return "no verdict"
    met = [(verdict, 1.0 if a == place else -1.0) for (a, b), verdict in ranking.verdicts.items() if place in {a, b}]
    added: dict[str, float] = {}
    for verdict, sign in met:
        for part in verdict.contributions:
            added[part.rubric.text] = added.get(part.rubric.text, 0.0) + sign * part.value / len(met)
    return _shown(added)


def _shown(added: Mapping[str, float]) -> str:
    largest = sorted(added.items(), key=lambda item: -abs(item[1]))[:SHOWN_RUBRICS]
    return " · ".join(f"{number(value)} {text}" for text, value in largest if value)
