"""Rewards for TRL: `reward_funcs=svr_reward`, in GRPOTrainer, RLOOTrainer and, pickled, AsyncGRPOTrainer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from svr_async.hooks.group_rewards import Rewards, group_rewards
from svr_async.hooks.settings import HookSettings, configure, current

__all__ = ["SvrReward", "configure", "svr_reward"]


async def svr_reward(prompts: Sequence[Any], completions: Sequence[Any], **given: Any) -> list[float | None]:
    """Return a reward for each completion, None where the judge has none, which TRL masks.

    Judge, bank and the rest are those of `configure(judge=…, bank=…)`, or of the variables SVR_HOOK_JUDGE and its kin.
    It is a module's own function, so that a trainer can send it to another process. Where TRL passes `log_extra` and
    `log_metric` it logs what decided, who judged, and the shares without a reward.
    """
    return _logged(await group_rewards(current(), prompts, completions), **given)


class SvrReward:
    """The same with settings of its own, where one training has several: `SvrReward(judge="…", bank="…")`.

    It can be pickled. TRL awaits such objects from 1.14 on; older ones take `svr_reward`.
    """

    def __init__(self, *, name: str = "svr_reward", **settings: Any) -> None:
        self.__name__ = name
        self.settings = HookSettings(**settings)

    async def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **given: Any) -> list[float | None]:
        """Return a reward for each completion, as `svr_reward` does."""
        return _logged(await group_rewards(self.settings, prompts, completions), **given)


def _logged(
    found: Rewards,
    *,
    log_extra: Callable[[str, list[Any]], None] | None = None,
    log_metric: Callable[[str, float], None] | None = None,
    **_: Any,
) -> list[float | None]:
    if log_extra is not None:
        log_extra("svr_why", found.told)
        log_extra("svr_judge", [found.judge] * len(found.values))
    if log_metric is not None:
        for name, value in found.metrics().items():
            log_metric(name, value)
    return found.values
