"""A judge by name, open for the length of a block: what a program hands to `score_pair` and `rank`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from svr_async.engine.memo_place import memo_place
from svr_async.errors import UsageError
from svr_async.judges.limits import AUTO, JudgeLimits
from svr_async.judges.open_judge import OpenJudge, open_judge
from svr_async.judges.protocol import Author, Judge
from svr_async.judges.spec import JudgeSpec

if TYPE_CHECKING:
    from svr_async.engine.stats import EngineStats

FREE_WORKERS = 8  # questions under way to a judge that sends nothing, or that is the caller's own


class Engine:
    """A judge, named as on the command line, used as `async with Engine("gpt-oss-120b") as engine:`.

    `judge` is a profile's name, `URL#model`, `rules` (offline checks, no model), or `J+rules`. Nothing is opened before
    the block begins. `memo` is the folder of replies, so that nothing is paid twice (by default
    that of the command line); `base_url` goes over the
    profile's (several that serve the same model have commas between them); `concurrency` bounds the calls under way (by
    default the engine finds out how many pay, up to the profile's number), `rpm` and `tpm` are limits of each endpoint;
    `budget` (USD) and `max_calls` are caps, beyond which a question raises BudgetError; `offline` uses the memo only;
    `timeout_s` is for one call, `give_up_after_s` how long to go on without any success; with `strict_model` another
    model's answer is an error; `prompts` is a folder with templates in place of the shipped ones, or `paper`. An engine
    belongs to one event loop, and does not ask again what failed for good while it was open.
    """

    def __init__(
        self,
        judge: str,
        *,
        memo: str | Path | None = None,
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
        self._base_url = base_url
        self._limits = JudgeLimits(
            memo=memo_place() if memo is None else Path(memo),
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
    def limited(cls, judge: str, limits: JudgeLimits, *, base_url: str = "") -> Self:
        """Return the engine of a judge that is asked within limits."""
        engine = cls(judge, base_url=base_url)
        engine._limits = limits
        return engine

    async def __aenter__(self) -> Self:
        if self._opened is not None:
            raise UsageError(f"the engine {self.spec} is open already", hint="make one engine for each block")
        self._opened = _open(self.spec, self._base_url, self._limits)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close connections and commit what is waiting; the block does this at its end."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()

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
        """Return calls, memo hits, tokens and dollars so far; None for a judge that sends nothing."""
        engine = self._held().engine
        return None if engine is None else engine.stats()

    def _held(self) -> OpenJudge:
        if self._opened is None:
            raise UsageError(
                f"the engine {self.spec} is not open", hint=f"async with Engine({self.spec!r}) as engine: …"
            )
        return self._opened


def _open(judge: str, base_url: str, limits: JudgeLimits) -> OpenJudge:
    spec = JudgeSpec.parse(judge, base_url=base_url).priced(limits.price)
    if spec.recording is not None:
        raise UsageError(f"{judge} knows the pairs of its recording only", hint="svr eval replays recordings")
    return open_judge(spec, limits)
