"""The recorded judge: replies as they came, read by the same code as live ones."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
from rig import pairs

from svr_async.core.pair import Order, Side, present
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Outcome
from svr_async.judges.recorded import RecordedJudge, load_recorded

PAIR = pairs(1)[0]
RUBRICS = [Rubric(text="Is it short?"), Rubric(text="Is it right?")]
ROWS = [
    {"rubric_id": "R2", "reason": "r", "candidate_a_verdict": "pass", "candidate_b_verdict": "fail", "better": "A"},
    {"rubric_id": "R1", "reason": "r", "candidate_a_verdict": "fail", "candidate_b_verdict": "pass", "better": "B"},
]


def line(role: str, reply: Any, order: str = "ab", pair_id: str = PAIR.id) -> dict[str, str]:
    """Return one recorded reply."""
    text = reply if isinstance(reply, str) else orjson.dumps(reply).decode()
    return {"pair_id": pair_id, "order": order, "role": role, "reply": text}


def judge_of(path: Path, *lines: Any) -> RecordedJudge:
    """Write lines and load them."""
    path.write_bytes(b"\n".join(one if isinstance(one, bytes) else orjson.dumps(one) for one in lines))
    judge = load_recorded(path, {PAIR.id: PAIR.prompt})
    assert isinstance(judge, RecordedJudge)
    return judge


def test_replies_are_replayed_by_role_pair_and_order(tmp_path: Path) -> None:
    """Each presentation gets the reply that was recorded for it; the last of several lines counts."""
    judge = judge_of(
        tmp_path / "r.jsonl",
        line("direct", "[[B]]"),
        line("direct", "So [[B]]", "ba"),
        line("direct", "[[A]]"),
        line("compare", {"rubric_comparisons": ROWS, "preferred_candidate": "A"}),
        line("self_rubrics", {"rubrics": ["Is it short?"], "rubric_note": "n"}, order=""),
    )

    async def ask() -> None:
        first = await judge.prefer(present(PAIR, Order.AB))
        assert first.value is not None
        assert first.value.margin == 1.0
        second = await judge.prefer(present(PAIR, Order.BA))
        assert second.value is not None
        assert second.value.margin == -1.0
        compared = await judge.compare(present(PAIR, Order.AB), RUBRICS, overall=True)
        assert compared.value is not None
        assert compared.value.preferred is Side.A
        assert {row.rubric_id: row.better for row in compared.value.rows} == {
            RUBRICS[0].id: Side.B,
            RUBRICS[1].id: Side.A,
        }
        written = await judge.write_rubrics(PAIR.prompt)
        assert written.value is not None
        assert ([r.text for r in written.value.rubrics], written.value.note) == (["Is it short?"], "n")

    asyncio.run(ask())
    assert (judge.name, judge.label) == ("recorded:r.jsonl", "recorded replies (r.jsonl)")


def test_what_was_not_recorded_is_counted_not_guessed(tmp_path: Path) -> None:
    """A pair, order or role that the file does not hold is unscored with a reason; so is a reply without a verdict."""
    judge = judge_of(
        tmp_path / "r.jsonl", line("direct", "I cannot say."), line("compare", "{}"), line("self_rubrics", "x")
    )

    async def ask() -> list[Any]:
        ab, ba = present(PAIR, Order.AB), present(PAIR, Order.BA)
        return [
            await judge.prefer(ab), await judge.compare(ab, RUBRICS, overall=False),
            await judge.write_rubrics(PAIR.prompt), await judge.prefer(ba),
            await judge.compare(ba, RUBRICS, overall=True), await judge.write_rubrics(pairs(2)[1].prompt),
        ]  # fmt: skip

    doubtful = judge_of(tmp_path / "two.jsonl", line("direct", "[[A]] then [[B]]"))
    assert asyncio.run(doubtful.prefer(present(PAIR, Order.AB))).outcome is Outcome.PARSE_ERROR
    answers = asyncio.run(ask())
    assert [answer.value for answer in answers] == [None] * 6
    assert [answer.outcome for answer in answers] == [Outcome.PARSE_ERROR] * 3 + [Outcome.API_ERROR] * 3
    assert "order ba" in answers[3].detail
    assert all(answer.detail for answer in answers)
