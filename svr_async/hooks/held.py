"""One engine and one bank for all hooks of a process that judge alike, whatever event loops and threads they have."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import TypeVar

from svr_async.engine.cache import cache_place
from svr_async.engine.loops import run_beside
from svr_async.engine.money import Budget
from svr_async.errors import ConfigError, EndpointDownError
from svr_async.hooks.settings import PREFIX, HookSettings
from svr_async.judges.limits import AUTO, JudgeLimits
from svr_async.scoring.bank import RubricBank
from svr_async.serving.engine import Engine

T = TypeVar("T")
Ask = Callable[[Engine, RubricBank | None], Awaitable[T]]


_ENGINES: dict[tuple[int, HookSettings], Engine] = {}  # by process: a forked child has its parent's in memory
_BUDGETS: dict[tuple[int, HookSettings], Budget] = {}  # what an engine has spent counts for the one after it


async def asked(settings: HookSettings, ask: Ask[T]) -> T:
    """Ask with the engine and bank that settings name, from any event loop; both stay open until the process ends.

    ConfigError without a judge. Where the endpoint is down for too long the next call tries anew, within the same caps.
    """
    if not settings.judge:
        raise ConfigError("no judge is named", hint=f"set {PREFIX}JUDGE, or call configure(judge=…)")
    return await run_beside(_asked(settings, ask))


async def _asked(settings: HookSettings, ask: Ask[T]) -> T:
    engine = await _engine(settings)
    try:
        return await ask(engine, bank_of(settings.bank))
    except EndpointDownError:
        key = os.getpid(), settings
        if _ENGINES.get(key) is engine:
            del _ENGINES[key]
            await engine.close()
        raise


async def _engine(settings: HookSettings) -> Engine:
    """Return the open engine of this process. Nothing else runs between the look and the opening: neither waits."""
    key = os.getpid(), settings
    if key not in _ENGINES:
        budget = _BUDGETS.setdefault(key, Budget(max_calls=settings.max_calls, max_usd=settings.budget))
        limits = JudgeLimits(
            cache=settings.cache or cache_place(),
            concurrency=AUTO if settings.concurrency is None else str(settings.concurrency),
            timeout_s=settings.timeout_s,
            give_up_after_s=settings.give_up_after_s,
        )
        engine = Engine.limited(settings.judge, limits, base_url=settings.base_url, budget=budget)
        _ENGINES[key] = await engine.open()
    return _ENGINES[key]


@lru_cache(maxsize=8)
def bank_of(name: str) -> RubricBank | None:
    """Return a bank by its folder or hub name, loaded once a process; None where none is named."""
    return RubricBank.load(name) if name else None


async def close_engines() -> None:
    """Close what the hooks of this process opened; where a process ends without it, no reply is lost."""
    await run_beside(_close())


async def _close() -> None:
    for key in [key for key in _ENGINES if key[0] == os.getpid()]:
        await _ENGINES.pop(key).close()
