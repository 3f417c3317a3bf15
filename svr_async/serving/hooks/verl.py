"""A reward function for verl: `reward.custom_reward_function.path=pkg://svr_async.serving.hooks.verl`.

verl calls `compute_score` for each sample, without the prompt: it is read from `extra_info`. The manager in
verl_manager.py sees the prompt and the group. verl reads the keys of the first result and indexes all others with them,
so every result has the same keys.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from svr_async.engine.concurrency import run_on_own_loop
from svr_async.errors import ConfigError, EndpointDownError, UsageError
from svr_async.serving.hooks.judging import PREFIX, HookSettings, judge_alone, settings_with
from svr_async.serving.scores import Reward

PROMPTS = ("prompt", "question", "raw_prompt", "problem")
SCORE = "score"
TRIES = 3
KEYS = (SCORE, *Reward(value=0.0).facts(""))
LATER = (408, 429)  # of the 4xx, those where a later try helps
logger = logging.getLogger(__name__)


async def compute_score(
    data_source: str,  # noqa: ARG001  (verl passes all arguments by name)
    solution_str: str,
    ground_truth: Any,  # noqa: ARG001
    extra_info: Mapping[str, Any] | None = None,
    *,
    prompt_key: str = "",
    **settings: Any,
) -> dict[str, Any]:
    """Return `score` and the same further keys for every sample.

    The prompt is `extra_info[prompt_key]`, by default the first of prompt, question, raw_prompt, problem. Rubrics with
    points in `extra_info["rubrics"]` give Σ points · satisfied; else the bank gives a score in [0, 1]. `reward_kwargs`
    may set judge, bank, server … over the environment's settings.
    """
    info = extra_info or {}
    key = next((name for name in ((prompt_key,) if prompt_key else PROMPTS) if info.get(name) is not None), "")
    if not key:
        raise UsageError(
            f"extra_info has no {prompt_key or 'prompt'} (it has: {', '.join(map(str, info)) or 'nothing'})",
            hint="name its key by reward_kwargs.prompt_key, or use svr_async.serving.hooks.verl_manager",
        )
    prompt, rubrics = info[key], info.get("rubrics")
    body = {"prompt": prompt if isinstance(prompt, str) else [dict(turn) for turn in prompt], "response": solution_str}
    if rubrics is not None:
        body["rubrics"] = [dict(rubric) if isinstance(rubric, Mapping) else rubric for rubric in rubrics]
    return await single_reward(settings_with(settings), body)


async def single_reward(settings: HookSettings, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result for a body of {prompt, response, rubrics, group …}, from `svr serve` or from this process.

    Without a verdict the score is the declared fallback, marked by svr_fallback 1.
    """
    if settings.server:
        return await run_on_own_loop(_from_server(settings, body))
    try:
        judged = await judge_alone(settings, body["prompt"], body["response"], rubrics=body.get("rubrics") or ())
    except EndpointDownError as error:
        if settings.on_failure == "raise":
            raise
        logger.warning("no reward: %s", error.one_line())
        return _result(Reward(value=settings.fallback, reason=error.one_line(), coverage=0.0))
    if judged.value is None:
        reward = Reward(value=settings.fallback, reason=judged.outcome.value, coverage=0.0)
        return _result(reward, judged.judge)
    return _result(Reward(value=judged.value, coverage=judged.coverage), judged.judge)


def _result(reward: Reward, judge: str = "") -> dict[str, Any]:
    return {SCORE: reward.value, **reward.facts(judge), **reward.numbers()}


async def _from_server(settings: HookSettings, body: Mapping[str, Any]) -> dict[str, Any]:
    from aiohttp import ClientError, ClientSession, ClientTimeout
    from tenacity import AsyncRetrying, RetryError, retry_if_exception_type, stop_after_attempt, wait_exponential

    async def post() -> dict[str, Any]:
        async with (
            ClientSession(timeout=ClientTimeout(total=settings.timeout_s), headers=headers) as session,
            session.post(f"{settings.server.rstrip('/')}/reward?key={SCORE}", json=body) as reply,
        ):
            if 400 <= reply.status < 500 and reply.status not in LATER:
                problem = f"{settings.server} answered {reply.status}: {(await reply.text())[:200]}"
                raise ConfigError(problem, hint=f"check {PREFIX}SERVER and {PREFIX}TOKEN")
            reply.raise_for_status()
            return dict(await reply.json())

    headers = {"Authorization": f"Bearer {settings.token}"} if settings.token else {}
    passing = retry_if_exception_type((ClientError, TimeoutError, OSError))
    try:
        facts: dict[str, Any] = await AsyncRetrying(
            stop=stop_after_attempt(TRIES), wait=wait_exponential(1.0), retry=passing
        )(post)
    except RetryError as error:
        reason = f"server: {type(error.last_attempt.exception()).__name__}"
        logger.warning("no reward of %s: %s", settings.server, reason)
        return _result(Reward(value=settings.fallback, reason=reason, coverage=0.0))
    return {name: float(facts[name]) if isinstance(facts[name], bool) else facts[name] for name in KEYS}
