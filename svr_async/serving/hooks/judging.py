"""Settings and judges of hooks.

Settings are environment variables, which also reach the processes that a trainer starts. Each process has one engine
for each settings, whatever its event loops and threads.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from svr_async.core.verdict import Outcome
from svr_async.engine.concurrency import run_on_own_loop
from svr_async.engine.money import Budget
from svr_async.errors import ConfigError, EndpointDownError, UsageError
from svr_async.judges.limits import JudgeLimits
from svr_async.scoring.bank import RubricBank
from svr_async.serving.engine import Engine
from svr_async.serving.pairs import PairVerdict, Shown, ascore_pair
from svr_async.serving.ranking import How, Schedule
from svr_async.serving.scores import ascore

T = TypeVar("T")
TIE = 0.5
PREFIX = "SVR_HOOK_"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSettings:
    """How a hook judges; each field is also a variable: `judge` is SVR_HOOK_JUDGE.

    `judge` and `bank` are named as on the command line; `method`, `schedule`, `order` and `top_k` are those of `rank`;
    `cache`, `base_url`, `concurrency`, `budget`, `max_calls`, `timeout_s` and `give_up_after_s` those of `Engine`.
    `group` is the number of consecutive completions of one prompt. With `on_failure="none"` a judge that is down gives
    no reward, with raise it ends the training; a refused key, a spent budget and an invalid setting always end it.
    `server` and `token` are the address of a `svr serve`; `fallback` is the score for trainers that take no None.
    """

    judge: str = ""
    bank: str = ""
    method: How = "auto"
    schedule: Schedule = "all"
    order: Shown = "hash"
    top_k: int | None = None
    group: Annotated[int, msgspec.Meta(ge=2)] | None = None
    on_failure: Literal["none", "raise"] = "none"
    fallback: float = 0.0
    cache: str | None = None
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


NAMES = tuple(field.name for field in fields(HookSettings))


def read_settings(values: Mapping[str, Any]) -> HookSettings:
    """Return settings from plain values, also texts; ConfigError names an unknown or invalid one."""
    if unknown := [name for name in values if name not in NAMES]:
        raise ConfigError(f"unknown setting {PREFIX}{unknown[0].upper()}", hint=f"one of {', '.join(NAMES)}")
    try:
        return msgspec.convert(dict(values), HookSettings, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"invalid setting {PREFIX}…: {error}", hint="see docs/hooks.md") from error


def current() -> HookSettings:
    """Return the settings of the environment."""
    named = {name[len(PREFIX) :].lower(): text for name, text in os.environ.items() if name.startswith(PREFIX)}
    return read_settings({name: text for name, text in named.items() if text})


def configure(**settings: Any) -> HookSettings:
    """Set how hooks judge, in this process and in those that it starts; None unsets a setting."""
    texts = {name: "" if value is None else str(value) for name, value in settings.items()}
    read_settings({name: text for name, text in texts.items() if text})
    os.environ.update({PREFIX + name.upper(): text for name, text in texts.items()})
    return current()


def settings_with(given: Mapping[str, Any]) -> HookSettings:
    """Return the settings of the environment, with those of a tool's own configuration over them."""
    own = {name: value for name, value in given.items() if name in NAMES and value is not None}
    return read_settings({**asdict(current()), **own})


_ENGINES: dict[tuple[int, HookSettings], Engine] = {}  # by process: a forked child inherits its parent's memory
_BUDGETS: dict[tuple[int, HookSettings], Budget] = {}  # what an engine has spent counts for its successor


async def with_engine(settings: HookSettings, ask: Callable[[Engine, RubricBank | None], Awaitable[T]]) -> T:
    """Ask with the engine and bank of the settings, from any event loop; both stay open until the process ends.

    After EndpointDownError the next call opens a new engine within the same caps. ConfigError without a judge.
    """
    if not settings.judge:
        raise ConfigError("no judge is set", hint=f"set {PREFIX}JUDGE, or call configure(judge=…)")

    async def asked() -> T:
        engine = await _engine(settings)
        try:
            return await ask(engine, bank_of(settings.bank))
        except EndpointDownError:
            if _ENGINES.pop((os.getpid(), settings), None) is engine:
                await engine.close()
            raise

    return await run_on_own_loop(asked())


async def _engine(settings: HookSettings) -> Engine:
    key = os.getpid(), settings
    if key not in _ENGINES:
        limits = JudgeLimits.from_flags(asdict(settings))
        budget = _BUDGETS.setdefault(key, limits.new_budget())
        engine = Engine.limited(settings.judge, limits, base_url=settings.base_url, budget=budget)
        _ENGINES[key] = await engine.open()
    return _ENGINES[key]


@lru_cache(maxsize=8)
def bank_of(name: str) -> RubricBank | None:
    """Return a bank by its folder or hub name, loaded once a process; None without a name."""
    return RubricBank.load(name) if name else None


async def close_engines() -> None:
    """Close the engines of this process; a process that ends without it loses no reply."""

    async def close() -> None:
        for key in [key for key in _ENGINES if key[0] == os.getpid()]:
            await _ENGINES.pop(key).close()

    await run_on_own_loop(close())


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The result for one response.

    `value` is its score in [0, 1], with a reference 1 if better, 0.5 for a tie, 0 if worse, and with rubrics
    Σ points · satisfied; None without a verdict: `outcome` and `detail` say why. `margin` is that over the reference.
    `parts` are scores or contributions by rubric; `coverage` is the share of decided rubrics.
    """

    value: float | None
    outcome: Outcome
    judge: str
    margin: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    coverage: float = 0.0
    detail: str = ""


async def judge_alone(
    settings: HookSettings, prompt: Any, response: Any, reference: Any = None, rubrics: Iterable[Any] = ()
) -> Judged:
    """Judge a response by rubrics with points, compared with a reference, or else by the bank."""
    rubrics = tuple(rubrics)

    async def ask(engine: Engine, bank: RubricBank | None) -> Judged:
        if reference is not None and not rubrics:
            top_k = settings.top_k if bank is not None else None
            how: dict[str, Any] = {"bank": bank, "engine": engine, "order": settings.order, "top_k": top_k}
            return _of_verdict(await ascore_pair(prompt, response, reference, **how))
        if bank is None and not rubrics:
            raise UsageError("a response alone needs a bank", hint=f"set {PREFIX}BANK, or give rubrics or a reference")
        score = await ascore(prompt, response, bank=bank, rubrics=rubrics, engine=engine, top_k=settings.top_k)
        parts = {part.rubric.text: part.value for part in score.parts if part.value is not None}
        facts: dict[str, Any] = {"outcome": score.outcome, "judge": score.judge, "detail": score.detail}
        return Judged(value=score.value, parts=parts, coverage=score.coverage, **facts)

    return await with_engine(settings, ask)


def _of_verdict(verdict: PairVerdict) -> Judged:
    decided = [part for part in verdict.contributions if part.delta is not None]
    return Judged(
        value=None if verdict.margin is None else TIE if verdict.margin == 0 else float(verdict.margin > 0),
        outcome=verdict.outcome,
        judge=verdict.judge,
        margin=verdict.margin,
        parts={part.rubric.text: part.value for part in decided},
        coverage=len(decided) / max(1, len(verdict.contributions)),
        detail=verdict.detail,
    )
