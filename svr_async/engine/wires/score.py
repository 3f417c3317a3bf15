"""vLLM's `/score`: a prompt and a response as two texts, and how well they go together."""

from __future__ import annotations

from typing import Any

from svr_async.engine.wires.contract import Asked
from svr_async.engine.wires.rewards import named, wire_of


def body(asked: Asked) -> dict[str, Any]:
    """Return the JSON body of the POST: the response is the last turn, the prompt all those before it."""
    *turns, (_, response) = asked.messages
    lone = len(turns) == 1 and turns[0][0] == "user"
    prompt = turns[0][1] if lone else "\n\n".join(f"{role}: {text}" for role, text in turns)
    return named(asked) | {"text_1": prompt, "text_2": response}


WIRE = wire_of("score", "score", body)
