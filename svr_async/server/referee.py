"""The judge of a server: what it answers, or why not, and never an exception for it; one that is lost is opened anew.

An engine ends for good at a refused key, a used-up credit or an endpoint that stays down, which is right for a run. A
server outlives them: nobody is asked for a while, everything has the declared fallback, then another engine is opened
on the same cache and the same budget. A budget that is spent stays spent.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from svr_async.core.pair import Prompt
from svr_async.core.safetext import one_line
from svr_async.core.verdict import Outcome
from svr_async.engine.endpoint import EngineStoppedError
from svr_async.engine.events import Observer, observing
from svr_async.engine.money import Budget
from svr_async.errors import BudgetError, SvrError, UsageError
from svr_async.judges.limits import JudgeLimits
from svr_async.scoring.bank import RubricBank
from svr_async.server.tally import Tally
from svr_async.serving.engine import Engine
from svr_async.serving.pairs import PairVerdict, Shown, method_of, score_pair
from svr_async.serving.scores import Score, score

REST_S = 10.0  # before a judge that was lost is asked again
MOST_FAILURES = 5_000  # that an engine remembers, so as not to ask again, before it is opened anew
SHOWN_CHARS = 300
R = TypeVar("R", PairVerdict, Score)


@dataclass(slots=True)
class _Held:
    """An engine and how many use it; one that is retired is closed when nobody does."""

    engine: Engine
    users: int = 0
    failures: int = 0
    retired: bool = False


class Referee:
    """Whom a server asks, from `open` to `close`. `say` hears in a line when the judge is lost, and is back."""

    def __init__(
        self,
        judge: str,
        limits: JudgeLimits,
        *,
        tally: Tally,
        base_url: str = "",
        bank: RubricBank | None = None,
        order: Shown = "hash",
        top_k: int | None = None,
        observers: Sequence[Observer] = (),
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.bank = bank
        self.tally = tally
        self._label = ""
        budget = Budget(max_calls=limits.max_calls, max_usd=limits.budget)
        self._open_engine = partial(Engine.limited, judge, limits, base_url=base_url, budget=budget)
        self._pair = partial(score_pair, bank=bank, order=order, top_k=top_k)
        self._top_k = top_k
        self._observers = observers
        self._say = say
        self._held: _Held | None = None
        self._rest_until = 0.0
        self._why = ""
        self._closing: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Open the judge; SvrError for one that cannot be opened, or cannot judge with this bank."""
        held = await self._current()
        method_of(self.bank, held.engine, top_k=self._top_k)

    async def close(self) -> None:
        """Close the judge, and those that it stands in the place of."""
        if self._held is not None:
            self._label = self.label
            await self._held.engine.close()
            self._held = None
        await asyncio.gather(*self._closing)

    @property
    def label(self) -> str:
        """How answers must be labelled; that an endpoint is simulated is known from its first reply on."""
        if self._held is not None:
            self._label = self._held.engine.label
        return self._label

    @property
    def lost(self) -> str:
        """Why nobody is asked at the moment, in a line; "" where the judge is there."""
        return self._why if self._held is None else ""

    async def pair(self, prompt: Prompt, a: str, b: str) -> PairVerdict:
        """Judge two responses; where the judge gives no answer the outcome and `detail` say why. UsageError."""

        def failed(detail: str) -> PairVerdict:
            return PairVerdict(margin=None, outcome=Outcome.API_ERROR, detail=detail, judge=self.label)

        return await self._asked(lambda engine: self._pair(prompt, a, b, engine=engine), failed)

    async def alone(self, prompt: Prompt, response: str, bank: RubricBank) -> Score:
        """Score one response by a bank; where the judge gives no answer the outcome says why. UsageError."""

        def failed(detail: str) -> Score:
            return Score(value=None, outcome=Outcome.API_ERROR, detail=detail, judge=self.label)

        def work(engine: Engine) -> Awaitable[Score]:
            return score(prompt, response, bank=bank, engine=engine, top_k=self._top_k)

        return await self._asked(work, failed)

    async def _asked(self, work: Callable[[Engine], Awaitable[R]], failed: Callable[[str], R]) -> R:
        if self._held is None and asyncio.get_running_loop().time() < self._rest_until:
            return self._counted(failed(self._why))
        try:
            held = await self._current()
        except SvrError as error:
            self._rest(error)
            return self._counted(failed(_told(error)))
        held.users += 1
        try:
            result = await work(held.engine)
            held.failures += result.outcome not in {Outcome.SCORED, Outcome.TIE}
            if held.failures > MOST_FAILURES:
                self._retire(held)
        except UsageError:
            raise
        except (SvrError, EngineStoppedError) as error:
            self._lose(held, error)
            result = failed(_told(error))
        except Exception as error:  # noqa: BLE001  (a trainer must have its reply, marked; the line says what happened)
            self._say(f"a bug: {_told(error)}; the fallback is given — please report it")
            result = failed(_told(error))
        finally:
            held.users -= 1
            self._close_unused(held)
        return self._counted(result)

    def _counted(self, result: R) -> R:
        self.tally.judgements[result.outcome.value] += 1
        return result

    async def _current(self) -> _Held:
        """Return the open engine, after opening one where there is none."""
        if self._held is None:
            engine = self._open_engine()
            with ExitStack() as stack:
                stack.enter_context(observing(*self._observers))
                await engine.open()
            self._held = _Held(engine)
            if self._why:
                self._say("asking the judge again")
                self._why = ""
        return self._held

    def _lose(self, held: _Held, error: Exception) -> None:
        """Ask nobody for a while; for good where the budget is spent."""
        if self._held is not held:
            return
        self._retire(held)
        self._rest(error)

    def _rest(self, error: Exception) -> None:
        rest = math.inf if isinstance(error, BudgetError) else REST_S
        self._rest_until = asyncio.get_running_loop().time() + rest
        self._why = _told(error)
        then = "until the server is started again" if rest == math.inf else f"for {rest:g} s"
        self._say(f"no judge {then}, every reward is the fallback: {self._why}")

    def _retire(self, held: _Held) -> None:
        if self._held is held:
            self._label = held.engine.label
            held.retired, self._held = True, None
            self.tally.renewed += 1

    def _close_unused(self, held: _Held) -> None:
        if held.retired and not held.users and held.engine.is_open:
            task = asyncio.create_task(held.engine.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def _told(error: Exception) -> str:
    text = error.one_line() if isinstance(error, SvrError) else f"{type(error).__name__}: {error}"
    return one_line(text, SHOWN_CHARS)


def to_standard_error(text: str) -> None:
    """Say a line of a server."""
    sys.stderr.write(f"svr: {text}\n")
