"""Writing reports: the files of a run folder, pages, tables, figures and frontiers, by the suffix of their target."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from svr_async.core.files import write_atomic
from svr_async.errors import UsageError
from svr_async.evaluation.run_folder import Run, Texts
from svr_async.evaluation.summary import summaries_of
from svr_async.reports.drawing import write_figures
from svr_async.reports.figures import run_figures
from svr_async.reports.items import MOST_RUNS, couples_of
from svr_async.reports.page import render_runs
from svr_async.reports.text import render_tables

if TYPE_CHECKING:
    from svr_async.evaluation.frontier import Frontier

FORMATS = ("html", "md", "tex", "csv")
FRONTIER_FORMATS = ("html", "csv", "json")


def write_run_files(run: Run, prompts: Mapping[str, str], texts: Mapping[str, Texts]) -> None:
    """Write report.html, table.md and table.tex into the folder of a run that has just ended."""
    write_atomic(run.path / "report.html", render_runs([run], texts=texts, prompts=prompts).encode())
    for kind, text in render_tables([run], ("md", "tex")).items():
        write_atomic(run.path / f"table.{kind}", text.encode())


def write_report(named: Sequence[Path], out: Path | None = None, figures: Path | None = None) -> tuple[Path, int, bool]:
    """Write the report of runs, or of a bank and runs that used it; return its path, its bytes, and whether of a bank.

    The suffix of `out` names the format; `figures` is a folder for figures. UsageError for two banks and for an unknown
    suffix.
    """
    found = [(path, _bank_in(path)) for path in named]
    banks, runs = [bank for _, bank in found if bank], [path for path, bank in found if bank is None]
    if len(banks) > 1:
        raise UsageError("a bank's report shows one bank", hint="svr bank diff compares two banks")
    alone = len(named) == 1 or found[0][1] is not None
    target = out or (named[0] / "report.html" if alone else Path("comparison.html"))
    if banks:
        return target, write_bank(banks[0], target, figures, runs), True
    return target, _write_runs(runs, target, figures), False


def _bank_in(path: Path) -> Path | None:
    """Return the folder of the bank at a path, or in the training there; None for a run."""
    if (path / "metrics.json").exists():
        return None
    return next((folder for folder in (path, path / "bank") if (folder / "bank.json").is_file()), None)


def _write_runs(paths: Sequence[Path], target: Path, figures: Path | None) -> int:
    kind = target.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise UsageError(f"--out {target}: no format for this suffix", hint="use .html, .md, .tex or .csv")
    runs = [Run.load(path) for path in paths]
    if figures is not None:
        write_figures(figures, list(run_figures(summaries_of(runs))))
    page = (page_of(runs) if kind == "html" else render_tables(runs, (kind,))[kind]).encode()
    write_atomic(target, page)
    return len(page)


def write_bank(folder: Path, target: Path, figures: Path | None = None, runs: Sequence[Path] = ()) -> int:
    """Write the page of the bank in a folder, with what its rubrics did in runs; return its bytes."""
    from svr_async.reports.bank_page import bank_figures, render_bank
    from svr_async.reports.bank_summary import summarise_bank
    from svr_async.reports.effects import bank_effects, effects_tables
    from svr_async.scoring.bank import RubricBank

    if target.suffix.lower() != ".html":
        raise UsageError(f"--out {target}: a bank's report is .html", hint="svr bank show BANK --card prints Markdown")
    bank = RubricBank.load(folder)
    found = summarise_bank(bank)
    if figures is not None:
        write_figures(figures, bank_figures(found))
    loaded = [Run.load(run) for run in runs]
    did = list(effects_tables(bank_effects(bank, loaded), "What the rubrics did in runs")) if loaded else []
    data = render_bank(found, did).encode()
    write_atomic(target, data)
    return len(data)


def write_page(
    runs: Sequence[Path], target: Path | None, *, data: Path | None = None, calls: bool = False
) -> tuple[Path, int]:
    """Write the page of a run, or of two, with the texts of all items, or of a bank; return its path and its bytes.

    Without a `target` it goes to a new temporary folder. `calls` adds requests and replies.
    UsageError for more than two runs, for two that share no item, and for `data` that lacks one of the pairs.
    """
    if len(runs) > MOST_RUNS:
        raise UsageError(f"a page shows the items of one run or of two (got {len(runs)})", hint="name two of them")
    bank = _bank_in(runs[0]) if len(runs) == 1 else None
    loaded = [] if bank else [Run.load(run) for run in runs]
    place = target or Path(tempfile.mkdtemp(prefix="svr-view-")) / f"{loaded[0].name if loaded else 'bank'}.html"
    if bank:
        return place, write_bank(bank, place)
    couples_of(loaded)
    page = page_of(loaded, data=data, calls=calls).encode()
    write_atomic(place, page)
    return place, len(page)


def page_of(runs: Sequence[Run], *, data: Path | None = None, calls: bool = False) -> str:
    """Return the page of runs with all texts that can be found; see `write_page`."""
    if len(runs) > MOST_RUNS:
        return render_runs(runs)
    from svr_async.evaluation.details import exchanges_of, known_texts

    texts, notes = known_texts(runs[0], data)
    exchanges = [exchanges_of(run) for run in runs] if calls else []
    return render_runs(runs, texts=texts, exchanges=exchanges, notes=notes)


def write_frontier(runs: Sequence[Path], target: Path, figures: Path | None = None) -> Frontier:
    """Write accuracy against cost for the judges of runs over the same pairs; `figures` is a folder for the plot."""
    from svr_async.evaluation.frontier import frontier_of
    from svr_async.reports.frontier import as_csv, as_json, frontier_figure, render_frontier

    kind = target.suffix.lower().removeprefix(".")
    if kind not in FRONTIER_FORMATS:
        raise UsageError(f"--out {target}: no format for a frontier", hint="use .html, .csv or .json")
    loaded = [Run.load(run) for run in runs]
    found = frontier_of(loaded)
    summaries = summaries_of(loaded)
    if figures is not None:
        write_figures(figures, [frontier_figure(summaries, found)])
    if kind == "html":
        write_atomic(target, render_frontier(summaries, found).encode())
    else:
        write_atomic(target, as_csv(found).encode() if kind == "csv" else as_json(found))
    return found
