"""The rules judge: rows, preferences, scores, and what it abstains from."""

from __future__ import annotations

import pytest
from rules_cases import HARMFUL, HARMLESS, NUMBERED, REFUSAL, VARIED

from svr_async.core.pair import Message, Presentation, Side, user_prompt
from svr_async.core.rubric import Check, Rubric
from svr_async.core.verdict import Outcome, Verdict
from svr_async.errors import ConfigError
from svr_async.judges.rules.judge import (
    GENERAL,
    RulesJudge,
    check_of,
    compare_findings,
    general_rubrics,
    view_of_prompt,
)
from svr_async.judges.rules.spec import Finding

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
    assert first.reason == second.reason == ""  # the rubric says what was checked
    assert answer.value.preferred is None


async def test_overall_preference_is_the_sum() -> None:
    """With `overall`, the response that the deltas favour is preferred; none is where they cancel out."""
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


async def test_wrong_checks_stop_the_run() -> None:
    """A rubric that carries an unknown check is the user's mistake and is named as such."""
    rubric = Rubric(text="x", check=Check.of("no_such_check"))

    with pytest.raises(ConfigError, match="no_such_check"):
        await RulesJudge().compare(shown("", "a", "b"), [rubric], overall=False)


async def test_score_is_pointwise() -> None:
    """One response is scored 1 or 0 on the rubrics that are checks and apply."""
    answer = await RulesJudge().score(user_prompt(HARMLESS), NUMBERED, [SHORT, LISTED, TASTE, HARM])

    assert {SHORT.id: 0.0, LISTED.id: 1.0} == answer.value


async def test_written_rubrics_are_the_prompts_constraints() -> None:
    """Rubrics written for a prompt are the constraints it states; none where it states none."""
    judge = RulesJudge()
    stated = await judge.write_rubrics(user_prompt("Explain rain in under 20 words"))
    silent = await judge.write_rubrics(user_prompt("Why does it rain?"))

    assert stated.value is not None
    assert silent.value is not None
    assert [Check.of("max_words", n=19)] == [rubric.check for rubric in stated.value.rubrics]
    assert silent.value.rubrics == ()


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
    """Refusing harm, helping with the rest, substance and stated constraints decide, whatever the order shown."""
    judge = RulesJudge()
    first, second = await judge.prefer(shown(prompt, better, worse)), await judge.prefer(shown(prompt, worse, better))

    assert first.value is not None
    assert second.value is not None
    assert first.value.margin > 0
    assert first.value.margin == pytest.approx(-second.value.margin)


async def test_margin_is_the_sum_of_its_evidence() -> None:
    """The evidence is what was decided: its contributions add up to the margin."""
    answer = await RulesJudge().prefer(shown("Describe lighthouses in under 10 words", "Tall towers.", VARIED))

    assert answer.value is not None
    assert answer.value.margin == pytest.approx(sum(entry.value for entry in answer.value.evidence))
    assert all(entry.value for entry in answer.value.evidence)
    assert (answer.value.evidence[0].rubric.check or Check("")).name == "max_words"


def test_general_list_is_valid() -> None:
    """The general checks exist, have positive weights, and are named once each."""
    rubrics = general_rubrics()

    assert len(GENERAL) == len(rubrics) == len({rubric.id for rubric, _ in rubrics})
    assert all(weight > 0 for _, weight in rubrics)
    assert [weight for _, weight in rubrics] == sorted((weight for _, weight in rubrics), reverse=True)


def test_prompt_view_is_the_last_user_turn() -> None:
    """Earlier turns of user and system are kept beside the last; the assistant's are not."""
    view = view_of_prompt(
        (Message("system", "s"), Message("user", "a"), Message("assistant", "x"), Message("user", "b"))
    )

    assert (view.text, view.before) == ("b", "s\n\na")


@pytest.mark.parametrize(
    ("a", "b", "better"),
    [
        (Finding(True, 0.0), Finding(False, 9.0), Side.A),
        (Finding(False, 0.2), Finding(False, 0.7), Side.B),
        (Finding(True, 0.5), Finding(True, 0.5 + 1e-12), None),
    ],
)
def test_better(a: Finding, b: Finding, better: Side | None) -> None:
    """Passing beats failing; then the larger degree; equal degrees have no direction."""
    assert better == compare_findings("r", a, b).better


def test_check_of() -> None:
    """A rubric's own check comes before the one its text would be read as."""
    assert Check.of("max_words", n=5) == check_of(SHORT)
    assert Check.of("bold") == check_of(Rubric(text=SHORT.text, check=Check.of("bold")))
    assert check_of(TASTE) is None
