"""The settings that a reasoning model refuses, one at a time, in the words of the endpoints that serve such models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svr_async.simulation.refusals import ApiError

DECODING = ("temperature", "top_p")


def refuse_settings(body: Mapping[str, Any]) -> None:
    """Raise the 400 of OpenAI's reasoning models for the first setting that they do not take."""
    if body.get("max_tokens") is not None:
        message = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        )
        raise ApiError.no_setting("max_tokens", message, "unsupported_parameter")
    for name in DECODING:
        value = body.get(name)
        if value not in (None, 1):
            message = (
                f"Unsupported value: '{name}' does not support {value} with this model. "
                "Only the default (1) value is supported."
            )
            raise ApiError.no_setting(name, message, "unsupported_value")
