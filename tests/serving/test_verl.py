"""The reward function and the reward manager for verl, loaded by verl's own loader, on a hand-made DataProto."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from rewarding import FakeTokenizer, Points, a_server, judged_by, needs
from rig import pairs, write_bank

from svr_async.serving.hooks.judging import configure
from svr_async.simulation.server import SimServer

needs("verl", "pip install verl==0.9.1 torch==2.13.0 'transformers<5.11'")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300)]


def manager(n: int = 1) -> Any:
    """Return the manager that verl makes of its configuration."""
    from omegaconf import OmegaConf
    from verl.trainer.ppo.reward import load_reward_manager

    module = {"path": "pkg://svr_async.serving.hooks.verl_manager"}
    named = {"source": "importlib", "name": "SVRRewardManager", "module": module}
    config = {"reward": {"reward_manager": named}, "actor_rollout_ref": {"rollout": {"n": n}}}
    return load_reward_manager(OmegaConf.create(config), FakeTokenizer())


def sample(prompt: str, response: str, uid: str, extra_info: Any = None) -> Any:
    """Return what verl gives a manager for one response: ids padded at the right, messages, and the group."""
    import numpy as np
    import torch
    from verl import DataProto

    ids = torch.tensor([[*map(ord, response), 0, 0]])
    mask = torch.tensor([[1, 1, *([1] * len(response)), 0, 0]])
    return DataProto.from_dict(
        tensors={"responses": ids, "attention_mask": mask, "prompts": torch.tensor([[1, 1]])},
        non_tensors={
            "raw_prompt": _objects(np, [{"role": "user", "content": prompt}]),
            "uid": np.array([uid], dtype=object),
            "extra_info": _objects(np, extra_info or {}),
            "data_source": np.array(["made"], dtype=object),
            "reward_model": np.array([{"ground_truth": ""}], dtype=object),
        },
    )


def _objects(np: Any, value: Any) -> Any:
    held = np.empty(1, dtype=object)
    held[0] = value
    return held


def test_the_function_has_the_same_keys_whatever_happens(sim: SimServer, tmp_path: Path) -> None:
    """Loaded as `pkg://…` with reward_kwargs: a score by the bank, and where the judge is down the marked fallback."""
    from omegaconf import OmegaConf
    from verl.trainer.ppo.reward import get_custom_reward_fn

    settings = judged_by(sim, tmp_path)
    named = {"path": "pkg://svr_async.serving.hooks.verl", "name": "compute_score"}
    kwargs = {"bank": str(write_bank(tmp_path / "bank"))}
    told = []
    for judge in (settings.judge, "http://127.0.0.1:9/v1#m"):
        given = {**named, "reward_kwargs": {**kwargs, "judge": judge, "give_up_after_s": 1.0, "fallback": -1.0}}
        function = get_custom_reward_fn(OmegaConf.create({"reward": {"custom_reward_function": given}}))
        assert function is not None
        pair = pairs(1)[0]
        row = {"data_source": "made", "ground_truth": "", "extra_info": {"question": pair.prompt[0].content}}
        told.append(asyncio.run(function(solution_str=pair.chosen, **row)))
    good, lost = told
    assert list(good) == list(lost)
    assert (0 <= good["score"] <= 1, good["svr_fallback"], "SIMULATED" in good["svr_judge"]) == (True, 0.0, True)
    assert (lost["score"], lost["svr_fallback"]) == (-1.0, 1.0)


def test_points_in_extra_info_are_the_reward(points: Points) -> None:
    """The function that verl's loader returns, and the manager, give the sum by hand."""
    from omegaconf import OmegaConf
    from verl.trainer.ppo.reward import get_custom_reward_fn

    named = {"path": "pkg://svr_async.serving.hooks.verl", "name": "compute_score"}
    function = get_custom_reward_fn(OmegaConf.create({"reward": {"custom_reward_function": named}}))
    assert function is not None
    info = {"prompt": points.prompt, "rubrics": points.rubrics}
    asked = function(data_source="d", solution_str=points.response, ground_truth="", extra_info=info)
    assert asyncio.run(asked)["score"] == points.reward

    async def managed() -> Any:
        return await manager().run_single(sample(points.prompt, points.response, "g1", extra_info=info))

    assert asyncio.run(managed())["reward_score"] == points.reward


def test_the_manager_scores_a_sample_alone(sim: SimServer, tmp_path: Path) -> None:
    """`run_single` reads the prompt from raw_prompt, and its keys are those of the function."""
    judged_by(sim, tmp_path, bank=write_bank(tmp_path / "bank"))
    pair = pairs(1)[0]

    async def scored() -> Any:
        return await manager().run_single(sample(pair.prompt[0].content, pair.chosen, "g1"))

    found = asyncio.run(scored())
    assert found["reward_score"] == found["reward_extra_info"]["score"]
    assert 0 <= found["reward_score"] <= 1


def test_a_server_compares_the_samples_of_a_uid(sim: SimServer, tmp_path: Path) -> None:
    """Four samples of one prompt in any worker are one group: their rewards add up to 0 and differ."""
    pair = pairs(1)[0]
    texts = [pair.chosen, pair.rejected, "I do not know.", "It is."]
    with a_server(sim, tmp_path) as url:
        configure(server=url)

        async def scored() -> list[Any]:
            made = manager(4)
            return await asyncio.gather(
                *(made.run_single(sample(pair.prompt[0].content, text, "g1")) for text in texts)
            )

        found = asyncio.run(scored())
    rewards = [one["reward_score"] for one in found]
    assert sum(rewards) == pytest.approx(0.0, abs=1e-6)
    assert len(set(rewards)) > 1
    assert {tuple(one["reward_extra_info"]) for one in found} == {tuple(found[0]["reward_extra_info"])}
    assert all(one["reward_extra_info"]["svr_members"] == 4 for one in found)
