"""The report of a bank: one self-contained HTML file, in the look and with the safety of a run's report."""

from __future__ import annotations

from svr_async.evaluation.bank_view import view_bank
from svr_async.evaluation.report import environment, page_head, template_text
from svr_async.scoring.bank import RubricBank


def render_bank_report(bank: RubricBank) -> str:
    """Return the report of a bank as an HTML document: every value escaped, no scripts, no requests.

    The same bank gives the same bytes.
    """
    style = template_text("report.css") + template_text("bank.css")
    page = environment().get_template("bank.html.j2").render(view=view_bank(bank), **page_head(style))
    return page.strip() + "\n"
