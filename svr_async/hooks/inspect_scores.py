"""The items of a run as inspect_ai's `precomputed_scores` reads them: with no code of ours in its process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from svr_async.adapters.pair_files import check_output, write_rows
from svr_async.evaluation.items import Item
from svr_async.evaluation.run_folder import Run, load_run
from svr_async.serving.views import number


def write_scores(run: Run | str | Path, out: Path | str) -> int:
    """Write a run's items as jsonl, records of {id, value, answer, explanation, metadata}, and return how many.

    `value` is 1 where the verdict is the data's, 0.5 for a tie, 0 where it is not. Items without a verdict, or without
    a right answer, have no record, which leaves their samples unscored. Errors are those of `load_run`; UsageError for
    a file of another name.
    """
    path = Path(out)
    check_output(path)
    held = run if isinstance(run, Run) else load_run(run)
    rows = [_row(item, held.judge_label) for item in held.items if item.margin is not None and item.gold]
    write_rows(path, rows)
    return len(rows)


def _row(item: Item, judge: str) -> dict[str, Any]:
    added = sorted(item.rubrics, key=lambda row: -abs(row.contribution))
    return {
        "id": item.id,
        "value": 0.5 if item.predicted is None else float(bool(item.correct)),
        "answer": item.predicted,
        "explanation": "\n".join(f"{number(row.contribution)} {row.text}" for row in added if row.contribution),
        "metadata": {"margin": item.margin, "outcome": item.outcome, "judge": judge, "domain": item.domain},
    }
