"""Writing the report of runs, or of a bank: what is named, where the page goes and in which form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svr_async.core.files import write_atomic
from svr_async.engine.concurrency import run_whole
from svr_async.errors import UsageError
from svr_async.evaluation.frontier import Frontier
from svr_async.evaluation.run_folder import RunFolder
from svr_async.evaluation.running.frontier import frontier_of
from svr_async.reports.bank_report import write_bank_report
from svr_async.reports.figure_files import write_figures
from svr_async.reports.frontier_figure import frontier_figures
from svr_async.reports.frontier_files import as_csv, as_json
from svr_async.reports.frontier_view import render_frontier
from svr_async.reports.report import render_report
from svr_async.reports.run_figures import draw_runs
from svr_async.reports.tables import render_table
from svr_async.reports.view import page_of

FORMATS = ("html", "md", "tex", "csv")
FRONTIER_FORMATS = ("html", "csv", "json")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSettings:
    """What a report shows: runs, or a bank and runs that used it; `out` tells the form by its suffix.

    `figures` is a folder for figures; `summary` leaves the items out; `data` holds the texts of one run's items.
    """

    runs: tuple[Path, ...]
    out: Path | None = None
    figures: Path | None = None
    summary: bool = False
    data: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """A report that was written, and whether it is a bank's."""

    out: Path
    bytes: int
    runs: tuple[Path, ...]
    of_bank: bool

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"out": str(self.out), "bytes": self.bytes, "runs": [str(run) for run in self.runs]}

    def in_words(self) -> str:
        """Say where it is."""
        return f"wrote {self.out} ({self.bytes / 1000:,.0f} kB)"


def write_report(settings: ReportSettings) -> Reported:
    """Write a report; UsageError for two banks, an unknown suffix, and `data` where it is not of one run's items."""
    bank, judged = _bank_and_runs(settings.runs)
    out = settings.out or _usual_place(settings.runs)
    if settings.data is not None and (len(settings.runs) > 1 or settings.summary or bank is not None):
        raise UsageError("--data is for the items of one run", hint="svr view RUN RUN --data PATH shows those of two")
    n_bytes = _write_runs(settings, out) if bank is None else write_bank_report(bank, out, settings.figures, judged)
    return Reported(out=out, bytes=n_bytes, runs=settings.runs, of_bank=bank is not None)


def _write_runs(settings: ReportSettings, target: Path) -> int:
    """Write the runs in the format of the target's suffix and return its bytes."""
    kind = target.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise UsageError(f"--out {target}: no format for this suffix", hint="use .html, .md, .tex or .csv")
    loaded = [RunFolder.load(run) for run in settings.runs]
    drawn = draw_runs(loaded, settings.figures) if settings.figures else ()
    if kind != "html":
        text = render_table(loaded, kind)
    elif len(loaded) == 1 and not settings.summary:
        text = page_of(loaded, data=settings.data, figures=drawn)
    else:
        text = render_report(loaded, figures=drawn)
    page = text.encode()
    write_atomic(target, page)
    return len(page)


def _usual_place(runs: Sequence[Path]) -> Path:
    """Return where a page goes that no `out` names: beside what it shows."""
    if len(runs) == 1 or _bank_in(runs[0]) is not None:
        return runs[0] / "report.html"
    return Path("comparison.html")


def _bank_and_runs(named: Sequence[Path]) -> tuple[Path | None, tuple[Path, ...]]:
    """Return the bank's folder where one is named, or a training's that holds one, else None; and the runs."""
    places = [(path, _bank_in(path)) for path in named]
    banks = [folder for _, folder in places if folder is not None]
    if len(banks) > 1:
        raise UsageError("a bank's report shows one bank", hint="svr bank diff compares two banks")
    return (banks[0] if banks else None), tuple(path for path, folder in places if folder is None)


def _bank_in(path: Path) -> Path | None:
    if (path / "metrics.json").exists():
        return None  # a run
    return next((folder for folder in (path, path / "bank") if (folder / "bank.json").is_file()), None)


def write_frontier(runs: Sequence[Path], target: Path, figures: Path | None = None) -> Frontier:
    """Draw the frontier of the judges of these runs, which judged the same pairs with the same method, to a file.

    With `figures` it is drawn into that folder too.
    """
    kind = target.suffix.lower().removeprefix(".")
    if kind not in FRONTIER_FORMATS:
        raise UsageError(f"--out {target}: no format for a frontier", hint="use .html, .csv or .json")
    loaded = [RunFolder.load(run) for run in runs]
    found = run_whole(frontier_of(loaded))
    if figures is not None:
        write_figures(figures, tuple(frontier_figures(loaded, found)))
    if kind == "html":
        write_atomic(target, render_frontier(loaded, found).encode())
    else:
        write_atomic(target, as_csv(found).encode() if kind == "csv" else as_json(found))
    return found
