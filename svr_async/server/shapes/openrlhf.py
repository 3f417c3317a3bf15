"""OpenRLHF's remote reward model (`--reward.remote_url`, 0.11): lists of queries, prompts and labels, numbers back.

A query is what the policy was fed and what it wrote, as one text; the prompt is the part of it that it was fed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from svr_async.core.pair import Prompt
from svr_async.server.chat_text import turns_of, without_end
from svr_async.server.reading import Body, a_seat, an_anchor, an_object, conversation, texts
from svr_async.server.refusal import RefusalError
from svr_async.server.rewarder import Asked, Rewarder
from svr_async.server.settings import ServerSettings
from svr_async.server.shapes.contract import Call, Route, Told, check_batch


async def get_reward(rewarder: Rewarder, call: Call) -> Told:
    """Answer {query, prompts, labels} with {rewards, scores, extra_logs}, a number for each query."""
    body = an_object(call.body)
    queries = texts(body, "query")
    check_batch(rewarder, len(queries))
    prompts = texts(body, "prompts") if body.get("prompts") else [None] * len(queries)
    labels = body.get("labels") or [None] * len(queries)
    if not isinstance(labels, list) or not len(queries) == len(prompts) == len(labels):
        raise RefusalError(422, "'query', 'prompts' and 'labels' are not lists of one length")
    rows = zip(queries, prompts, labels, strict=True)
    asked = [_asked(rewarder.settings, body, call, *row) for row in rows]
    rewards = await asyncio.gather(*map(rewarder.reward, asked))
    numbers = [reward.numbers() for reward in rewards]
    values = [reward.value for reward in rewards]
    logs = {name: [row[name] for row in numbers] for name in numbers[0]}
    return Told.of({"rewards": values, "scores": values, "extra_logs": logs}, rewards)


def _asked(settings: ServerSettings, body: Body, call: Call, query: str, given: str | None, label: Any) -> Asked:
    prompt, response = split_query(query, given)
    anchor = an_anchor(settings, body, prompt, label)
    return Asked(prompt=prompt, response=response, anchor=anchor, seat=a_seat(settings, body, call.query, prompt))


def split_query(query: str, given: str | None) -> tuple[Prompt, str]:
    """Return prompt and response of a query; RefusalError where it cannot be told where one ends."""
    if given and given in query:
        return conversation(given), without_end(query[query.index(given) + len(given) :])
    turns = turns_of(query)
    if len(turns) < 2 or turns[-1].role != "assistant":
        raise RefusalError(422, "a query does not contain its prompt", hint="send prompts, or a chat template's text")
    return turns[:-1], turns[-1].content


ROUTES: Sequence[Route] = (
    Route(
        paths=("/get_reward",),
        answer=get_reward,
        summary="A reward for each query.",
        for_whom="OpenRLHF: --reward.remote_url http://HOST:PORT/get_reward",
        body={"query": ["Say hello.Hello!"], "prompts": ["Say hello."], "labels": [""]},
        reply={"rewards": [0.25], "scores": [0.25], "extra_logs": {"svr_fallback": [0.0], "svr_coverage": [1.0]}},
        query={"group_size": "responses to one prompt, which are then compared with each other"},
    ),
)
