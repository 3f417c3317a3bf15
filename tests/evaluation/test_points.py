"""Rubrics with points of either sign, from a row or a file to the margin: Σ points · satisfied."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from click.testing import CliRunner

from svr_async.commands.data import data as data_command
from svr_async.evaluation.run import evaluate
from svr_async.evaluation.settings import EvalSettings

SHORT, LONG = "The response is at most 5 words long.", "The response is at least 8 words long."
BRIEF, WORDY = "An apple.", "An apple is round, sweet and crisp, and it grows on trees."
ROWS: list[tuple[str, list[Mapping[str, Any]], float]] = [  # shape, rubrics, the margin of BRIEF
    (
        "HealthBench",
        [{"criterion": SHORT, "points": 3, "tags": ["level:example"]}, {"criterion": LONG, "points": -5}],
        8,
    ),
    ("RaR", [{"title": "Detail", "description": LONG, "weight": 4}, {"description": SHORT, "weight": -2}], -6),
    ("RubricHub", [{"criterion": LONG, "points": 7}, {"criterion": SHORT, "points": 2}], -5),
    ("open-instruct", [{"description": SHORT, "weight": 1.5}, {"description": LONG}], 0.5),
]
"""Rows as publishers write them, judged by checks."""


def written(folder: Path) -> Path:
    """Write the rows, each with BRIEF as A, which the label prefers where the margin does."""
    path = folder / "signed.jsonl"
    rows = [
        {"id": shape, "prompt": f"Name a fruit for {shape}.", "response_a": BRIEF, "response_b": WORDY,
         "rubrics": rubrics, "label": "A" if margin > 0 else "B"}
        for shape, rubrics, margin in ROWS
    ]  # fmt: skip
    path.write_bytes(b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows))
    return path


def test_the_oracle_adds_up_points(tmp_path: Path) -> None:
    """A rubric with negative points counts against the response that satisfies it; `svr data check` counts them."""
    data = written(tmp_path)
    told = CliRunner().invoke(data_command, ["check", str(data)]).output
    assert "rubrics  8, 2 with negative points" in told
    assert f"{LONG} (-5)" in told
    for order in ("hash", "both"):
        run = evaluate(
            EvalSettings(
                benchmark="pairs", data=data, method="oracle", judge="rules", order=order, out=tmp_path / order
            )
        )
        assert {item.id: item.margin for item in run.items} == {shape: margin for shape, _, margin in ROWS}
        assert run.metrics["accuracy"] == 1.0
