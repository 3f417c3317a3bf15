"""A reward manager for verl (0.9), which sees the prompt and its group; only verl imports this file.

reward.reward_manager.source=importlib reward.reward_manager.name=SVRRewardManager
reward.reward_manager.module.path=pkg://svr_async.hooks.verl_manager
"""

from __future__ import annotations

from typing import Any

from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase

from svr_async.hooks.settings import current
from svr_async.hooks.single_rewards import SCORE, single_reward


class SVRRewardManager(RewardManagerBase):  # type: ignore[misc]  # verl is not installed where types are checked
    """Rewards by `svr serve` (SVR_HOOK_SERVER), which compares the samples of a `uid`, or each alone by the bank.

    verl scores each sample in any of its workers, so only a server sees a group: SVR_HOOK_GROUP samples of it, by
    default `actor_rollout_ref.rollout.n`. Without a server the bank's score is absolute, and needs no group.
    """

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any, **_: Any) -> None:
        super().__init__(config, tokenizer, compute_score)
        self.settings = current()
        self.size = self.settings.group or int(config.get("actor_rollout_ref", {}).get("rollout", {}).get("n", 1))

    async def run_single(self, data: Any) -> dict[str, Any]:
        """Return {reward_score, reward_extra_info} of the last sample of a batch, with the same keys for all."""
        item = data[-1:][0]
        ids = item.batch["responses"]
        length = int(item.batch["attention_mask"][-ids.shape[-1] :].sum())
        text = await self.loop.run_in_executor(
            None, lambda: self.tokenizer.decode(ids[:length], skip_special_tokens=True)
        )
        prompt = [dict(turn) for turn in item.non_tensor_batch["raw_prompt"]]
        found = await single_reward(self.settings, prompt, text, seat=self._seat(item))
        return {"reward_score": found[SCORE], "reward_extra_info": found}

    def _seat(self, item: Any) -> dict[str, Any]:
        uid = item.non_tensor_batch.get("uid")
        return {} if uid is None or self.size < 2 else {"group": str(uid), "group_size": self.size}
