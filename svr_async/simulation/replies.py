"""Writing replies: chat completions, probabilities and scores."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from svr_async.simulation.request import CHARS_PER_TOKEN, ChatRequest
from svr_async.simulation.world import draw_bytes

CREATED = 1_750_000_000  # a fixed moment: replies do not depend on the clock
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


def numbers_reply(
    request: ChatRequest, chances: Mapping[str, float], score: float | None, *, fingerprint: str, attempt: int
) -> dict[str, Any]:
    """Return a probability for each statement, or one score; neither for an empty reply."""
    answers = [{"type": "predicate", "name": name, "probability": chance} for name, chance in chances.items()]
    return {
        "id": f"sim-{draw_bytes(request.key, attempt).hex()[:24]}",
        "model": request.model,
        "system_fingerprint": fingerprint,
        "answers": answers,
        "data": [] if score is None else [{"index": 0, "probs": [score]}],
        "usage": {"prompt_tokens": request.prompt_tokens, "input_tokens": request.prompt_tokens, "output_tokens": 0},
    }


def token_logprobs(chance: float) -> dict[str, Any]:
    """Return the `logprobs` of a choice whose one token answers a statement."""
    shares = {"Yes": MASS * chance, "No": MASS * (1 - chance), "Perhaps": 1 - MASS}
    ranked = sorted(shares.items(), key=lambda one: -one[1])
    tops = [{"token": token, "logprob": math.log(share) if share else NEVER} for token, share in ranked]
    return {"content": [{**tops[0], "top_logprobs": tops}], "refusal": None}
