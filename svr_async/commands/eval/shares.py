"""How a run is divided among processes: its pairs, its limits and its caps."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from svr_async.commands.eval.flags import EvalFlags
from svr_async.judges.limits import JudgeLimits, Share, part_of
from svr_async.vocabulary.pair import PreferencePair

R = TypeVar("R")


def places_of(pairs: Sequence[PreferencePair], share: Share) -> list[int]:
    """Return the places of the pairs of a share. Pairs of one prompt stay together: they ask about the same rubrics."""
    number, count = share
    groups: dict[object, int] = {}
    return [place for place, pair in enumerate(pairs) if groups.setdefault(pair.prompt, len(groups)) % count == number]


def flags_of(flags: EvalFlags, share: Share) -> EvalFlags:
    """Return the flags of the process that does a share: its part of the caps, and nothing on the screen."""
    whole = flags.limits
    limits = replace(
        whole,
        share=share,
        max_calls=None if whole.max_calls is None else part_of(whole.max_calls, share),
        budget=None if whole.budget is None else whole.budget / share[1],
    )
    return replace(flags, limits=limits, processes=1, quiet=True, as_json=False)


def flags_to_json(flags: EvalFlags) -> dict[str, Any]:
    """Return flags as values that JSON has."""
    return {name: _plain(value) for name, value in asdict(flags).items()}


def flags_from_json(values: Mapping[str, Any]) -> EvalFlags:
    """Read what `flags_to_json` returned."""
    return _record(EvalFlags, values)


def _record(kind: type[R], values: Mapping[str, Any]) -> R:
    kinds = typing.get_type_hints(kind)
    return kind(**{name: _typed(value, kinds[name]) for name, value in values.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return sorted(value) if isinstance(value, frozenset) else value


def _typed(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    if isinstance(kind, types.UnionType):
        kind = next(one for one in typing.get_args(kind) if one is not type(None))
    if kind is JudgeLimits:
        return _record(kind, value)
    if kind is Path:
        return Path(value)
    made = typing.get_origin(kind)
    return made(value) if made in {tuple, frozenset} else value
