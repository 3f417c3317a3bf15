"""The files of a run folder for people: report and tables. Evaluation reaches this module by `runfolder.reports`."""

from __future__ import annotations

from svr_async.core.files import write_atomic
from svr_async.evaluation.run_folder import Run, RunFolder
from svr_async.reports.report import render_report
from svr_async.reports.rubric_tables import effects_of
from svr_async.reports.tables import render_tables


def write_run_files(run: Run) -> None:
    """Write report.html, table.md and table.tex into the folder of a run that has just ended."""
    effects = effects_of([run])
    write_atomic(RunFolder(run.path).report, render_report([run], effects=effects).encode())
    for suffix, text in render_tables([run], ("md", "tex"), effects=effects).items():
        write_atomic(run.path / f"table.{suffix}", text.encode())
