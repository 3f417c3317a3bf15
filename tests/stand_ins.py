"""Base classes of judges and authors: each question that a test does not answer fails it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from svr_async.adapters import Adapter, PairResult
from svr_async.core.integrity import Marks
from svr_async.core.pair import PreferencePair, Presentation, Prompt
from svr_async.core.rubric import Rubric
from svr_async.judges.protocol import Answer, Comparisons, CriteriaQuestion, Preference, WrittenRubrics


class UnaskedJudge:
    """A judge without marks that fails the test that asks it anything."""

    name = label = "stand-in"
    marks: Marks = frozenset()

    async def prefer(self, shown: Presentation) -> Answer[Preference]:
        raise AssertionError(f"asked for a preference on {shown.pair_id}")

    async def write_rubrics(self, prompt: Prompt) -> Answer[WrittenRubrics]:
        raise AssertionError(f"asked to write rubrics for {prompt}")

    async def compare(
        self, shown: Presentation, rubrics: Sequence[Rubric], *, overall: bool, note: str = ""
    ) -> Answer[Comparisons]:
        raise AssertionError(f"asked to compare {shown.pair_id} on {len(rubrics)} rubrics ({overall=}, {note=})")

    async def score(self, prompt: Prompt, response: str, rubrics: Sequence[Rubric]) -> Answer[Mapping[str, float]]:
        raise AssertionError(f"asked to score {response!r} for {prompt} on {len(rubrics)} rubrics")


class UnaskedAuthor:
    """An author that fails the test that asks it anything."""

    name = "stand-in"

    async def induce(self, pair: PreferencePair, *, contrastive: bool = True) -> Answer[tuple[Rubric, ...]]:
        raise AssertionError(f"asked for rubrics of {pair.id} ({contrastive=})")

    async def probe(self, pair: PreferencePair) -> Answer[str]:
        raise AssertionError(f"asked for a probe of {pair.id}")

    async def same_criterion(self, _asked: CriteriaQuestion) -> Answer[Mapping[str, str | None]]:
        return Answer(value={})


def official_scores(
    adapter: Adapter, pairs: Iterable[PreferencePair], results: Iterable[PairResult], *, tie_credit: float = 0.0
) -> dict[str, Any]:
    """Return a benchmark's own scores over all `pairs`; a pair without a result counts as unscored."""
    judged = {result.pair.id: result for result in results}
    return adapter.score([judged.get(pair.id) or PairResult(pair, None) for pair in pairs], tie_credit)
