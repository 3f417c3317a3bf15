"""A scalar reward model in the simulated endpoint: vLLM's shapes of requests and replies, and a planted score."""

from __future__ import annotations

from typing import Any

from svr_async.simulation.judge import MODELS
from svr_async.simulation.refusals import ApiError
from svr_async.simulation.replies import CREATED
from svr_async.simulation.request import ChatRequest, Role, Shape, request_key
from svr_async.simulation.world import draw_bytes

FIELDS = {Shape.CLASSIFY: "probs", Shape.POOLING: "data", Shape.SCORE: "score"}
"""What a row of the reply calls the score."""


def parse_conversation(body: Any, shape: Shape) -> ChatRequest:
    """Read the JSON of a request that ends with the response to be scored; `ApiError` (400) says what is wrong."""
    turns = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(turns, list) or len(turns) < 2 or not all(isinstance(turn, dict) for turn in turns):
        raise ApiError.bad_request("messages has to hold a prompt and the response to be scored")
    texts = [(str(turn.get("role")), str(turn.get("content") or "")) for turn in turns]
    *prompt, (_, response) = texts
    lone = len(prompt) == 1 and prompt[0][0] == "user"
    shown = prompt[0][1] if lone else "\n\n".join(f"{role}: {text}" for role, text in prompt)
    return _scoring(body, shown, response, shape)


def parse_texts(body: Any) -> ChatRequest:
    """Read the JSON of a request with prompt and response as two texts; `ApiError` (400) says what is wrong."""
    prompt, response = (body.get("text_1"), body.get("text_2")) if isinstance(body, dict) else (None, None)
    if not isinstance(prompt, str) or not isinstance(response, str):
        raise ApiError.bad_request("the body has to be an object with text_1 and text_2")
    return _scoring(body, prompt, response, Shape.SCORE)


def _scoring(body: dict[str, Any], prompt: str, response: str, shape: Shape) -> ChatRequest:
    model = body.get("model") or next(iter(MODELS))
    return ChatRequest(
        model=str(model),
        role=Role.REWARD,
        key=request_key(body),
        topic=draw_bytes(str(model), Role.REWARD, prompt, response),
        asks="",
        fences={"PROMPT": prompt, "RESPONSE": response},
        rubrics=(),
        contents=(prompt, response),
        n=1,
        max_tokens=None,
        shape=shape,
    )


def reward_reply(request: ChatRequest, score: float | None, *, fingerprint: str, attempt: int) -> dict[str, Any]:
    """Return the reply with one row; without a row where there is no score."""
    held: Any = score if request.shape is Shape.SCORE else [score]
    row = {"index": 0, "object": request.shape.value, FIELDS[request.shape]: held}
    return {
        "id": f"{request.shape.value}-{draw_bytes(request.key, attempt).hex()[:24]}",
        "object": "list",
        "created": CREATED,
        "model": request.model,
        "data": [] if score is None else [row],
        "usage": {
            "prompt_tokens": request.prompt_tokens,
            "total_tokens": request.prompt_tokens,
            "completion_tokens": 0,
        },
        "system_fingerprint": fingerprint,
    }
