"""Limits of a run's calls: rates, caps, timeouts, where replies are cached; and the shard of a machine."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from svr_async.core.validation import coerce_fields
from svr_async.engine.money import Budget, Price, read_price
from svr_async.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from svr_async.engine.caller import EngineConfig
    from svr_async.judges.profiles import Profile

AUTO = "auto"
MOST_CONCURRENCY = 8192
FLAGS = {"timeout": "timeout_s", "give_up_after": "give_up_after_s", "shard": "share"}
"""The flags that differ from the name of their field."""

Share = tuple[int, int]
"""(index, count) of a shard, from 0: (0, 1) is the whole run."""

WHOLE: Share = (0, 1)
MOST_SHARES = 10_000
_SHARE = re.compile(r"(\d{1,5})/(\d{1,5})")


class JudgeOptions(TypedDict, total=False):
    """How a judge may be called, as keyword arguments; the same as `JudgeLimits` and the options of the commands.

    `base_url` replaces the profile's; `cache` is a folder or redis://…; `concurrency` a number of calls or auto;
    `budget` in USD; `price` IN,CACHED,OUT in USD per million tokens; `prompts` a folder of templates, or paper;
    `shard` I/N. With `offline` only the cache answers; `give_up_after_s` counts seconds without any success.
    """

    base_url: str
    cache: str | PathLike[str] | None
    concurrency: int | str | None
    rpm: float | None
    tpm: float | None
    timeout_s: float
    give_up_after_s: float
    strict_model: bool
    budget: float | None
    price: str | None
    max_calls: int | None
    offline: bool
    retry_errors: bool
    prompts: str | PathLike[str] | None
    shard: str | None
    ray: str | None


def check_options(options: Mapping[str, Any], known: Any) -> None:
    """Raise UsageError for a keyword argument that is not a key of the TypedDict `known`."""
    names = known.__annotations__
    for name in options:
        if name not in names:
            hint = did_you_mean(name, names) or f"there are {', '.join(sorted(names))}"
            raise UsageError(f"unknown option {name!r}", hint=hint)


def read_share(text: str) -> Share:
    """Read I/N, counted from 1; UsageError for anything else."""
    found = _SHARE.fullmatch(text)
    number, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= count <= MOST_SHARES:
        hint = f"write I/N, for example 2/4 for the second of four machines; N is at most {MOST_SHARES:,}"
        raise UsageError(f"--shard {text[:40]} is not a shard", hint=hint)
    return number - 1, count


def share_in_words(share: Share) -> str:
    """Return a share as users write it: I/N, counted from 1."""
    return f"{share[0] + 1}/{share[1]}"


def part_of(total: int, share: Share) -> int:
    """Return a share's part of a whole number; the parts of all shares add up to it."""
    number, count = share
    return total // count + (number < total % count)


def places_of(prompts: Iterable[Hashable], share: Share) -> list[int]:
    """Return the positions of a share. Equal prompts stay together, because they use the same rubrics."""
    number, count = share
    groups: dict[Hashable, int] = {}
    return [place for place, prompt in enumerate(prompts) if groups.setdefault(prompt, len(groups)) % count == number]


def _cache_place(place: Path | str | None = None) -> Path | str:
    from svr_async.engine.cache import cache_place, place_of  # slow to import: not for `svr --help`

    return cache_place() if place is None else place_of(place)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeLimits:
    """How a judge may be called. Judges without an endpoint ignore it.

    `concurrency` is a number of calls, or auto: the engine adapts it, up to the profile's. `rpm` and `tpm` (requests
    and tokens per minute) hold for each endpoint. `budget` is in USD; `price` replaces the profile's. `failures` is
    the file of final failures, ignored with `retry_errors`. `share` is this machine's shard: rates and concurrency are
    divided by it, the caps already are. `ray` is the address of a Ray cluster that sends the requests (docs/scale.md).
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
        coerce_fields(self)
        object.__setattr__(self, "cache", _cache_place(self.cache))
        text = self.concurrency
        if text != AUTO and not (text.isdecimal() and 1 <= int(text) <= MOST_CONCURRENCY):
            hint = "auto adapts the number of parallel calls"
            raise UsageError(f"--concurrency {text} is not auto or a number from 1 to {MOST_CONCURRENCY}", hint=hint)

    @classmethod
    def from_flags(cls, flags: Mapping[str, Any]) -> JudgeLimits:
        """Return the limits in a command's flags, with caps divided by --shard; UsageError for a bad price or shard."""
        known = {one.name for one in fields(cls)}
        named = {FLAGS.get(name, name): value for name, value in flags.items()}
        if isinstance(named.get("price"), str):
            named["price"] = read_price(named["price"])
        shard = named.pop("share", None)
        given = {name: value for name, value in named.items() if name in known and value is not None}
        whole = cls(**given)
        return whole if shard is None else whole.part(read_share(shard))

    def part(self, share: Share) -> JudgeLimits:
        """Return the limits of one shard: its part of the caps."""
        return replace(
            self,
            share=share,
            max_calls=None if self.max_calls is None else part_of(self.max_calls, share),
            budget=None if self.budget is None else self.budget / share[1],
        )

    def new_budget(self) -> Budget:
        """Return a budget with these caps, for all engines of a run."""
        return Budget(max_calls=self.max_calls, max_usd=self.budget)

    def engine_config(self, profile: Profile) -> EngineConfig:
        """Return the engine's settings: these limits, else the profile's, divided by the shard."""
        from svr_async.engine.caller import EngineConfig
        from svr_async.engine.endpoint import START

        auto, count = self.concurrency == AUTO, self.share[1]
        rpm, tpm = self.rpm or profile.rpm, self.tpm or profile.tpm
        most = profile.concurrency if auto else int(self.concurrency)
        return EngineConfig(
            concurrency=max(1, part_of(most, self.share)),
            start=max(1, part_of(START, self.share)) if auto else None,
            rpm=rpm and rpm / count,
            tpm=tpm and tpm / count,
            give_up_after_s=self.give_up_after_s,
            offline=self.offline,
            strict_model=self.strict_model,
            dry_run=self.dry_run,
        )


def refuse_one_price(price: Price | None, paid: Sequence[str]) -> None:
    """Raise UsageError if one price is given for several paid judges."""
    if price is not None and len(paid) > 1:
        hint = "set price = [in, cached, out] for each in judges.toml"
        raise UsageError(f"--price needs a single paid judge (got {', '.join(paid)})", hint=hint)
