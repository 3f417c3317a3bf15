"""The bank by domain, its heaviest rubrics, and its training round by round.

A rubric belongs to the domain of RubricBench's pairs that activates it most: the one with more than half of its rate,
the rate being the share of a domain's pairs that it was chosen for. A rubric without such a domain is generic.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import fsum

from svr_async.core.integrity import integrity_marks
from svr_async.evaluation.run_folder import Run
from svr_async.reproduction.printed import Printed, PrintedTable
from svr_async.reproduction.recipes import Recipe
from svr_async.reproduction.runner import Absent, Runner, TrainedBank
from svr_async.reproduction.table import EMPTY, Cell, Column, PaperTable, Row
from svr_async.reproduction.tables.accuracy import DOMAINS, judged, runs_of, table_of
from svr_async.scoring.bank import BankRubric, RoundFacts

GENERIC, IDLE, TOTAL = "Generic", "Never chosen", "Total"
SEVERITIES = ("critical", "major", "minor")
EXAMPLES = 3
ROUNDS = 3
RULE = (
    "A rubric belongs to the group of RubricBench's pairs that has more than half of its rate (the share of the "
    "group's pairs that it was chosen for), and is generic if no group has."
)
DYNAMICS = (
    Column(name="Train margin", unit="number"), Column(name="Dev margin", unit="number"),
    Column(name="Train − dev", unit="number"), Column(name="Dev accuracy"),
    Column(name="Hard negatives", unit="count"), Column(name="Active rubrics", unit="count"),
    Column(name="Bank", unit="count"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Activations:
    """How often each rubric of a bank was chosen in a run, by id, and the domain that follows from it."""

    counts: Mapping[str, int]
    domains: Mapping[str, str]

    def domain(self, rubric: BankRubric) -> str:
        """Return the domain of a rubric; `IDLE` if it was never chosen."""
        return self.domains.get(rubric.id, IDLE)


def activations_of(run: Run) -> Activations:
    """Count the choices of each rubric over the pairs of a run; a pair judged in both orders counts once."""
    counts: Counter[str] = Counter()
    by_domain: dict[str, Counter[str]] = defaultdict(Counter)
    sizes = Counter(item.domain for item in run.items)
    for item in run.items:
        for rubric in dict.fromkeys(row.id for row in item.rubrics):
            counts[rubric] += 1
            by_domain[rubric][item.domain] += 1
    names = {group: name for name, group in DOMAINS.items()}
    domains = {rubric: _domain(found, sizes, names) for rubric, found in by_domain.items()}
    return Activations(counts=counts, domains=domains)


def _domain(found: Mapping[str, int], sizes: Mapping[str, int], names: Mapping[str, str]) -> str:
    rates = {group: n / sizes[group] for group, n in found.items()}
    group, highest = max(rates.items(), key=lambda entry: (entry[1], entry[0]))
    return names.get(group, group) if highest > fsum(rates.values()) / 2 else GENERIC


def _bank_and_run(recipe: Recipe, runner: Runner) -> tuple[TrainedBank, Run] | Absent:
    """Return the bank of a recipe and the run that chose from it, or why one is absent."""
    bank, (run,) = runner.bank(recipe.banks[0]), runs_of(recipe, runner)
    if isinstance(bank, Absent):
        return bank
    return run if isinstance(run, Absent) else (bank, run)


def distribution(recipe: Recipe, printed: Printed, runner: Runner) -> PaperTable:
    """Return a row a domain: rubrics, their share, severities, activations over the run's pairs, supports."""
    own, found = printed.table(recipe.label), _bank_and_run(recipe, runner)
    columns = tuple(Column(name=name, unit="percent" if name == "%" else "count") for name in own.columns)
    names = [row.names[0] for row in own.rows]
    if isinstance(found, Absent):
        rows = [_bank_row(own, name, [None] * len(columns), absent=found.why) for name in names]
        return table_of(recipe, columns, rows, [])
    bank, run = found
    active, groups = activations_of(run), defaultdict[str, list[BankRubric]](list)
    for rubric in bank.bank.rubrics:
        groups[active.domain(rubric)].append(rubric)
        groups[TOTAL].append(rubric)
    order = [*names[:-1], *([IDLE] if IDLE in groups else []), TOTAL]
    size = len(bank.bank.rubrics)
    rows = [_bank_row(own, name, _counts(groups[name], size, active), judge=judged(run)) for name in order]
    most = max((len({row.id for row in item.rubrics}) for item in run.items), default=0)
    note = f"At most {most} rubrics a pair were chosen, on {len(run.items):,} pairs; supports are of the last round."
    return table_of(recipe, columns, rows, [run], (RULE, note))


def _counts(group: Sequence[BankRubric], total: int, active: Activations) -> list[float | None]:
    severity = Counter(rubric.rubric.importance for rubric in group)
    return [
        len(group),
        100 * len(group) / total,
        *(severity[name] for name in SEVERITIES),
        sum(active.counts.get(rubric.id, 0) for rubric in group),
        sum(rubric.support_count for rubric in group),
    ]


def _bank_row(
    own: PrintedTable, name: str, values: Sequence[float | None], *, judge: str = "", absent: str = ""
) -> Row:
    known = any(row.names == (name,) for row in own.rows)
    cells = [
        Cell(ours=value, printed=own.number((name,), column) if known else None)
        for value, column in zip(values, own.columns, strict=True)
    ]
    return Row(names=(name,), cells=tuple(cells), judged=judge, absent=absent)


def examples(recipe: Recipe, printed: Printed, runner: Runner) -> PaperTable:
    """Return the heaviest rubrics of each domain, from the tenth of the bank with the largest weights."""
    found = _bank_and_run(recipe, runner)
    columns = (Column(name="Weight", unit="number"), Column(name="Activations", unit="count"))
    domains = [row.names[0] for row in printed.table(recipe.label).rows]
    if isinstance(found, Absent):
        rows = [Row(names=(name, ""), cells=(EMPTY, EMPTY), absent=found.why) for name in domains]
        return table_of(recipe, columns, rows, [])
    bank, run = found
    active, heaviest = activations_of(run), top_decile(bank.bank.rubrics)
    rows = []
    for name in domains:
        chosen = [rubric for rubric in heaviest if active.domain(rubric) == name][:EXAMPLES]
        for rubric in chosen:
            cells = (Cell(ours=rubric.weight), Cell(ours=active.counts.get(rubric.id, 0)))
            rows.append(Row(names=(name, rubric.text), cells=cells, judged=judged(run)))
        if not chosen:
            rows.append(
                Row(names=(name, "–"), cells=(EMPTY, EMPTY), absent="no rubric of the decile is of this domain")
            )
    note = f"The decile has {len(heaviest)} of {len(bank.bank.rubrics)} rubrics; rubrics of equal weight rank by rate."
    return table_of(recipe, columns, rows, [run], (note, RULE))


def top_decile(rubrics: Sequence[BankRubric]) -> list[BankRubric]:
    """Return the tenth of a bank, rounded up, with the largest weights; equal weights rank by activation rate."""
    ordered = sorted(rubrics, key=lambda rubric: (-rubric.weight, -rubric.activation_rate, rubric.id))
    return ordered[: -(-len(ordered) // 10)]


def dynamics(recipe: Recipe, printed: Printed, runner: Runner) -> PaperTable:
    """Return a row a round: margins on train and dev, dev accuracy, hard negatives, active rubrics, bank size."""
    bank = runner.bank(recipe.banks[0])
    rounds = () if isinstance(bank, Absent) or bank.bank.history is None else bank.bank.history.rounds
    why = bank.why if isinstance(bank, Absent) else "" if rounds else "the bank has no history of its training"
    facts = {one.round: one for one in rounds}
    rows = []
    for number in range(1, max(ROUNDS, len(rounds)) + 1):
        values = _measures(facts[number]) if number in facts else [None] * len(DYNAMICS)
        known = _printed_round(printed.text[recipe.label], number)
        cells = [Cell(ours=value, printed=known.get(one.name)) for value, one in zip(values, DYNAMICS, strict=True)]
        absent = "" if number in facts else why or "training ended before this round"
        judge = "" if absent or isinstance(bank, Absent) else bank.judged
        rows.append(Row(names=(f"{number}",), cells=tuple(cells), judged=judge, absent=absent))
    table = table_of(recipe, DYNAMICS, rows, [], _dynamics_notes(rounds))
    marks = () if isinstance(bank, Absent) else tuple(mark.word for mark in integrity_marks(bank.bank.marks))
    return replace(table, marks=marks)


def _measures(facts: RoundFacts) -> list[float | None]:
    train, dev, accuracy = facts.train_margin, facts.dev_margin, facts.dev_accuracy
    apart = None if train is None or dev is None else train - dev
    counts = [facts.hard_negatives, facts.active, facts.kept]
    return [train, dev, apart, None if accuracy is None else 100 * accuracy, *counts]


def _printed_round(numbers: Mapping[str, float], number: int) -> Mapping[str, float | None]:
    """Return the printed numbers of a round, by column; the gap is printed of the first and last round."""
    return {
        "Train margin": numbers.get(f"train_margin_{number}"),
        "Active rubrics": numbers.get(f"active_{number}"),
        "Hard negatives": numbers.get(f"negatives_{number}"),
        "Train − dev": numbers.get({1: "divergence_first", ROUNDS: "divergence_last"}.get(number, "")),
    }


def _dynamics_notes(rounds: Sequence[RoundFacts]) -> Iterator[str]:
    margins = [one.dev_margin for one in rounds if one.dev_margin is not None]
    if len(margins) > 1:
        verb = "rises" if all(a <= b for a, b in pairwise(margins)) else "does not rise"
        yield f"The dev margin {verb} in every round; the paper prints that it rises monotonically."
