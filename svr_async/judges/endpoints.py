"""Known endpoints: what a provider's name stands for, so that any of its models can be named without a profile."""

from __future__ import annotations

import difflib
import os
import tomllib
from functools import cache
from importlib import resources
from typing import Any

from svr_async.errors import ConfigError

OPENAI_KEY = "OPENAI_API_KEY"


@cache
def known_endpoints() -> dict[str, dict[str, str]]:
    """Return base URL, key variable and wire of each known endpoint, by its name."""
    return tomllib.loads(resources.files("svr_async.judges").joinpath("endpoints.toml").read_text("utf-8"))


def settings_of(name: Any) -> dict[str, Any]:
    """Return the settings that a profile on a known endpoint begins with; ConfigError for one that is not known."""
    known = known_endpoints()
    if name not in known:
        near = difflib.get_close_matches(str(name), known, 1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}; others are named by base_url"
        raise ConfigError(f"there is no endpoint {name!r}", hint=hint)
    return dict(known[name])


def split_name(spec: str) -> tuple[str, str] | None:
    """Return endpoint and model of `ENDPOINT:MODEL`; None for a name that is not written so."""
    name, mark, model = spec.partition(":")
    return (name, model) if mark and model and name in known_endpoints() else None


def key_variable(base_url: str) -> str:
    """Return the variable for the key of an address: that of the known endpoint there, where it is set."""
    there = [
        one["key_env"] for one in known_endpoints().values() if one["base_url"].rstrip("/") == base_url.rstrip("/")
    ]
    return next((name for name in there if os.environ.get(name)), OPENAI_KEY)
