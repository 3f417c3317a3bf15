"""How a hook judges: variables of the environment, which also reach the processes that a trainer starts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from svr_async.errors import ConfigError
from svr_async.serving.pairs import Shown
from svr_async.serving.ranking import How
from svr_async.serving.schedules import Schedule

PREFIX = "SVR_HOOK_"
OnFailure = Literal["none", "raise"]
CHOICES: dict[str, tuple[str, ...]] = {
    "method": get_args(How),
    "schedule": get_args(Schedule),
    "order": get_args(Shown),
    "on_failure": get_args(OnFailure),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSettings:
    """How a hook judges; each field is also a variable, `judge` SVR_HOOK_JUDGE.

    `judge` and `bank` are named as on the command line; `method`, `schedule`, `order` and `top_k` are `rank`'s, of a
    group; `cache`, `base_url`, `concurrency`, `budget` (USD), `max_calls`, `timeout_s` and `give_up_after_s` are those
    of `Engine`. `group` is how many completions of a prompt come in a row, where equal prompts should not tell.
    With `on_failure` none a judge that is down gives no reward, with raise it ends the training; a key that is refused,
    a budget that is spent and a setting that is wrong always end it. `server` is the address of a `svr serve`, for
    hooks that can ask one; `fallback` is the score where a trainer takes no None, which its reply then marks.
    """

    judge: str = ""
    bank: str = ""
    method: How = "auto"
    schedule: Schedule = "all"
    order: Shown = "hash"
    top_k: int | None = None
    group: int | None = None
    on_failure: OnFailure = "none"
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

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise ConfigError(
                    f"{PREFIX}{name.upper()} is {getattr(self, name)!r}", hint=f"one of {', '.join(choices)}"
                )
        if self.group is not None and self.group < 2:
            raise ConfigError(f"{PREFIX}GROUP is {self.group}", hint="2 or more: the trainer's num_generations")

    def __repr__(self) -> str:
        return f"<HookSettings {self.judge or 'no judge'}{f', bank {self.bank}' if self.bank else ''}>"


WHOLE = ("top_k", "group", "concurrency", "max_calls")
NUMBERS = ("fallback", "budget", "timeout_s", "give_up_after_s")
KINDS: dict[str, type] = {
    one.name: int if one.name in WHOLE else float if one.name in NUMBERS else str for one in fields(HookSettings)
}


def configure(**settings: Any) -> HookSettings:
    """Set how hooks judge from now on, in this process and in those that it starts; None takes a setting back.

    ConfigError for a name that there is not, or a value that does not fit.
    """
    for name, value in settings.items():
        _check_name(name)
        if value is None:
            os.environ.pop(PREFIX + name.upper(), None)
        else:
            os.environ[PREFIX + name.upper()] = str(value)
    return current()


def current(environ: Mapping[str, str] | None = None) -> HookSettings:
    """Return the settings of the environment; ConfigError names a variable that is none, or does not fit."""
    found: dict[str, Any] = {}
    for variable, text in (os.environ if environ is None else environ).items():
        if variable.startswith(PREFIX) and text:
            name = variable.removeprefix(PREFIX).lower()
            _check_name(name)
            found[name] = _read(name, text)
    return HookSettings(**found)


def _check_name(name: str) -> None:
    if name not in KINDS:
        raise ConfigError(f"there is no {PREFIX}{name.upper()}", hint=f"one of {', '.join(KINDS)}")


def _read(name: str, text: str) -> Any:
    try:
        return KINDS[name](text)
    except ValueError as error:
        raise ConfigError(f"{PREFIX}{name.upper()} is {text!r}", hint="give a number") from error
