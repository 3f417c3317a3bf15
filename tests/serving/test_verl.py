"""The reward function and the reward manager for verl, loaded by verl's own loader, on a hand-made DataProto."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from endpoint import SimServer
from rewarding import FakeTokenizer, Points, a_server, needs
from rig import pairs

from svr_async.serving.hooks.judging import configure

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
