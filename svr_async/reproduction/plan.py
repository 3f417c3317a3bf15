"""What tables need, each once: banks to train and runs to make, and the settings of both."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from svr_async.evaluation.settings import EvalSettings
from svr_async.judges.limits import JudgeLimits
from svr_async.judges.open_judge import JudgeSpec
from svr_async.reproduction.recipe import ROLE, BankSpec, Recipe, Recipes, Role, RunSpec
from svr_async.reproduction.settings import TRAIN, ReproSettings
from svr_async.training.running.settings import TrainSettings

DIGEST = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The tables that are asked for, and what they need: banks, runs, roles of judges, in the order of the tables."""

    tables: tuple[Recipe, ...]
    banks: tuple[BankSpec, ...]
    runs: tuple[RunSpec, ...]
    roles: tuple[Role, ...]


def plan_of(recipes: Recipes, tables: Sequence[Recipe]) -> Plan:
    """Return what tables need; a run or a bank that several share is named once."""
    runs = tuple(dict.fromkeys(run for table in tables for run in table.runs))
    banks = [recipes.banks[name] for name in dict.fromkeys(bank for table in tables for bank in table.needed_banks)]
    roles = dict.fromkeys([*(bank.judge for bank in banks), *(role for run in runs for role in run.roles)])
    return Plan(tables=tuple(tables), banks=tuple(banks), runs=runs, roles=tuple(recipes.roles[role] for role in roles))


def train_settings(
    settings: ReproSettings, spec: BankSpec, judge: str, data_digest: str, limits: JudgeLimits
) -> TrainSettings:
    """Return the training of a bank, in a folder that is named after all that it is made of."""
    made: dict[str, Any] = {
        "adapter": settings.adapter,
        "judge": judge,
        "base_url": settings.base_url,
        "preset": settings.preset,
        "rounds": settings.rounds,
        "ablate": spec.ablate,
        "limit": settings.train_limit,
        "decontaminate": tuple(f"{name}={path}" for name, path in evaluated(settings)),
    }
    name = f"{spec.name}-{_digest({**made, 'data': data_digest})}"
    return TrainSettings(pairs=settings.data[TRAIN], out=settings.out / "banks" / name, limits=limits, **made)


def evaluated(settings: ReproSettings) -> list[tuple[str, Path]]:
    """Return the files that training pairs must not overlap with; none by default."""
    if not settings.decontaminate and settings.preset != "paper":
        return []
    return sorted((name, path) for name, path in settings.data.items() if name != TRAIN)


def eval_settings(
    settings: ReproSettings, spec: RunSpec, judges: Mapping[str, str], banks: Mapping[str, Path], limits: JudgeLimits
) -> EvalSettings:
    """Return the evaluation of a run, without a folder yet; `judges` are by role."""
    option = tuple(ROLE.sub(lambda found: addressed(judges[found[1]], settings), text) for text in spec.option)
    return EvalSettings(
        benchmark=spec.benchmark,
        judge=judges[spec.judge],
        base_url=settings.base_url,
        limits=limits,
        method=spec.method,
        bank=str(banks[spec.bank]) if spec.bank else None,
        top_k=spec.top_k,
        data=settings.data.get(spec.benchmark),
        limit=settings.limit,
        domain=spec.domain,
        option=option,
        preset=settings.preset,
    )


def addressed(judge: str, settings: ReproSettings) -> str:
    """Return a judge as an option names it: with its address, where a base URL goes over the profile's."""
    profile = JudgeSpec.parse(judge, base_url=settings.base_url).profile if settings.base_url else None
    return judge if profile is None or "://" in judge else f"{profile.base_url}#{profile.model}"


def _digest(value: Mapping[str, Any]) -> str:
    data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS, default=str)
    return hashlib.sha256(data).hexdigest()[:DIGEST]
