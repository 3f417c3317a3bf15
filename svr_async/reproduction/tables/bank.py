"""What the bank is made of: its domains with severities, activations and supports, and its weightiest rubrics.

The domain of a rubric is where a run on RubricBench activates it: the group of pairs with more than half of its rate,
the rate being the share of a group's pairs that it was chosen for. A rubric that no group has half of is generic.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from svr_async.evaluation.run_folder import Run
from svr_async.reproduction.printed import Printed, PrintedTable
from svr_async.reproduction.recipe import Recipe
from svr_async.reproduction.results import Absent, Results, TrainedBank, judged
from svr_async.reproduction.table import Cell, Column, Row, Table
from svr_async.reproduction.tables.accuracy import DOMAINS, table_of
from svr_async.scoring.bank import BankRubric

GENERIC, IDLE, TOTAL = "Generic", "Never chosen", "Total"
SEVERITIES = {"Critical": "critical", "Major": "major", "Minor": "minor"}
EXAMPLES = 3
RULE = (
    "A rubric belongs to the group of RubricBench's pairs that has more than half of its rate (the share of the "
    "group's pairs that it was chosen for), and is generic where none has."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Activations:
    """How often each rubric of a bank was chosen in a run, by its id: in all, and the domain that follows from it."""

    counts: Mapping[str, int]
    domains: Mapping[str, str]

    def domain(self, rubric: BankRubric) -> str:
        """Return where a rubric is activated; `IDLE` for one that never was."""
        return self.domains.get(rubric.id, IDLE)


def activations_of(run: Run) -> Activations:
    """Count the choices of each rubric over the pairs of a run; judged in both orders, a pair counts once."""
    counts: Counter[str] = Counter()
    held: dict[str, Counter[str]] = defaultdict(Counter)
    sizes = Counter(item.domain for item in run.items)
    for item in run.items:
        for rubric in dict.fromkeys(row.id for row in item.rubrics):
            counts[rubric] += 1
            held[rubric][item.domain] += 1
    names = {group: name for name, group in DOMAINS.items()}
    domains = {rubric: _domain(found, sizes, names) for rubric, found in held.items()}
    return Activations(counts=counts, domains=domains)


def _domain(found: Mapping[str, int], sizes: Mapping[str, int], names: Mapping[str, str]) -> str:
    rates = {group: n / sizes[group] for group, n in found.items()}
    group, most = max(rates.items(), key=lambda entry: (entry[1], entry[0]))
    return names.get(group, group) if most > fsum(rates.values()) / 2 else GENERIC


def bank_and_run(recipe: Recipe, results: Results) -> tuple[TrainedBank, Run] | Absent:
    """Return the bank of a recipe and the run that shows what is chosen of it, or why one is absent."""
    bank, run = results.bank(recipe.banks[0]), results.run(recipe.rows[0].run)
    if isinstance(bank, Absent):
        return bank
    return run if isinstance(run, Absent) else (bank, run)


def distribution(recipe: Recipe, printed: Printed, results: Results) -> Table:
    """Return a row a domain: rubrics, their share, severities, activations over the pairs of the run, supports."""
    own, found = printed.table(recipe.label), bank_and_run(recipe, results)
    columns = tuple(Column(name=name, unit="percent" if name == "%" else "count") for name in own.columns)
    names = [row.names[0] for row in own.rows]
    if isinstance(found, Absent):
        rows = [_bank_row(own, name, [None] * len(columns), "", found.why) for name in names]
        return table_of(recipe, columns, rows, [])
    bank, run = found
    active, rubrics = activations_of(run), bank.bank.rubrics
    groups: dict[str, list[BankRubric]] = defaultdict(list)
    for entry in rubrics:
        groups[active.domain(entry)].append(entry)
    order = [*names[:-1], *([IDLE] if IDLE in groups else []), TOTAL]
    rows = [
        _bank_row(own, name, _counts(rubrics if name == TOTAL else groups[name], len(rubrics), active), judged(run))
        for name in order
    ]
    pairs = len(run.items)
    note = f"At most {max((len({row.id for row in item.rubrics}) for item in run.items), default=0)} rubrics a pair "
    note += f"were chosen on {pairs:,} pairs; supports are the support pairs that a rubric covered in its last round."
    return table_of(recipe, columns, rows, [run], (RULE, note))


def _counts(group: Sequence[BankRubric], total: int, active: Activations) -> list[float | None]:
    severity = Counter(entry.rubric.importance for entry in group)
    return [
        len(group),
        100 * len(group) / total,
        *(severity[name] for name in SEVERITIES.values()),
        sum(active.counts.get(entry.id, 0) for entry in group),
        sum(entry.support_count for entry in group),
    ]


def _bank_row(own: PrintedTable, name: str, values: Sequence[float | None], judge: str, absent: str = "") -> Row:
    known = any(row.names == (name,) for row in own.rows)
    cells = [
        Cell(ours=value, printed=own.number((name,), column) if known else None)
        for value, column in zip(values, own.columns, strict=True)
    ]
    return Row(names=(name,), cells=tuple(cells), judged=judge, absent=absent)


def examples(recipe: Recipe, printed: Printed, results: Results) -> Table:
    """Return the weightiest rubrics of each domain, out of the highest-weighted decile of the bank."""
    found = bank_and_run(recipe, results)
    columns = (Column(name="Weight", unit="number"), Column(name="Activations", unit="count"))
    domains = [row.names[0] for row in printed.table(recipe.label).rows]
    if isinstance(found, Absent):
        rows = [Row(names=(name, ""), cells=(Cell(), Cell()), absent=found.why) for name in domains]
        return table_of(recipe, columns, rows, [])
    bank, run = found
    active, decile = activations_of(run), top_decile(bank.bank.rubrics)
    rows = []
    for name in domains:
        held = [entry for entry in decile if active.domain(entry) == name][:EXAMPLES]
        rows += [_example(name, entry, active, judged(run)) for entry in held]
        if not held:
            rows.append(Row(names=(name, "–"), cells=(Cell(), Cell()), absent="none of the decile is of this domain"))
    note = f"The decile has {len(decile)} of {len(bank.bank.rubrics)} rubrics; of each domain the heaviest {EXAMPLES}."
    return table_of(recipe, columns, rows, [run], (note, RULE, *_flat(bank.bank.rubrics)))


def top_decile(rubrics: Sequence[BankRubric]) -> list[BankRubric]:
    """Return the tenth of a bank, rounded up, with the largest weights; of equals what is active more often first."""
    ordered = sorted(rubrics, key=lambda entry: (-entry.weight, -entry.activation_rate, entry.id))
    return ordered[: -(-len(ordered) // 10)]


def _example(name: str, entry: BankRubric, active: Activations, judge: str) -> Row:
    cells = (Cell(ours=entry.weight), Cell(ours=active.counts.get(entry.id, 0)))
    return Row(names=(name, entry.text), cells=cells, judged=judge)


def _flat(rubrics: Sequence[BankRubric]) -> tuple[str, ...]:
    if len({entry.weight for entry in rubrics}) > 1:
        return ()
    return (
        "Every rubric of this bank has the same weight (its selector carries the rest), so activation rates rank it.",
    )
