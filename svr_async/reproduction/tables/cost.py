"""What methods cost on RubricBench: the questions behind every verdict, whoever paid for them and when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from svr_async.evaluation.run_folder import Run
from svr_async.reproduction.printed import Printed
from svr_async.reproduction.recipe import Recipe
from svr_async.reproduction.results import Absent, Results, TrainedBank, judged, runs_of
from svr_async.reproduction.table import Cell, Column, Row, Table
from svr_async.reproduction.tables.accuracy import row_of, table_of

COLUMNS = (
    Column(name="Pairs", unit="count"), Column(name="Calls", unit="count"),
    Column(name="Calls a pair", unit="number", digits=2), Column(name="Tokens in", unit="count"),
    Column(name="Tokens out", unit="count"),
)  # fmt: skip
QUESTIONS = (
    "Calls are distinct questions behind the verdicts, whenever they were paid; the second order of audited pairs is "
    "not among them, its tokens are."
)
RRD_STAGES = {
    "generation": "generations", "proposal": "proposals", "decomposition": "decompositions",
    "sample_judgments": "judgments",
}  # fmt: skip
CALLS_A_PAIR = {"direct": 1.0, "svr": 1.0, "self-rubric": 2.0}  # app:cost, in words


def cost(recipe: Recipe, printed: Printed, results: Results) -> Table:
    """Return calls and tokens a method; then a row a stage of the training, counted in questions; then RRD's stages."""
    runs = runs_of(recipe, results)
    rows = []
    for row, run in zip(recipe.rows, runs, strict=True):
        each = CALLS_A_PAIR.get(row.run.method)
        cells = [Cell(), Cell(), Cell(printed=each), Cell(), Cell()] if isinstance(run, Absent) else _cells(run, each)
        rows.append(row_of(row, run, cells))
    rows += list(_stages(results.bank(recipe.banks[0])))
    rows += list(_rrd(printed, runs))
    notes = (
        QUESTIONS,
        "Printed: 20 GPU-hours for a training on 8 A100, which has no counterpart where an endpoint judges.",
    )
    return table_of(recipe, COLUMNS, rows, runs, notes)


def _cells(run: Run, each: float | None) -> list[Cell]:
    calls = len({key for item in run.items for key in item.requests})
    once = len(run.items)
    usage = run.metrics.get("usage") or {}
    tokens = [usage.get("prompt_tokens"), usage.get("completion_tokens")]
    counts = [Cell(ours=once), Cell(ours=calls), Cell(ours=calls / once if once else None, printed=each)]
    return counts + [Cell(ours=value) for value in tokens]


def _stages(bank: TrainedBank | Absent) -> Iterator[Row]:
    """Yield the stages of the training with the questions that each asked."""
    if isinstance(bank, Absent):
        yield Row(names=("SVR, training",), cells=(Cell(),) * len(COLUMNS), absent=bank.why)
        return
    asked: Counter[str] = Counter()
    for stage, outcomes in (bank.record.get("outcomes") or {}).items():
        asked[stage] += sum(outcomes.values())
    for stage, questions in sorted(asked.items()):
        cells = (Cell(), Cell(ours=questions), Cell(), Cell(), Cell())
        yield Row(names=(f"SVR, training: {stage}",), cells=cells, judged=bank.judged)


def _rrd(printed: Printed, runs: Sequence[Run | Absent]) -> Iterator[Row]:
    """Yield the stages of RRD's construction, beside the printed counts of them."""
    held = [run for run in runs if not isinstance(run, Absent) and run.metrics["method"] == "rrd"]
    counts = (held[0].metrics.get("method_calls") or {}) if held else {}
    for stage, name in RRD_STAGES.items():
        value = printed.number("app:rrd_repro", name)
        cells = (Cell(), Cell(ours=counts.get(stage), printed=value), Cell(), Cell(), Cell())
        judge = judged(held[0]) if held else ""
        yield Row(names=(f"RRD: {name}",), cells=cells, judged=judge, absent="" if held else "RRD was not run")
    for statistic in ("mean", "median"):
        value = printed.number("app:rrd_repro", f"rubrics_{statistic}")
        yield Row(
            names=(f"RRD: rubrics a prompt, {statistic}",),
            cells=(Cell(), Cell(), Cell(ours=counts.get(f"rubrics_{statistic}"), printed=value), Cell(), Cell()),
            judged=judged(held[0]) if held else "",
            absent="" if held else "RRD was not run",
        )
