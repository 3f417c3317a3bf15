# ruff: noqa: ARG002
"""The interface of all judges: endpoints, checks, recordings, simulations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar, cast

from svr_async.core.integrity import Marks
from svr_async.core.pair import PreferencePair, Presentation, Prompt, Side
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Contribution, Outcome, RubricComparison
from svr_async.errors import UsageError

T = TypeVar("T")
U = TypeVar("U")


class Reasked(str):
    """The key of a follow-up question about rubrics that a reply left out.

    It depends on the reply, not on the pair. So items do not list it, but counts of calls do.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[T]):
    """A judge's typed reply: a value, or the outcome that says why it is missing.

    `requests` are the cache keys of the questions asked, in order; `flags` name what was unusual
    (`inconsistent`, `missing_rubrics` …).
    """

    value: T | None
    outcome: Outcome = Outcome.SCORED
    detail: str = ""
    requests: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()

    def map(self, made: Callable[[T], U]) -> Answer[U]:
        """Return the answer with its value mapped; an answer without a value stays as it is."""
        return replace(cast("Answer[U]", self), value=None if self.value is None else made(self.value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """A direct verdict: margin > 0 for response A, < 0 for B, 0 for a tie; evidence if the judge has any.

    `reason` is the text before its verdict, about A and B as it saw them. `scores` are those of A and B if the judge
    scores each response alone.
    """

    margin: float
    evidence: tuple[Contribution, ...] = ()
    reason: str = ""
    scores: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparisons:
    """Verdicts per rubric, and the judge's overall preference where it was asked for one."""

    rows: tuple[RubricComparison, ...]
    preferred: Side | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRubrics:
    """Rubrics that a judge wrote for a prompt, with its note on the expected shape of an answer."""

    rubrics: tuple[Rubric, ...]
    note: str = ""


class Judge(Protocol):
    """Answers questions about responses. Rubrics that it cannot decide are left out of its rows.

    A judge that does not define one of the last three methods raises UsageError there.
    """

    __slots__ = ()

    @property
    def name(self) -> str:
        """The judge's short name, as given on the command line."""

    @property
    def label(self) -> str:
        """How results of this judge are labelled in reports, e.g. "rules (offline checks, no model)"."""
        return self.name

    @property
    def marks(self) -> Marks:
        """Marks of results that are not a model's: simulated, offline rules, recorded; empty for a model."""

    async def prefer(self, shown: Presentation) -> Answer[Preference]:
        """Say directly which response is better, without rubrics (the paper's vanilla judge)."""

    async def write_rubrics(self, prompt: Prompt) -> Answer[WrittenRubrics]:
        """Write rubrics for a prompt without seeing any response (self-generated rubrics)."""
        raise _unable(self.name, "write rubrics")

    async def compare(
        self, shown: Presentation, rubrics: Sequence[Rubric], *, overall: bool, note: str = ""
    ) -> Answer[Comparisons]:
        """Judge rubrics on both responses side by side; with `overall`, also name the preferred response."""
        raise _unable(self.name, "judge by rubrics")

    async def score(self, prompt: Prompt, response: str, rubrics: Sequence[Rubric]) -> Answer[Mapping[str, float]]:
        """Score one response alone on each rubric, in [0, 1]; a rubric it cannot decide is absent."""
        raise _unable(self.name, "score by rubrics")


@dataclass(frozen=True, slots=True)
class CriteriaQuestion:
    """Which new criteria repeat a known one, or an earlier new one, in other words.

    A request labels the known texts K1, K2 … and the new ones N1, N2 and so on.
    """

    known: tuple[str, ...]
    new: tuple[str, ...]


class Author(Protocol):
    """A writer of rubrics that distinguish two responses, and of plausible but worse responses."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The author's short name."""

    async def induce(self, pair: PreferencePair, *, contrastive: bool = True) -> Answer[tuple[Rubric, ...]]:
        """Propose rubrics that the chosen response satisfies and the rejected does not (paper `sec:bank`).

        With `contrastive` False, rubrics that describe a good response, for the ablation.
        """

    async def probe(self, pair: PreferencePair) -> Answer[str]:
        """Write a response that looks plausible but is worse than the chosen one (paper `sec:adv`)."""

    async def same_criterion(self, asked: CriteriaQuestion) -> Answer[Mapping[str, str | None]]:
        """Return, by label, the listed criterion that each new one repeats in other words, or None."""


def _unable(judge: str, task: str) -> UsageError:
    hint = "name a text judge of `svr judges`, or use --method direct"
    return UsageError(f"the judge {judge} cannot {task}", hint=hint)
