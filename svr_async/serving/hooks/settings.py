"""How hooks judge: environment variables, which also reach the processes that a trainer starts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import msgspec

from svr_async.errors import ConfigError
from svr_async.serving.pairs import Shown
from svr_async.serving.ranking import How, Schedule

PREFIX = "SVR_HOOK_"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSettings:
    """How a hook judges; each field is also a variable: `judge` is SVR_HOOK_JUDGE.

    `judge` and `bank` are named as on the command line; `method`, `schedule`, `order` and `top_k` are those of `rank`;
    `cache`, `base_url`, `concurrency`, `budget`, `max_calls`, `timeout_s` and `give_up_after_s` those of `Engine`.
    `group` is the number of consecutive completions of one prompt. With `on_failure` none a judge that is down gives no
    reward, with raise it ends the training; a refused key, a spent budget and an invalid setting always end it.
    `server` and `token` are the address of a `svr serve`; `fallback` is the score for trainers that take no None.
    """

    judge: str = ""
    bank: str = ""
    method: How = "auto"
    schedule: Schedule = "all"
    order: Shown = "hash"
    top_k: int | None = None
    group: int | None = None
    on_failure: Literal["none", "raise"] = "none"
    fallback: float = 0.0
    cache: str = ""
    base_url: str = ""
    concurrency: int | None = None
    budget: float | None = None
    max_calls: int | None = None
    timeout_s: float = 600.0
    give_up_after_s: float = 300.0
    server: str = ""
    token: str = ""

    def __repr__(self) -> str:  # without the token
        return f"<HookSettings {self.judge or 'no judge'}{f', bank {self.bank}' if self.bank else ''}>"


NAMES = tuple(one.name for one in fields(HookSettings))


def read_settings(values: Mapping[str, Any]) -> HookSettings:
    """Return settings from plain values, also texts; ConfigError names an unknown or invalid one."""
    if unknown := [name for name in values if name not in NAMES]:
        raise ConfigError(f"unknown setting {PREFIX}{unknown[0].upper()}", hint=f"one of {', '.join(NAMES)}")
    try:
        found = msgspec.convert(dict(values), HookSettings, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"invalid setting {PREFIX}…: {error}", hint="see docs/hooks.md") from error
    if found.group is not None and found.group < 2:
        raise ConfigError(f"{PREFIX}GROUP must be at least 2 (got {found.group})", hint="the trainer's num_generations")
    return found


def current(environ: Mapping[str, str] = os.environ) -> HookSettings:
    """Return the settings of the environment."""
    named = {key.removeprefix(PREFIX).lower(): text for key, text in environ.items() if key.startswith(PREFIX) and text}
    return read_settings(named)


def configure(**settings: Any) -> HookSettings:
    """Set how hooks judge, in this process and in those that it starts; None unsets a setting."""
    read_settings({name: str(value) for name, value in settings.items() if value is not None})
    for name, value in settings.items():
        if value is None:
            os.environ.pop(PREFIX + name.upper(), None)
        else:
            os.environ[PREFIX + name.upper()] = str(value)
    return current()


def settings_with(given: Mapping[str, Any]) -> HookSettings:
    """Return the settings of the environment, with those of a tool's own configuration over them."""
    return replace(current(), **{name: value for name, value in given.items() if name in NAMES and value is not None})
