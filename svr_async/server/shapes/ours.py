"""Our own shape: two responses to a prompt, the margin, and what each rubric added to it."""

from __future__ import annotations

from collections.abc import Sequence

from svr_async.server.reading import an_object, conversation, lacking, reply_to
from svr_async.server.rewarder import Rewarder
from svr_async.server.shapes.contract import Call, Route, Told


async def compare(rewarder: Rewarder, call: Call) -> Told:
    """Answer {prompt, a, b} with margin, winner, outcome and contributions; the margin is null where there is none."""
    body = an_object(call.body)
    if missing := [name for name in ("prompt", "a", "b") if body.get(name) is None]:
        raise lacking(missing[0])
    prompt = conversation(body["prompt"])
    a, b = (reply_to(prompt, body[name]) for name in ("a", "b"))
    verdict = await rewarder.compare(prompt, a, b)
    told = {**verdict.to_json(), "svr_fallback": verdict.margin is None, "svr_judge": rewarder.label}
    return Told(value=told, fallbacks=int(verdict.margin is None))


ROUTES: Sequence[Route] = (
    Route(
        paths=("/v1/svr/compare",),
        answer=compare,
        summary="Two responses side by side: margin, winner, and each rubric's contribution.",
        for_whom="your own programs",
        body={"prompt": "Say hello.", "a": "Hello!", "b": "No."},
        reply={"margin": 0.75, "winner": "A", "outcome": "scored", "contributions": [], "judge": "gpt-oss-120b"},
    ),
)
