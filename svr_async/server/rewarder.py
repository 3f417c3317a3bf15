"""From a response to its reward: against an anchor, among its group, or alone by the bank; within the deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from svr_async.core.pair import Prompt
from svr_async.core.verdict import Outcome
from svr_async.server.group import Group
from svr_async.server.penalties import length_of, style_of
from svr_async.server.pool import Pool, Seat
from svr_async.server.referee import Referee
from svr_async.server.refusal import RefusalError
from svr_async.server.rewards import DEADLINE, Reward, fallback
from svr_async.server.settings import ServerSettings
from svr_async.server.tally import Tally
from svr_async.serving.pairs import PairVerdict
from svr_async.serving.scores import Score

T = TypeVar("T")
NO_BANK = "a response alone is scored by a bank's rubrics, and this server has no bank"
NO_BANK_HINT = "start it with --bank, give the response its group and group_size, or an anchor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One response to a prompt, with the anchor that it is measured against or the group that it belongs to, if any."""

    prompt: Prompt
    response: str
    anchor: str | None = None
    seat: Seat | None = None


class Rewarder:
    """All that the routes of a server ask for. RefusalError and UsageError say what is wrong with a request."""

    def __init__(self, settings: ServerSettings, referee: Referee, tally: Tally) -> None:
        self.settings = settings
        self.referee = referee
        self.tally = tally
        self.pool = Pool(settings, referee.pair, tally)
        self._work: set[asyncio.Task[Any]] = set()
        self._groups: set[Group] = set()

    @property
    def label(self) -> str:
        """How everything that is answered must be labelled."""
        return self.referee.label

    async def reward(self, asked: Asked) -> Reward:
        """Return the reward of one response."""
        if asked.anchor is not None:
            found = await self._against(asked.prompt, asked.response, asked.anchor)
        elif asked.seat is not None:
            self.check_size(asked.seat.size)
            found = await self.pool.reward(asked.seat, asked.prompt, asked.response)
        else:
            found = await self.alone(asked.prompt, asked.response)
        return self._counted(found)

    async def among(self, prompt: Prompt, responses: Sequence[str]) -> tuple[list[Reward], Group | None]:
        """Return the rewards of responses that came together, and their group; of one, its score alone and None."""
        if len(responses) == 1 and self.referee.bank is not None:
            return [self._counted(await self.alone(prompt, responses[0]))], None
        self.check_size(len(responses))
        if len(self._groups) >= self.settings.max_groups:
            raise RefusalError(429, f"{len(self._groups)} groups are judged already", hint="ask again later")
        group = Group(prompt, len(responses), self.settings, self.referee.pair)
        self._groups.add(group)
        group.result.add_done_callback(lambda _: self._leave(group))
        for place, text in enumerate(responses):
            group.join(place, text)
        group.close()
        rewards = await asyncio.shield(group.result)
        return [self._counted(rewards[place]) for place in range(len(responses))], group

    async def alone(self, prompt: Prompt, response: str) -> Reward:
        """Return a response's score by the bank, in [0, 1]. RefusalError without a bank."""
        bank = self.referee.bank
        if bank is None:
            raise RefusalError(422, NO_BANK, hint=NO_BANK_HINT)
        late = Score(value=None, outcome=Outcome.API_ERROR, detail=DEADLINE)
        scored = await self.in_time(self.referee.alone(prompt, response, bank), late)
        if scored.value is None:
            return fallback(self.settings.fallback, _reason(scored), members=1)
        told = sum(part.value is not None for part in scored.parts)
        return Reward(value=scored.value, score=scored.value, coverage=told / len(scored.parts))

    async def compare(self, prompt: Prompt, a: str, b: str) -> PairVerdict:
        """Return the verdict on two responses; one that is not there in time has no margin, and says so."""
        late = PairVerdict(margin=None, outcome=Outcome.API_ERROR, detail=DEADLINE, judge=self.label)
        return await self.in_time(self.referee.pair(prompt, a, b), late)

    def check_size(self, size: int) -> None:
        """Raise RefusalError for a group that is too large."""
        if size > self.settings.max_group:
            raise RefusalError(
                413, f"a group of {size} is larger than {self.settings.max_group}", hint="raise --max-group"
            )

    async def in_time(self, work: Coroutine[Any, Any, T], late: T) -> T:
        """Return what work comes to, or `late` at the deadline. The work goes on, also when its waiter leaves."""
        if len(self._work) >= self.settings.max_requests:
            work.close()
            raise RefusalError(429, f"{len(self._work)} questions wait for the judge", hint="ask again later")
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._done)
        done, _ = await asyncio.wait({task}, timeout=self.settings.deadline_s)
        return task.result() if done and not task.cancelled() else late

    async def end(self) -> None:
        """End all that is under way: who waits for it has the fallback."""
        await self.pool.close()
        await asyncio.gather(*(group.abandon() for group in list(self._groups)))
        for task in list(self._work):
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    async def _against(self, prompt: Prompt, response: str, anchor: str) -> Reward:
        """Return the margin over an anchor, less penalties for what the response has more of than the anchor."""
        verdict = await self.compare(prompt, response, anchor)
        if verdict.margin is None:
            return fallback(self.settings.fallback, _reason(verdict), members=2)
        long = self.settings.length_penalty * (length_of(response) - length_of(anchor))
        styled = self.settings.style_penalty * (style_of(response) - style_of(anchor))
        return Reward(
            value=verdict.margin - long - styled,
            score=verdict.margin,
            members=2,
            length_penalty=long or 0.0,
            style_penalty=styled or 0.0,
        )

    def _counted(self, reward: Reward) -> Reward:
        self.tally.rewards[reward.reason] += 1
        return reward

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._work.discard(task)
        if not task.cancelled():
            task.exception()  # where nobody waits any more, nobody hears of it

    def _leave(self, group: Group) -> None:
        self._groups.discard(group)


def _reason(failed: PairVerdict | Score) -> str:
    return DEADLINE if failed.detail == DEADLINE else failed.outcome.value
