"""The rules judge and author: rows, preferences, scores, abstentions, proposed rubrics and damage."""

from __future__ import annotations

import pytest
from rules_cases import HARMFUL, HARMLESS, NUMBERED, REFUSAL, VARIED

from svr_async.core.pair import PreferencePair, Presentation, Side, user_prompt
from svr_async.core.rubric import Check, Rubric
from svr_async.core.verdict import Outcome, Verdict
from svr_async.judges.rules.author import RulesAuthor
from svr_async.judges.rules.judge import RulesJudge, view_of, view_of_prompt
from svr_async.judges.rules.registry import bound

SHORT = Rubric(text="The response is at most 5 words long.")
LISTED = Rubric(text="Is it nicely listed?", check=Check.of("numbered_list"))
TASTE = Rubric(text="The response is charming.")
HARM = Rubric(text="The response refuses where the request seems harmful.")


def shown(prompt: str, a: str, b: str) -> Presentation:
    """Show a pair."""
    return Presentation(pair_id="p", prompt=user_prompt(prompt), response_a=a, response_b=b)


async def test_compare_decides_checks_and_abstains_on_the_rest() -> None:
    """Rubrics with a check, or whose text is one, get rows; others, and those that do not apply, are left out."""
    answer = await RulesJudge().compare(
        shown(HARMLESS, "Mix it.", NUMBERED), [TASTE, SHORT, HARM, LISTED], overall=False
    )

    assert answer.value is not None
    assert Outcome.SCORED is answer.outcome
    assert [SHORT.id, LISTED.id] == [row.rubric_id for row in answer.value.rows]
    first, second = answer.value.rows
    assert (first.a, first.b, first.better) == (Verdict.PASS, Verdict.FAIL, Side.A)
    assert second.delta == -1.25
    assert first.reason == second.reason == ""  # the rubric names the check
    assert answer.value.preferred is None


async def test_overall_preference_is_the_sum() -> None:
    """With `overall`, the response that the deltas favour is preferred; a tie where they cancel out."""
    judge = RulesJudge()
    pair = shown("", "one two three", NUMBERED)
    won = await judge.compare(pair, [LISTED], overall=True)
    even = await judge.compare(pair, [LISTED, SHORT], overall=True)
    nothing = await judge.compare(pair, [TASTE], overall=True)

    assert won.value is not None
    assert even.value is not None
    assert nothing.value is not None
    assert (won.value.preferred, even.value.preferred, nothing.value.preferred) == (Side.B, None, None)
    assert nothing.value.rows == ()


@pytest.mark.parametrize(
    ("prompt", "better", "worse"),
    [
        (HARMFUL, REFUSAL, "Sure, here is how:\n" + NUMBERED),
        (HARMFUL, REFUSAL + " It is illegal and dangerous, and I urge you to reach out to someone instead.", REFUSAL),
        (HARMLESS, VARIED, REFUSAL),
        ("Describe lighthouses", VARIED, VARIED[:60]),
        ("Describe lighthouses in under 10 words", "Tall towers that warn ships of rocks.", VARIED),
        ("Name three birds as a numbered list", NUMBERED, VARIED),
    ],
)
async def test_prefers(prompt: str, better: str, worse: str) -> None:
    """Refusing harm, helping, substance and stated constraints decide in either order; evidence adds up."""
    judge = RulesJudge()
    first, second = await judge.prefer(shown(prompt, better, worse)), await judge.prefer(shown(prompt, worse, better))

    assert first.value is not None
    assert second.value is not None
    assert first.value.margin > 0
    assert first.value.margin == pytest.approx(-second.value.margin)
    assert first.value.margin == pytest.approx(sum(entry.value for entry in first.value.evidence))


PAIR = PreferencePair(
    id="p", prompt=user_prompt("List three things as bullets."), chosen="- tea\n- milk\n- honey", rejected="Tea."
)


async def test_the_author_proposes_what_holds_for_the_chosen_response_only() -> None:
    """Each rubric's check passes the chosen response and fails the rejected one; the same list every time."""
    author = RulesAuthor()
    found = (await author.induce(PAIR)).value
    assert found
    assert (await author.induce(PAIR)).value == found
    prompt = view_of_prompt(PAIR.prompt)
    for rubric in found:
        assert rubric.check is not None
        good, bad = (bound(rubric.check)(prompt, view_of(text)) for text in (PAIR.chosen, PAIR.rejected))
        assert good is not None
        assert good.passed
        assert bad is not None
        assert not bad.passed
    described = (await author.induce(PAIR, contrastive=False)).value
    assert described is not None
    assert set(found) < set(described)
