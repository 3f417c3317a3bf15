"""One response judged for a tool that looks at it alone: by a bank's rubrics, or side by side with a reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from svr_async.core.verdict import Outcome
from svr_async.errors import UsageError
from svr_async.hooks.held import asked
from svr_async.hooks.settings import PREFIX, HookSettings, current
from svr_async.scoring.bank import RubricBank
from svr_async.serving.engine import Engine
from svr_async.serving.pairs import score_pair
from svr_async.serving.scores import score

TIE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What a judge made of a response.

    `value` in [0, 1] is its score by a bank, or beside a reference 1 where it is better, 0 where it is worse and 0.5
    for a tie; None where there is no verdict, and `outcome` and `detail` say why. `margin` is that over the reference.
    `parts` are the rubrics by their texts: scores in [0, 1], or what each added to the margin. `coverage` is the share
    of rubrics that the judge could decide; `judge` is how the result must be labelled.
    """

    value: float | None
    outcome: Outcome
    judge: str
    margin: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    coverage: float = 0.0
    detail: str = ""


def settings_with(given: Mapping[str, Any]) -> HookSettings:
    """Return the settings of the environment, over them those that a tool's own configuration names."""
    names = {one.name for one in fields(HookSettings)}
    return replace(current(), **{name: value for name, value in given.items() if name in names and value is not None})


async def judge_alone(settings: HookSettings, prompt: Any, response: Any, reference: Any = None) -> Judged:
    """Judge a response to a prompt: beside a reference, or where there is none by the bank's rubrics alone.

    UsageError without a bank and a reference; what stops an engine is raised.
    """

    async def ask(engine: Engine, bank: RubricBank | None) -> Judged:
        if reference is not None:
            return await _beside(settings, engine, bank, prompt, response, reference)
        if bank is None:
            raise UsageError("a response alone is scored by a bank", hint=f"set {PREFIX}BANK, or give a reference")
        return await _by_bank(settings, engine, bank, prompt, response)

    return await asked(settings, ask)


async def _by_bank(settings: HookSettings, engine: Engine, bank: RubricBank, prompt: Any, response: Any) -> Judged:
    found = await score(prompt, response, bank=bank, engine=engine, top_k=settings.top_k)
    parts = {part.rubric.text: part.value for part in found.parts if part.value is not None}
    return Judged(
        value=found.value,
        outcome=found.outcome,
        judge=found.judge,
        parts=parts,
        coverage=len(parts) / max(1, len(found.parts)),
        detail=found.detail,
    )


async def _beside(
    settings: HookSettings, engine: Engine, bank: RubricBank | None, prompt: Any, response: Any, reference: Any
) -> Judged:
    found = await score_pair(
        prompt,
        response,
        reference,
        bank=bank,
        engine=engine,
        order=settings.order,
        top_k=settings.top_k if bank is not None else None,
    )
    decided = [part for part in found.contributions if part.delta is not None]
    return Judged(
        value=None if found.margin is None else TIE if found.margin == 0 else float(found.margin > 0),
        outcome=found.outcome,
        judge=found.judge,
        margin=found.margin,
        parts={part.rubric.text: part.value for part in decided},
        coverage=len(decided) / max(1, len(found.contributions)),
        detail=found.detail,
    )
