"""slime's remote reward model (`--rm-type remote_rm`): the whole body of the reply is the reward.

The same route takes a POST for each sample with the name of its group, as a reward function of verl or any other
trainer sends it, and whole groups at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from svr_async.server.reading import Body, a_list, a_seat, an_anchor, an_object, conversation, lacking, reply_to
from svr_async.server.rewarder import Asked, Rewarder
from svr_async.server.rewards import Reward
from svr_async.server.shapes.contract import Call, Route, Told, check_batch

KEY = "key"


async def reward(rewarder: Rewarder, call: Call) -> Told:
    """Answer {prompt, response, label} with a number, or with ?key=NAME with an object that has it by that name.

    A list of such bodies, or {prompt, responses}, is answered by a list; those of one prompt are one group.
    """
    if isinstance(call.body, list):
        return await _samples(rewarder, call, [an_object(one) for one in call.body])
    body = an_object(call.body)
    if "responses" in body:
        given = a_list(body, "responses")
        rest = {name: value for name, value in body.items() if name != "responses"}
        return await _samples(rewarder, call, [{**rest, "response": one} for one in given])
    found = await rewarder.reward(_asked(rewarder, body, call))
    return Told.of(_told(rewarder, call, found), [found])


async def _samples(rewarder: Rewarder, call: Call, bodies: Sequence[Body]) -> Told:
    """Compare what has one prompt and no anchor; the list that is answered has the order of the bodies."""
    if not bodies:
        raise lacking("response")
    check_batch(rewarder, len(bodies))
    asked = [_asked(rewarder, body, call) for body in bodies]
    groups: dict[Any, list[int]] = {}
    for place, one in enumerate(asked):
        groups.setdefault(place if one.anchor is not None else one.prompt, []).append(place)
    found: dict[int, Reward] = {}

    async def judge(places: Sequence[int]) -> None:
        first = asked[places[0]]
        if first.anchor is not None:
            found[places[0]] = await rewarder.reward(first)
            return
        rewards, _ = await rewarder.among(first.prompt, [asked[place].response for place in places])
        found.update(zip(places, rewards, strict=True))

    await asyncio.gather(*map(judge, groups.values()))
    rewards = [found[place] for place in range(len(asked))]
    return Told.of([_told(rewarder, call, one) for one in rewards], rewards)


def _asked(rewarder: Rewarder, body: Body, call: Call) -> Asked:
    for name in ("prompt", "response"):
        if name not in body:
            raise lacking(name)
    prompt = conversation(body["prompt"])
    return Asked(
        prompt=prompt,
        response=reply_to(prompt, body["response"]),
        anchor=an_anchor(rewarder.settings, body, prompt, body.get("label")),
        seat=a_seat(rewarder.settings, body, call.query, prompt),
    )


def _told(rewarder: Rewarder, call: Call, found: Reward) -> Any:
    name = call.query.get(KEY)
    return found.value if not name else {**found.facts(rewarder.label), name: found.value}


ROUTES: Sequence[Route] = (
    Route(
        paths=("/reward",),
        answer=reward,
        summary="A reward for one response, as the bare number; for a group, a list of them.",
        for_whom="slime: --rm-type remote_rm --rm-url http://HOST:PORT/reward; verl and others: one POST a sample",
        body={
            "prompt": "Say hello.",
            "response": "Hello!",
            "label": "",
            "group": "7",
            "member": 0,
            "group_size": 8,
        },
        reply=0.25,
        query={
            KEY: "answer an object that has the reward by this name, and the same other keys each time",
            "group_size": "responses to one prompt, which are then compared with each other",
        },
    ),
)
