"""What a reproduction would ask, by table and in all: calls, tokens, dollars and hours, sending nothing.

A question that several runs ask is counted once, with the first of them. A bank that is not trained yet is stood in for
by as many rubrics of the usual length; what its training will ask is assumed as in `svr train --dry-run`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from svr_async.core.rubric import Rubric
from svr_async.errors import SvrError
from svr_async.evaluation.run import count_calls
from svr_async.evaluation.wording import dollars, duration
from svr_async.reproduction.plan import Plan, plan_of
from svr_async.reproduction.recipe import BankSpec, Recipe, RunSpec, chosen, load_recipes
from svr_async.reproduction.results import Absent
from svr_async.reproduction.running import Say, Work, evaluation_of, open_work, trained, training_of, whole
from svr_async.reproduction.settings import ReproSettings
from svr_async.reproduction.training_count import count_training
from svr_async.scoring.bank import BankRubric, InferenceSettings, RubricBank
from svr_async.training.rounds.planned import ASSUMED, plan_rounds
from svr_async.training.running.settings import TrainSettings

NOTHING: Mapping[str, Any] = {"calls": 0, "prompt_tokens": 0, "completion_tokens": 0, "usd": 0.0, "seconds": 0.0}
STAND_INS = 12  # rubrics of a stand-in for a bank: as many as a table asks for at most


@dataclass(frozen=True, slots=True, kw_only=True)
class PartCount:
    """What one run or one training would ask; `assumed` says what, where it depends on replies; `absent` why not."""

    name: str
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float | None = 0.0
    seconds: float = 0.0
    assumed: tuple[str, ...] = ()
    absent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproCount:
    """The parts of a reproduction, each once, and which of them each table needs."""

    parts: Mapping[RunSpec | BankSpec, PartCount]
    tables: Mapping[str, tuple[RunSpec | BankSpec, ...]]

    def total(self, parts: Iterable[RunSpec | BankSpec]) -> PartCount:
        """Return the sum of parts; dollars are unknown where those of one that asks are."""
        held = [self.parts[part] for part in parts]
        paid = [one.usd for one in held if one.calls]
        return PartCount(
            name="",
            calls=sum(one.calls for one in held),
            tokens_in=sum(one.tokens_in for one in held),
            tokens_out=sum(one.tokens_out for one in held),
            usd=None if None in paid else sum(usd or 0.0 for usd in paid),
            seconds=sum(one.seconds for one in held),
            assumed=tuple(dict.fromkeys(word for one in held if one.calls for word in one.assumed)),
        )

    def as_json(self) -> dict[str, Any]:
        """Return what is named, by table, in all, and by run and training."""
        everything = self.total(self.parts)
        return {
            "tables": {label: _plain(self.total(parts)) for label, parts in self.tables.items()},
            "total": _plain(everything),
            "parts": {one.name: _plain(one) for one in self.parts.values()},
        }


def _plain(count: PartCount) -> dict[str, Any]:
    plain = {
        "calls": count.calls,
        "prompt_tokens": count.tokens_in,
        "completion_tokens": count.tokens_out,
        "usd": count.usd,
        "seconds": round(count.seconds, 1),
        "assumed": bool(count.assumed),
    }
    return plain | ({"absent": count.absent} if count.absent else {})


def count_reproduction(settings: ReproSettings, names: Sequence[str], say: Say) -> ReproCount:
    """Count what tables would ask; nothing is sent but a request for the list of models, and nothing is written."""
    recipes = load_recipes(settings.recipes)
    plan = plan_of(recipes, chosen(recipes, names))
    work, seen = open_work(settings, plan, say), set[str]()
    parts: dict[RunSpec | BankSpec, PartCount] = {}
    with tempfile.TemporaryDirectory() as stand_ins:
        banks: dict[str, Path] = {}
        for bank in plan.banks:
            parts[bank], banks[bank.name] = _bank(work, bank, Path(stand_ins), seen)
        for run in plan.runs:
            lack = parts[recipes.banks[run.bank]].absent if run.bank else ""
            parts[run] = PartCount(name=run.name, absent=lack) if lack else _run(work, run, banks, seen)
    return ReproCount(parts=parts, tables={table.label: _needed(table, plan) for table in plan.tables})


def _needed(table: Recipe, plan: Plan) -> tuple[RunSpec | BankSpec, ...]:
    return (*(bank for bank in plan.banks if bank.name in table.needed_banks), *table.runs)


def _bank(work: Work, spec: BankSpec, stand_ins: Path, seen: set[str]) -> tuple[PartCount, Path]:
    """Return what the training of a bank asks, and the bank's folder, or that of what stands in for it."""
    name, stand_in = f"train {spec.name}", stand_ins / spec.name
    try:
        asked = training_of(work, spec)
        if isinstance(asked, Absent):
            return PartCount(name=name, absent=asked.why), stand_in
        if not isinstance(asked, TrainSettings):
            return PartCount(name=name), asked
        if trained(asked):
            return PartCount(name=name), asked.out / "bank"
        _stand_in(spec.name).save(stand_in)
        count = count_training(asked, plan_rounds, ASSUMED, before=seen)
    except SvrError as error:
        return PartCount(name=name, absent=error.one_line()), stand_in
    return _counted(name, count, f"with trainings, of which is {ASSUMED.in_words()}"), stand_in


def _stand_in(name: str) -> RubricBank:
    """Return a bank of rubrics that nobody wrote, of the usual length, for counting."""
    texts = [f"Planned rubric {number} of the bank {name} ".ljust(ASSUMED.letters, "…") for number in range(STAND_INS)]
    rubrics = tuple(BankRubric(rubric=Rubric(text=text)) for text in texts)
    return RubricBank(rubrics=rubrics, name=name, inference=InferenceSettings())


def _run(work: Work, spec: RunSpec, banks: Mapping[str, Path], seen: set[str]) -> PartCount:
    try:
        prepared = evaluation_of(work, spec, dict(banks))
        if isinstance(prepared, Absent):
            return PartCount(name=spec.name, absent=prepared.why)
        if whole(prepared):
            return PartCount(name=spec.name)
        limits = replace(prepared.settings.limits, dry_run=True)
        prepared = replace(prepared, settings=replace(prepared.settings, limits=limits))
        return _counted(spec.name, count_calls(prepared, seen))
    except SvrError as error:
        return PartCount(name=spec.name, absent=error.one_line())


def _counted(name: str, count: Mapping[str, Any] | None, training: str = "") -> PartCount:
    held = count or NOTHING
    method = f"with --method rrd, of which is assumed: {held['assumes']}" if held.get("assumes") else ""
    return PartCount(
        name=name,
        calls=held["calls"],
        tokens_in=held["prompt_tokens"],
        tokens_out=held["completion_tokens"],
        usd=held["usd"],
        seconds=held["seconds"],
        assumed=tuple(filter(None, (training, method))),
    )


def describe_reproduction(found: ReproCount) -> str:
    """Return the count in words: a line a table, the sum, what is assumed, and what will be absent."""
    lines = [_line(label, found.total(parts)) for label, parts in found.tables.items()]
    lines += [_line("in all, shared runs once", found.total(found.parts)), "Nothing was sent."]
    lines += [f"~ {words}; exact once it is done" for words in found.total(found.parts).assumed]
    absent = {one.name: one.absent for one in found.parts.values() if one.absent}
    return "\n".join([*lines, *(f"absent: {name}: {why}" for name, why in absent.items())])


def _line(name: str, count: PartCount) -> str:
    about, cost = "~" if count.assumed else " ", "price unknown" if count.usd is None else dollars(count.usd)
    tokens = f"{count.tokens_in:>13,} tokens in {count.tokens_out:>12,} out"
    return f"{name:<28}{about}{count.calls:>9,} calls {tokens}  {cost:>14}  {duration(count.seconds)}"
