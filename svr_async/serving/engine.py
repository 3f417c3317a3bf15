"""A judge by name, open for the length of a block: what a program hands to `score_pair` and `rank`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from svr_async.errors import UsageError
from svr_async.judges.opening import OpenJudge, needs_endpoint, open_offline_judge
from svr_async.judges.protocol import Author, Judge

if TYPE_CHECKING:
    from svr_async.engine.stats import EngineStats
    from svr_async.judges.profiles import Profile

FREE_WORKERS = 8  # questions under way to a judge that sends nothing, or that is the caller's own


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    memo: Path
    base_url: str
    concurrency: int | None
    rpm: float | None
    tpm: float | None
    budget: float | None
    max_calls: int | None
    offline: bool
    timeout_s: float
    prompts: Path | None


class Engine:
    """A judge, named as on the command line, used as `async with Engine("gpt-oss-120b") as engine:`.

    `judge` is a profile's name, `URL#model`, `rules` (offline checks, no model), or `J+rules`. Nothing is opened before
    the block begins. `memo` is the folder of replies, so that nothing is paid twice; `base_url` goes over the
    profile's (several that serve the same model have commas between them); `concurrency` bounds the calls under way (by
    default the engine finds out how many pay, up to the profile's number), `rpm` and `tpm` are limits of each endpoint;
    `budget` (USD) and `max_calls` are caps, beyond which a question raises BudgetError; `offline` uses the memo only;
    `timeout_s` is for one call; `prompts` is a folder with templates in place of the shipped ones. An engine belongs to
    one event loop, and does not ask again what failed for good while it was open.
    """

    def __init__(
        self,
        judge: str = "rules",
        *,
        memo: str | Path = "cache/memo",
        base_url: str = "",
        concurrency: int | None = None,
        rpm: float | None = None,
        tpm: float | None = None,
        budget: float | None = None,
        max_calls: int | None = None,
        offline: bool = False,
        timeout_s: float = 600.0,
        prompts: str | Path | None = None,
    ) -> None:
        self.spec = judge
        self._opened: OpenJudge | None = None
        self._options = _Options(
            memo=Path(memo),
            base_url=base_url,
            concurrency=concurrency,
            rpm=rpm,
            tpm=tpm,
            budget=budget,
            max_calls=max_calls,
            offline=offline,
            timeout_s=timeout_s,
            prompts=None if prompts is None else Path(prompts),
        )

    async def __aenter__(self) -> Self:
        if self._opened is not None:
            raise UsageError(f"the engine {self.spec} is open already", hint="make one engine for each block")
        self._opened = _open(self.spec, self._options)
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


def _open(spec: str, options: _Options) -> OpenJudge:
    if spec == "rules":
        return open_offline_judge(spec, {})
    if not needs_endpoint(spec):
        raise UsageError(f"{spec} knows the pairs of its recording only", hint="svr eval replays recordings")
    from svr_async.engine.config import EngineConfig  # noqa: PLC0415  (the rules judge needs no engine)
    from svr_async.engine.failures import FailureLog  # noqa: PLC0415
    from svr_async.engine.money import Budget  # noqa: PLC0415
    from svr_async.judges.opening import EndpointOptions, open_endpoint_judge  # noqa: PLC0415
    from svr_async.judges.profiles import find_profile  # noqa: PLC0415

    profile = find_profile(spec.removesuffix("+rules"), base_url=options.base_url)
    _check_limits(options, profile)
    config = EngineConfig(
        concurrency=options.concurrency or profile.concurrency,
        adaptive=options.concurrency is None,
        rpm=options.rpm or profile.rpm,
        tpm=options.tpm or profile.tpm,
        offline=options.offline,
    )
    endpoint = EndpointOptions(
        memo=options.memo,
        config=config,
        budget=Budget(max_calls=options.max_calls, max_usd=options.budget),
        failures=FailureLog(),
        prompts=options.prompts,
        timeout_s=options.timeout_s,
    )
    return open_endpoint_judge(spec, profile, endpoint)


def _check_limits(options: _Options, profile: Profile) -> None:
    if options.concurrency is not None and options.concurrency < 1:
        raise UsageError(f"concurrency must be >= 1 (got {options.concurrency})", hint="leave it out for the profile's")
    if options.budget is not None and profile.price is None:
        raise UsageError(
            f"a budget needs a price, and judge {profile.name} has none",
            hint="add price = [in, cached, out] in judges.toml, or cap the calls with max_calls",
        )
