"""Tables of the bank and of costs: rubrics by domain, the heaviest rubrics, the training by round, calls and tokens.

A rubric belongs to the domain of RubricBench's pairs that activates it most: the one with more than half of its rate,
the rate being the share of a domain's pairs that it was chosen for. A rubric without such a domain is generic.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import fsum

from svr_async.core.integrity import integrity_marks
from svr_async.evaluation.run_folder import Run
from svr_async.reproduction.accuracy import DOMAINS, row_of, table_of
from svr_async.reproduction.paper import Printed, PrintedTable, Recipe
from svr_async.reproduction.runner import Absent, Runner, TrainedBank
from svr_async.reproduction.table import EMPTY, Cell, Column, PaperTable, Row
from svr_async.scoring.bank import BankRubric, RoundFacts

GENERIC, IDLE, TOTAL = "Generic", "Never chosen", "Total"
SEVERITIES = ("critical", "major", "minor")
EXAMPLES = 3
ROUNDS = 3
RULE = (
    "A rubric belongs to the group of RubricBench's pairs that has more than half of its rate (the share of the "
    "group's pairs that it was chosen for), and is generic if no group has."
)


def activations_of(run: Run) -> tuple[Mapping[str, int], Mapping[str, str]]:
    """Return how often each rubric was chosen in a run, by id, and the domain that follows from it.

    A pair judged in both orders counts once.
    """
    counts: Counter[str] = Counter()
    by_domain: dict[str, Counter[str]] = defaultdict(Counter)
    sizes = Counter(item.domain for item in run.items)
    for item in run.items:
        for rubric in dict.fromkeys(row.id for row in item.rubrics):
            counts[rubric] += 1
            by_domain[rubric][item.domain] += 1
    names = {group: name for name, group in DOMAINS.items()}
    return counts, {rubric: _domain(found, sizes, names) for rubric, found in by_domain.items()}


def _domain(found: Mapping[str, int], sizes: Mapping[str, int], names: Mapping[str, str]) -> str:
    rates = {group: n / sizes[group] for group, n in found.items()}
    group, highest = max(rates.items(), key=lambda entry: (entry[1], entry[0]))
    return names.get(group, group) if highest > fsum(rates.values()) / 2 else GENERIC


def _bank_and_run(recipe: Recipe, runner: Runner) -> tuple[TrainedBank, Run] | Absent:
    """Return the bank of a recipe and the run that chose from it, or why one is absent."""
    bank, (run,) = runner.bank(recipe.banks[0]), runner.runs_of(recipe)
    if isinstance(bank, Absent):
        return bank
    return run if isinstance(run, Absent) else (bank, run)


def distribution(recipe: Recipe, printed: Printed, runner: Runner) -> PaperTable:
    """Return a row a domain: rubrics, their share, severities, activations over the run's pairs, supports."""
    own, found = printed.table(recipe.label), _bank_and_run(recipe, runner)
    columns = [Column(name=name, unit="percent" if name == "%" else "count") for name in own.columns]
    names = [row.names[0] for row in own.rows]
    if isinstance(found, Absent):
        rows = [row_of((name,), [found], _next_to(own, name, columns, [None] * len(columns))) for name in names]
        return table_of(recipe, columns, rows, [])
    bank, run = found
    (active, domains), groups = activations_of(run), defaultdict[str, list[BankRubric]](list)
    for rubric in bank.bank.rubrics:
        groups[domains.get(rubric.id, IDLE)].append(rubric)
        groups[TOTAL].append(rubric)
    order = [*names[:-1], *([IDLE] if IDLE in groups else []), TOTAL]
    values = {name: _counts(groups[name], len(bank.bank.rubrics), active) for name in order}
    rows = [row_of((name,), [run], _next_to(own, name, columns, values[name])) for name in order]
    most = max((len({row.id for row in item.rubrics}) for item in run.items), default=0)
    note = f"At most {most} rubrics a pair were chosen, on {len(run.items):,} pairs; supports are of the last round."
    return table_of(recipe, columns, rows, [run], (RULE, note))


def _counts(group: Sequence[BankRubric], total: int, active: Mapping[str, int]) -> list[float | None]:
    severity = Counter(rubric.rubric.importance for rubric in group)
    return [
        len(group),
        100 * len(group) / total,
        *(severity[name] for name in SEVERITIES),
        sum(active.get(rubric.id, 0) for rubric in group),
        sum(rubric.support_count for rubric in group),
    ]


def _next_to(own: PrintedTable, name: str, columns: Sequence[Column], values: Sequence[float | None]) -> list[Cell]:
    """Return cells of our values with the printed numbers of a row."""
    pairs = zip(values, columns, strict=True)
    return [Cell(ours=value, printed=own.number((name,), column.name)) for value, column in pairs]


def examples(recipe: Recipe, _: Printed, runner: Runner) -> PaperTable:
    """Return the heaviest rubrics of each domain, from the tenth of the bank with the largest weights."""
    found = _bank_and_run(recipe, runner)
    columns = (Column(name="Weight", unit="number"), Column(name="Activations", unit="count"))
    if isinstance(found, Absent):
        return table_of(recipe, columns, [row_of((name, ""), [found], (EMPTY, EMPTY)) for name in DOMAINS], [])
    bank, run = found
    (active, domain_of), heaviest = activations_of(run), top_decile(bank.bank.rubrics)
    unused = Absent(why="no rubric of the decile is of this domain")
    rows = []
    for name in DOMAINS:
        chosen = [rubric for rubric in heaviest if domain_of.get(rubric.id) == name][:EXAMPLES]
        for rubric in chosen:
            cells = (Cell(ours=rubric.weight), Cell(ours=active.get(rubric.id, 0)))
            rows.append(row_of((name, rubric.text), [run], cells))
        if not chosen:
            rows.append(row_of((name, "–"), [unused], (EMPTY, EMPTY)))
    note = f"The decile has {len(heaviest)} of {len(bank.bank.rubrics)} rubrics; rubrics of equal weight rank by rate."
    return table_of(recipe, columns, rows, [run], (note, RULE))


def top_decile(rubrics: Sequence[BankRubric]) -> list[BankRubric]:
    """Return the tenth of a bank, rounded up, with the largest weights; equal weights rank by activation rate."""
    ordered = sorted(rubrics, key=lambda rubric: (-rubric.weight, -rubric.activation_rate, rubric.id))
    return ordered[: -(-len(ordered) // 10)]


# --- training, by round -----------------------------------------------------------------------------------------------

DYNAMICS = (
    Column(name="Train margin", unit="number"), Column(name="Dev margin", unit="number"),
    Column(name="Train − dev", unit="number"), Column(name="Dev accuracy"),
    Column(name="Hard negatives", unit="count"), Column(name="Active rubrics", unit="count"),
    Column(name="Bank", unit="count"),
)  # fmt: skip


def dynamics(recipe: Recipe, printed: Printed, runner: Runner) -> PaperTable:
    """Return a row a round: margins on train and dev, dev accuracy, hard negatives, active rubrics, bank size."""
    own, bank = printed.table(recipe.label), runner.bank(recipe.banks[0])
    rounds = () if isinstance(bank, Absent) or bank.bank.history is None else bank.bank.history.rounds
    why = bank.why if isinstance(bank, Absent) else "" if rounds else "the bank has no history of its training"
    facts = {one.round: _measures(one) for one in rounds}
    rows = []
    for number in range(1, max(ROUNDS, len(rounds)) + 1):
        cells = _next_to(own, f"{number}", DYNAMICS, facts.get(number, [None] * len(DYNAMICS)))
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


def _dynamics_notes(rounds: Sequence[RoundFacts]) -> Iterator[str]:
    margins = [one.dev_margin for one in rounds if one.dev_margin is not None]
    if len(margins) > 1:
        verb = "rises" if all(a <= b for a, b in pairwise(margins)) else "does not rise"
        yield f"The dev margin {verb} in every round; the paper prints that it rises monotonically."


# --- calls and tokens -------------------------------------------------------------------------------------------------

COSTS = (
    Column(name="Pairs", unit="count"), Column(name="Calls", unit="count"),
    Column(name="Calls a pair", unit="number", digits=2), Column(name="Tokens in", unit="count"),
    Column(name="Tokens out", unit="count"),
)  # fmt: skip
RRD_STAGES = {
    "generation": "generations", "proposal": "proposals", "decomposition": "decompositions",
    "sample_judgments": "judgments",
}  # fmt: skip
CALLS_A_PAIR = {"direct": 1.0, "svr": 1.0, "self-rubric": 2.0}  # app:cost, in words
COST_NOTES = (
    "Calls are the distinct questions behind the verdicts; tokens include the second order of audited pairs.",
    "Printed: 20 GPU-hours for a training on 8 A100, which has no counterpart for a judge behind an endpoint.",
)


def cost(recipe: Recipe, printed: Printed, runner: Runner) -> PaperTable:
    """Return a row a method, a row for each stage of the training, and a row for each stage of RRD."""
    runs, bank = runner.runs_of(recipe), runner.bank(recipe.banks[0])
    rows = []
    for row, run in zip(recipe.rows, runs, strict=True):
        (spec,) = row.runs.values()
        rows.append(row_of(row.names, [run], _costs(run, CALLS_A_PAIR.get(spec.method))))
    return table_of(recipe, COSTS, [*rows, *_training(bank), *_rrd(printed, runs)], runs, COST_NOTES)


def _costs(run: Run | Absent, printed: float | None) -> list[Cell]:
    if isinstance(run, Absent):
        return [EMPTY, EMPTY, Cell(printed=printed), EMPTY, EMPTY]
    calls, pairs = len({key for item in run.items for key in item.requests}), len(run.items)
    tokens = [Cell(ours=run.metrics["usage"].get(name)) for name in ("prompt_tokens", "completion_tokens")]
    return [Cell(ours=pairs), Cell(ours=calls), Cell(ours=calls / max(1, pairs), printed=printed), *tokens]


def _training(bank: TrainedBank | Absent) -> Iterator[Row]:
    """Yield the stages of the training with their questions."""
    if isinstance(bank, Absent):
        yield row_of(("SVR, training",), [bank], [EMPTY] * len(COSTS))
        return
    asked: Counter[str] = Counter()
    for stage, outcomes in (bank.record.get("outcomes") or {}).items():
        asked[stage] += sum(outcomes.values())
    for stage, calls in sorted(asked.items()):
        cells = (EMPTY, Cell(ours=calls), EMPTY, EMPTY, EMPTY)
        yield Row(names=(f"SVR, training: {stage}",), cells=cells, judged=bank.judged)


def _rrd(printed: Printed, runs: Sequence[Run | Absent]) -> Iterator[Row]:
    """Yield the stages of RRD's construction, and its number of rubrics a prompt."""
    run = next((run for run in runs if isinstance(run, Run) and run.metrics["method"] == "rrd"), None)
    counts, text = (run.metrics.get("method_calls") or {}) if run else {}, printed.text["app:rrd_repro"]
    made = [run or Absent(why="RRD was not run")]
    for stage, name in RRD_STAGES.items():
        calls = Cell(ours=counts.get(stage), printed=text[name])
        yield row_of((f"RRD: {name}",), made, (EMPTY, calls, EMPTY, EMPTY, EMPTY))
    for name in ("mean", "median"):
        each = Cell(ours=counts.get(f"rubrics_{name}"), printed=text[f"rubrics_{name}"])
        yield row_of((f"RRD: rubrics a prompt, {name}",), made, (EMPTY, EMPTY, each, EMPTY, EMPTY))
