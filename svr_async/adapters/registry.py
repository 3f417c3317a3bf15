"""The adapters by name; each module is imported when its adapter is asked for."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

from svr_async.adapters.contract import Adapter
from svr_async.errors import DataError, UsageError

NAMES = (
    "rubricbench",
    "rewardbench",
    "rewardbench2",
    "rmbench",
    "helpsteer3",
    "rmb",
    "pairs",
)


class _Registry(Mapping[str, Adapter]):
    """A read-only mapping of names to adapters that imports `svr_async.adapters.<name>` on access."""

    def __getitem__(self, name: str) -> Adapter:
        if name not in NAMES:
            raise KeyError(name)
        adapter: Adapter = import_module(f"svr_async.adapters.{name}").ADAPTER
        return adapter

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


ADAPTERS: Mapping[str, Adapter] = _Registry()


def get_adapter(name: str) -> Adapter:
    """Return the adapter of this name; UsageError names the ones there are."""
    if name in NAMES:
        return ADAPTERS[name]
    near = difflib.get_close_matches(name.casefold(), NAMES, n=1)
    raise UsageError(
        f"unknown benchmark {name!r}", hint=f"did you mean {near[0]}?" if near else f"there are {', '.join(NAMES)}"
    )


def refuse_benchmark_for_training(name: Path | str) -> None:
    """Raise DataError where a path or format says that it holds a benchmark, which is for evaluation only."""
    for adapter in ADAPTERS.values():
        if not adapter.training and re.search(adapter.spelling or adapter.name, str(name).casefold()):
            raise DataError(
                f"{name} is {adapter.label or adapter.name}, and that is for evaluation only",
                hint="train on preference pairs such as HelpSteer3 or RMB",
            )
