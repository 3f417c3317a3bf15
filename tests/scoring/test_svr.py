"""Svr at inference: the bank chooses, the judge decides, contributions add up; rubrics in the words of a prompt."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from stand_ins import UnaskedJudge

from svr_async.core.pair import Presentation, Prompt, Side, user_prompt
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Outcome, RubricComparison, Verdict
from svr_async.errors import UsageError
from svr_async.judges.protocol import Answer, Comparisons, Preference
from svr_async.judges.rules.author import RulesAuthor
from svr_async.scoring.bank import UNIFORM, BankRubric, InferenceSettings, RubricBank
from svr_async.scoring.methods.simple import Pointwise
from svr_async.scoring.methods.svr import FAILED, KEPT, Svr, rephraser_of
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
        self.seen: list[list[tuple[str, str]]] = []

    async def compare(
        self, shown: Presentation, rubrics: Sequence[Rubric], *, overall: bool, note: str = ""
    ) -> Answer[Comparisons]:
        self.seen.append([(rubric.id, rubric.text) for rubric in rubrics])
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
    assert judge.seen == [sorted(judge.seen[0])]
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


# ── rubrics in the words of a prompt ──


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


def rephrasing(rephraser: Rewriter | None) -> Svr:
    """Return the method of a bank of three rubrics."""
    return Svr(open_chooser(bank(rubrics=bank().rubrics[:3])), "svr+rephrase", rephraser)


async def test_the_judge_sees_the_new_words_and_both_texts_are_kept() -> None:
    """Ids and weights stay those of the bank; the rephraser sees prompt and rubrics, and no response."""
    rewriter, judge = Rewriter(), Judge()
    plain = await rephrasing(None).decide(judge, shown("secret A", "secret B"), ())
    found = await rephrasing(rewriter).decide(judge, shown("secret A", "secret B"), ())
    assert [identity for identity, _ in judge.seen[1]] == [identity for identity, _ in judge.seen[0]]
    assert all(text.endswith(" (bread)") for _, text in judge.seen[1])
    assert {(part.rubric.text, part.rephrased) for part in found.contributions} == {
        (t, f"{t} (bread)") for t in TEXTS[:3]
    }
    assert found.margin == plain.margin
    assert [replace(part, rephrased=None) for part in found.contributions] == list(plain.contributions)
    assert (found.requests, found.flags) == (("k1",), ())
    assert "secret" not in repr(rewriter.seen)
    assert found.in_data_order().contributions == found.contributions
    assert found.contributions[0].swapped().rephrased == found.contributions[0].rephrased


@pytest.mark.parametrize("outcome", [Outcome.PARSE_ERROR, Outcome.REFUSAL, Outcome.TRUNCATED])
async def test_a_model_that_will_not_rephrase_changes_no_rubric(outcome: Outcome) -> None:
    """The rubrics are judged as they are, and flagged: that is what the model said."""
    judge = Judge()
    found = await rephrasing(Rewriter(outcome=outcome)).decide(judge, shown("secret A", "secret B"), ())
    assert sorted(text for _, text in judge.seen[0]) == sorted(TEXTS[:3])
    assert found.margin is not None
    assert FAILED in found.flags
    assert KEPT not in found.flags


async def test_an_endpoint_that_fails_gives_no_decision() -> None:
    """A fault on the way must not turn into other rubrics and so another margin."""
    judge = Judge()
    found = await rephrasing(Rewriter(outcome=Outcome.API_ERROR)).decide(judge, shown("secret A", "secret B"), ())
    assert (found.margin, found.outcome, found.requests, judge.seen) == (None, Outcome.API_ERROR, ("k1",), [])


def test_a_judge_without_a_model_is_refused_in_one_line() -> None:
    """`rules` and recordings write no wordings."""
    for author in (RulesAuthor(), None):
        with pytest.raises(UsageError, match="the judge rules cannot rephrase") as caught:
            rephraser_of(author, "rules")
        assert caught.value.hint
        assert "\n" not in caught.value.one_line()
    assert rephraser_of(rewriter := Rewriter(), "x") is rewriter
