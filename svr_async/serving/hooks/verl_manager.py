"""A reward manager for verl (0.9), which sees the prompt and its group; imported by verl only.

reward.reward_manager.source=importlib reward.reward_manager.name=SVRRewardManager
reward.reward_manager.module.path=pkg://svr_async.serving.hooks.verl_manager
"""

from __future__ import annotations

from typing import Any

from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase

from svr_async.serving.hooks.judging import current
from svr_async.serving.hooks.verl import SCORE, single_reward


class SVRRewardManager(RewardManagerBase):  # type: ignore[misc]  # verl is not installed for type checks
    """Rewards of `svr serve` (SVR_HOOK_SERVER), which compares the samples of a `uid`; without it each alone.

    verl scores each sample in any of its workers, so only a server sees a group: SVR_HOOK_GROUP samples, by default
    `actor_rollout_ref.rollout.n`.
    """

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any, **_: Any) -> None:
        super().__init__(config, tokenizer, compute_score)
        self.settings = current()
        self.size = self.settings.group or int(config.get("actor_rollout_ref", {}).get("rollout", {}).get("n", 1))

    async def run_single(self, data: Any) -> dict[str, Any]:
        """Return {reward_score, reward_extra_info} of the last sample of a batch, with the same keys for all."""
        item = data[-1:][0]
        ids, more = item.batch["responses"], item.non_tensor_batch
        length = int(item.batch["attention_mask"][-ids.shape[-1] :].sum())
        decode = self.tokenizer.decode
        text = await self.loop.run_in_executor(None, lambda: decode(ids[:length], skip_special_tokens=True))
        body: dict[str, Any] = {"prompt": [dict(turn) for turn in more["raw_prompt"]], "response": text}
        rubrics = (more.get("extra_info") or {}).get("rubrics")
        if rubrics is not None:
            body["rubrics"] = [dict(rubric) for rubric in rubrics]
        elif more.get("uid") is not None and self.size > 1 and self.settings.server:
            body |= {"group": str(more["uid"]), "group_size": self.size}
        result = await single_reward(self.settings, body)
        return {"reward_score": result[SCORE], "reward_extra_info": result}
