"""The protocol of a method, and the methods by name with their options; modules are imported when used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from svr_async.core.pair import HumanRubrics, Presentation
from svr_async.errors import UsageError, did_you_mean
from svr_async.judges.protocol import Judge
from svr_async.scoring.decision import Decision, WeightedRubrics

if TYPE_CHECKING:
    from svr_async.scoring.bank import RubricBank

MODULES = {  # the module of `svr_async.scoring.methods` that makes a method; its `RECIPES` have the name
    "svr": "svr",
    "uniform": "svr",
    **dict.fromkeys(("direct", "self-rubric", "oracle", "fixed", "pointwise"), "simple"),
    "rrd": "rrd",
    **dict.fromkeys(("rubric-arm", "rubric-arrow", "rm-r1"), "generative"),
    **dict.fromkeys(("longest", "shortest", "first"), "simple"),
}
NAMES = tuple(MODULES)
Needed = Literal["bank", "rubrics"]
Part = Literal["bank", "rubrics", "rephrase"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnWords:
    """Needs of a method that asks its own questions; its judge must write texts.

    `templates` are its own prompts. `others` are further judges to open, named as for --judge; `bind` returns the
    method with them. `tallied` returns the counts of its questions as JSON values, `counted` the sum over all shards.
    `assumes` are a dry run's assumptions.
    """

    templates: tuple[str, ...]
    bind: Callable[[Mapping[str, Judge]], Method]
    others: tuple[str, ...] = ()
    tallied: Callable[[], Mapping[str, Any]] = dict
    counted: Callable[[Sequence[Mapping[str, Any]]], Mapping[str, Any]] = lambda _: {}
    assumes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts that a run needs of its method before any call.

    `identity` is all of it, besides its name, that can change an item: JSON values for the run's digest. `staged`: some
    of its questions depend on replies to others. `asks_judge`: whether it asks at all; a method that does not is
    content-blind. `human_rubrics`: it judges those of the data. `direct`: its bank learned too little, so the judge is
    asked without rubrics. `taught_by`: digests of the pairs that its bank was trained on. `own`: its own questions.
    """

    identity: Mapping[str, Any] = field(default_factory=dict)
    staged: bool = False
    asks_judge: bool = True
    human_rubrics: bool = False
    direct: bool = False
    taught_by: frozenset[str] = frozenset()
    own: OwnWords | None = None


class Method(Protocol):
    """A way to decide one presentation."""

    @property
    def name(self) -> str:
        """The name on the command line."""

    @property
    def facts(self) -> Facts:
        """Facts that a run needs."""

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: HumanRubrics) -> Decision:
        """Return the decision in the order shown. `human_rubrics` are the benchmark's; only the oracle may look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a method: a bank, the number of its rubrics used for a prompt, a list of rubrics.

    With `rephrase` a model puts the bank's rubrics in words that fit the prompt first. `options` are the recipe's.
    `by_points`: the weights of `rubrics` are points, which may be negative.
    """

    bank: RubricBank | None = None
    top_k: int | None = None
    rubrics: WeightedRubrics = ()
    by_points: bool = False
    rephrase: bool = False
    options: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How methods of a module are made: from a name and parts, of which `takes` may be given and `needs` has to be.

    `options` is a frozen record whose fields, whole numbers, numbers, texts or tuples of texts, `--option` sets.
    """

    make: Callable[[str, Parts], Method]
    takes: frozenset[Part] = frozenset()
    needs: Needed | None = None
    options: type[Any] | None = None


def find_recipe(name: str) -> Recipe:
    """Return the recipe of a method; UsageError lists the known names."""
    if name in MODULES:
        recipe: Recipe = import_module(f"svr_async.scoring.methods.{MODULES[name]}").RECIPES[name]
        return recipe
    hint = did_you_mean(name.casefold(), NAMES) or f"choose from {', '.join(NAMES)}"
    raise UsageError(f"unknown method {name!r}", hint=hint)


def names_that_take(part: Part) -> tuple[str, ...]:
    """Return the methods that can be made of a part."""
    return tuple(name for name in NAMES if part in find_recipe(name).takes)


def read_options(kind: type[Any] | None, method: str, given: Sequence[str]) -> Any:
    """Return the record with the options given as NAME=VALUE; None for a method without options.

    A tuple of texts is given with commas. UsageError for an unknown name or a value that its type does not allow.
    """
    if kind is None:
        if given:
            raise UsageError(f"--method {method} has no options", hint=f"leave --option {given[0]} out")
        return None
    defaults = {field.name: field.default for field in fields(kind)}
    values: dict[str, Any] = {}
    for text in given:
        name, mark, value = text.partition("=")
        if not mark or name not in defaults:
            hint = did_you_mean(name, defaults) or f"its options are {', '.join(defaults)}"
            raise UsageError(f"--method {method} has no option {name!r}, as NAME=VALUE", hint=hint)
        several = [part.strip() for part in value.split(",") if part.strip()]
        values[name] = several if isinstance(defaults[name], tuple) else value.strip()
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"--method {method} --option {' '.join(given)}: {error}") from error


def named_judge(name: str, default: Judge, others: Mapping[str, Judge]) -> Judge:
    """Return the judge that an option names, or the default; UsageError if no run has opened it."""
    if name and name not in others:
        raise UsageError(f"the judge {name} of --option is not open", hint="svr eval opens it")
    return others[name] if name else default
