"""Calls and tokens of methods on RubricBench, of the training's stages, and of RRD's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from svr_async.evaluation.run_folder import Run
from svr_async.reproduction.printed import Printed
from svr_async.reproduction.recipes import Recipe
from svr_async.reproduction.runner import Absent, Runner, TrainedBank
from svr_async.reproduction.table import EMPTY, Cell, Column, PaperTable, Row
from svr_async.reproduction.tables.accuracy import judged, row_of, runs_of, table_of

COLUMNS = (
    Column(name="Pairs", unit="count"), Column(name="Calls", unit="count"),
    Column(name="Calls a pair", unit="number", digits=2), Column(name="Tokens in", unit="count"),
    Column(name="Tokens out", unit="count"),
)  # fmt: skip
RRD_STAGES = {
    "generation": "generations", "proposal": "proposals", "decomposition": "decompositions",
    "sample_judgments": "judgments",
}  # fmt: skip
CALLS_A_PAIR = {"direct": 1.0, "svr": 1.0, "self-rubric": 2.0}  # app:cost, in words
NOTES = (
    "Calls are the distinct questions behind the verdicts; tokens include the second order of audited pairs.",
    "Printed: 20 GPU-hours for a training on 8 A100, which has no counterpart for a judge behind an endpoint.",
)


def cost(recipe: Recipe, printed: Printed, runner: Runner) -> PaperTable:
    """Return a row a method, a row for each stage of the training, and a row for each stage of RRD."""
    runs, bank = runs_of(recipe, runner), runner.bank(recipe.banks[0])
    rows = [
        row_of(row, run, _cells(run, CALLS_A_PAIR.get(next(iter(row.runs.values())).method)))
        for row, run in zip(recipe.rows, runs, strict=True)
    ]
    return table_of(recipe, COLUMNS, [*rows, *_training(bank), *_rrd(printed, runs)], runs, NOTES)


def _cells(run: Run | Absent, printed: float | None) -> list[Cell]:
    if isinstance(run, Absent):
        return [EMPTY, EMPTY, Cell(printed=printed), EMPTY, EMPTY]
    calls, pairs, usage = (
        len({key for item in run.items for key in item.requests}),
        len(run.items),
        run.metrics["usage"],
    )
    tokens = [Cell(ours=usage.get(name)) for name in ("prompt_tokens", "completion_tokens")]
    return [Cell(ours=pairs), Cell(ours=calls), Cell(ours=calls / max(1, pairs), printed=printed), *tokens]


def _stage(name: str, calls: float | None, printed: float | None = None, *, judge: str = "", absent: str = "") -> Row:
    cells = (EMPTY, Cell(ours=calls, printed=printed), EMPTY, EMPTY, EMPTY)
    return Row(names=(name,), cells=cells, judged=judge, absent=absent)


def _training(bank: TrainedBank | Absent) -> Iterator[Row]:
    """Yield the stages of the training with their questions."""
    if isinstance(bank, Absent):
        yield _stage("SVR, training", None, absent=bank.why)
        return
    asked: Counter[str] = Counter()
    for stage, outcomes in (bank.record.get("outcomes") or {}).items():
        asked[stage] += sum(outcomes.values())
    yield from (_stage(f"SVR, training: {name}", calls, judge=bank.judged) for name, calls in sorted(asked.items()))


def _rrd(printed: Printed, runs: Sequence[Run | Absent]) -> Iterator[Row]:
    """Yield the stages of RRD's construction, and its number of rubrics a prompt."""
    run = next((run for run in runs if not isinstance(run, Absent) and run.metrics["method"] == "rrd"), None)
    counts = run.metrics.get("method_calls") or {} if run else {}
    judge, absent = (judged(run), "") if run else ("", "RRD was not run")
    for stage, name in RRD_STAGES.items():
        value = printed.text["app:rrd_repro"][name]
        yield _stage(f"RRD: {name}", counts.get(stage), value, judge=judge, absent=absent)
    for name in ("mean", "median"):
        each = Cell(ours=counts.get(f"rubrics_{name}"), printed=printed.text["app:rrd_repro"][f"rubrics_{name}"])
        cells = (EMPTY, EMPTY, each, EMPTY, EMPTY)
        yield Row(names=(f"RRD: rubrics a prompt, {name}",), cells=cells, judged=judge, absent=absent)
