"""Writing a page with all items of a run, or of two side by side, with reasons, texts of the run's data, and calls."""

from __future__ import annotations

import tempfile
import webbrowser
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from svr_async.core.files import write_atomic
from svr_async.errors import UsageError
from svr_async.evaluation.details import exchanges_of, known_texts
from svr_async.evaluation.run_folder import Run, RunFolder, with_reasons
from svr_async.reports.figure_files import Drawn
from svr_async.reports.item_page import MOST_RUNS, item_part
from svr_async.reports.report import render_report


def write_page(
    runs: Sequence[Path],
    target: Path | None,
    *,
    data: Path | None = None,
    calls: bool = False,
    cache: Path | str | None = None,
    first: bool = False,
) -> tuple[Path, int]:
    """Write the page of a run, or of two, with all items in it; return where it lies, and its bytes.

    Without a `target` it goes to a folder of its own among the temporary ones.

    Texts are those of `data`, or of the run's own data where that is still there; without them the page says so. With
    `calls` it has requests and replies too, from `cache` or the run's own. `first`: it opens with the items. UsageError
    for more than two runs, for two that share no item, and for `data` that lacks one of the pairs.
    """
    loaded = [RunFolder.load(run) for run in runs]
    page = page_of(loaded, data=data, calls=calls, cache=cache, first=first).encode()
    place = target or Path(tempfile.mkdtemp(prefix="svr-view-")) / f"{loaded[0].name}.html"
    write_atomic(place, page)
    return place, len(page)


def page_of(
    runs: Sequence[Run],
    *,
    data: Path | None = None,
    calls: bool = False,
    cache: Path | str | None = None,
    first: bool = False,
    figures: Sequence[Drawn] = (),
) -> str:
    """Return the page; see `write_page`."""
    if len(runs) > MOST_RUNS:
        raise UsageError(f"a page shows the items of one run or of two, not of {len(runs)}", hint="name two of them")
    texts, notes = known_texts(runs[0], data)
    exchanges = [exchanges_of(run, cache) for run in runs] if calls else []
    whole = [replace(run, items=with_reasons(run.path, run.items)) for run in runs]
    part = item_part(whole, texts, exchanges=exchanges, notes=notes, first=first)
    return render_report(runs, figures=figures, items=part)


def open_page(page: Path) -> bool:
    """Open a page in the browser; False where there is none."""
    try:
        return webbrowser.open(page.resolve().as_uri())
    except (webbrowser.Error, OSError):
        return False
