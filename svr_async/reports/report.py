"""The report: one self-contained HTML file without fonts or requests, safe with hostile texts inside.

It has no script, or with all items in it our own alone, which the content security policy admits by its digest.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from svr_async.core.safetext import capped, visible
from svr_async.errors import UsageError
from svr_async.evaluation import wording
from svr_async.evaluation.compare import Comparison, compare_runs
from svr_async.evaluation.rubric_effects import RubricEffects
from svr_async.evaluation.run_folder import Run
from svr_async.reports.figure_files import Drawn
from svr_async.reports.item_page import SCRIPTS, ItemPart
from svr_async.reports.reportview import MAX_PROMPT_CHARS, MAX_RESPONSE_CHARS, view_run

if TYPE_CHECKING:
    from jinja2 import Environment


def render_report(
    runs: Sequence[Run],
    *,
    comparison: Comparison | None = None,
    figures: Sequence[Drawn] = (),
    items: ItemPart | None = None,
    effects: RubricEffects | None = None,
) -> str:
    """Return the report of one run, or of several with their comparison first, as an HTML document.

    Every value is escaped where it is written, and hidden characters (controls, bidi marks) are shown as ⟨U+202E⟩.
    The content security policy forbids all requests, and every script but the one that shows `items`, where there are
    any; that writes them as text alone. The same runs give the same bytes. `effects` are those of the rubrics of a lone
    run, where they are worked out already.
    """
    if not runs:
        raise UsageError("a report needs at least one run", hint="svr report RUN --out report.html")
    if len(runs) > 1 and comparison is None:
        comparison = compare_runs(runs, require_shared=False)
    template = environment().get_template("report.html.j2")
    style, script = (template_text("report.css"), "") if items is None else _with_items()
    page = template.render(
        views=[view_run(run, effects) for run in runs],
        comparison=comparison,
        max_prompt=MAX_PROMPT_CHARS,
        max_response=MAX_RESPONSE_CHARS,
        items=items,
        **page_head(style, figures, script),
    )
    return page.strip() + "\n"


def _with_items() -> tuple[str, str]:
    """Return style sheet and script of a page with items; each part of the script is a file of one subject."""
    parts = "\n".join(template_text(f"items/{name}.js") for name in SCRIPTS)
    return template_text("report.css") + template_text("items/items.css"), f'(() => {{\n"use strict";\n{parts}}})();\n'


def page_head(style: str, figures: Sequence[Drawn] = (), script: str = "") -> dict[str, Any]:
    """Return style sheet, figures and script, and the content security policy that allows these and nothing else."""
    images = "img-src data:; " if figures else ""
    scripts = f"script-src 'sha256-{_sha256(script)}'; " if script else ""
    styles = f"style-src 'sha256-{_sha256(style)}'"
    policy = f"default-src 'none'; {images}{scripts}{styles}; base-uri 'none'; form-action 'none'"
    return {"style": _as_markup(style), "script": _as_markup(script), "policy": policy, "figures": figures}


@cache
def environment() -> Environment:
    """Return the templates' environment: autoescape always on, undefined names are errors."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    from svr_async.evaluation import compare, explain
    from svr_async.reports import charts, curve_charts, frontier_chart, rubric_tables, rubric_view

    made = Environment(
        loader=FunctionLoader(template_text),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_displayed,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(charts=charts, curves=curve_charts, frontiers=frontier_chart)
    made.globals.update(words=wording, capped=capped, favoured=explain.favoured, votes_of=explain.votes_in_words)
    made.globals.update(counts_note=explain.counts_note, verdict_of=explain.verdict_of, why=explain.why)
    made.globals.update(holm=compare.HOLM, net_in_words=rubric_tables.net_in_words, most_errors=rubric_view.MOST_ERRORS)
    made.globals.update(reason_of=explain.reason_of, verdict_reasons=explain.verdict_reasons)
    return made


def _displayed(value: Any) -> Any:
    """Show hidden characters of every value written; markup of our own and numbers pass as they are."""
    return visible(value) if type(value) is str else value


@cache
def template_text(name: str) -> str:
    """Return a template or style sheet of the package."""
    return resources.files("svr_async.reports").joinpath("templates", name).read_text(encoding="utf-8")


def _as_markup(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)  # noqa: S704  (the package's own style sheet or script)


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
