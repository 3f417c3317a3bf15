"""NeMo Gym's resources servers (0.7): `/verify`, one rollout at a time, and `/compare`, all responses to a prompt.

Rollouts of a task are pooled by (group_id or task index, group_attempt, rollout_index). A reward that is the declared
fallback has `mask_sample` set, so that the trainer leaves the sample out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from svr_async.core.pair import Prompt
from svr_async.server.group import Group
from svr_async.server.reading import Body, a_list, a_seat, an_anchor, an_object, lacking, names
from svr_async.server.refusal import RefusalError
from svr_async.server.rewarder import Asked, Rewarder
from svr_async.server.shapes.contract import Call, Route, Told
from svr_async.serving.texts import as_prompt

GROUPS = ("group_id", "task_index", "_ng_task_index", "prompt_id")
MEMBERS = ("rollout_index", "_ng_rollout_index")
ATTEMPTS = ("group_attempt",)
SIZES = ("group_size", "num_rollouts_per_prompt")


async def verify(rewarder: Rewarder, call: Call) -> Told:
    """Answer {responses_create_params, response, …} with the same, the reward, and whether to mask the sample."""
    body = an_object(call.body)
    prompt, response = _prompt_of(body), output_text(body.get("response"))
    anchor = an_anchor(rewarder.settings, body, prompt, body.get("label"))
    member, group = names(body, MEMBERS), names(body, GROUPS)
    attempt, size = names(body, ATTEMPTS), names(body, SIZES)
    own = {"group": group, "attempt": attempt, "group_size": size, "member": _number(member)}
    told = {name: value for name, value in own.items() if value is not None}
    seat = a_seat(rewarder.settings, told, call.query, prompt, returns=True)
    found = await rewarder.reward(Asked(prompt=prompt, response=response, anchor=anchor, seat=seat))
    echoed = {name: body.get(name) for name in ("responses_create_params", "response")}
    marks = {"reward": found.value, "mask_sample": found.is_fallback, **found.facts(rewarder.label)}
    return Told.of({**echoed, **marks}, [found])


async def compare(rewarder: Rewarder, call: Call) -> Told:
    """Answer {conversation_history, response_objs} with a reward for each, and every comparison that was made."""
    body = an_object(call.body)
    prompt = as_prompt(a_list(body, "conversation_history"))
    responses = [output_text(one) for one in a_list(body, "response_objs")]
    rewards, group = await rewarder.among(prompt, responses)
    numbers = [reward.numbers() for reward in rewards]
    told = {
        "rewards": [reward.value for reward in rewards],
        "comparison_results": None if group is None else _compared(group),
        "metrics": {name: sum(row[name] for row in numbers) / len(numbers) for name in numbers[0]},
        "mask_sample": [reward.is_fallback for reward in rewards],
        "svr": [reward.facts(rewarder.label) for reward in rewards],
    }
    return Told.of(told, rewards)


def _compared(group: Group) -> list[dict[str, Any]]:
    pairs = [pair for pair in combinations(range(group.size), 2) if pair in group.verdicts]
    rows = [(*pair, group.verdicts[pair]) for pair in pairs]
    return [
        {"response_i": i, "response_j": j, "judge_idx": 0, "margin": verdict.margin, "outcome": verdict.outcome.value}
        for i, j, verdict in rows
    ]


def _prompt_of(body: Body) -> Prompt:
    params = body.get("responses_create_params")
    given = params.get("input") if isinstance(params, Mapping) else None
    if not given:
        raise lacking("responses_create_params.input")
    if isinstance(given, str):
        return as_prompt(given)
    turns = [turn for turn in given if isinstance(turn, Mapping) and "role" in turn] if isinstance(given, list) else []
    if not turns:
        raise RefusalError(422, "'responses_create_params.input' has no message")
    return as_prompt(turns)


def output_text(response: Any) -> str:
    """Return what a response of OpenAI's Responses API says: the texts of its last message, or the text itself."""
    if isinstance(response, str):
        return response
    output = response.get("output", response.get("output_text")) if isinstance(response, Mapping) else None
    if isinstance(output, str):
        return output
    said = [one for one in output if _is_message(one)] if isinstance(output, list) else []
    if not said:
        raise RefusalError(422, "'response' has no message in its output")
    content = said[-1].get("content")
    parts = (
        [part.get("text") for part in content if isinstance(part, Mapping)] if isinstance(content, list) else [content]
    )
    return "".join(part for part in parts if isinstance(part, str))


def _is_message(item: Any) -> bool:
    return isinstance(item, Mapping) and item.get("type", "message") == "message"


def _number(member: str | None) -> int | str | None:
    return int(member) if member is not None and member.isdecimal() else member


_MESSAGE = {
    "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello!"}]}]
}
ROUTES: Sequence[Route] = (
    Route(
        paths=("/verify",),
        answer=verify,
        summary="The reward of one rollout, once its group is judged.",
        for_whom="NeMo Gym: a resources server's /verify",
        body={
            "responses_create_params": {"input": [{"role": "user", "content": "Say hello."}]},
            "response": _MESSAGE,
            "_ng_task_index": 7,
            "_ng_rollout_index": 0,
            "group_size": 16,
        },
        reply={"responses_create_params": {}, "response": {}, "reward": 0.25, "mask_sample": False},
        query={"group_size": "rollouts of a task, where the body does not say it"},
    ),
    Route(
        paths=("/compare",),
        answer=compare,
        summary="A reward for each of several responses, and the comparisons.",
        for_whom="NeMo Gym: genrm_compare's /compare",
        body={
            "conversation_history": [{"role": "user", "content": "Say hello."}],
            "response_objs": [_MESSAGE, _MESSAGE],
        },
        reply={"rewards": [0.25, -0.25], "comparison_results": [], "metrics": {}, "mask_sample": [False, False]},
    ),
)
