"""The adapters by name; each module is imported when its adapter is asked for."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from importlib import import_module

from svr_async.adapters.contract import Adapter
from svr_async.errors import UsageError

BENCHMARKS = ("rubricbench", "rewardbench", "rewardbench2", "rmbench")
TRAINING_SETS = ("helpsteer3", "rmb")
NAMES = (*BENCHMARKS, *TRAINING_SETS, "pairs")


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
