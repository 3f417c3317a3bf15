"""One pair judged from a program: margin, winner, contributions, and what they cost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rig import name_judge, pairs, serving
from small_bank import checked_bank, planted_bank
from stand_ins import UnaskedJudge

from svr_async import Engine, arank, ascore_pair, score_pair
from svr_async.core.pair import Presentation, Side, user_prompt
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Outcome, RubricComparison, Verdict
from svr_async.errors import UsageError
from svr_async.judges.protocol import Answer, Comparisons
from svr_async.judges.rules.judge import RulesJudge

PROMPT = "Name a colour, in at most ten words."
SHORT, LONG = "Blue.", "A colour that I like a great deal, more than any other one, would be blue."


class Leaning(UnaskedJudge):
    """A judge that always finds the response shown first the better one."""

    name = label = "leaning"

    def __init__(self) -> None:
        self.shown: list[tuple[str, str]] = []

    async def compare(
        self, shown: Presentation, rubrics: Sequence[Rubric], *, overall: bool, note: str = ""
    ) -> Answer[Comparisons]:
        self.shown.append((shown.response_a, shown.response_b))
        rows = tuple(RubricComparison(r.id, Verdict.PASS, Verdict.FAIL, Side.A) for r in rubrics)
        return Answer(value=Comparisons(rows=rows))


class Failing(Leaning):
    """A judge without answers."""

    async def compare(
        self, shown: Presentation, rubrics: Sequence[Rubric], *, overall: bool, note: str = ""
    ) -> Answer[Comparisons]:
        return Answer(value=None, outcome=Outcome.REFUSAL, detail="I would rather not")


async def test_a_pair_has_a_margin_a_winner_and_contributions() -> None:
    """The contributions add up to the margin and tell text, alpha, weight, verdicts and delta of each rubric."""
    async with Engine("rules") as engine:
        found = await ascore_pair(PROMPT, SHORT, LONG, bank=checked_bank(), engine=engine)
    assert (found.winner, found.outcome, found.margin is not None and found.margin > 0) == (Side.A, "scored", True)
    assert sum(part.value for part in found.contributions) == pytest.approx(found.margin)
    first = next(part for part in found.contributions if part.rubric.check and part.rubric.check.name == "max_words")
    assert first.comparison is not None
    assert (first.comparison.a, first.comparison.b, first.delta) == (Verdict.PASS, Verdict.FAIL, 1.25)
    assert (first.weight, first.alpha) == pytest.approx((0.9, 1 / 3))
    plain = orjson.loads(orjson.dumps(found.to_json()))
    assert (plain["winner"], plain["judge"]) == ("A", "rules (offline checks, no model)")
    unjudged = [part for part in plain["contributions"] if part["rubric"] == "Sounds like a friend."]
    assert [(part["a"], part["delta"], part["contribution"]) for part in unjudged] == [(None, None, 0.0)]


async def test_a_verdict_that_failed_says_why() -> None:
    """Without a margin the outcome and its detail are shown."""
    found = await ascore_pair(PROMPT, SHORT, LONG, bank=checked_bank(), engine=Failing())
    assert repr(found).startswith("<PairVerdict no verdict: refusal")
    assert "I would rather not" in found._repr_html_()
    assert found.to_json()["winner"] is None


@settings(deadline=None, max_examples=40)
@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_swapping_the_responses_turns_the_sign_exactly(prompt: str, a: str, b: str) -> None:
    """Whichever way round two texts are given, the judge is asked the same question: one that leans gains nothing."""
    judge = Leaning()

    async def both() -> tuple[float | None, float | None]:
        one = await ascore_pair(prompt, a, b, bank=checked_bank(), engine=judge)
        other = await ascore_pair(prompt, b, a, bank=checked_bank(), engine=judge)
        return one.margin, other.margin

    one, other = asyncio.run(both())
    assert one is not None
    assert one == -(other or 0.0)
    assert len(set(judge.shown)) <= 1


async def test_the_order_can_be_chosen_and_both_cancel_a_lean() -> None:
    """`ab` and `ba` show what they say, and the mean of both is a tie for a judge that looks at the place alone."""
    judge, bank = Leaning(), checked_bank()
    assert (await ascore_pair("q", "x", "y", bank=bank, engine=judge, order="ab")).winner is Side.A
    assert (await ascore_pair("q", "x", "y", bank=bank, engine=judge, order="ba")).winner is Side.B
    assert judge.shown == [("x", "y"), ("y", "x")]
    mean = await ascore_pair("q", "x", "y", bank=bank, engine=judge, order="both")
    assert (mean.margin, mean.winner, mean.outcome) == (0.0, None, Outcome.TIE)
    assert sum(part.value for part in mean.contributions) == pytest.approx(0.0)
    with pytest.raises(UsageError, match="order must be"):
        await ascore_pair("q", "x", "y", bank=bank, engine=judge, order="up")  # type: ignore[arg-type]


async def test_wrong_types_are_refused_in_one_line() -> None:
    """Responses that are not texts, one text for a list, a path for a bank, no engine: refused before any question."""
    bank, judge = checked_bank(), RulesJudge()
    for wrong in (None, 3, b"x"):
        with pytest.raises(UsageError, match="a response is a text, not"):
            await ascore_pair(PROMPT, SHORT, wrong, bank=bank, engine=judge)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="a response is a text, not"):
            await arank(PROMPT, [SHORT, wrong], bank=bank, engine=judge)  # type: ignore[list-item]
    with pytest.raises(UsageError, match="engine is None"):
        await ascore_pair(PROMPT, SHORT, LONG, engine=None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="a list of at least one text"):
        await arank(PROMPT, SHORT, bank=bank, engine=judge)
    with pytest.raises(UsageError, match="bank is a Bank, not str") as caught:
        await ascore_pair(PROMPT, SHORT, LONG, bank="bank/", engine=judge)  # type: ignore[arg-type]
    assert caught.value.hint == "bank=Bank.load('bank/')"


async def test_a_prompt_is_a_text_or_a_conversation() -> None:
    """Texts, lists of messages and conversations all do; anything else is refused in one line."""
    bank, judge = checked_bank(), RulesJudge()
    turns = [{"role": "user", "content": PROMPT}]
    found = [await ascore_pair(p, SHORT, LONG, bank=bank, engine=judge) for p in (PROMPT, turns, user_prompt(PROMPT))]
    margins = {verdict.margin for verdict in found}
    assert len(margins) == 1
    for wrong in ([], 7, [{"role": "wizard", "content": "x"}]):
        with pytest.raises(UsageError, match="the prompt cannot be used"):
            await ascore_pair(wrong, "x", "y", bank=bank, engine=judge)  # type: ignore[arg-type]
    assert (await ascore_pair("\ud800", "\ud801", "y", bank=bank, engine=judge)).outcome in set(Outcome)


async def test_one_call_a_pair_and_none_the_second_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over HTTP a pair costs one call, its swap nothing, both orders one more, rephrasing one a prompt."""
    monkeypatch.chdir(tmp_path)
    pair, bank = pairs(1)[0], planted_bank()
    with serving() as server:
        name_judge(tmp_path, server.base_url)
        async with Engine("sim", cache="cache") as engine:
            one = await ascore_pair(pair.prompt, pair.chosen, pair.rejected, bank=bank, engine=engine)
            two = await ascore_pair(pair.prompt, pair.rejected, pair.chosen, bank=bank, engine=engine)
            assert (one.margin, server.stats()["calls"]) == (-(two.margin or 0.0), 1)
            await ascore_pair(pair.prompt, pair.chosen, pair.rejected, bank=bank, engine=engine, order="both")
            assert server.stats()["calls"] == 2
            plain = await ascore_pair(pair.prompt, pair.chosen, pair.rejected, bank=bank, engine=engine, rephrase=True)
            assert server.stats()["calls"] == 4
            assert all(part.rephrased and part.rubric.text in part.rephrased for part in plain.contributions)
            assert one.judge == "sim (SIMULATED endpoint)"


def test_without_a_bank_the_judge_is_asked_directly() -> None:
    """The rules judge then decides by its general checks, whose contributions add up; rubrics cannot be chosen."""
    prompt, a, b = "Name three rivers.", "- Oder\n- Rhine\n- Elbe, which is long and wide.", "No."
    found = score_pair(prompt, a, b, engine="rules")
    assert found.winner is Side.A
    assert found.margin == pytest.approx(sum(part.value for part in found.contributions))
    assert found.margin is not None
    assert score_pair(prompt, b, a, engine="rules").margin == pytest.approx(-found.margin)

    async def chosen() -> None:
        async with Engine("rules") as engine:
            await ascore_pair(prompt, a, b, engine=engine, top_k=3)

    with pytest.raises(UsageError, match="need a bank"):
        asyncio.run(chosen())
