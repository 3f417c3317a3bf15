"""How a run is divided among processes: its pairs, its limits and its caps."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svr_async.commands.eval.flags import EvalFlags
from svr_async.vocabulary.pair import PreferencePair

if TYPE_CHECKING:
    from svr_async.engine.config import EngineConfig

Share = tuple[int, int]
"""Which process of how many: (0, 1) is a process that does all by itself."""


def places_of(pairs: Sequence[PreferencePair], share: Share) -> list[int]:
    """Return the places of the pairs of a share. Pairs of one prompt stay together: they ask about the same rubrics."""
    number, count = share
    groups: dict[object, int] = {}
    return [place for place, pair in enumerate(pairs) if groups.setdefault(pair.prompt, len(groups)) % count == number]


def part_of(total: int, share: Share) -> int:
    """Return the part of a whole number that falls to a share; all parts add up to it."""
    number, count = share
    return total // count + (number < total % count)


def limits_of(config: EngineConfig, share: Share) -> EngineConfig:
    """Return the limits of a share: of calls under way at least one, of rates an equal part."""
    _, count = share
    return replace(
        config,
        concurrency=max(1, part_of(config.concurrency, share)),
        start=max(1, part_of(config.start, share)),
        rpm=config.rpm and config.rpm / count,
        tpm=config.tpm and config.tpm / count,
    )


def flags_of(flags: EvalFlags, share: Share) -> EvalFlags:
    """Return the flags of the process that does a share: its part of the caps, and nothing on the screen."""
    return replace(
        flags,
        share=share,
        processes=1,
        max_calls=None if flags.max_calls is None else part_of(flags.max_calls, share),
        budget=None if flags.budget is None else flags.budget / share[1],
        quiet=True,
        as_json=False,
    )


def flags_to_json(flags: EvalFlags) -> dict[str, Any]:
    """Return flags as values that JSON has."""
    return {name: _plain(value) for name, value in asdict(flags).items()}


def flags_from_json(values: Mapping[str, Any]) -> EvalFlags:
    """Read what `flags_to_json` returned."""
    kinds = typing.get_type_hints(EvalFlags)
    return EvalFlags(**{name: _typed(value, kinds[name]) for name, value in values.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    return sorted(value) if isinstance(value, frozenset) else value


def _typed(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    if isinstance(kind, types.UnionType):
        kind = next(one for one in typing.get_args(kind) if one is not type(None))
    if kind is Path:
        return Path(value)
    made = typing.get_origin(kind)
    return made(value) if made in {tuple, frozenset} else value
