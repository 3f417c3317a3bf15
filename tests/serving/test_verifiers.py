"""The judge for verifiers, found by its id as a plug-in is, on a trace of a rollout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from endpoint import SimServer
from rewarding import Points, judged_by, needs
from rig import pairs, write_bank

from svr_async.errors import SvrError
from svr_async.serving.hooks.judging import configure

needs("verifiers", "pip install verifiers==0.4.0")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300)]


def rollout(prompt: str, reply: str, **more: Any) -> tuple[Any, Any]:
    """Return the data of a task and the trace of a rollout that ended with a reply."""
    import verifiers.v1 as vf
    from verifiers.v1.trace import TraceTask

    class Data(vf.TaskData):  # type: ignore[misc]  # not installed where types are checked
        answer: str = ""
        rubrics: tuple[dict[str, Any], ...] = ()

    data = Data(prompt=prompt, **more)
    agent = vf.AgentInfo(config=vf.AgentConfig())
    return data, vf.Trace(task=TraceTask(type="made", data=data), agent=agent, root_reply=reply)


def plugged(**config: Any) -> Any:
    """Return the judge that an entry of a task's `judges` names, as verifiers resolves it."""
    from verifiers.v1.configs.judge import check_judges, resolve_judges
    from verifiers.v1.utils.loaders import load_judge

    entries = resolve_judges([{"id": "svr-judge", **config}])
    check_judges(entries)
    return load_judge(entries[0])


async def test_a_plugged_judge_rewards_a_reply(sim: SimServer, tmp_path: Path) -> None:
    """The score by the bank in [0, 1]; over the task's reference the better reply has 1; the trace says why."""
    settings = judged_by(sim, tmp_path)
    bank, pair = str(write_bank(tmp_path / "bank")), pairs(1)[0]
    judge = plugged(bank=bank, judge=settings.judge, weight=0.5)
    assert (judge.reward_name, judge.config.weight) == ("svr-judge", 0.5)
    data, trace = rollout(pair.prompt[0].content, pair.chosen, answer=pair.rejected)
    assert 0 <= await judge.score(data, trace) <= 1
    assert "SIMULATED" in trace.info["svr"][0]["judge"]
    assert trace.info["svr"][0]["parts"]
    compared = plugged(bank=bank, reference_field="answer", name="compared")
    assert await compared.score(data, trace) == 1.0


async def test_without_a_verdict_the_rollout_fails(tmp_path: Path) -> None:
    """A raise is what verifiers asks for in the place of a guess."""
    dead = "http://127.0.0.1:9/v1#m"
    configure(judge=dead, bank=write_bank(tmp_path / "bank"), cache=tmp_path / "cache", give_up_after_s=1)
    with pytest.raises(SvrError):
        await plugged().score(*rollout("x", "Hello."))


async def test_points_of_a_task_are_the_reward(points: Points) -> None:
    """A field of the task's data with criteria gives the sum by hand."""
    data, trace = rollout(points.prompt, points.response, rubrics=points.rubrics)
    assert await plugged(rubrics_field="rubrics").score(data, trace) == points.reward
