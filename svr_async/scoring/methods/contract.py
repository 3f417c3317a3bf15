"""What every method offers: decisions on pairs as shown, without a label, and the facts that a run needs of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from svr_async.core.pair import HumanRubrics, Presentation
from svr_async.errors import UsageError
from svr_async.judges.protocol import Judge
from svr_async.scoring.decision import Decision, WeightedRubrics

if TYPE_CHECKING:
    from svr_async.scoring.bank import RubricBank
    from svr_async.scoring.rephraser import Rephraser

Needed = Literal["bank", "rubrics"]
Part = Literal["bank", "rubrics", "rephrase"]


class Decider(Protocol):
    """Decides one presentation."""

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: HumanRubrics) -> Decision:
        """Return the decision in the order shown. `human_rubrics` are the benchmark's; only the oracle may look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BankUse:
    """How a method uses its bank: how many rubrics for a prompt; itself with another number, or with a rephraser.

    `direct`: the bank learned too little, so the judge is asked without its rubrics. `taught_by`: digests of the pairs
    that it was trained on.
    """

    top_k: int
    direct: bool
    taught_by: frozenset[str]
    with_top_k: Callable[[int], Method]
    with_rephraser: Callable[[Rephraser], Method]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnWords:
    """Needs of a method with its own questions, which only a judge that writes can answer.

    `templates` are its own prompts. `others` are further judges to open, named as for --judge; `bind` returns the
    method with them. `tallied` returns the counts of its questions as JSON values, `counted` the sum over all shards.
    `assumes` are a dry run's assumptions, `most_calls` the most calls that a pair may need of each judge.
    """

    templates: tuple[str, ...]
    bind: Callable[[Mapping[str, Judge]], Method]
    others: tuple[str, ...] = ()
    tallied: Callable[[], Mapping[str, Any]] = dict
    counted: Callable[[Sequence[Mapping[str, Any]]], Mapping[str, Any]] = lambda _: {}
    assumes: str = ""
    most_calls: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a run has to know of its method before anything is asked.

    `identity` is all of it, besides its name, that can change an item: it goes into the run's digest, and has to be
    what JSON has. `staged`: some of its questions depend on replies to others. `asks_judge`: whether it asks at all; a
    method that does not is content-blind. `human_rubrics`: it judges those of the data. `bank` is for methods that
    choose a bank's rubrics by the prompt, `own` for those with their own questions.
    """

    identity: Mapping[str, Any] = field(default_factory=dict)
    staged: bool = False
    asks_judge: bool = True
    human_rubrics: bool = False
    bank: BankUse | None = None
    own: OwnWords | None = None


def named_judge(name: str, default: Judge, others: Mapping[str, Judge]) -> Judge:
    """Return the judge that an option names, or the default; UsageError if no run has opened it."""
    if name and name not in others:
        raise UsageError(f"the judge {name} of --option is not open", hint="svr eval opens it")
    return others[name] if name else default


class Method(Decider, Protocol):
    """A way to decide, by its name."""

    @property
    def name(self) -> str:
        """The name on the command line."""

    @property
    def facts(self) -> Facts:
        """Facts that a run needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a method may be made of: a bank, how many of its rubrics are used for a prompt, a list of rubrics.

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
    """How methods of a file are made: from a name and parts, of which `takes` may be given and `needs` has to be.

    `options` is a frozen record whose fields, whole numbers, numbers, texts or tuples of texts, `--option` sets.
    """

    make: Callable[[str, Parts], Method]
    takes: frozenset[Part] = frozenset()
    needs: Needed | None = None
    options: type[Any] | None = None
