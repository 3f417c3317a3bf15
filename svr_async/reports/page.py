"""Pages: one self-contained HTML file each, safe with hostile texts inside.

A page makes no request. It has no script but the one that shows items, which the content security policy admits by its
digest.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

from svr_async.core.safetext import visible
from svr_async.errors import UsageError
from svr_async.evaluation import wording
from svr_async.evaluation.compare import HOLM, compare_runs
from svr_async.evaluation.items import Exchanges
from svr_async.evaluation.run_folder import Run, Texts
from svr_async.evaluation.summary import summaries_of
from svr_async.reports import facts
from svr_async.reports.compare_tables import paired_table
from svr_async.reports.drawing import Image, image
from svr_async.reports.effects import effects_tables
from svr_async.reports.figures import run_figures
from svr_async.reports.items import MOST_RUNS, SCRIPTS, item_part

if TYPE_CHECKING:
    from jinja2 import Environment


def render_runs(
    runs: Sequence[Run],
    *,
    texts: Mapping[str, Texts] | None = None,
    prompts: Mapping[str, str] | None = None,
    exchanges: Sequence[Exchanges] = (),
    notes: Sequence[str] = (),
) -> str:
    """Return the page of one run with all its items, or of several runs with their comparison first.

    `texts` are those of items, by id; `prompts` are the prompts of items without texts. Every value is
    escaped, hidden characters are shown as ⟨U+202E⟩. The same runs give the same bytes.
    """
    if len(runs) > len(ascii_uppercase):
        raise UsageError(f"a page compares at most {len(ascii_uppercase)} runs (got {len(runs)})")
    summaries = summaries_of(runs)
    comparison = compare_runs(runs, require_shared=False) if len(runs) > 1 else None
    letters = dict(zip((one.title for one in summaries), ascii_uppercase, strict=False))
    items = None
    if len(runs) == 1 or (len(runs) <= MOST_RUNS and comparison is not None and comparison.duels):
        items = item_part(runs, summaries, texts or {}, prompts or {}, exchanges, notes)
    named = [replace(one, title=f"Run {letters[one.title]}") for one in summaries] if len(runs) > 1 else summaries
    return render(
        "run.html.j2",
        summaries=summaries,
        comparison=comparison,
        letters=letters,
        duels=[]
        if comparison is None
        else [(d, paired_table(d, (letters[d.first], letters[d.second]))) for d in comparison.duels],
        holm=HOLM,
        items=items,
        effects=list(effects_tables(summaries[0].effects, "By net effect")) if len(runs) == 1 else [],
        figures=[image(one) for one in run_figures(named)],
        script=_script() if items else "",
    )


def render(name: str, *, figures: Sequence[Image], script: str = "", **values: Any) -> str:
    """Return the page of a template with figures and at most one script."""
    head = page_head(template_text("report.css") + template_text("items.css"), figures, script)
    return str(environment().get_template(name).render(**values, **head)).strip() + "\n"


def page_head(style: str, figures: Sequence[Image] = (), script: str = "") -> dict[str, Any]:
    """Return style sheet, figures and script, and the content security policy that allows these and nothing else."""
    from markupsafe import Markup

    images = "img-src data:; " if figures else ""
    scripts = f"script-src 'sha256-{_sha256(script)}'; " if script else ""
    styles = f"style-src 'sha256-{_sha256(style)}'"
    policy = f"default-src 'none'; {images}{scripts}{styles}; base-uri 'none'; form-action 'none'"
    own = {"style": Markup(style), "script": Markup(script)}  # noqa: S704  (the package's own)
    return {**own, "policy": policy, "figures": figures}


@cache
def environment() -> Environment:
    """Return the templates' environment: autoescape always on, undefined names are errors."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    made = Environment(
        loader=FunctionLoader(template_text),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: visible(value) if type(value) is str else value,  # markup of our own passes
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(words=wording, facts=facts)
    return made


@cache
def template_text(name: str) -> str:
    """Return a template, style sheet or script of the package."""
    return resources.files("svr_async.reports").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def _script() -> str:
    parts = "\n".join(template_text(f"items/{name}.js") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}}})();\n'


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
