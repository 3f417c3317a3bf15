"""Routes: our own comparison, rewards of one response or a group, and OpenRLHF's remote reward model."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Any

import msgspec

from svr_async.core.pair import Prompt, prompt_text
from svr_async.serving.scores import Reward
from svr_async.serving.server.groups import Seat
from svr_async.serving.server.rewarder import Asked, Rewarder
from svr_async.serving.server.settings import RefusalError
from svr_async.serving.texts import as_prompt, as_response, templated_turns, without_end

Body = Mapping[str, Any]
Name = int | Annotated[str, msgspec.Meta(max_length=512)]


class SeatFields(msgspec.Struct):
    """The fields of a body or an address that give a response its place in a group."""

    group: Name | None = None
    attempt: Name | None = None
    member: Name | None = None
    group_size: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request: the JSON of its body, and the parameters of its address."""

    body: Any
    query: Mapping[str, str]

    @property
    def fields(self) -> Body:
        """The body as an object; RefusalError (422)."""
        if not isinstance(self.body, dict):
            raise RefusalError(422, f"the body is {type(self.body).__name__}, not an object")
        return self.body


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A JSON value, and how many of its rewards are the declared fallback."""

    value: Any
    fallbacks: int = 0

    @classmethod
    def of(cls, value: Any, rewards: Sequence[Reward]) -> Answered:
        """Return an answer with these rewards in it."""
        return cls(value=value, fallbacks=sum(bool(reward.reason) for reward in rewards))


Answer = Callable[[Rewarder, Call], Awaitable[Answered]]


def required(body: Body, name: str) -> Any:
    """Return a field; RefusalError (422) if it is missing."""
    if body.get(name) is None:
        raise RefusalError(422, f"the body has no {name!r}")
    return body[name]


def list_of(body: Body, name: str) -> list[Any]:
    """Return a list with at least one item, also of a lone text; RefusalError (422)."""
    value = required(body, name)
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not found:
        raise RefusalError(422, f"{name!r} is not a list of at least one item")
    return found


def conversation(value: Any) -> Prompt:
    """Return a prompt from a text, with or without a chat template's marks, or messages."""
    return templated_turns(value) if isinstance(value, str) else as_prompt(value)


def response_to(prompt: Prompt, value: Any) -> str:
    """Return the text of a response, without the end marks of a tokenizer."""
    return without_end(as_response(value, prompt))


def rubrics_of(body: Body) -> tuple[Any, ...]:
    """Return the criteria with points of a body, if any; RefusalError (422)."""
    rubrics = body.get("rubrics") or []
    if not isinstance(rubrics, list):
        raise RefusalError(422, "'rubrics' is a list of criteria with points")
    return tuple(rubrics)


def asked_of(rewarder: Rewarder, call: Call, body: Body, prompt: Prompt, response: str) -> Asked:
    """Return a response with its rubrics, or its place in a group."""
    rubrics = rubrics_of(body)
    seat = None if rubrics else seat_of(rewarder, call, body, prompt)
    return Asked(prompt=prompt, response=response, rubrics=rubrics, seat=seat)


def seat_of(rewarder: Rewarder, call: Call, body: Body, prompt: Prompt) -> Seat | None:
    """Return the place given by `group`, `attempt`, `member` and `group_size`, in the body or the address.

    A size without a group means the group of the prompt. None without a size.
    """
    given = {name: value for name, value in {**call.query, **body}.items() if value is not None}
    try:
        seat = msgspec.convert({"group_size": rewarder.settings.group_size} | given, SeatFields, strict=False)
    except msgspec.ValidationError as error:
        raise RefusalError(422, str(error), hint="group, attempt and member are names; group_size counts") from None
    if seat.group_size == 0 and seat.group is not None:
        raise RefusalError(422, f"the size of group {seat.group!r} is missing", hint="send group_size")
    if seat.group_size < 2:
        return None
    group = f"prompt {prompt_text(prompt)}" if seat.group is None else str(seat.group)
    named = group if seat.attempt is None else f"{group}, attempt {seat.attempt}"
    return Seat(group=named, size=seat.group_size, member=seat.member)


async def compare(rewarder: Rewarder, call: Call) -> Answered:
    """`/v1/svr/compare`: answer {prompt, a, b} with margin, winner, outcome and contributions."""
    body = call.fields
    prompt = conversation(required(body, "prompt"))
    a, b = (response_to(prompt, required(body, name)) for name in ("a", "b"))
    verdict = await rewarder.judge.pair(prompt, a, b)
    failed = verdict.margin is None
    labels = {"svr_fallback": failed, "svr_judge": rewarder.judge.label}
    return Answered(value={**verdict.to_json(), **labels}, fallbacks=int(failed))


async def reward(rewarder: Rewarder, call: Call) -> Answered:
    """`/reward`, for slime and one POST a sample: answer {prompt, response} with the number.

    `?key=NAME` gives an object with the reward under that name. A list of bodies, or {prompt, responses}, gets a list;
    those of one prompt are compared with each other.
    """
    if isinstance(call.body, list):
        return await _samples(rewarder, call, [replace(call, body=one).fields for one in call.body])
    body = call.fields
    if "responses" in body:
        return await _samples(rewarder, call, [{**body, "response": one} for one in list_of(body, "responses")])
    found = await rewarder.reward(_sample(rewarder, call, body))
    return Answered.of(_shown(rewarder, call, found), [found])


def _sample(rewarder: Rewarder, call: Call, body: Body) -> Asked:
    prompt = conversation(required(body, "prompt"))
    return asked_of(rewarder, call, body, prompt, response_to(prompt, required(body, "response")))


async def _samples(rewarder: Rewarder, call: Call, bodies: Sequence[Body]) -> Answered:
    """Compare responses to one prompt with each other, unless they have rubrics."""
    asked = [_sample(rewarder, call, body) for body in bodies]
    groups: dict[Prompt | int, list[int]] = {}
    for place, one in enumerate(asked):
        groups.setdefault(place if one.rubrics else one.prompt, []).append(place)

    async def judged(places: Sequence[int]) -> list[Reward]:
        first = asked[places[0]]
        if first.rubrics:
            return [await rewarder.reward(first)]
        rewards, _ = await rewarder.among(first.prompt, [asked[place].response for place in places])
        return rewards

    found = await asyncio.gather(*map(judged, groups.values()))
    order = [place for places in groups.values() for place in places]
    by_place = dict(zip(order, chain(*found), strict=True))
    rewards = [by_place[place] for place in range(len(asked))]
    return Answered.of([_shown(rewarder, call, one) for one in rewards], rewards)


def _shown(rewarder: Rewarder, call: Call, found: Reward) -> Any:
    name = call.query.get("key")
    return {**found.facts(rewarder.judge.label), name: found.value} if name else found.value


async def get_reward(rewarder: Rewarder, call: Call) -> Answered:
    """`/get_reward`, for OpenRLHF: answer {query, prompts, labels} with {rewards, scores, extra_logs}.

    A query is prompt and response as one text. `rubrics` may hold a list of criteria for each query.
    """
    body = call.fields
    queries = list_of(body, "query")
    columns = {name: body.get(name) or [None] * len(queries) for name in ("prompts", "rubrics")}
    if not all(isinstance(column, list) and len(column) == len(queries) for column in columns.values()):
        raise RefusalError(422, "'query', 'prompts' and 'rubrics' are not lists of one length")
    asked = []
    for query, given, rubrics in zip(queries, *columns.values(), strict=True):
        prompt, response = split_query(query, given)
        asked.append(asked_of(rewarder, call, {**body, "rubrics": rubrics}, prompt, response))
    rewards = await rewarder.rewards(asked)
    values, numbers = [one.value for one in rewards], [one.numbers() for one in rewards]
    logs = {name: [row[name] for row in numbers] for name in numbers[0]}
    return Answered.of({"rewards": values, "scores": values, "extra_logs": logs}, rewards)


def split_query(query: Any, given: Any) -> tuple[Prompt, str]:
    """Return prompt and response of a query; RefusalError if the end of the prompt is unknown."""
    if not isinstance(query, str):
        raise RefusalError(422, "a query is not a text")
    if given and isinstance(given, str) and given in query:
        return conversation(given), without_end(query[query.index(given) + len(given) :])
    turns = templated_turns(query)
    if len(turns) < 2 or turns[-1].role != "assistant":
        raise RefusalError(422, "a query does not contain its prompt", hint="send prompts, or a chat template's text")
    return turns[:-1], turns[-1].content
