"""Rebuilds tables of the paper as Markdown, LaTeX, CSV and one page, or counts what that would ask."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from svr_async.core.files import open_folder, write_atomic
from svr_async.core.rubric import Rubric
from svr_async.core.table import to_markdown
from svr_async.errors import SvrError
from svr_async.evaluation.run import count_calls
from svr_async.evaluation.wording import dollars, duration, plural
from svr_async.reports.drawing import write_figures
from svr_async.reports.writers import WRITERS
from svr_async.reproduction import accuracy, bank
from svr_async.reproduction.page import figures_of, render_page
from svr_async.reproduction.paper import BankSpec, Printed, Recipe, RunSpec, load_printed, plan_of
from svr_async.reproduction.runner import Absent, ReproSettings, Runner, Say, is_trained, is_whole
from svr_async.reproduction.table import PaperTable, as_csv, as_text
from svr_async.scoring.bank import BankRubric, InferenceSettings, RubricBank
from svr_async.training.settings import TrainSettings

KINDS: Mapping[str, Callable[[Recipe, Printed, Runner], PaperTable]] = {
    "domains": partial(accuracy.accuracies, names=(*accuracy.DOMAINS, accuracy.OVERALL)),
    "overall": partial(accuracy.accuracies, names=(accuracy.OVERALL,)),
    "ablation": accuracy.ablation,
    "transfer": accuracy.transfer,
    "benches": accuracy.benches,
    "overlap": accuracy.overlap,
    "net": accuracy.net,
    "topk": accuracy.topk,
    "bank": bank.distribution,
    "examples": bank.examples,
    "dynamics": bank.dynamics,
    "cost": bank.cost,
}
NUMBERS = ("calls", "prompt_tokens", "completion_tokens", "max_completion_tokens", "usd", "max_usd", "seconds")
NOTHING: Mapping[str, float | None] = dict.fromkeys(NUMBERS, 0)
PLACEHOLDERS = 12  # rubrics: as many as a table asks for at most
LETTERS = 110  # of a usual rubric
Part = RunSpec | BankSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """The rebuilt tables, the page, and the calls of this process with their dollars, None if a price is unknown."""

    tables: tuple[PaperTable, ...]
    page: Path
    calls: int
    usd: float | None

    @property
    def absent(self) -> int:
        """How many rows lack a run."""
        return sum(bool(row.absent) for table in self.tables for row in table.rows)

    def as_json(self) -> dict[str, Any]:
        """Return the page, the tables' labels, and what was spent."""
        named = {"report": str(self.page), "tables": [table.recipe.label for table in self.tables]}
        return named | {"calls": self.calls, "usd": self.usd, "absent": self.absent}

    def in_words(self) -> str:
        """Return the same in a line."""
        rows = f"{plural(len(self.tables), 'table')}, {plural(self.absent, 'row')} absent"
        return f"{rows}, {self.calls:,} calls sent: {self.page}"


def build(recipe: Recipe, runner: Runner) -> PaperTable:
    """Build the table of a recipe from finished runs and banks."""
    return KINDS[recipe.kind](recipe, load_printed(), runner)


def reproduce(settings: ReproSettings, names: Sequence[str], say: Say) -> Reproduction:
    """Rebuild tables. A row that cannot be judged is absent, with the reason; everything judged is kept.

    The same runs give the same bytes of every file.
    """
    plan, out = plan_of(names), settings.out
    open_folder(out)
    runner = Runner(settings=settings, plan=plan, say=say)
    runner.make_all()
    tables = tuple(build(recipe, runner) for recipe in plan.tables)
    figures = tuple(figures_of(tables)) if settings.figures is not None else ()
    if settings.figures is not None:
        write_figures(settings.figures, figures)
    (out / "tables").mkdir(exist_ok=True)
    for table in tables:
        texts = {ending: write(as_text(table)) for ending, write in WRITERS.items()} | {"csv": as_csv(table)}
        for ending, text in texts.items():
            write_atomic(out / "tables" / f"{table.recipe.short}.{ending}", text.encode())
    write_atomic(out / "report.md", "\n".join(to_markdown(as_text(table)) for table in tables).encode())
    write_atomic(out / "report.html", render_page(tables, figures).encode())
    usd = None if runner.unpriced else runner.usd
    return Reproduction(tables=tables, page=out / "report.html", calls=runner.calls, usd=usd)


# --- a dry run --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """What a run, a training or a sum of them would ask; `absent` is the reason why a part cannot be made."""

    numbers: Mapping[str, float | None] = field(default_factory=lambda: NOTHING)
    assumed: tuple[str, ...] = ()
    absent: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {**self.numbers, "assumed": bool(self.assumed)} | ({"absent": self.absent} if self.absent else {})

    def describe(self, name: str) -> str:
        """Return a line of the dry run."""
        values = self.numbers
        about = "~" if self.assumed else " "
        cost = "price unknown" if values["usd"] is None else dollars(values["usd"])
        tokens = f"{values['prompt_tokens']:>13,} tokens in {values['completion_tokens']:>12,} out"
        return f"{name:<28}{about}{values['calls']:>9,} calls {tokens}  {cost:>14}  {duration(values['seconds'] or 0)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproCount:
    """The parts of a reproduction, each once, and the parts of each table by its label."""

    parts: Mapping[Part, Count]
    tables: Mapping[str, tuple[Part, ...]]

    def total(self, parts: Iterable[Part]) -> Count:
        """Return the sum of parts; dollars are None if those of a part with calls are unknown."""
        counts = [self.parts[part] for part in parts if self.parts[part].numbers["calls"]]
        columns = {name: [count.numbers[name] for count in counts] for name in NUMBERS}
        sums = {name: None if None in column else round(sum(column), 4) for name, column in columns.items()}  # type: ignore[arg-type]
        return Count(numbers=sums, assumed=tuple(dict.fromkeys(word for count in counts for word in count.assumed)))

    def as_json(self) -> dict[str, Any]:
        """Return the count by table, in all, and by run and training."""
        return {
            "tables": {label: self.total(parts).as_json() for label, parts in self.tables.items()},
            "total": self.total(self.parts).as_json(),
            "parts": {part.title: count.as_json() for part, count in self.parts.items()},
        }

    def in_words(self) -> str:
        """Return a line a table, the sum, the assumptions, and the tables that cannot be made."""
        total = self.total(self.parts)
        lines = [self.total(parts).describe(label) for label, parts in self.tables.items()]
        lines += [total.describe("in all, shared runs once"), "Nothing was sent."]
        lines += [f"~ {words}; exact once it is done" for words in total.assumed]
        absent: dict[str, list[str]] = {}
        for part, one in self.parts.items():
            absent.setdefault(one.absent, []).append(part.title)
        return "\n".join([*lines, *(f"absent: {', '.join(names)}: {why}" for why, names in absent.items() if why)])


def count(settings: ReproSettings, names: Sequence[str], say: Say) -> ReproCount:
    """Count what `reproduce` would ask. Nothing is sent or written.

    A question that several runs share is counted once. A bank that is still to be trained is replaced by a placeholder
    with as many rubrics of the usual length.
    """
    runner = Runner(settings=settings, plan=plan_of(names), say=say)
    plan, seen, parts = runner.plan, set[str](), dict[Part, Count]()
    with tempfile.TemporaryDirectory() as folder:
        banks: dict[str, Path | Absent] = {}
        for spec in plan.banks.values():
            parts[spec], banks[spec.name] = _count_bank(runner, spec, Path(folder) / spec.name, seen)
        for run in plan.runs:
            parts[run] = _count_run(runner, run, banks, seen)
    of_table: dict[str, tuple[Part, ...]] = {
        table.label: (*(plan.banks[name] for name in table.needed_banks), *table.runs) for table in plan.tables
    }
    return ReproCount(parts=parts, tables=of_table)


def _count_bank(runner: Runner, spec: BankSpec, placeholder: Path, seen: set[str]) -> tuple[Count, Path | Absent]:
    """Return the calls of a bank's training, and the bank's folder or that of its placeholder."""
    from svr_async.training.rounds.dry_run import ASSUMPTIONS, count_rounds
    from svr_async.training.train import count_training

    try:
        wanted = runner.training_of(spec)
        if isinstance(wanted, Absent):
            return Count(absent=wanted.why), wanted
        if not isinstance(wanted, TrainSettings):
            return Count(), wanted
        if is_trained(wanted):
            return Count(), wanted.out / "bank"
        _placeholder(spec.name).save(placeholder)
        numbers = count_training(wanted, count_rounds, before=seen) or {}
    except SvrError as error:
        return Count(absent=error.one_line()), Absent(why=error.one_line())
    assumed = (f"trainings: {ASSUMPTIONS}",)
    return Count(numbers={name: numbers.get(name, 0) for name in NUMBERS}, assumed=assumed), placeholder


def _placeholder(name: str) -> RubricBank:
    texts = [f"Planned rubric {number} of the bank {name} ".ljust(LETTERS, "…") for number in range(PLACEHOLDERS)]
    rubrics = tuple(BankRubric(rubric=Rubric(text=text)) for text in texts)
    return RubricBank(rubrics=rubrics, name=name, inference=InferenceSettings())


def _count_run(runner: Runner, spec: RunSpec, banks: Mapping[str, Path | Absent], seen: set[str]) -> Count:
    try:
        prepared = runner.evaluation_of(spec, banks)
        if isinstance(prepared, Absent):
            return Count(absent=prepared.why)
        counted = None if is_whole(prepared) else count_calls(prepared, seen)
    except SvrError as error:
        return Count(absent=error.one_line())
    if counted is None:
        return Count()
    assumed = (f"with --method {spec.method}, assumed: {counted['assumes']}",) if counted.get("assumes") else ()
    return Count(numbers={name: counted[name] for name in NUMBERS}, assumed=assumed)
