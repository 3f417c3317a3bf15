"""Svr at inference: the bank chooses, the judge decides, the contributions add up."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from stand_ins import UnaskedJudge

from svr_async.core.pair import Presentation, Prompt, Side, user_prompt
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Outcome, RubricComparison, Verdict
from svr_async.judges.protocol import Answer, Comparisons, Preference
from svr_async.scoring.bank import UNIFORM, BankRubric, InferenceSettings, RubricBank
from svr_async.scoring.methods.simple import Pointwise
from svr_async.scoring.methods.svr import Svr
from svr_async.scoring.selection import open_chooser

TEXTS = ("Names the year", "Shows code in one block", "Keeps a friendly tone", "Gives two sources", "Weighs the salt")


def bank(**changes: Any) -> RubricBank:
    """Return a bank of five rubrics that weigh 0.1 to 0.5, without a fitted selector."""
    rubrics = tuple(BankRubric(rubric=Rubric(text=text), weight=(n + 1) / 10) for n, text in enumerate(TEXTS))
    fields = {"rubrics": rubrics, "selector_kind": UNIFORM, "inference": InferenceSettings(top_k=3)}
    return RubricBank(**{**fields, **changes})


class Judge(UnaskedJudge):
    """Favours the response that is "good" on rubrics with an odd length, the other one on the rest."""

    name = label = "made"

    def __init__(self, *, missing: Iterable[str] = (), fails: bool = False) -> None:
        self.missing, self.fails = set(missing), fails
        self.asked: list[list[str]] = []

    async def compare(
        self, shown: Presentation, rubrics: Sequence[Rubric], *, overall: bool, note: str = ""
    ) -> Answer[Comparisons]:
        self.asked.append([rubric.id for rubric in rubrics])
        if self.fails:
            return Answer(value=None, outcome=Outcome.PARSE_ERROR)
        good = Side.A if shown.response_a == "good" else Side.B
        rows = []
        for rubric in rubrics:
            side = good if len(rubric.text) % 2 else good.other()
            passes = {side: Verdict.PASS, side.other(): Verdict.FAIL}
            rows.append(RubricComparison(rubric.id, passes[Side.A], passes[Side.B], side))
        return Answer(value=Comparisons(rows=tuple(r for r in rows if r.rubric_id not in self.missing)))

    async def score(self, prompt: Prompt, response: str, rubrics: Sequence[Rubric]) -> Answer[Mapping[str, float]]:
        return Answer(value={rubric.id: 1.0 if response == "good" else 0.25 for rubric in rubrics})


def shown(a: str = "good", b: str = "bad") -> Presentation:
    """Return a pair as a judge sees it."""
    return Presentation(pair_id="p", prompt=user_prompt("bread"), response_a=a, response_b=b)


@pytest.mark.parametrize("top_k", [None, 1, 2, 5, 9])
@pytest.mark.parametrize("uniform", [False, True])
async def test_contributions_add_up_to_the_margin(top_k: int | None, uniform: bool) -> None:
    """For any top_k and with even weights too; rubrics are asked in the order of their ids."""
    judge = Judge()
    found = await Svr(open_chooser(bank(), top_k=top_k, uniform=uniform)).decide(judge, shown(), ())
    assert len(found.contributions) == min(top_k or 3, len(TEXTS))
    assert sum(entry.value for entry in found.contributions) == pytest.approx(found.margin, abs=1e-9)
    assert judge.asked == [sorted(judge.asked[0])]
    if uniform:
        assert {(entry.alpha, entry.weight) for entry in found.contributions} == {(1.0, 1.0)}


class DirectJudge(UnaskedJudge):
    """Prefers A when asked directly, and fails the test that asks it anything else."""

    async def prefer(self, shown: Presentation) -> Answer[Preference]:
        return Answer(value=Preference(margin=1.0))


async def test_a_bank_that_learned_too_little_has_the_judge_asked_directly() -> None:
    """Its rubrics are not asked, unless a top_k is named or they weigh the same; facts and identity say so."""
    unproven = bank(inference=InferenceSettings(top_k=3, direct=True))
    method = Svr(open_chooser(unproven))
    found = await method.decide(DirectJudge(), shown(), ())
    assert (found.margin, found.contributions) == (1.0, ())
    assert method.facts.direct
    assert method.facts.identity["bank"][1]["direct"] is True

    for chooser in (open_chooser(unproven, top_k=3), open_chooser(unproven, uniform=True)):
        assert len((await Svr(chooser).decide(Judge(), shown(), ())).contributions) == 3


async def test_swapping_the_responses_turns_the_margin() -> None:
    """The rubrics stay the same, since they are chosen from the prompt alone."""
    method = Svr(open_chooser(bank()))
    one = await method.decide(Judge(), shown("good", "bad"), ())
    other = await method.decide(Judge(), shown("bad", "good"), ())
    assert other.margin is not None
    assert one.margin == pytest.approx(-other.margin)
    assert [c.rubric for c in one.contributions] == [c.rubric for c in other.contributions]


async def test_a_rubric_without_a_verdict_counts_nothing_and_no_answer_is_no_decision() -> None:
    """Missing rows are listed with nothing; a failed question has its outcome and no margin."""
    chooser = open_chooser(bank())
    first = chooser.bank.rubrics[chooser.choose(shown().prompt)[0].index].rubric
    found = await Svr(chooser).decide(Judge(missing=[first.id]), shown(), ())
    absent = [entry for entry in found.contributions if entry.comparison is None]
    assert [entry.rubric for entry in absent] == [first]
    assert sum(entry.value for entry in found.contributions if entry.comparison) == pytest.approx(found.margin)
    failed = await Svr(chooser).decide(Judge(fails=True), shown(), ())
    assert (failed.margin, failed.outcome) == (None, Outcome.PARSE_ERROR)


async def test_pointwise_scores_each_response_alone() -> None:
    """The weighted differences of the scores add up."""
    chooser = open_chooser(bank())
    found = await Pointwise(chooser=chooser).decide(Judge(), shown(), ())
    assert found.margin == pytest.approx(0.75 * sum(entry.importance for entry in chooser.choose(shown().prompt)))
