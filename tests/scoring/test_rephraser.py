"""Rubrics in the words of a prompt: what the judge is shown, what is kept, and what happens when it goes wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pytest
from stand_ins import UnaskedJudge

from svr_async.core.pair import Presentation, Prompt, Side, user_prompt
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Outcome, RubricComparison, Verdict
from svr_async.errors import UsageError
from svr_async.judges.protocol import Answer, Comparisons
from svr_async.judges.rules.author import RulesAuthor
from svr_async.scoring.bank import BankRubric, InferenceSettings, RubricBank
from svr_async.scoring.methods.svr import FAILED, KEPT, Svr, rephraser_of
from svr_async.scoring.selection import open_chooser

PROMPT = user_prompt("How long does bread keep?")
TEXTS = ("Names the year", "Shows code in one block", "The response is at most 50 words long.")


class Rewriter:
    """Writes "(bread)" behind each rubric; it drops some, or answers nothing."""

    def __init__(self, *, drops: Iterable[str] = (), outcome: Outcome = Outcome.SCORED) -> None:
        self.drops, self.outcome = set(drops), outcome
        self.seen: list[tuple[Prompt, tuple[Rubric, ...]]] = []

    async def rephrase(self, prompt: Prompt, rubrics: Sequence[Rubric]) -> Answer[Mapping[str, str]]:
        self.seen.append((prompt, tuple(rubrics)))
        if self.outcome is not Outcome.SCORED:
            return Answer(value=None, outcome=self.outcome, detail="no", requests=("k1",))
        texts: Mapping[str, str] = {r.id: f"{r.text} (bread)" for r in rubrics if r.text not in self.drops}
        return Answer(value=texts, requests=("k1",))


class Judge(UnaskedJudge):
    """Finds A the better one on everything, and notes what it was shown."""

    name = label = "made"

    def __init__(self) -> None:
        self.shown: list[list[tuple[str, str]]] = []

    async def compare(
        self, shown: Presentation, rubrics: Sequence[Rubric], *, overall: bool, note: str = ""
    ) -> Answer[Comparisons]:
        self.shown.append([(rubric.id, rubric.text) for rubric in rubrics])
        rows = tuple(RubricComparison(r.id, Verdict.PASS, Verdict.FAIL, Side.A) for r in rubrics)
        return Answer(value=Comparisons(rows=rows), requests=("k2",), flags=("inconsistent",))


def method(rephraser: Rewriter | None) -> Svr:
    """Return the method of a small bank."""
    bank = RubricBank(
        rubrics=tuple(BankRubric(rubric=Rubric(text=text)) for text in TEXTS), inference=InferenceSettings(top_k=3)
    )
    return Svr(open_chooser(bank), "svr+rephrase", rephraser)


def shown() -> Presentation:
    """Return a pair."""
    return Presentation(pair_id="p", prompt=PROMPT, response_a="secret A", response_b="secret B")


async def test_the_judge_sees_the_new_words_and_both_texts_are_kept() -> None:
    """Ids and weights stay those of the bank; the rephraser sees prompt and rubrics, and no response."""
    rewriter, judge = Rewriter(), Judge()
    plain = await method(None).decide(judge, shown(), ())
    found = await method(rewriter).decide(judge, shown(), ())
    assert [identity for identity, _ in judge.shown[1]] == [identity for identity, _ in judge.shown[0]]
    assert all(text.endswith(" (bread)") for _, text in judge.shown[1])
    assert {(part.rubric.text, part.rephrased) for part in found.contributions} == {(t, f"{t} (bread)") for t in TEXTS}
    assert found.margin == plain.margin
    assert [replace(part, rephrased=None) for part in found.contributions] == list(plain.contributions)
    assert (found.requests, found.flags) == (("k1", "k2"), ("inconsistent",))
    assert "secret" not in repr(rewriter.seen)
    assert found.in_data_order().contributions == found.contributions
    assert found.contributions[0].swapped().rephrased == found.contributions[0].rephrased


@pytest.mark.parametrize("outcome", [Outcome.PARSE_ERROR, Outcome.REFUSAL, Outcome.TRUNCATED])
async def test_a_model_that_will_not_rephrase_changes_no_rubric(outcome: Outcome) -> None:
    """The rubrics are judged as they are, and flagged: that is what the model said."""
    judge = Judge()
    found = await method(Rewriter(outcome=outcome)).decide(judge, shown(), ())
    assert sorted(text for _, text in judge.shown[0]) == sorted(TEXTS)
    assert found.margin is not None
    assert FAILED in found.flags
    assert KEPT not in found.flags


async def test_an_endpoint_that_fails_gives_no_decision() -> None:
    """A fault on the way must not turn into other rubrics and so another margin."""
    judge = Judge()
    found = await method(Rewriter(outcome=Outcome.API_ERROR)).decide(judge, shown(), ())
    assert (found.margin, found.outcome, found.requests, judge.shown) == (None, Outcome.API_ERROR, ("k1",), [])


def test_a_judge_without_a_model_is_refused_in_one_line() -> None:
    """`rules` and recordings write no wordings."""
    for author in (RulesAuthor(), None):
        with pytest.raises(UsageError, match="the judge rules cannot rephrase") as caught:
            rephraser_of(author, "rules")
        assert caught.value.hint
        assert "\n" not in caught.value.one_line()
    assert rephraser_of(rewriter := Rewriter(), "x") is rewriter
