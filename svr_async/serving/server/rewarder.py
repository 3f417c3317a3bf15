"""The judge of a server, and from a response to its reward: by rubrics, within its group, or alone.

A trainer must always get its reply, so errors of the judge are outcomes, not exceptions. An engine ends for good after
a refused key, a used-up credit or an endpoint that stays down. A server outlives that: it answers with the fallback for
a while, then opens another engine on the same cache and budget.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from svr_async.core.pair import Prompt
from svr_async.core.safetext import one_line
from svr_async.core.verdict import Outcome
from svr_async.engine.endpoint import EngineStoppedError
from svr_async.engine.events import Observer, observing
from svr_async.errors import BudgetError, SvrError, UsageError
from svr_async.judges.limits import JudgeLimits
from svr_async.scoring.bank import RubricBank
from svr_async.serving.engine import Engine
from svr_async.serving.pairs import PairVerdict, ascore_pair, method_of
from svr_async.serving.scores import Reward, Score, ascore
from svr_async.serving.server.groups import Group, Pool, Seat
from svr_async.serving.server.settings import DEADLINE, RefusalError, ServerSettings, fallback

REST_S = 10.0  # before a lost judge is asked again
SHOWN_CHARS = 300
NO_BANK = "a response alone is scored by a bank or by rubrics, and this server has no bank"
NO_BANK_HINT = "start it with --bank, or send rubrics, or group and group_size"

R = TypeVar("R", PairVerdict, Score)


class JudgeSupervisor:
    """Asks the judge, within the deadline; `say` gets a line when the judge is lost and when it is back."""

    def __init__(
        self,
        judge: str,
        settings: ServerSettings,
        limits: JudgeLimits,
        *,
        base_url: str = "",
        bank: RubricBank | None = None,
        observers: Sequence[Observer] = (),
        say: Callable[[str], None],
    ) -> None:
        self.bank = bank
        self.say = say
        self.why_lost = ""
        self._settings = settings
        self._new_engine = partial(Engine.limited, judge, limits, base_url=base_url, budget=limits.new_budget())
        self._observers = observers
        self._engine: Engine | None = None
        self._users: Counter[Engine] = Counter()
        self._label = judge
        self._rest_until = 0.0
        self._tasks: set[asyncio.Task[Any]] = set()

    async def open(self) -> None:
        """Open the judge; SvrError if it cannot be opened, or cannot judge with this bank."""
        method_of(self.bank, await self._current(), top_k=self._settings.top_k)

    async def close(self) -> None:
        """End running work, and close the judge."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._engine is not None:
            self._label = self.label
            await self._engine.close()
            self._engine = None

    @property
    def label(self) -> str:
        """The label of all results; a simulated endpoint is known after its first reply."""
        if self._engine is not None:
            self._label = self._engine.label
        return self._label

    async def pair(self, prompt: Prompt, a: str, b: str) -> PairVerdict:
        """Judge two responses; without a reply the outcome and `detail` say why. UsageError."""
        top_k = self._settings.top_k if self.bank is not None else None
        ask = partial(ascore_pair, prompt, a, b, bank=self.bank, order=self._settings.order, top_k=top_k)
        return await self._ask(ask, partial(PairVerdict, margin=None, outcome=Outcome.API_ERROR))

    async def alone(self, prompt: Prompt, response: str, rubrics: Sequence[Any] = ()) -> Score:
        """Score one response by rubrics with points, or else by the bank. UsageError."""
        ask = partial(ascore, prompt, response, bank=self.bank, rubrics=rubrics, top_k=self._settings.top_k)
        return await self._ask(ask, partial(Score, value=None, outcome=Outcome.API_ERROR))

    async def _ask(self, ask: Callable[..., Awaitable[R]], failed: Callable[..., R]) -> R:
        """Return the result, or a failed one at the deadline; the work continues, since it is paid for and cached."""
        task: asyncio.Task[R] = asyncio.create_task(self._result(ask, failed))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        done, _ = await asyncio.wait({task}, timeout=self._settings.deadline_s)
        ended = bool(done) and not task.cancelled()
        return task.result() if ended else failed(detail=DEADLINE, judge=self.label)

    async def _result(self, ask: Callable[..., Awaitable[R]], failed: Callable[..., R]) -> R:
        if self._engine is None and asyncio.get_running_loop().time() < self._rest_until:
            return failed(detail=self.why_lost, judge=self.label)
        engine = None
        try:
            engine = await self._current()
            self._users[engine] += 1
            return await ask(engine=engine)
        except UsageError:
            raise
        except (SvrError, EngineStoppedError) as error:
            self._lose(engine, error)
            return failed(detail=_line(error), judge=self.label)
        except Exception as error:  # noqa: BLE001  (the trainer must get its reply, marked)
            self.say(f"a bug: {_line(error)}; the fallback is given — please report it")
            return failed(detail=_line(error), judge=self.label)
        finally:
            if engine is not None:
                self._users[engine] -= 1
                if engine is not self._engine and not self._users[engine]:
                    await engine.close()  # only now: its other calls were paid

    async def _current(self) -> Engine:
        if self._engine is None:
            engine = self._new_engine()
            with observing(*self._observers):
                await engine.open()
            self._engine = engine
            if self.why_lost:
                self.say("asking the judge again")
                self.why_lost = ""
        return self._engine

    def _lose(self, engine: Engine | None, error: Exception) -> None:
        """Pause; until a restart if the budget is spent."""
        if engine is not self._engine:
            return
        self._label, self._engine, self.why_lost = self.label, None, _line(error)
        rest = math.inf if isinstance(error, BudgetError) else REST_S
        self._rest_until = asyncio.get_running_loop().time() + rest
        until = "until the server is started again" if rest == math.inf else f"for {rest:g} s"
        self.say(f"no judge {until}, every reward is the fallback: {self.why_lost}")


def _line(error: Exception) -> str:
    text = error.one_line() if isinstance(error, SvrError) else f"{type(error).__name__}: {error}"
    return one_line(text, SHOWN_CHARS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One response to a prompt, with its own rubrics, or its place in a group, if any."""

    prompt: Prompt
    response: str
    rubrics: tuple[Any, ...] = ()
    seat: Seat | None = None


class Rewarder:
    """Gives rewards to the routes. RefusalError and UsageError name the problem of a request."""

    def __init__(self, settings: ServerSettings, judge: JudgeSupervisor) -> None:
        self.settings = settings
        self.judge = judge
        self.pool = Pool(settings, judge.pair)
        self.reasons: Counter[str] = Counter()

    async def rewards(self, asked: Sequence[Asked]) -> list[Reward]:
        """Return the reward of each response, judged concurrently."""
        return list(await asyncio.gather(*map(self.reward, asked)))

    async def reward(self, asked: Asked) -> Reward:
        """Return the reward of one response: by its rubrics, within its group, or by the bank."""
        if asked.seat is not None and not asked.rubrics:
            self._check_size(asked.seat.group_size)
            return self._counted(await self.pool.reward(asked.seat, asked.prompt, asked.response))
        if self.judge.bank is None and not asked.rubrics:
            raise RefusalError(422, NO_BANK, hint=NO_BANK_HINT)
        score = await self.judge.alone(asked.prompt, asked.response, asked.rubrics)
        if score.value is None:
            reason = DEADLINE if score.detail == DEADLINE else score.outcome.value
            return self._counted(fallback(self.settings, reason, members=1))
        return self._counted(Reward(value=score.value, coverage=score.coverage))

    async def among(self, prompt: Prompt, responses: Sequence[str]) -> tuple[list[Reward], Group | None]:
        """Return rewards of responses that are compared with each other, and their group; None for one scored alone."""
        if len(responses) == 1 and self.judge.bank is not None:
            return await self.rewards([Asked(prompt=prompt, response=responses[0])]), None
        self._check_size(len(responses))
        group = Group(prompt, len(responses), self.settings, self.judge.pair)
        for place, text in enumerate(responses):
            group.join(place, text)
        rewards = await asyncio.shield(group.result)
        return [self._counted(rewards[place]) for place in range(len(responses))], group

    def _check_size(self, size: int) -> None:
        if size > self.settings.max_group:
            raise RefusalError(413, f"a group of {size} is larger than {self.settings.max_group}", hint="send less")

    def _counted(self, reward: Reward) -> Reward:
        self.reasons[reward.reason] += 1
        return reward
