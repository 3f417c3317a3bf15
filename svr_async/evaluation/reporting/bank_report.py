"""The report of a bank: one self-contained HTML file, in the look and with the safety of a run's report."""

from __future__ import annotations

from pathlib import Path

from svr_async.errors import UsageError
from svr_async.evaluation.reporting.bank_view import view_bank
from svr_async.evaluation.reporting.report import environment, page_head, template_text
from svr_async.scoring.bank import RubricBank
from svr_async.vocabulary.atomic import write_atomic


def render_bank_report(bank: RubricBank) -> str:
    """Return the report of a bank as an HTML document: every value escaped, no scripts, no requests.

    The same bank gives the same bytes.
    """
    style = template_text("report.css") + template_text("bank.css")
    page = environment().get_template("bank.html.j2").render(view=view_bank(bank), **page_head(style))
    return page.strip() + "\n"


def write_bank_report(folder: Path, target: Path) -> int:
    """Write the page of the bank in a folder and return its bytes; UsageError for a suffix other than .html."""
    if target.suffix.lower() != ".html":
        raise UsageError(f"--out {target}: a bank's report is .html", hint="svr bank card writes Markdown")
    data = render_bank_report(RubricBank.load(folder)).encode()
    write_atomic(target, data)
    return len(data)
