"""Scalar reward models: three shapes of an endpoint, one score a response, and recorded scores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from endpoint import SimServer
from rig import pairs, scripted_engine, serving, shown

from svr_async.core.integrity import Integrity
from svr_async.core.pair import Order, prompt_text
from svr_async.engine.transport import RawReply
from svr_async.errors import UsageError
from svr_async.judges.decision import ScalarJudge
from svr_async.judges.limits import JudgeLimits
from svr_async.judges.open_judge import JudgeSpec, open_judge
from svr_async.judges.profiles import REWARD_WIRES, find_profile
from svr_async.judges.recorded import load_recorded

URL = "rm:http://127.0.0.1:1"
ROWS: dict[str, Any] = {"classify": {"probs": [0.1, 2.5]}, "pooling": {"data": [[0.1], [2.5]]}, "score": {"score": 2.5}}


@pytest.fixture(scope="module")
def sim() -> Iterator[SimServer]:
    """Serve the simulated endpoint."""
    with serving() as server:
        yield server


def reply_with(row: dict[str, Any]) -> RawReply:
    """Return a reply with one row."""
    body = {"model": "m", "data": [{"index": 0, **row}], "usage": {"prompt_tokens": 7, "total_tokens": 7}}
    return RawReply(status=200, headers={}, body=orjson.dumps(body))


async def test_each_response_is_scored_once_whatever_the_order(tmp_path: Path) -> None:
    """Two calls a pair, and no more for its other order; the margin is the difference, and turns with the order."""
    profile = find_profile(f"{URL}#m")
    async with scripted_engine(tmp_path, lambda _, n: reply_with({"probs": [float(n)]})) as (engine, transport):
        judge = ScalarJudge(engine, profile)
        ab = await judge.prefer(shown())
        ba = await judge.prefer(shown(order=Order.BA))
    assert ab.value is not None
    assert ba.value is not None
    assert (ab.value.margin, ba.value.margin) == (-1.0, 1.0)
    assert len(transport.sent) == 2
    assert [turn["role"] for turn in transport.sent[0].body()["messages"]] == ["user", "assistant"]
    assert transport.sent[0].body()["use_activation"] is False


@pytest.mark.parametrize("shape", REWARD_WIRES)
async def test_each_shape_of_vllm_is_read(shape: str, tmp_path: Path) -> None:
    """probs, data and score: the last number of a row is the score; equal scores are a margin of 0."""
    profile = find_profile(f"{URL}/{shape}")
    assert (profile.wire, profile.base_url, profile.model) == (shape, "http://127.0.0.1:1", "")
    async with scripted_engine(tmp_path, lambda *_: reply_with(ROWS[shape])) as (engine, transport):
        answer = await ScalarJudge(engine, profile).prefer(shown())
    assert answer.value is not None
    assert (answer.value.margin, answer.value.reason) == (0.0, "Response A scores 2.5, response B 2.5.")
    assert "model" not in transport.sent[0].body()
    assert ("text_2" in transport.sent[0].body()) is (shape == "score")


async def test_the_simulated_reward_model_is_labelled_so(sim: SimServer, tmp_path: Path) -> None:
    """`svr sim` scores responses under its own address, with or without the name of a model, marked as simulated."""
    root, margins = sim.base_url.removesuffix("/v1"), set()
    for address in (root, f"{root}/classify#gpt-oss-120b"):
        opened = open_judge(JudgeSpec.parse(f"rm:{address}"), JudgeLimits(cache=tmp_path))
        answer = await opened.judge.prefer(shown())
        assert answer.value is not None
        margins.add(answer.value.margin)
        assert Integrity.SIMULATED in opened.judge.marks
        with pytest.raises(UsageError, match="cannot judge by rubrics"):
            await opened.judge.compare(shown(), [], overall=False)
        await opened.close()
    assert len(margins) == 1
    assert margins != {0.0}


RECORDINGS = {
    "pairs.jsonl": '{"id": "%(id)s", "score_a": 1.5, "score_b": 0.25}',
    "pairs.csv": "id,score_a,score_b\n%(id)s,1.5,0.25",
    "texts.jsonl": '{"prompt": %(prompt)s, "response": %(a)s, "score": 1.5}\n'
    '{"prompt": %(prompt)s, "response": %(b)s, "score": 0.25}',
}


@pytest.mark.parametrize("name", RECORDINGS)
async def test_recorded_scores_are_replayed_in_either_order(name: str, tmp_path: Path) -> None:
    """By pair id or by texts, from JSON Lines or CSV, labelled recorded; a pair that is not there has no verdict."""
    pair, path = pairs(1)[0], tmp_path / name
    texts = {"prompt": prompt_text(pair.prompt), "a": pair.response_a, "b": pair.response_b}
    quoted = {name: orjson.dumps(text).decode() for name, text in texts.items()}
    path.write_text(RECORDINGS[name] % ({"id": pair.id} | quoted))
    judge = load_recorded(path, {})
    answers = [await judge.prefer(one) for one in (shown(), shown(order=Order.BA), shown(1))]
    assert [one.value and one.value.margin for one in answers] == [1.25, -1.25, None]
    assert (judge.label, judge.marks) == (f"recorded scores ({name})", frozenset({Integrity.RECORDED}))
