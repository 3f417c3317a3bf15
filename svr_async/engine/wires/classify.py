"""vLLM's `/classify`: a conversation, and the score that a reward model's head gives it."""

from __future__ import annotations

from svr_async.engine.wires.rewards import wire_of

WIRE = wire_of("classify", "probs")
