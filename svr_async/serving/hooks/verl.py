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

PROMPTS = ("prompt", "question", "raw_prompt", "problem")
SCORE = "score"
TRIES = 3
REFUSED = (400, 401, 403, 404, 409, 413, 415, 422)  # no later try helps
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
        found = await judge_alone(settings, body["prompt"], body["response"], rubrics=body.get("rubrics") or ())
    except EndpointDownError as error:
        if settings.on_failure == "raise":
            raise
        logger.warning("no reward: %s", error.one_line())
        return _result(settings, reason=error.one_line())
    if found.value is None:
        return _result(settings, reason=found.outcome.value, judge=found.judge)
    return _result(settings, score=found.value, coverage=found.coverage, judge=found.judge)


def _result(
    settings: HookSettings, *, score: float | None = None, coverage: float = 0.0, reason: str = "", judge: str = ""
) -> dict[str, Any]:
    value = settings.fallback if score is None else score
    return {
        SCORE: value,
        "svr_score": value,
        "svr_fallback": float(score is None),
        "svr_coverage": coverage,
        "svr_members": 1.0,
        "svr_reason": reason,
        "svr_judge": judge,
    }


async def _from_server(settings: HookSettings, body: Mapping[str, Any]) -> dict[str, Any]:
    from aiohttp import ClientError, ClientSession, ClientTimeout
    from tenacity import AsyncRetrying, RetryError, retry_if_exception_type, stop_after_attempt, wait_exponential

    url = f"{settings.server.rstrip('/')}/reward?key={SCORE}"
    headers = {"Authorization": f"Bearer {settings.token}"} if settings.token else {}
    retries = AsyncRetrying(
        stop=stop_after_attempt(TRIES),
        wait=wait_exponential(1.0),
        retry=retry_if_exception_type((ClientError, TimeoutError, OSError)),
    )
    try:
        async for attempt in retries:
            with attempt:
                limit = ClientTimeout(total=settings.timeout_s)
                async with (
                    ClientSession(timeout=limit) as session,
                    session.post(url, json=body, headers=headers) as reply,
                ):
                    if reply.status in REFUSED:
                        raise ConfigError(
                            f"{settings.server} answered {reply.status}: {(await reply.text())[:200]}",
                            hint=f"check {PREFIX}SERVER and {PREFIX}TOKEN",
                        )
                    reply.raise_for_status()
                    found = await reply.json()
    except RetryError as error:
        reason = f"server: {type(error.last_attempt.exception()).__name__}"
        logger.warning("no reward of %s: %s", settings.server, reason)
        return _result(settings, reason=reason)
    known = _result(settings)
    return {name: float(found[name]) if isinstance(found[name], bool) else found[name] for name in known}
