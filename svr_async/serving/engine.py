"""A judge by name, open for a block: for `score_pair`, `rank` and `score`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Self, Unpack

from svr_async.engine.concurrency import run_sync
from svr_async.errors import UsageError
from svr_async.judges.limits import JudgeLimits, JudgeOptions, check_options
from svr_async.judges.open_judge import JudgeSpec, OpenJudge, open_judge
from svr_async.judges.protocol import Author, Judge

if TYPE_CHECKING:
    from svr_async.engine.money import Budget
    from svr_async.engine.stats import EngineStats

FREE_WORKERS = 8  # questions at once to a judge that sends nothing, or to the caller's own


class Engine:
    """A judge, named as on the command line: `async with Engine("gpt-oss-120b") as engine:`, or `with` in a script.

    A notebook can keep one open with `await engine.open()` and `await engine.close()`. An engine belongs to one event
    loop. Nothing is opened before.

    Args:
        judge: a profile's name, `URL#model`, `rules` (offline checks, no model), or `J+rules`.
        options: `JudgeOptions`; a question beyond `budget` (USD) or `max_calls` raises BudgetError.
    """

    def __init__(self, judge: str, **options: Unpack[JudgeOptions]) -> None:
        check_options(options, JudgeOptions)
        self.spec = judge
        self._base_url = options.get("base_url", "")
        self._limits = JudgeLimits.from_flags(options)
        self._budget: Budget | None = None
        self._opened: OpenJudge | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @classmethod
    def limited(cls, judge: str, limits: JudgeLimits, *, base_url: str = "", budget: Budget | None = None) -> Self:
        """Return the engine of a judge within limits; several may share a `budget`."""
        engine = cls(judge, base_url=base_url)
        engine._limits, engine._budget = limits, budget
        return engine

    async def open(self) -> Self:
        """Open the judge on the running event loop.

        UsageError if it is open, ConfigError for an unknown judge, ArtefactError or StorageError for an unusable cache.
        """
        if self._opened is not None:
            raise UsageError(f"the engine {self.spec} is open already", hint="make one engine for each block")
        spec = JudgeSpec.parse(self.spec, base_url=self._base_url).priced(self._limits.price)
        if spec.recording is not None:
            raise UsageError(f"{self.spec} has only the pairs of its recording", hint="svr eval replays recordings")
        self._opened, self._loop = open_judge(spec, self._limits, budget=self._budget), asyncio.get_running_loop()
        return self

    async def close(self) -> None:
        """Close connections and commit waiting replies."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __enter__(self) -> Self:
        return run_sync(self.open())

    def __exit__(self, *_: object) -> None:
        run_sync(self.close())

    def __repr__(self) -> str:
        return f"<Engine {self.spec}, {'open' if self.is_open else 'not open'}>"

    @property
    def is_open(self) -> bool:
        """Whether it can be asked now."""
        return self._opened is not None

    @property
    def judge(self) -> Judge:
        """The judge; UsageError outside the block."""
        return self._open_judge.judge

    @property
    def author(self) -> Author | None:
        """The same judge as a writer of rubrics."""
        return self._open_judge.author

    @property
    def label(self) -> str:
        """The label of its results; offline rules and simulated endpoints say so."""
        return self._open_judge.label

    @property
    def concurrency(self) -> int:
        """Questions that may be under way at once."""
        engine = self._open_judge.engine
        return FREE_WORKERS if engine is None else engine.config.concurrency

    def stats(self) -> EngineStats | None:
        """Return calls, cache hits, tokens and dollars so far; None for a judge that sends nothing."""
        engine = self._open_judge.engine
        return None if engine is None else engine.stats()

    def check_loop(self) -> Self:
        """Return the engine; UsageError if it is not open, or open on another event loop."""
        _ = self._open_judge
        if self._loop is not asyncio.get_running_loop():
            hint = "use `async with` with await, and `with` with the blocking calls"
            raise UsageError(f"the engine {self.spec} belongs to another event loop", hint=hint)
        return self

    @property
    def _open_judge(self) -> OpenJudge:
        if self._opened is None:
            hint = f"async with Engine({self.spec!r}) as engine: …"
            raise UsageError(f"the engine {self.spec} is not open", hint=hint)
        return self._opened


EngineLike = Engine | Judge | str
"""An engine, a judge's name, or anything with the methods of `Judge`."""


@asynccontextmanager
async def opened(engine: EngineLike) -> AsyncIterator[Engine | Judge]:
    """Yield an engine or judge that can be asked; one that is not open is opened for the block."""
    if isinstance(engine, str):
        engine = Engine(engine)
    given: object = engine
    if given is None:
        hint = "engine='rules' has offline checks, engine='http://HOST:PORT/v1#MODEL' a model"
        raise UsageError("engine is None", hint=hint)
    if not isinstance(engine, Engine):
        yield engine
    elif engine.is_open:
        yield engine.check_loop()
    else:
        async with engine:
            yield engine
