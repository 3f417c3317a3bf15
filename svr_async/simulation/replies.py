"""The JSON of a chat completion: choices, usage, and an id that depends on the request and the attempt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from svr_async.simulation.request import CHARS_PER_TOKEN, ChatRequest
from svr_async.simulation.world import draw_bytes

THOUGHT_TOKENS = 400  # billed ahead of an answer where an effort is asked for; the thoughts are not told
CREATED = 1_750_000_000  # a fixed moment: replies do not depend on the clock


def count_tokens(text: str) -> int:
    """Return the size of a text in simulated tokens."""
    return -(-len(text) // CHARS_PER_TOKEN)


def completion(
    request: ChatRequest,
    texts: Sequence[str],
    *,
    fingerprint: str,
    attempt: int = 0,
    cached_tokens: int = 0,
    finish: str = "",
) -> dict[str, Any]:
    """Return the reply object for one text a choice; `finish` replaces the finish reason of all of them."""
    cut = [_cut(text, request.max_tokens) for text in texts]
    choices = [_choice(index, text, finish or reason) for index, (text, reason) in enumerate(cut)]
    thought = THOUGHT_TOKENS if request.effort else 0
    completion_tokens = sum(thought + count_tokens(text) for text, _ in cut)
    return {
        "id": f"chatcmpl-{draw_bytes(request.key, attempt).hex()[:24]}",
        "object": "chat.completion",
        "created": CREATED,
        "model": request.model,
        "choices": choices,
        "usage": {
            "prompt_tokens": request.prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": request.prompt_tokens + completion_tokens,
            "prompt_tokens_details": {"cached_tokens": cached_tokens},
            "completion_tokens_details": {"reasoning_tokens": thought * len(cut)},
        },
        "system_fingerprint": fingerprint,
    }


def _cut(text: str, max_tokens: int | None) -> tuple[str, str]:
    """Stop a text at the requested number of tokens; return it with its finish reason."""
    if max_tokens is None or count_tokens(text) <= max_tokens:
        return text, "stop"
    return text[: max_tokens * CHARS_PER_TOKEN], "length"


def _choice(index: int, text: str, finish: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
    if finish == "content_filter":
        message |= {"content": None, "refusal": "I cannot help with that."}
    return {"index": index, "message": message, "logprobs": None, "finish_reason": finish}
