"""The library without await: engines opened by `with` and over several calls, many pairs, scores, own questions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from endpoint import SimServer
from rig import name_judge, pairs, serving
from small_bank import checked_bank, planted_bank

from svr_async import Engine, ajudge_pairs, ascore_pair, judge_pairs, rank, score, score_pair
from svr_async.core.pair import Presentation, Side, user_prompt
from svr_async.errors import BudgetError, ConfigError, DataError, UsageError
from svr_async.judges.rules.judge import RulesJudge

PROMPT = "Name a colour, in at most ten words."
SHORT, LONG = "Blue.", "A colour that I like a great deal, more than any other one, would be blue."


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimServer]:
    """Serve the judge `sim` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    with serving() as found:
        name_judge(tmp_path, found.base_url)
        yield found


async def test_an_engine_of_a_with_block_serves_every_plain_call(server: SimServer) -> None:
    """Also inside a running loop: connections and known failures last for the block, a cache hit is free."""
    one, two = pairs(2)
    with Engine("sim", cache="cache") as engine:
        found = score_pair(one.prompt, one.chosen, one.rejected, bank=planted_bank(), engine=engine)
        ranked = rank(two.prompt, [two.chosen, two.rejected], bank=planted_bank(), engine=engine)
        assert (found.winner, len(ranked.order), server.stats()["calls"]) == (Side.A, 2, 2)
        assert score_pair(one.prompt, one.chosen, one.rejected, bank=planted_bank(), engine=engine) == found
        stats = engine.stats()
        assert stats is not None
        assert (stats.sent, stats.cache_hits) == (2, 1)
    assert not engine.is_open


async def test_an_engine_can_stay_open_over_calls_and_cells() -> None:
    """`open` and `close` do what the block does; a name, or an engine that is not open, is opened for one call."""
    engine = await Engine("rules").open()
    with pytest.raises(UsageError, match="open already"):
        await engine.open()
    found = await ascore_pair(PROMPT, SHORT, LONG, bank=checked_bank(), engine=engine)
    assert repr(engine) == "<Engine rules, open>"
    await engine.close()
    for other in ("rules", Engine("rules"), engine, RulesJudge()):
        assert (await ascore_pair(PROMPT, SHORT, LONG, bank=checked_bank(), engine=other)).margin == found.margin
    assert not engine.is_open


async def test_an_engine_of_another_loop_is_refused() -> None:
    """An engine belongs to the loop that it was opened on, and the error says which calls go with it."""
    async with Engine("rules") as engine:
        with pytest.raises(UsageError, match="belongs to another event loop") as caught:
            score_pair(PROMPT, SHORT, LONG, engine=engine)
        assert "`with`" in caught.value.hint
    with Engine("rules") as engine:
        with pytest.raises(UsageError, match="belongs to another event loop"):
            await ascore_pair(PROMPT, SHORT, LONG, engine=engine)
        assert (engine.label, engine.stats()) == ("rules (offline checks, no model)", None)


def test_nothing_is_opened_before_the_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Making an engine reads no profile and makes no folder, even for a judge that does not exist."""
    monkeypatch.chdir(tmp_path)
    engine = Engine("no-such-judge")
    assert list(tmp_path.iterdir()) == []
    for ask in (lambda: engine.judge, lambda: engine.label, lambda: engine.concurrency, engine.stats):
        with pytest.raises(UsageError, match="is not open"):
            ask()
    with pytest.raises(ConfigError, match="no-such-judge"):
        asyncio.run(engine.open())


async def test_an_endpoint_is_opened_with_its_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Concurrency and caps hold, replies are kept in the cache, and the label tells a simulated endpoint."""
    monkeypatch.chdir(tmp_path)
    shown = Presentation(pair_id="p", prompt=user_prompt("q"), response_a="a", response_b="b")
    with serving() as server:
        name_judge(tmp_path, server.base_url)
        for calls in (1, 1):  # the second block finds the reply in the cache
            async with Engine("sim", cache=tmp_path / "cache", concurrency=3, max_calls=1) as engine:
                assert engine.concurrency == 3
                assert (await engine.judge.prefer(shown)).value is not None
                assert engine.label == "sim (SIMULATED endpoint)"
                assert server.stats()["calls"] == calls
        async with Engine("sim", cache=tmp_path / "other", max_calls=0) as engine:
            with pytest.raises(BudgetError):
                await engine.judge.prefer(shown)
        async with Engine("gpt-oss-120b", base_url=server.base_url, cache=tmp_path / "third") as engine:
            assert (await engine.judge.prefer(shown)).value is not None


def test_many_pairs_are_judged_in_the_order_given() -> None:
    """Tuples and rows of data sets, texts and messages: each pair has the verdict that it has alone."""
    asked = [{"role": "user", "content": PROMPT}]
    short, long = ([{"role": "assistant", "content": text}] for text in (SHORT, LONG))
    rows: list[Any] = [
        (PROMPT, SHORT, LONG),
        {"prompt": PROMPT, "a": LONG, "b": SHORT},
        {"prompt": asked, "chosen": short, "rejected": long},
        {"prompt": asked, "chosen": asked + short, "rejected": asked + long, "id": 3},
    ]
    found = judge_pairs(rows, bank=checked_bank(), engine="rules")
    alone = score_pair(PROMPT, SHORT, LONG, bank=checked_bank(), engine="rules")
    assert alone.margin
    assert [verdict.margin for verdict in found] == [alone.margin, -alone.margin, alone.margin, alone.margin]
    assert judge_pairs([], engine="rules") == []


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"prompt": "q", "a": "x"}, "unknown layout"),
        ({"chosen": "x", "rejected": "y"}, "prompt"),
        (("q", "x"), "expected an object with columns, found tuple"),
        ("q x y", "expected an object with columns, found str"),
        (("q", "x", 3), "'b'"),
        (("q", "x", [{"role": "user", "content": "y"}]), "'b'"),
        (("q", "x", [{"role": "assistant", "content": None}]), "'b'"),
        (([], "x", "y"), "prompt"),
    ],
)
async def test_a_row_that_is_no_pair_is_named(row: Any, says: str) -> None:
    """Before the first pair is judged, in one line with the row's number and what a pair looks like."""
    judge = RulesJudge()
    with pytest.raises(DataError, match=f"row 2: .*{says}") as caught:
        await ajudge_pairs([("q", "x", "y"), row], engine=judge)
    assert caught.value.hint


def test_a_response_may_be_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """One message counts as its content, turns that repeat the prompt do not count, the use of a tool is scored."""
    from svr_async.serving.texts import as_prompt, as_response

    prompt = as_prompt([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}])
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}]
    said = {"role": "assistant", "content": "4"}
    for form in ("4", said, [said], (said,), [*asked, said], [{"from": "gpt", "value": "4"}]):
        assert as_response(form, prompt) == "4"
    tool = [{"role": "assistant", "content": "I add."}, {"role": "tool", "content": "4"}, said]
    assert as_response(tool, prompt) == "assistant: I add.\n\ntool: 4\n\nassistant: 4"


def test_a_response_is_scored_alone() -> None:
    """The score is the mean of what the judge could decide, weighed by importance; the other rubrics are listed too."""
    bank = checked_bank()
    found = score(PROMPT, "- Blue.\n- Red.", bank=bank, engine="rules")
    assert found.value == pytest.approx(1.0)
    assert {part.rubric.text: part.value for part in found.parts}["Sounds like a friend."] is None
    assert score(PROMPT, SHORT, bank=bank, engine="rules").value == pytest.approx(0.9 / 1.4)
    unknown = score(PROMPT, LONG, bank=planted_bank(), engine="rules")
    assert (unknown.value, unknown.outcome) == (None, "scored")
    with pytest.raises(UsageError, match="needs a bank or rubrics"):
        score(PROMPT, SHORT, bank=None, engine="rules")


def test_results_show_themselves_in_a_line_and_in_a_table() -> None:
    """A repr is one short line; the HTML has rubrics and label, and texts are not markup."""
    bank, wild = checked_bank(), "<script>alert(1)</script>"
    verdict = score_pair(PROMPT, SHORT, LONG, bank=bank, engine="rules")
    ranking = rank(PROMPT, [SHORT, LONG, wild], bank=bank, engine="rules")
    scored = score(wild, wild, bank=bank, engine="rules")
    for found in (verdict, ranking, scored):
        assert "by rules (offline checks, no model)" in repr(found)
        assert len(repr(found)) < 150
        assert "rules (offline checks, no model)" in found._repr_html_()
        assert "<script" not in found._repr_html_()
    assert repr(verdict).startswith("<PairVerdict A is better, margin +")
    assert "The response is at most 10 words long." in verdict._repr_html_()
    assert repr(bank) == "<Bank checked, 3 rubrics, selector uniform, top 6>"
    assert "Sounds like a friend." in bank._repr_markdown_()
