"""A judge by name, open for the length of a block: what a program hands to `score_pair` and `rank`, or asks itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from svr_async.engine.cache import cache_place
from svr_async.engine.concurrency import run_sync
from svr_async.errors import UsageError
from svr_async.judges.limits import AUTO, JudgeLimits
from svr_async.judges.open_judge import JudgeSpec, OpenJudge, open_judge
from svr_async.judges.protocol import Answer, Author, Judge
from svr_async.serving.texts import PromptLike, as_prompt

if TYPE_CHECKING:
    from svr_async.engine.money import Budget
    from svr_async.engine.stats import EngineStats

T = TypeVar("T")
FREE_WORKERS = 8  # questions under way to a judge that sends nothing, or that is the caller's own


class Engine:
    """A judge, named as on the command line, used as `async with Engine("gpt-oss-120b") as engine:`.

    Code that cannot await says `with Engine(…) as engine:` and asks by what ends in `_sync`, or by `run_sync`. Where
    one block is not enough, as in the cells of a notebook, there are `await engine.open()` and `await engine.close()`.

    `judge` is a profile's name, `URL#model`, `rules` (offline checks, no model), or `J+rules`. Nothing is opened before
    the block begins. `cache` is the folder of replies, so that nothing is paid twice (by default
    that of the command line); `base_url` goes over the
    profile's (several that serve the same model have commas between them); `concurrency` bounds the calls under way (by
    default the engine finds out how many pay, up to the profile's number), `rpm` and `tpm` are limits of each endpoint;
    `budget` (USD) and `max_calls` are caps, beyond which a question raises BudgetError; `offline` uses the cache only;
    `timeout_s` is for one call, `give_up_after_s` how long to go on without any success; with `strict_model` another
    model's answer is an error; `prompts` is a folder with templates in place of the shipped ones, or `paper`. An engine
    belongs to one event loop, and does not ask again what failed for good while it was open.
    """

    def __init__(
        self,
        judge: str,
        *,
        cache: str | Path | None = None,
        base_url: str = "",
        concurrency: int | None = None,
        rpm: float | None = None,
        tpm: float | None = None,
        budget: float | None = None,
        max_calls: int | None = None,
        offline: bool = False,
        timeout_s: float = 600.0,
        give_up_after_s: float = 1800.0,
        strict_model: bool = False,
        prompts: str | Path | None = None,
    ) -> None:
        self.spec = judge
        self._opened: OpenJudge | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._base_url = base_url
        self._budget: Budget | None = None
        self._limits = JudgeLimits(
            cache=cache_place() if cache is None else cache,
            concurrency=AUTO if concurrency is None else str(concurrency),
            rpm=rpm,
            tpm=tpm,
            budget=budget,
            max_calls=max_calls,
            offline=offline,
            timeout_s=timeout_s,
            give_up_after_s=give_up_after_s,
            strict_model=strict_model,
            prompts=None if prompts is None else Path(prompts),
        )

    @classmethod
    def limited(cls, judge: str, limits: JudgeLimits, *, base_url: str = "", budget: Budget | None = None) -> Self:
        """Return the engine of a judge that is asked within limits; several may share a `budget`."""
        engine = cls(judge, base_url=base_url)
        engine._limits, engine._budget = limits, budget
        return engine

    async def open(self) -> Self:
        """Open the judge on the running event loop, to which it belongs from then on; UsageError for one that is open.

        ConfigError for a judge that is not known, ArtefactError and StorageError for a cache that cannot be used.
        """
        if self._opened is not None:
            raise UsageError(f"the engine {self.spec} is open already", hint="make one engine for each block")
        self._opened = _open(self.spec, self._base_url, self._limits, self._budget)
        self._loop = asyncio.get_running_loop()
        return self

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __enter__(self) -> Self:
        return run_sync(self.open())

    def __exit__(self, *_: object) -> None:
        run_sync(self.close())

    def __repr__(self) -> str:
        return f"<Engine {self.spec}, {'not open' if self._opened is None else 'open'}>"

    async def close(self) -> None:
        """Close connections and commit what is waiting; the block does this at its end."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()

    @overload
    async def ask(
        self, prompt: PromptLike, *, sample: int = ..., temperature: float | None = ..., max_tokens: int | None = ...
    ) -> Answer[str]: ...

    @overload
    async def ask(
        self,
        prompt: PromptLike,
        *,
        read: Callable[[str], T],
        sample: int = ...,
        temperature: float | None = ...,
        max_tokens: int | None = ...,
    ) -> Answer[T]: ...

    async def ask(
        self,
        prompt: PromptLike,
        *,
        read: Callable[[str], Any] | None = None,
        sample: int = 0,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> Answer[Any]:
        """Put a question of your own, a text or a list of messages, to the model behind the judge.

        As all questions: cache, retries, rates, caps. `read` makes a value of the reply's text; where it
        raises ValueError the model is told why and asked again, and the outcome is `parse_error` in the end. Each
        `sample` above 0 is another answer to the same question. `temperature` and `max_tokens` (of the answer) stand in
        the place of the profile's. UsageError for a judge that writes no texts; what stops an engine is raised.
        """
        from svr_async.judges.model import asked_plainly

        judge, conversation = self.check_loop().judge, as_prompt(prompt)
        return await asked_plainly(
            judge, conversation, read=read, number=sample, temperature=temperature, most_tokens=max_tokens
        )

    def check_loop(self) -> Self:
        """Return the engine; UsageError where it is not open, or belongs to another event loop than the running one."""
        self._held()
        if self._loop is not asyncio.get_running_loop():
            raise UsageError(
                f"the engine {self.spec} belongs to another event loop",
                hint="`async with` goes with await, `with` with the calls that end in _sync",
            )
        return self

    @property
    def is_open(self) -> bool:
        """Whether it can be asked now."""
        return self._opened is not None

    @property
    def judge(self) -> Judge:
        """The judge; UsageError outside the block."""
        return self._held().judge

    @property
    def author(self) -> Author | None:
        """The same judge as a writer of rubrics."""
        return self._held().author

    @property
    def label(self) -> str:
        """How results must be labelled: offline rules and simulated endpoints say so here."""
        return self._held().label

    @property
    def concurrency(self) -> int:
        """Questions that may be under way at once."""
        engine = self._held().engine
        return FREE_WORKERS if engine is None else engine.config.concurrency

    def stats(self) -> EngineStats | None:
        """Return calls, cache hits, tokens and dollars so far; None for a judge that sends nothing."""
        engine = self._held().engine
        return None if engine is None else engine.stats()

    def _held(self) -> OpenJudge:
        if self._opened is None:
            raise UsageError(
                f"the engine {self.spec} is not open", hint=f"async with Engine({self.spec!r}) as engine: …"
            )
        return self._opened


@asynccontextmanager
async def opened(engine: Engine | Judge | str) -> AsyncIterator[Engine | Judge]:
    """Yield an engine or a judge that can be asked: what is open as it is, else opened for the length of the block."""
    if isinstance(engine, str):
        engine = Engine(engine)
    given: object = engine
    if given is None:
        hint = "engine='rules' has offline checks, engine='http://HOST:PORT/v1#MODEL' a model"
        raise UsageError("engine is None: nobody judges", hint=hint)
    if not isinstance(engine, Engine):
        yield engine
    elif engine.is_open:
        yield engine.check_loop()
    else:
        async with engine:
            yield engine


def _open(judge: str, base_url: str, limits: JudgeLimits, budget: Budget | None) -> OpenJudge:
    spec = JudgeSpec.parse(judge, base_url=base_url).priced(limits.price)
    if spec.recording is not None:
        raise UsageError(f"{judge} knows the pairs of its recording only", hint="svr eval replays recordings")
    return open_judge(spec, limits, budget=budget)
