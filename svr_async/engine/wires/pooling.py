"""vLLM's `/pooling`: a conversation, and a reward model's raw output, of which the last number is the score."""

from __future__ import annotations

from svr_async.engine.wires.rewards import wire_of

WIRE = wire_of("pooling", "data")
