"""The simple methods: content-blind baselines, direct judgement, own, human or fixed rubrics, scores one by one.

Fixed rubrics come from a file (`--rubrics FILE`): plain text, JSON or JSON Lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec

from svr_async.core.files import read_plain
from svr_async.core.pair import HumanRubrics, Presentation, Side
from svr_async.core.rubric import MAX_RUBRIC_CHARS, Check, Rubric, split_rubrics
from svr_async.core.verdict import Outcome, RubricComparison, Verdict
from svr_async.errors import ConfigError
from svr_async.judges.protocol import Answer, Comparisons, Judge
from svr_async.scoring.decision import (
    Decision,
    WeightedRubrics,
    contributions,
    decided,
    distinct,
    rounded,
    total,
    undecided,
)  # fmt: skip
from svr_async.scoring.methods.registry import Facts, Parts, Recipe

if TYPE_CHECKING:
    from svr_async.scoring.selection import Chooser

PREFERS = {"longest": "the longer response", "shortest": "the shorter response", "first": "the first response"}


@dataclass(frozen=True, slots=True)
class ContentBlind:
    """A baseline that reads nothing: the longest response, the shortest, or the one shown first."""

    name: str
    facts: ClassVar[Facts] = Facts(asks_judge=False)

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: HumanRubrics) -> Decision:  # noqa: ARG002
        """Decide by length in characters, or by position."""
        if self.name == "first":
            return decided(1.0, shown)
        longer = float(len(shown.response_a) - len(shown.response_b))
        return decided(longer if self.name == "longest" else -longer, shown)


@dataclass(frozen=True, slots=True)
class Direct:
    """The judge asked directly, without rubrics (paper `app:prompts`)."""

    name: str = "direct"
    facts: ClassVar[Facts] = Facts()

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: HumanRubrics) -> Decision:  # noqa: ARG002
        """Ask for a direct verdict."""
        answer = await judge.prefer(shown)
        if answer.value is None:
            return undecided(answer, shown)
        found = decided(answer.value.margin, shown, answer.value.evidence, answer.requests, answer.flags)
        return replace(found, reason=answer.value.reason, scores=answer.value.scores)


@dataclass(frozen=True, slots=True)
class SelfRubric:
    """The judge writes rubrics from the prompt, then judges by them; its overall preference decides."""

    name: str = "self-rubric"
    facts: ClassVar[Facts] = Facts(staged=True)

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: HumanRubrics) -> Decision:  # noqa: ARG002
        """Ask for rubrics, then for verdicts."""
        written = await judge.write_rubrics(shown.prompt)
        if written.value is None:
            return undecided(written, shown)
        rubrics, note = written.value.rubrics, written.value.note
        answer = await judge.compare(shown, rubrics, overall=True, note=note)
        return _by_preference(answer, shown, rubrics, written.requests)


@dataclass(frozen=True, slots=True)
class Oracle:
    """The benchmark's human rubrics, judged side by side; the judge's overall preference decides.

    Rubrics with points decide themselves: each response has Σ points · satisfied.
    """

    name: str = "oracle"
    facts: ClassVar[Facts] = Facts(human_rubrics=True)

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: HumanRubrics) -> Decision:
        """Ask for verdicts on the human rubrics."""
        if not human_rubrics:
            return Decision(margin=None, outcome=Outcome.INVALID_INPUT, shown=shown.order, detail="no human rubrics")
        if all(points is not None for _, points in human_rubrics):
            weighted = by_text((text, points or 0.0) for text, points in human_rubrics)
            answer = await judge.compare(shown, [rubric for rubric, _ in weighted], overall=False)
            return _summed(answer, shown, weighted, by_points=True)
        rubrics = distinct(text for text, _ in human_rubrics)
        answer = await judge.compare(shown, rubrics, overall=True)
        return _by_preference(answer, shown, rubrics)


@dataclass(frozen=True, slots=True)
class Fixed:
    """A fixed list of weighted rubrics for every pair: F = Σ weight · Δ, or `by_points` Σ points · satisfied."""

    rubrics: WeightedRubrics
    name: str = "fixed"
    by_points: bool = False

    @property
    def facts(self) -> Facts:
        """Facts that a run needs."""
        rubrics = [[rubric.text, weight] for rubric, weight in self.rubrics]
        return Facts(identity={"rubrics": rubrics} | ({"by_points": True} if self.by_points else {}))

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: HumanRubrics) -> Decision:  # noqa: ARG002
        """Ask for verdicts on the list and add them up."""
        answer = await judge.compare(shown, [rubric for rubric, _ in self.rubrics], overall=False)
        return _summed(answer, shown, self.rubrics, by_points=self.by_points)


@dataclass(frozen=True, slots=True)
class Pointwise:
    """Each response scored alone: z = score_a − score_b per rubric; F = Σ weight · z (paper's pointwise ablation).

    The rubrics are those that a bank's `chooser` finds for the prompt, else the fixed list, or if it is empty those
    that the judge writes for the prompt.
    """

    rubrics: WeightedRubrics = ()
    chooser: Chooser | None = None
    name: str = "pointwise"

    @property
    def facts(self) -> Facts:
        """Facts that a run needs."""
        if self.chooser is not None:
            return Facts(identity=self.chooser.identity)
        rubrics = [[rubric.text, weight] for rubric, weight in self.rubrics]
        return Facts(identity={"rubrics": rubrics}, staged=not rubrics)

    async def decide(self, judge: Judge, shown: Presentation, human_rubrics: HumanRubrics) -> Decision:  # noqa: ARG002
        """Ask for two sets of scores and add up their differences."""
        weighted, requests = self.rubrics, tuple[str, ...]()
        if self.chooser is not None:
            bank = self.chooser.bank.rubrics
            chosen = ((bank[entry.index].rubric, entry.importance) for entry in self.chooser.choose(shown.prompt))
            weighted = tuple(sorted(chosen, key=lambda item: item[0].id))
        if not weighted:
            written = await judge.write_rubrics(shown.prompt)
            if written.value is None:
                return undecided(written, shown)
            weighted, requests = tuple((rubric, 1.0) for rubric in written.value.rubrics), written.requests
        rubrics = [rubric for rubric, _ in weighted]
        a = await judge.score(shown.prompt, shown.response_a, rubrics)
        b = await judge.score(shown.prompt, shown.response_b, rubrics)
        if a.value is None or b.value is None:
            return undecided(a if a.value is None else b, shown)
        both = [(r, w, a.value[r.id], b.value[r.id]) for r, w in weighted if r.id in a.value and r.id in b.value]
        parts = contributions(weighted, [_shown_as_verdicts(r.id, of_a, of_b) for r, _, of_a, of_b in both])
        margin = sum(w * (of_a - of_b) for _, w, of_a, of_b in both)
        found = decided(margin, shown, parts, requests + a.requests + b.requests)
        if len(both) < len(weighted):  # sums over different rubrics do not compare with those of other responses
            return found
        totals = rounded(sum(w * of_a for _, w, of_a, _ in both)), rounded(sum(w * of_b for _, w, _, of_b in both))
        return replace(found, scores=totals)


def by_text(weighted: Iterable[tuple[str, float]]) -> WeightedRubrics:
    """Return rubrics of these texts with their weights, those of a repeated text added up."""
    sums: dict[str, tuple[Rubric, float]] = {}
    for text, weight in weighted:
        rubric = Rubric(text=text)
        sums[rubric.id] = rubric, sums.get(rubric.id, (rubric, 0.0))[1] + weight
    return tuple(sums.values())


def _by_preference(
    answer: Answer[Comparisons], shown: Presentation, rubrics: Sequence[Rubric], requests: tuple[str, ...] = ()
) -> Decision:
    """Decide by the judge's overall preference; without one by the mean of its verdicts."""
    if answer.value is None:
        return undecided(answer, shown, requests)
    parts = contributions(tuple((rubric, 1.0 / len(rubrics)) for rubric in rubrics), answer.value.rows)
    preferred = answer.value.preferred
    margin = total(parts) if preferred is None else (1.0 if preferred is Side.A else -1.0)
    return decided(margin, shown, parts, requests + answer.requests, answer.flags)


def _summed(
    answer: Answer[Comparisons], shown: Presentation, weighted: WeightedRubrics, *, by_points: bool
) -> Decision:
    """Decide by Σ weight · Δ; with `by_points` by Σ points · satisfied of A less that of B."""
    if answer.value is None:
        return undecided(answer, shown)
    parts = contributions(weighted, answer.value.rows, by_points=by_points)
    return decided(total(parts), shown, parts, answer.requests, answer.flags)


def _pointwise(parts: Parts) -> Pointwise:
    if parts.bank is None:
        return Pointwise(parts.rubrics)
    from svr_async.scoring.selection import open_chooser

    return Pointwise(chooser=open_chooser(parts.bank, top_k=parts.top_k))


def _shown_as_verdicts(rubric_id: str, a: float, b: float) -> RubricComparison:
    """Return two scores as verdicts for the report: at least a half passes, the higher score is better."""
    better = None if a == b else Side.A if a > b else Side.B
    first, second = (Verdict.PASS if score >= 0.5 else Verdict.FAIL for score in (a, b))
    return RubricComparison(rubric_id, first, second, better)


# ── a file of fixed rubrics ──

TEXTS = ("text", "rubric", "criterion", "description")
WEIGHTS = ("weight", "points")


class _Entry(msgspec.Struct):
    """A rubric in a file, by the first names of TEXTS and WEIGHTS."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_RUBRIC_CHARS)]
    weight: Annotated[float, msgspec.Meta(ge=-1e300, le=1e300)] = 1.0
    facet: str | None = None
    importance: str | None = None
    grounding: str | None = None
    check: dict[str, Any] | None = None


def load_rubric_file(path: Path) -> tuple[tuple[tuple[Rubric, float], ...], bool]:
    """Return (rubric, weight) from a file, and whether the weights are points; ConfigError names a wrong entry.

    `.txt` or `.md`: one rubric a line. `.json`: a list. `.jsonl`: one entry a line. An entry is a text, or an object
    with `text` (or `rubric`, `criterion`, `description`) and optionally `weight` or `points` (default 1), `facet`,
    `importance`, `check`. Weights are points where an entry says `points`, or where one is negative.
    """
    try:
        text = read_plain(path).decode("utf-8-sig", "replace")
    except OSError as error:
        raise ConfigError(f"cannot read the rubrics '{path}': {error.strerror}") from error
    found: dict[str, tuple[Rubric, float]] = {}
    by_points = False
    for number, entry in enumerate(_entries(path, text), 1):
        try:
            value = msgspec.json.decode(entry) if isinstance(entry, bytes) else entry
            rubric, weight = read_rubric(value)
        except ValueError as error:
            raise ConfigError(f"{path}: rubric {number}: {error}") from error
        found.setdefault(rubric.id, (rubric, weight))
        by_points |= weight < 0 or (isinstance(value, Mapping) and "points" in value)
    if not found:
        raise ConfigError(f"{path} holds no rubrics", hint="write one a line")
    return tuple(found.values()), by_points


def _entries(path: Path, text: str) -> list[Any]:
    if path.suffix == ".jsonl":
        return [line.encode() for line in text.splitlines() if line.strip()]
    if path.suffix == ".json":
        try:
            return msgspec.json.decode(text, type=list[Any])
        except msgspec.DecodeError as error:
            raise ConfigError(f"{path} is not a list of rubrics: {error}", hint='write ["…", "…"]') from error
    return [line for line in split_rubrics(text) if not line.startswith("#")]


def read_rubric(entry: Any) -> tuple[Rubric, float]:
    """Return a rubric and its weight from a text or an object of a rubric file; ValueError for other values."""
    given = {"text": entry} if isinstance(entry, str) else entry
    if isinstance(given, Mapping):
        text = next((given[name] for name in TEXTS if given.get(name) is not None), None)
        weight = next((given[name] for name in WEIGHTS if given.get(name) is not None), 1.0)
        given = {**given, "text": text, "weight": weight}
    one = msgspec.convert(given, _Entry)
    check = None if one.check is None else Check.from_json(one.check)
    labels = {"facet": one.facet or "", "importance": one.importance or "", "grounding": one.grounding or ""}
    return Rubric(text=" ".join(one.text.split()), check=check, **labels), one.weight


RECIPES: Mapping[str, Recipe] = {
    **{name: Recipe(make=lambda name, _: ContentBlind(name)) for name in PREFERS},
    "direct": Recipe(make=lambda *_: Direct()),
    "self-rubric": Recipe(make=lambda *_: SelfRubric()),
    "oracle": Recipe(make=lambda *_: Oracle()),
    "fixed": Recipe(
        make=lambda _, parts: Fixed(parts.rubrics, by_points=parts.by_points),
        takes=frozenset({"rubrics"}),
        needs="rubrics",
    ),
    "pointwise": Recipe(make=lambda _, parts: _pointwise(parts), takes=frozenset({"bank", "rubrics"})),
}
