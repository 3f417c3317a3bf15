"""The reward for TRL: a real GRPO step of a tiny random model on the CPU, judged by a simulated endpoint."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from endpoint import SimServer
from rewarding import Points, judged_by, needs
from rig import write_bank
from small_trainer import ON_A_CPU, model, tokenizer

from svr_async.serving.hooks.trl import SvrReward, svr_reward

if find_spec("trl"):  # elsewhere it would keep other tests from a hub of their own
    os.environ["HF_HUB_OFFLINE"] = "1"  # read when the package is first imported
needs("trl", "pip install trl==1.16.0 torch==2.13.0")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300)]

PROMPTS = ["Name a colour.", "Why is the sky blue?"]


def trainer(folder: Path, reward: Any, rows: Sequence[dict[str, Any]] = (), **settings: Any) -> Any:
    """Return a GRPO trainer of two prompts with four completions each, on the CPU."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    words = tokenizer()
    config = GRPOConfig(
        output_dir=str(folder / "out"), per_device_train_batch_size=8, num_generations=4, max_completion_length=8,
        max_steps=2, logging_steps=1, report_to=[], save_strategy="no", beta=0.0, seed=1,
        disable_tqdm=True, **ON_A_CPU, **settings,
    )  # fmt: skip
    data = Dataset.from_list([*rows] or [{"prompt": prompt, "note": "a column"} for prompt in PROMPTS])
    return GRPOTrainer(
        model=model(len(words)), reward_funcs=reward, args=config, train_dataset=data, processing_class=words
    )


def test_a_grpo_step_takes_the_reward(sim: SimServer, tmp_path: Path) -> None:
    """Rewards of a group differ, move the weights, and are logged with what decided and who judged."""
    judged_by(sim, tmp_path, bank=write_bank(tmp_path / "bank"), group=4, schedule="circle")
    before = len(sim.log())
    made = trainer(tmp_path, svr_reward)
    weights = {name: value.clone() for name, value in made.model.named_parameters()}
    made.train()
    logged = made.state.log_history[0]
    assert logged["reward_std"] > 0
    assert (logged["svr/no_reward"], logged["svr/questions"] > 0, logged["svr/spread"] > 0) == (0.0, True, True)
    rewards = list(made._logs["rewards"]["svr_reward"])
    assert len(rewards) == 8
    assert len({round(reward, 6) for reward in rewards[:4]}) > 1
    assert all("SIMULATED" in label for label in made._logs["extra"]["svr_judge"])
    assert any("+0" in why for why in made._logs["extra"]["svr_why"])
    assert len(sim.log()) > before
    assert any(not value.equal(weights[name]) for name, value in made.model.named_parameters())


def test_a_column_of_points_is_the_reward(points: Points, tmp_path: Path) -> None:
    """As TRL passes a dataset's columns: the sum by hand for a known response, then in the steps of a training."""
    made = trainer(tmp_path, svr_reward, [{"prompt": points.prompt, "rubrics": points.rubrics}] * 2)
    rows = [*made.train_dataset]
    known = made._calculate_rewards(rows, [points.prompt] * 2, [points.response] * 2, [[1], [1]])
    assert known.tolist() == [[points.reward]] * 2
    made.train()
    rewards, texts = list(made._logs["rewards"]["svr_reward"]), list(made._logs["completion"])
    assert (made.state.global_step, len(rewards)) == (2, 8)
    if points.judge == "rules":  # few words, never a list, a paragraph or an apology
        assert rewards == [5.0 + 2.0 * text.rstrip().endswith("?") for text in texts]


def test_without_a_judge_the_step_is_masked(sim: SimServer, tmp_path: Path) -> None:
    """An endpoint where nothing listens gives no reward: the step runs, and no weight moves."""
    from svr_async.serving.hooks.judging import configure

    configure(judge="http://127.0.0.1:9/v1#m", cache=tmp_path / "cache", give_up_after_s=1, group=4)
    made = trainer(tmp_path, svr_reward)
    weights = {name: value.clone() for name, value in made.model.named_parameters()}
    made.train()
    assert made.state.log_history[0]["svr/no_reward"] == 1.0
    assert all(value.equal(weights[name]) for name, value in made.model.named_parameters())


def _in_a_child(kept: bytes, prompts: Sequence[str], completions: Sequence[str], out: Any) -> None:
    """Unpickle a reward function as the rollout process of AsyncGRPOTrainer does, and await it for each group."""
    reward = pickle.loads(kept)
    for at in (0, 2):
        group = slice(at, at + 2)
        out.put(asyncio.run(reward(prompts=prompts[group], completions=completions[group], note=["a", "b"])))


@pytest.mark.parametrize("kind", ["function", "instance"])
def test_the_reward_goes_to_a_spawned_process(kind: str, sim: SimServer, tmp_path: Path) -> None:
    """Pickled for AsyncGRPOTrainer's worker, which has no log to offer and new event loops: the same rewards."""
    from trl.trainer.utils import get_callable_name, is_async_callable

    settings = judged_by(sim, tmp_path)
    reward: Any = svr_reward if kind == "function" else SvrReward(judge=settings.judge, cache=settings.cache)
    assert is_async_callable(reward)
    assert get_callable_name(reward) == "svr_reward"
    prompts, completions = [PROMPTS[0]] * 2 + [PROMPTS[1]] * 2, ["Red.", "A fine red.", "It is.", "Air scatters light."]
    spawn = multiprocessing.get_context("spawn")
    out = spawn.Queue()
    child = spawn.Process(target=_in_a_child, args=(pickle.dumps(reward), prompts, completions, out))
    child.start()
    rewards = out.get(timeout=120) + out.get(timeout=120)
    child.join()
    assert rewards == asyncio.run(reward(prompts=prompts, completions=completions))
    assert None not in rewards
