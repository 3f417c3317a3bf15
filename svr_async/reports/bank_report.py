"""The report of a bank: one self-contained HTML file, in the look and with the safety of a run's report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from svr_async.core.files import write_atomic
from svr_async.errors import UsageError
from svr_async.evaluation.run_folder import Run, RunFolder
from svr_async.reports.bank_figures import SHOWN_INLINE, bank_figures
from svr_async.reports.bank_view import view_bank
from svr_async.reports.figure_files import Drawn, write_figures
from svr_async.reports.report import environment, page_head, template_text
from svr_async.reports.rubric_tables import bank_effects
from svr_async.reports.rubric_view import view_effects
from svr_async.scoring.bank import RubricBank


def render_bank_report(bank: RubricBank, figures: Sequence[Drawn] = (), runs: Sequence[Run] = ()) -> str:
    """Return the report of a bank as an HTML document: every value escaped, no scripts, no requests.

    The same bank gives the same bytes. `figures` are shown at its end, what its rubrics did in `runs` ahead of them.
    """
    style = template_text("report.css") + template_text("bank.css")
    head = page_head(style, figures)
    did = view_effects(bank_effects(bank, runs), "Run") if runs else None
    page = environment().get_template("bank.html.j2").render(view=view_bank(bank), did=did, **head)
    return page.strip() + "\n"


def write_bank_report(folder: Path, target: Path, figures: Path | None = None, runs: Sequence[Path] = ()) -> int:
    """Write the page of the bank in a folder and return its bytes; UsageError for a suffix other than .html.

    With `figures` they are drawn into that folder, and the page shows what it has no chart of. Of `runs` it shows what
    the bank's rubrics did there.
    """
    if target.suffix.lower() != ".html":
        raise UsageError(f"--out {target}: a bank's report is .html", hint="svr bank card writes Markdown")
    bank = RubricBank.load(folder)
    drawn = write_figures(figures, tuple(bank_figures(bank))) if figures else ()
    shown = [one for one in drawn if one.figure.name not in SHOWN_INLINE]
    data = render_bank_report(bank, shown, [RunFolder.load(run) for run in runs]).encode()
    write_atomic(target, data)
    return len(data)
