"""The wires by name; each file is imported when its wire is asked for."""

from __future__ import annotations

from importlib import import_module

from svr_async.engine.wires.contract import Wire

USUAL = "openai"
NAMES = ("openai", "anthropic", "decisions", "systemone", "logprobs", "classify", "pooling", "score")
"""The files below `svr_async.engine.wires` that make a wire; a profile that names none is on the usual one."""


def find_wire(name: str) -> Wire:
    """Return the wire of one of these names."""
    wire: Wire = import_module(f"svr_async.engine.wires.{name}").WIRE
    return wire
