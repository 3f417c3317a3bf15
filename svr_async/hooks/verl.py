"""A reward function for verl: `reward.custom_reward_function.path=pkg://svr_async.hooks.verl name=compute_score`.

verl calls it once a sample and does not pass the prompt: it is taken from `extra_info`. `verl_manager.py` sees both the
prompt and the group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svr_async.errors import UsageError
from svr_async.hooks.judged import settings_with
from svr_async.hooks.single_rewards import single_reward

PROMPTS = ("prompt", "question", "raw_prompt", "problem")


async def compute_score(
    data_source: str,  # noqa: ARG001  (verl passes it by name, as all of them)
    solution_str: str,
    ground_truth: Any,  # noqa: ARG001
    extra_info: Mapping[str, Any] | None = None,
    *,
    prompt_key: str = "",
    **settings: Any,
) -> dict[str, Any]:
    """Return `score`, the response's score by the bank in [0, 1], and the same further keys for every sample.

    The prompt is `extra_info[prompt_key]`, by default the first of prompt, question, raw_prompt and problem that is
    there; UsageError where none is. `reward_kwargs` may name settings: judge, bank, server … over the environment's.
    """
    info = extra_info or {}
    key = next((name for name in ((prompt_key,) if prompt_key else PROMPTS) if info.get(name) is not None), "")
    if not key:
        raise UsageError(
            f"extra_info has no {prompt_key or 'prompt'} (it has: {', '.join(map(str, info)) or 'nothing'})",
            hint="name its key by reward_kwargs.prompt_key, or use the reward manager of svr_async.hooks.verl_manager",
        )
    prompt = info[key]
    return await single_reward(
        settings_with(settings), prompt if isinstance(prompt, str) else list(prompt), solution_str
    )
