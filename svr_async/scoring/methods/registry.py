"""The methods by name; each file is imported when a method of it is asked for."""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import TYPE_CHECKING

from svr_async.errors import UsageError

if TYPE_CHECKING:
    from svr_async.scoring.methods.contract import Part, Recipe

FILES = {
    "svr": "svr",
    "uniform": "svr",
    "direct": "direct",
    "self-rubric": "self_rubric",
    "oracle": "oracle",
    "fixed": "fixed",
    "pointwise": "pointwise",
    "rrd": "rrd",
    "rubric-arm": "generative",
    "rubric-arrow": "generative",
    "rm-r1": "generative",
    "longest": "content_blind",
    "shortest": "content_blind",
    "first": "content_blind",
}
"""Which file below `svr_async.scoring.methods` makes the method of a name."""
NAMES = tuple(FILES)


def find_recipe(name: str) -> Recipe:
    """Return how the method of this name is made; UsageError names the ones there are."""
    if name in FILES:
        recipe: Recipe = import_module(f"svr_async.scoring.methods.{FILES[name]}").RECIPE
        return recipe
    near = difflib.get_close_matches(name.casefold(), NAMES, n=1)
    raise UsageError(
        f"unknown method {name!r}", hint=f"did you mean {near[0]}?" if near else f"there are {', '.join(NAMES)}"
    )


def names_that_take(part: Part) -> tuple[str, ...]:
    """Return the methods that can be made of a part."""
    return tuple(name for name in NAMES if part in find_recipe(name).takes)
