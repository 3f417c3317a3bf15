"""From a response to its reward: by rubrics with points, over an anchor, within its group, or alone by the bank."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from svr_async.core.pair import Prompt
from svr_async.serving.server.groups import Group, Pool, Seat
from svr_async.serving.server.settings import DEADLINE, RefusalError, Reward, ServerSettings, fallback
from svr_async.serving.server.supervisor import JudgeSupervisor

NO_BANK = "a response alone is scored by a bank or by rubrics, and this server has no bank"
NO_BANK_HINT = "start it with --bank, or send rubrics, an anchor, or group and group_size"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One response to a prompt, with rubrics of its own, an anchor, or its place in a group, if any."""

    prompt: Prompt
    response: str
    rubrics: tuple[Any, ...] = ()
    anchor: str | None = None
    seat: Seat | None = None


class Rewarder:
    """What the routes ask for. RefusalError and UsageError say what is wrong with a request."""

    def __init__(self, settings: ServerSettings, judge: JudgeSupervisor) -> None:
        self.settings = settings
        self.judge = judge
        self.pool = Pool(settings, judge.pair)
        self.reasons: Counter[str] = Counter()

    async def reward(self, asked: Asked) -> Reward:
        """Return the reward of one response."""
        if asked.rubrics:
            found = await self._alone(asked)
        elif asked.anchor is not None:
            found = await self._against(asked, asked.anchor)
        elif asked.seat is not None:
            self._check_size(asked.seat.size)
            found = await self.pool.reward(asked.seat, asked.prompt, asked.response)
        else:
            found = await self._alone(asked)
        return self._counted(found)

    async def rewards(self, asked: Sequence[Asked]) -> list[Reward]:
        """Return the reward of each response, judged side by side in time."""
        return list(await asyncio.gather(*map(self.reward, asked)))

    async def among(self, prompt: Prompt, responses: Sequence[str]) -> tuple[list[Reward], Group | None]:
        """Return rewards of responses that are compared with each other, and their group; None for one scored alone."""
        if len(responses) == 1 and self.judge.bank is not None:
            return [self._counted(await self._alone(Asked(prompt=prompt, response=responses[0])))], None
        self._check_size(len(responses))
        group = Group(prompt, len(responses), self.settings, self.judge.pair)
        for place, text in enumerate(responses):
            group.join(place, text)
        group.close()
        rewards = await asyncio.shield(group.result)
        return [self._counted(rewards[place]) for place in range(len(responses))], group

    async def _alone(self, asked: Asked) -> Reward:
        if self.judge.bank is None and not asked.rubrics:
            raise RefusalError(422, NO_BANK, hint=NO_BANK_HINT)
        scored = await self.judge.alone(asked.prompt, asked.response, asked.rubrics)
        if scored.value is None:
            return fallback(self.settings, _reason(scored.detail, scored.outcome.value), members=1)
        return Reward(value=scored.value, coverage=scored.coverage)

    async def _against(self, asked: Asked, anchor: str) -> Reward:
        verdict = await self.judge.pair(asked.prompt, asked.response, anchor)
        if verdict.margin is None:
            return fallback(self.settings, _reason(verdict.detail, verdict.outcome.value), members=2)
        return Reward(value=verdict.margin, members=2)

    def _check_size(self, size: int) -> None:
        if size > self.settings.max_group:
            raise RefusalError(413, f"a group of {size} is larger than {self.settings.max_group}", hint="send less")

    def _counted(self, reward: Reward) -> Reward:
        self.reasons[reward.reason] += 1
        return reward


def _reason(detail: str, outcome: str) -> str:
    return DEADLINE if detail == DEADLINE else outcome
