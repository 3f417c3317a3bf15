"""The summary of a run: its numbers are the same in every form, in the words of each kind of number."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from made_run import write_run

from svr_async.core.table import Line, to_html
from svr_async.evaluation import wording
from svr_async.evaluation.run_folder import Run
from svr_async.evaluation.summary import has_official_rule, own_scores
from svr_async.evaluation.wording import against_chance, percent
from svr_async.reports.page import render_runs
from svr_async.reports.text import render_tables, run_parts


def test_the_numbers_are_equal_in_every_form(tmp_path: Path) -> None:
    """Terminal, notebook, page, Markdown, LaTeX and CSV show the accuracies, intervals and scores of one summary."""
    run = Run.load(write_run(tmp_path / "run"))
    found = run.summary
    tables = render_tables([run], ("md", "tex", "csv"))
    parts = list(run_parts(found))
    terminal = " ".join(
        f"{part.label} {part.text}" if isinstance(part, Line) else " ".join(cell for row in part.rows for cell in row)
        for part in parts
    )
    page = render_runs([run])
    forms = {"terminal": terminal, "notebook": to_html(parts), "page": page, "md": tables["md"]}
    forms["tex"] = tables["tex"].replace("~", "\u00a0").replace(r"\%", "%").replace("--", "–")
    shown = [one for one in found.numbers if one.value is not None and one.group in {"", "domain"}]
    assert len(shown) == 9
    for name, text in forms.items():
        for one in shown:
            if not (one.key == "coverage" and name in {"terminal", "notebook"}):
                assert one.words in text, (name, one)
            assert one.interval in text, (name, one)
    rows = list(csv.DictReader(io.StringIO(tables["csv"])))
    numbers = {(row["score"], row["group"]): row["value"] for row in rows}
    for one in shown:
        assert percent(float(numbers[one.key, one.name if one.group else ""])) == one.words
    assert float(numbers["accuracy", "Chat"]) == run.metrics["by_domain"]["Chat"]["accuracy"]


@pytest.mark.parametrize(
    ("interval", "metrics", "words"),
    [
        ((0.7, 0.8), {}, "Better than guessing."),
        ((0.4, 0.6), {}, "No better than guessing so far."),
        ((0.1, 0.2), {"accuracy_bounds": [0.15, 0.9]}, "with ties and missing verdicts counted as wrong"),
        ((0.1, 0.2), {"accuracy_bounds": [0.15, 0.2]}, "Worse than guessing"),
        (None, {}, ""),
    ],
)
def test_an_accuracy_is_compared_with_guessing(
    interval: tuple[float, float] | None, metrics: dict[str, list[float]], words: str
) -> None:
    """One sentence says what the interval means; many ties are not called bad judgement."""
    assert words in against_chance(metrics, interval)


def test_scores_that_repeat_others_are_left_out() -> None:
    """Without an official rule neither the accuracy nor the domains are shown twice."""
    same = {"accuracy": 0.75, "by_domain": {"code": {"n": 4, "accuracy": 0.75}}}
    official = {"overall": 0.75, "by_domain": {"code": 0.75}, "by_subset": {}, "rule": "correct / total"}
    metrics = {"benchmark": "pairs", **same, "official": official}
    assert own_scores(metrics) == {}
    assert own_scores({**metrics, "official": {**official, "by_subset": {"a": 0.5}}})["by_subset"] == {"a": 0.5}
    assert not has_official_rule(metrics)
    assert has_official_rule({"benchmark": "rubricbench"})
    assert "overall" in own_scores({**metrics, "benchmark": "rubricbench"})


@pytest.mark.parametrize(
    ("function", "value", "words"),
    [
        (wording.percent, 0.8123, "81.2\u00a0%"),
        (wording.percent, None, "–"),
        (wording.points, -0.0041, "−0.4"),
        (wording.points, 0.031, "+3.1"),
        (wording.points, -0.0001, "0.0"),
        (wording.signed, None, "–"),
        (wording.interval, [0.7891, 0.834], "78.9–83.4\u00a0%"),
        (wording.interval, None, "–"),
        (wording.count, 1234567, "1,234,567"),
        (wording.count, None, "–"),
        (wording.p_value, 0.034, "0.034"),
        (wording.p_value, 0.5, "0.50"),
        (wording.p_value, 0.00042, "0.0004"),
        (wording.p_value, 1e-9, "< 0.0001"),
        (wording.dollars, None, "unknown"),
        (wording.dollars, 0, "$0.00"),
        (wording.dollars, 0.0042, "$0.0042"),
        (wording.dollars, 1234.5, "$1,234.50"),
        (wording.duration, None, "–"),
        (wording.duration, 0.24, "240\u00a0ms"),
        (wording.duration, 8.31, "8.3\u00a0s"),
        (wording.duration, 245, "4\u00a0min 05\u00a0s"),
        (wording.duration, 11520, "3\u00a0h 12\u00a0min"),
    ],
)
def test_numbers_as_words(function: Callable[..., str], value: float | list[float] | None, words: str) -> None:
    """Each kind of number has one form."""
    assert function(value) == words
