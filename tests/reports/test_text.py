"""Tables carry their honesty marks, escape what they hold, and side by side keep runs apart."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from made_run import made_items, write_run

from svr_async.core.table import markdown
from svr_async.evaluation.run_folder import Run
from svr_async.reports.text import render_tables
from svr_async.reports.writers import csv_text, latex

HOSTILE = "=1+1|<img src=x onerror=alert(1)>\n& $x_1$ \\input{secret} `code` \u202egnp.exe\x1b[31m"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Give a run."""
    return Run.load(write_run(tmp_path / "one"))


@pytest.fixture
def simulated(tmp_path: Path) -> Run:
    """Give a run that is doubtful twice over."""
    metrics = {"judge_label": "gpt-oss-120b (SIMULATED endpoint)", "complete": False}
    return Run.load(
        write_run(
            tmp_path / "two", items=made_items(seed=2), metrics=metrics, manifest={"judge": {"marks": ["simulated"]}}
        )
    )


@pytest.fixture
def hostile(tmp_path: Path) -> Run:
    """Give a run whose names attack every format."""
    changes = {
        "judge_label": HOSTILE,
        "notes": [HOSTILE],
        "by_domain": {HOSTILE: {"n": 3, "accuracy": 0.5, "ci95": [0.1, 0.9]}},
        "official": {HOSTILE: 0.5},
    }
    return Run.load(write_run(tmp_path / "hostile", metrics=changes))


@pytest.mark.parametrize("suffix", ["md", "tex", "csv"])
def test_marks_are_in_every_table(simulated: Run, suffix: str) -> None:
    """A simulated, partial run says so in any format."""
    text = render_tables([simulated], (suffix,))[suffix]

    assert "PARTIAL" in text
    assert "SIMULATED" in text


def test_markdown_is_inert(hostile: Run) -> None:
    """Pipes, tags, links and code in names stay text on one line."""
    text = render_tables([hostile], ("md",))["md"]

    assert "<img" not in text.replace("\\<img", "")
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert markdown("a|b\n[x](y)") == r"a\|b \[x\](y)"


def test_latex_is_inert(hostile: Run) -> None:
    """No command, group, comment or math from a name reaches LaTeX."""
    text = render_tables([hostile], ("tex",))["tex"]

    assert r"\input" not in text
    assert latex("50% of $x_1 & {y} #2 ~^\\") == (
        r"50\% of \$x\_1 \& \{y\} \#2 \textasciitilde{}\textasciicircum{}\textbackslash{}"
    )
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 2


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "\0", "＝"])
def test_csv_formulas_are_guarded(start: str) -> None:
    """A cell that a spreadsheet would run begins with an apostrophe instead."""
    assert csv_text(f"{start}cmd()").startswith("'")


def test_csv_survives_hostile_names_and_round_trips(hostile: Run) -> None:
    """A reader finds the same number of columns in every row and no formula at the start of any text."""
    rows = list(csv.reader(io.StringIO(render_tables([hostile], ("csv",))["csv"])))

    assert {len(row) for row in rows} == {11}
    texts = [cell for row in rows[1:] for cell in row[:7]]
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in texts)
    assert any(cell.startswith("'=1+1|<img") for cell in texts)


def test_what_is_unknown_is_a_dash(tmp_path: Path) -> None:
    """No price, no coverage, no domains: dashes and words, never 0 or NaN."""
    metrics: dict[str, Any] = {
        "cost_usd": None,
        "coverage": None,
        "accuracy": None,
        "by_domain": {},
        "accuracy_ci95": None,
    }
    text = render_tables([Run.load(write_run(tmp_path, metrics=metrics))], ("md",))["md"]

    assert "| Cost | unknown |" in text
    assert "| Accuracy | – |" in text
    assert "nan" not in text.casefold()
