"""The decision judge: expected Δ from probabilities, abstentions, and what it refuses to do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from endpoint import SimServer
from rig import Scripted, pairs, profile, scripted_engine, serving, shown

from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Outcome
from svr_async.engine.request import Request
from svr_async.engine.transport import RawReply
from svr_async.judges.decision import DecisionJudge, StatementWriter
from svr_async.judges.limits import JudgeLimits
from svr_async.judges.open_judge import JudgeSpec, open_judge
from svr_async.judges.protocol import Answer, Comparisons, Reasked
from svr_async.judges.templates import DECIDING, load_templates

RUBRICS = [Rubric(text="The response is short."), Rubric(text="The response does not swear.")]
WIRES = ("decisions", "logprobs")


@pytest.fixture(scope="module")
def sim() -> Iterator[SimServer]:
    """Serve the simulated endpoint."""
    with serving() as server:
        yield server


def writer(wire: str = "decisions", **settings: Any) -> StatementWriter:
    """Return a writer of statements in the shipped words."""
    return StatementWriter.of(profile("http://127.0.0.1:1/v1", wire=wire, **settings), load_templates(names=DECIDING))


def answered(*chances: float | None, without: Sequence[int] = ()) -> RawReply:
    """Return a decision reply with these probabilities; None is a refusal, those `without` are left out."""
    answers = [
        {"type": "refusal", "name": f"q{n}"} if chance is None
        else {"type": "predicate", "name": f"q{n}", "probability": chance}
        for n, chance in enumerate(chances, 1) if n not in without
    ]  # fmt: skip
    return RawReply(status=200, headers={}, body=orjson.dumps({"model": "gpt-oss-120b", "answers": answers}))


@contextlib.asynccontextmanager
async def scripted(
    cache: Path, answer: Callable[[Request, int], Any], **settings: Any
) -> AsyncIterator[tuple[DecisionJudge, Scripted]]:
    """Open a decision judge on a script."""
    async with scripted_engine(cache, answer) as (engine, transport):
        yield DecisionJudge(engine, writer(**settings)), transport


async def compared(judge: DecisionJudge) -> Answer[Comparisons]:
    """Return what a judge says of the two rubrics on a planted pair."""
    return await judge.compare(shown(), RUBRICS, overall=False)


async def test_three_probabilities_a_rubric_make_the_expected_score(tmp_path: Path) -> None:
    """(0.9 − 0.4) + 0.25 (2 · 0.8 − 1); a rubric that denies something is asked in the positive and turned round."""
    async with scripted(tmp_path, lambda *_: answered(0.9, 0.4, 0.8, 0.7, 0.1, 0.6)) as (judge, transport):
        answer = await compared(judge)
    asked = [statement["instructions"] for statement in transport.sent[0].body()["questions"]]
    assert asked[:3] == [
        "Response A satisfies this rubric: The response is short.",
        "Response B satisfies this rubric: The response is short.",
        "Response A satisfies this rubric better than response B does: The response is short.",
    ]
    assert asked[3] == "Response A satisfies this rubric: The response does swear."
    assert answer.value is not None
    deltas = [row.delta for row in answer.value.rows]
    assert deltas == [pytest.approx(0.5 + 0.15), pytest.approx((0.3 - 0.9) + 0.25 * (2 * 0.4 - 1))]
    assert [row.rubric_id for row in answer.value.rows] == [rubric.id for rubric in RUBRICS]
    assert (len(transport.sent), answer.flags) == (1, ())


async def test_a_refusal_is_an_abstention(tmp_path: Path) -> None:
    """A rubric with a refused statement is left out and flagged; no probability is invented."""
    async with scripted(tmp_path, lambda *_: answered(0.9, None, 0.8, 0.7, 0.1, 0.6)) as (judge, transport):
        answer = await compared(judge)
    assert answer.value is not None
    assert [row.rubric_id for row in answer.value.rows] == [RUBRICS[1].id]
    assert (len(transport.sent), answer.flags) == (1, ("refused_rubrics",))


async def test_what_a_reply_leaves_out_is_asked_again_alone(tmp_path: Path) -> None:
    """The missing statements, and only those; such a question is listed as one that was put again."""

    def answer(_: Request, n: int) -> RawReply:
        return answered(0.9, 0.4, 0.8, 0.7, 0.1, 0.6, without=(2, 5)) if n == 0 else answered(0.4, 0.1)

    async with scripted(tmp_path, answer) as (judge, transport):
        found = await compared(judge)
    assert [len(request.body()["questions"]) for request in transport.sent] == [6, 2]
    assert found.value is not None
    assert [row.delta for row in found.value.rows] == [pytest.approx(0.65), pytest.approx(-0.65)]
    assert [isinstance(key, Reasked) for key in found.requests] == [False, True]


async def test_a_failed_call_fails_the_pair(tmp_path: Path) -> None:
    """A fault changes no margin: if a call of a pair fails for good, the pair has no score."""

    def answer(_: Request, n: int) -> RawReply:
        if n == 0:
            return RawReply(status=400, headers={}, body=b'{"error": {"message": "no"}}')
        return answered(0.9)

    async with scripted(tmp_path, answer, wire="logprobs") as (judge, _):
        found = await compared(judge)
    assert (found.value, found.outcome) == (None, Outcome.API_ERROR)
    assert len(found.requests) == 1


def test_all_wires_give_the_planted_verdicts(sim: SimServer, tmp_path: Path) -> None:
    """The text judge of the same model and its decision judges on each wire agree on every verdict."""

    async def verdicts(name: str) -> list[tuple[Any, ...]]:
        opened = open_judge(JudgeSpec.parse(name), JudgeLimits(cache=tmp_path))
        try:
            found = []
            for index in range(4):
                rubrics = [Rubric(text=text) for text in pairs(index + 1)[index].rubrics]
                answer = await opened.judge.compare(shown(index), rubrics, overall=False)
                assert answer.value is not None
                found += [(row.rubric_id, row.a, row.b, row.better) for row in answer.value.rows]
            return found
        finally:
            await opened.close()

    address = f"{sim.base_url}#gpt-oss-120b"
    planted = asyncio.run(verdicts(address))
    for wire in WIRES:
        assert asyncio.run(verdicts(f"{wire}:{address}")) == planted


# --- names ------------------------------------------------------------------------------------------------------------


def test_any_judge_can_be_asked_for_probabilities() -> None:
    """A profile or an URL on another wire has another name and another identity, so that no reply is mixed up."""
    plain, asked = (JudgeSpec.parse(name) for name in ("gpt-oss-20b", "logprobs:gpt-oss-20b+rules"))
    assert plain.profile is not None
    assert asked.profile is not None
    assert (asked.name, asked.decides, plain.decides) == ("logprobs:gpt-oss-20b+rules", True, False)
    assert asked.profile.identity == f"{plain.profile.identity}#logprobs"
    at = JudgeSpec.parse("systemone:http://h:1/v1#m").profile
    assert at is not None
    assert (at.name, at.wire, at.base_url) == ("systemone:m", "systemone", "http://h:1/v1")
