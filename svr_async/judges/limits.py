"""How a judge behind an endpoint may be asked: limits, caps, patience, and where its replies and failures are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svr_async.core.validation import settle
from svr_async.engine.money import Price, read_price
from svr_async.errors import UsageError
from svr_async.judges.shares import WHOLE, Share, part_of, read_share

if TYPE_CHECKING:
    from svr_async.engine.caller import EngineConfig
    from svr_async.judges.profile import Profile

AUTO = "auto"
MOST_CONCURRENCY = 8192
FLAGS = {  # those that have another name than their field
    "timeout": "timeout_s",
    "give_up_after": "give_up_after_s",
    "shard": "share",
}


def _cache_place() -> Path | str:
    from svr_async.engine.cache import cache_place  # slow to import: not for `svr --help`

    return cache_place()


def _place_of(place: Path | str) -> Path | str:
    from svr_async.engine.cache import place_of

    return place_of(place)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeLimits:
    """How a judge may be asked; judges without an endpoint have no use for it.

    `concurrency` is a number of calls, or auto: the engine finds out how many pay, up to the profile's number. `rpm`
    and `tpm` are requests and tokens a minute, for each endpoint. `budget` is in USD; `price` stands
    in place of the profile's. `failures` is the file of final failures, which `retry_errors` forgets. `share` is the
    shard of the run that this machine judges, with its part of the rates and calls under way that are named here; the
    caps are already divided. `ray` is the address of a Ray cluster whose nodes send the requests (docs/scale.md).
    """

    cache: Path | str = field(default_factory=_cache_place)
    concurrency: str = AUTO
    rpm: float | None = None
    tpm: float | None = None
    timeout_s: float = 600.0
    give_up_after_s: float = 1800.0
    strict_model: bool = False
    budget: float | None = None
    price: Price | None = None
    max_calls: int | None = None
    offline: bool = False
    dry_run: bool = False
    retry_errors: bool = False
    prompts: Path | None = None
    failures: Path | None = None
    share: Share = WHOLE
    ray: str | None = None

    def __post_init__(self) -> None:
        settle(self)
        object.__setattr__(self, "cache", _place_of(self.cache))
        text = self.concurrency
        if text != AUTO and not (text.isdecimal() and 1 <= int(text) <= MOST_CONCURRENCY):
            hint = "auto finds out how many calls pay"
            raise UsageError(f"--concurrency {text} is not auto or a number from 1 to {MOST_CONCURRENCY}", hint=hint)

    @classmethod
    def from_flags(cls, flags: Mapping[str, Any]) -> JudgeLimits:
        """Return the limits that the flags of a command name; others are left alone.

        With `shard` the caps are divided. UsageError for a bad price or shard.
        """
        known = {one.name for one in fields(cls)}
        named = {FLAGS.get(name, name): value for name, value in flags.items()}
        if isinstance(named.get("price"), str):
            named["price"] = read_price(named["price"])
        shard = named.pop("share", None)
        whole = cls(**{name: value for name, value in named.items() if name in known})
        return whole if shard is None else whole.part(read_share(shard))

    def part(self, share: Share) -> JudgeLimits:
        """Return the limits of one shard: its part of the caps."""
        return replace(
            self,
            share=share,
            max_calls=None if self.max_calls is None else part_of(self.max_calls, share),
            budget=None if self.budget is None else self.budget / share[1],
        )

    def engine_config(self, profile: Profile) -> EngineConfig:
        """Return how an engine asks: these limits before the profile's, and this process's share of them."""
        from svr_async.engine.caller import EngineConfig
        from svr_async.engine.endpoint import START

        whole = EngineConfig(
            concurrency=profile.concurrency if self.concurrency == AUTO else int(self.concurrency),
            start=START if self.concurrency == AUTO else None,
            rpm=self.rpm or profile.rpm,
            tpm=self.tpm or profile.tpm,
            give_up_after_s=self.give_up_after_s,
            offline=self.offline,
            strict_model=self.strict_model,
            dry_run=self.dry_run,
        )
        return whole if self.share == WHOLE else config_share(whole, self.share)


def refuse_one_price(price: Price | None, paid: Sequence[str]) -> None:
    """Raise UsageError where one price is given and several judges are paid."""
    if price is not None and len(paid) > 1:
        hint = "give price = [in, cached, out] to each in judges.toml"
        raise UsageError(f"--price is of one judge, and {' and '.join(paid)} are asked", hint=hint)


def config_share(config: EngineConfig, share: Share) -> EngineConfig:
    """Return the limits of a share: of calls under way at least one, of rates an equal part."""
    _, count = share
    return replace(
        config,
        concurrency=max(1, part_of(config.concurrency, share)),
        start=config.start and max(1, part_of(config.start, share)),
        rpm=config.rpm and config.rpm / count,
        tpm=config.tpm and config.tpm / count,
    )
