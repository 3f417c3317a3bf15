"""A reward for one response at a time, of a `svr serve` that pools groups, or by the bank's rubrics in this process.

Every reply has the same keys, those that the server tells, since trainers (verl) read the keys of the first reply and
index all others with them.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from svr_async.engine.concurrency import run_on_own_loop
from svr_async.errors import ConfigError, EndpointDownError
from svr_async.hooks.judged import Judged, judge_alone
from svr_async.hooks.settings import PREFIX, HookSettings

if TYPE_CHECKING:
    from aiohttp import ClientSession

TRIES = 3
WAIT_S = 1.0  # before the second try, twice as long before the third
REFUSED = (401, 403, 404)  # what no later try mends
SCORE = "score"
logger = logging.getLogger(__name__)
_SESSIONS: dict[int, ClientSession] = {}  # by process, on its own loop


async def single_reward(
    settings: HookSettings, prompt: Any, response: str, *, seat: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return `score` and the facts about it; the declared fallback where there is no verdict, marked by svr_fallback 1.

    `seat` names the response's place in a group (`group`, `group_size` …), which a server compares; without a server
    each response is scored alone. ConfigError for a server that refuses, and without a bank and a server.
    """
    if settings.server:
        return await run_on_own_loop(_of_server(settings, {"prompt": prompt, "response": response, **(seat or {})}))
    try:
        return _told(settings, await judge_alone(settings, prompt, response))
    except EndpointDownError as error:
        if settings.on_failure == "raise":
            raise
        logger.warning("no reward: %s", error.one_line())
        return _reply(settings, reason=error.one_line())


def _told(settings: HookSettings, found: Judged) -> dict[str, Any]:
    if found.value is None:
        return _reply(settings, reason=found.outcome.value, judge=found.judge)
    return _reply(settings, score=found.value, coverage=found.coverage, judge=found.judge)


def _reply(
    settings: HookSettings, *, score: float | None = None, coverage: float = 0.0, reason: str = "", judge: str = ""
) -> dict[str, Any]:
    value = settings.fallback if score is None else score
    return {
        SCORE: value,
        "svr_score": value,
        "svr_fallback": float(score is None),
        "svr_coverage": coverage,
        "svr_members": 1.0,
        "svr_length_penalty": 0.0,
        "svr_style_penalty": 0.0,
        "svr_reason": reason,
        "svr_judge": judge,
    }


async def _of_server(settings: HookSettings, body: Mapping[str, Any]) -> dict[str, Any]:
    from aiohttp import ClientError

    reason = ""
    for attempt in range(TRIES):
        if attempt:
            await asyncio.sleep(WAIT_S * 2 ** (attempt - 1))
        try:
            status, found = await _posted(settings, body)
        except (ClientError, TimeoutError, OSError, ValueError) as error:
            reason = f"server: {type(error).__name__}"
            continue
        if status == 200 and isinstance(found, dict) and SCORE in found:
            known = _reply(settings, reason="no reply")
            return {
                name: float(value) if isinstance(value, bool) else value
                for name, value in found.items()
                if name in known
            }
        if status in REFUSED:
            raise ConfigError(f"{settings.server} answered {status}", hint=f"check {PREFIX}SERVER and {PREFIX}TOKEN")
        reason = f"server: {status}"
        if status < 500 and status != 429:
            break
    logger.warning("no reward of %s: %s", settings.server, reason)
    return _reply(settings, reason=reason)


async def _posted(settings: HookSettings, body: Mapping[str, Any]) -> tuple[int, Any]:
    from aiohttp import ClientTimeout

    url = f"{settings.server.rstrip('/')}/reward?key={SCORE}"
    headers = {"Authorization": f"Bearer {settings.token}"} if settings.token else {}
    limit = ClientTimeout(total=settings.timeout_s)
    async with _session().post(url, json=body, headers=headers, timeout=limit) as reply:
        return reply.status, await reply.json(content_type=None) if reply.status == 200 else None


def _session() -> ClientSession:
    from aiohttp import ClientSession, TCPConnector

    if os.getpid() not in _SESSIONS:
        _SESSIONS[os.getpid()] = ClientSession(connector=TCPConnector(limit=0))
    return _SESSIONS[os.getpid()]


async def close_session() -> None:
    """Close the connections of this process to servers."""
    session = _SESSIONS.pop(os.getpid(), None)
    if session is not None:
        await run_on_own_loop(session.close())
