"""Writing replies: a chat completion, and the same in the other shapes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from svr_async.simulation.request import CHARS_PER_TOKEN, ChatRequest, Shape
from svr_async.simulation.world import draw_bytes

CREATED = 1_750_000_000  # a fixed moment: replies do not depend on the clock
REASONS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
FIELDS = {Shape.CLASSIFY: "probs", Shape.POOLING: "data", Shape.SCORE: "score"}  # the score in a row of the reply
MASS = 0.98  # of a token's probability, what Yes and No have together
NEVER = -9999.0  # the log-probability of what cannot be, as endpoints write it


def completion(
    request: ChatRequest, text: str, *, fingerprint: str, attempt: int = 0, finish: str = ""
) -> dict[str, Any]:
    """Return a chat completion, cut at the requested number of tokens; `finish` replaces the finish reason."""
    if request.max_tokens is not None and -(-len(text) // CHARS_PER_TOKEN) > request.max_tokens:
        text, finish = text[: request.max_tokens * CHARS_PER_TOKEN], finish or "length"
    written = -(-len(text) // CHARS_PER_TOKEN)
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
    if finish == "content_filter":
        message |= {"content": None, "refusal": "I cannot help with that."}
    return {
        "id": f"chatcmpl-{draw_bytes(request.key, attempt).hex()[:24]}",
        "object": "chat.completion",
        "created": CREATED,
        "model": request.model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish or "stop"}],
        "usage": {
            "prompt_tokens": request.prompt_tokens,
            "completion_tokens": written,
            "total_tokens": request.prompt_tokens + written,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
        "system_fingerprint": fingerprint,
    }


def as_message(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return a chat completion as Anthropic's message."""
    choice, usage = reply["choices"][0], reply["usage"]
    text = choice["message"]["content"]
    return {
        "id": reply["id"],
        "type": "message",
        "role": "assistant",
        "model": reply["model"],
        "content": [{"type": "text", "text": text}] if text else [],
        "stop_reason": REASONS[choice["finish_reason"]],
        "usage": {"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"]},
        "system_fingerprint": reply["system_fingerprint"],  # theirs has none: it marks the reply as simulated
    }


def numbers_reply(
    request: ChatRequest, chances: Mapping[str, float], score: float | None, *, fingerprint: str, attempt: int
) -> dict[str, Any]:
    """Return the reply of a decision or reward endpoint: a probability for each statement, or one score."""
    tokens = request.prompt_tokens
    reply = {
        "id": f"{request.shape}-{draw_bytes(request.key, attempt).hex()[:24]}",
        "model": request.model,
        "system_fingerprint": fingerprint,
    }
    if request.shape in FIELDS:
        row = {"index": 0, FIELDS[request.shape]: score if request.shape is Shape.SCORE else [score]}
        usage = {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0}
        return reply | {"data": [] if score is None else [row], "usage": usage}
    answers: Any = {name: {"type": "noul", "noul": chance} for name, chance in chances.items()}
    if request.shape is Shape.DECISIONS:
        answers = [{"type": "predicate", "name": name, "probability": chance} for name, chance in chances.items()]
    usage = {"input_tokens": tokens, "output_tokens": 0, "total_tokens": tokens}
    return reply | {"answers": answers, "usage": usage}


def token_logprobs(chance: float) -> dict[str, Any]:
    """Return the `logprobs` of a choice whose one token answers a statement."""
    shares = {"Yes": MASS * chance, "No": MASS * (1 - chance), "Perhaps": 1 - MASS}
    ranked = sorted(shares.items(), key=lambda one: -one[1])
    tops = [{"token": token, "logprob": math.log(share) if share else NEVER} for token, share in ranked]
    return {"content": [{**tops[0], "top_logprobs": tops}], "refusal": None}
