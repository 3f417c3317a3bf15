"""NeMo Gym's resources servers (0.7): `/verify` for one rollout, `/compare` for all responses to a prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svr_async.serving.server.rewarder import Rewarder
from svr_async.serving.server.routes import Answered, Call, asked_of, list_of, required
from svr_async.serving.server.settings import RefusalError
from svr_async.serving.texts import as_prompt

NAMES = {  # ours: NeMo Gym's
    "group": ("group_id", "task_index", "_ng_task_index", "prompt_id"),
    "member": ("rollout_index", "_ng_rollout_index"),
    "attempt": ("group_attempt",),
    "group_size": ("group_size", "num_rollouts_per_prompt"),
}


async def verify(rewarder: Rewarder, call: Call) -> Answered:
    """Answer {responses_create_params, response, …} with the same, the reward, and whether to mask the sample."""
    body = call.fields
    params = required(body, "responses_create_params")
    turns = required(params, "input") if isinstance(params, Mapping) else ""
    prompt = as_prompt(turns if isinstance(turns, str) else [turn for turn in turns if "role" in turn])
    given = {name: next((body[key] for key in names if key in body), None) for name, names in NAMES.items()}
    named = {name: value for name, value in given.items() if value is not None}
    if not (named.get("group_size") or call.query.get("group_size") or rewarder.settings.group_size):
        named.pop("group", None)  # a task's index alone does not name a group
    response = output_text(body.get("response"))
    asked = asked_of(rewarder, call, {**body, **named}, prompt, response)
    reward = await rewarder.reward(asked)
    echoed = {name: body.get(name) for name in ("responses_create_params", "response")}
    marks = {"reward": reward.value, "mask_sample": bool(reward.reason), **reward.facts(rewarder.judge.label)}
    return {**echoed, **marks}, [reward]


async def compare(rewarder: Rewarder, call: Call) -> Answered:
    """Answer {conversation_history, response_objs} with a reward for each, and the comparisons."""
    body = call.fields
    prompt = as_prompt(list_of(body, "conversation_history"))
    rewards, group = await rewarder.among(prompt, [*map(output_text, list_of(body, "response_objs"))])
    verdicts = [] if group is None else sorted(group.verdicts.items())
    rows = [{"response_i": i, "response_j": j, "margin": verdict.margin} for (i, j), verdict in verdicts]
    masks, values = [bool(reward.reason) for reward in rewards], [reward.value for reward in rewards]
    return {"rewards": values, "comparison_results": rows, "mask_sample": masks}, rewards


def output_text(response: Any) -> str:
    """Return the text of a response of OpenAI's Responses API: the last message of its output."""
    if isinstance(response, str):
        return response
    output = response.get("output") if isinstance(response, Mapping) else None
    messages = [item for item in output or () if isinstance(item, Mapping) and item.get("type", "message") == "message"]
    if not messages:
        raise RefusalError(422, "'response' has no message in its output")
    content = messages[-1].get("content")
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())
