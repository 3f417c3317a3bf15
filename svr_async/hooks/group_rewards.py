"""Rewards of completions that come in groups of one prompt: ranked within the group, or each scored alone."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from svr_async.core.pair import Prompt
from svr_async.errors import EndpointDownError, UsageError
from svr_async.hooks.held import asked
from svr_async.hooks.settings import PREFIX, HookSettings
from svr_async.scoring.bank import RubricBank
from svr_async.serving.engine import Engine
from svr_async.serving.many import all_of
from svr_async.serving.ranking import Ranking, rank
from svr_async.serving.scores import score
from svr_async.serving.texts import as_prompt, as_response
from svr_async.serving.views import number

SHOWN_RUBRICS = 3
logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Rewards:
    """A reward for each completion, None where there is none; `told` says why, `judge` is how results are labelled.

    `questions` counts what was asked, of the cache or by a call; `spreads` are best minus worst of each group.
    """

    values: list[float | None]
    told: list[str]
    judge: str = ""
    questions: int = 0
    spreads: list[float] = field(default_factory=list)

    @classmethod
    def none(cls, n: int, why: str) -> Rewards:
        """Return n completions without a reward."""
        return cls([None] * n, [why] * n)

    def metrics(self) -> dict[str, float]:
        """Return numbers to log, always under the same names: shares are fractions of 1."""
        missing = sum(value is None for value in self.values)
        return {
            "svr/no_reward": missing / max(1, len(self.values)),
            "svr/questions": float(self.questions),
            "svr/spread": sum(self.spreads) / max(1, len(self.spreads)),
        }


async def group_rewards(settings: HookSettings, prompts: Sequence[Any], completions: Sequence[Any]) -> Rewards:
    """Reward completions, `group` of each prompt in a row, or as many as there are in a row with equal prompts.

    Each group is ranked as `rank` does, so that rewards compare within it (they are about 0 in the mean); with method
    `pointwise` each completion has its own score in [0, 1], which also compares across groups and processes. A
    completion that is no text, or alone in its group, and what the judge could not tell have no reward. UsageError
    where the groups are cut; EndpointDownError is a reward of None with `on_failure` none, and other errors pass.
    """
    groups = list(_groups(settings.group, prompts))
    told = Rewards.none(len(prompts), "no verdict")

    async def ask(engine: Engine, bank: RubricBank | None) -> None:
        reward = _alone if settings.method == "pointwise" else _ranked
        read = [_Group(prompts, completions, places) for places in groups]
        await all_of(lambda group: reward(settings, engine, bank, group, told), read, engine)
        told.judge = engine.label  # a simulated endpoint is known by its replies

    try:
        await asked(settings, ask)
    except EndpointDownError as error:
        if settings.on_failure == "raise":
            raise
        logger.warning("no rewards: %s", error.one_line())
        return Rewards.none(len(prompts), error.one_line())
    return told


class _Group:
    """The completions of one prompt: those that are texts, with their places in the batch."""

    def __init__(self, prompts: Sequence[Any], completions: Sequence[Any], places: range) -> None:
        self.prompt: Prompt = as_prompt(prompts[places[0]])
        self.texts: dict[int, str] = {}
        self.unread: dict[int, str] = {}
        for place in places:
            try:
                self.texts[place] = as_response(completions[place], self.prompt)
            except UsageError as error:
                self.unread[place] = error.message


def _groups(size: int | None, prompts: Sequence[Any]) -> Iterator[range]:
    """Yield the places of each group."""
    if size is None:
        start = 0
        for _, run in groupby(prompts):
            end = start + len(list(run))
            yield range(start, end)
            start = end
        return
    for start in range(0, len(prompts), size):
        places = range(start, min(start + size, len(prompts)))
        if len(places) < size or any(prompts[place] != prompts[start] for place in places):
            raise UsageError(
                f"{PREFIX}GROUP is {size}: a batch of {len(prompts)} completions has not {size} of each prompt",
                hint="make the batch of a process a multiple of num_generations, or use method pointwise",
            )
        yield places


async def _ranked(
    settings: HookSettings, engine: Engine, bank: RubricBank | None, group: _Group, told: Rewards
) -> None:
    _note_unread(group, told)
    if len(group.texts) < 2:
        return
    places = list(group.texts)
    found = await rank(
        group.prompt,
        list(group.texts.values()),
        bank=bank,
        engine=engine,
        method="pairwise" if bank is None else settings.method,
        order=settings.order,
        top_k=settings.top_k,
        schedule=settings.schedule,
    )
    told.questions += found.questions
    known = [value for value in found.scores if value is not None]
    told.spreads += [max(known) - min(known)] if known else []
    for own, place in enumerate(places):
        told.values[place] = found.scores[own]
        told.told[place] = why_of(found, own)


async def _alone(settings: HookSettings, engine: Engine, bank: RubricBank | None, group: _Group, told: Rewards) -> None:
    _note_unread(group, told)
    if bank is None:
        raise UsageError("method pointwise scores the rubrics of a bank", hint=f"set {PREFIX}BANK")
    places = list(group.texts)
    found = await all_of(
        lambda place: score(group.prompt, group.texts[place], bank=bank, engine=engine, top_k=settings.top_k),
        places,
        engine,
    )
    for place, one in zip(places, found, strict=True):
        told.values[place] = one.value
        told.questions += len(one.requests)
        parts = {part.rubric.text: part.importance * part.value for part in one.parts if part.value is not None}
        told.told[place] = _shown(parts) if one.value is not None else f"no score: {one.outcome.value}"


def _note_unread(group: _Group, told: Rewards) -> None:
    for place, why in group.unread.items():
        told.told[place] = why


def contributions(found: Ranking, place: int) -> dict[str, float]:
    """Return what each rubric added to a response, by its text: the mean over the pairs that it was in, for it > 0."""
    met = [(verdict, 1.0 if a == place else -1.0) for (a, b), verdict in found.verdicts.items() if place in {a, b}]
    added: dict[str, float] = {}
    for verdict, sign in met:
        for part in verdict.contributions:
            added[part.rubric.text] = added.get(part.rubric.text, 0.0) + sign * part.value / len(met)
    return added


def why_of(found: Ranking, place: int) -> str:
    """Return in a line what decided about a response of a ranking; without rubrics an empty one."""
    if found.scores[place] is None:
        return "no verdict"
    return _shown(contributions(found, place))


def _shown(added: Mapping[str, float]) -> str:
    largest = sorted(added.items(), key=lambda item: -abs(item[1]))[:SHOWN_RUBRICS]
    return " · ".join(f"{number(value)} {text}" for text, value in largest if value)
