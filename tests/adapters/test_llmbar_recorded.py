"""LLMBar's published outputs become pairs and recorded replies in the frame of what was shown."""

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from svr_async.adapters import get_adapter


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """Return benchmarks/paper/llmbar_recorded.py as a module."""
    path = Path(__file__).parents[2] / "benchmarks/paper/llmbar_recorded.py"
    spec = importlib.util.spec_from_file_location("llmbar_recorded", path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["llmbar_recorded"] = module
    assert spec.loader is not None
    spec.loader.exec_module(module)
    return module


def row(label: int, *winners: str | None, questions: str | None = None) -> dict[str, Any]:
    """Return one row of an evaluator's results, with its winners in both orders."""
    verdicts = {
        f"swap = {swap}": {"completion": [f"said {winner}", "stop"], "winner": winner}
        for swap, winner in zip((False, True), winners, strict=True)
    }
    results = [verdicts] if questions is None else [[questions, "stop"], verdicts]
    return {"input": "p", "output_1": "x", "output_2": f"y{label}", "label": label, "results": results}


def run(
    script: ModuleType, write: Callable[..., Path], tmp_path: Path, strategy: str, rows: list[dict[str, Any]]
) -> tuple[Path, list[Any]]:
    """Run the script on made rows; return the path of the pairs and the replies."""
    write("LLMBar/Natural/dataset.json", [{"input": "p", "output_1": "x", "output_2": "y", "label": 1}])
    write(f"LLMBar/Natural/evaluators/GPT-4/{strategy}/result.json.gz", rows)
    out = tmp_path / "out"
    code = script.main(["--llmbar", str(tmp_path / "LLMBar"), "--strategy", strategy, "--out", str(out)])
    assert code == 0
    replies = [json.loads(line) for line in (out / "replies.jsonl").read_text().splitlines()]
    return out / "pairs.jsonl", replies


def test_direct_verdicts_name_the_response_as_shown(
    script: ModuleType, write: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Winner "1" is A in the data's order and B in the swapped one; no winner leaves no verdict."""
    pairs, replies = run(script, write, tmp_path, "Vanilla", [row(1, "1", "1"), row(2, "1", "2"), row(1, "tie", None)])
    assert [(r["pair_id"], r["order"], r["role"], r["reply"]) for r in replies] == [
        ("Natural/1", "ab", "direct", "said 1\n[[A]]"),
        ("Natural/1", "ba", "direct", "said 1\n[[B]]"),
        ("Natural/2", "ab", "direct", "said 1\n[[A]]"),
        ("Natural/2", "ba", "direct", "said 2\n[[A]]"),
        ("Natural/3", "ab", "direct", "said tie"),
        ("Natural/3", "ba", "direct", "said None"),
    ]
    dataset = get_adapter("pairs").load(pairs)
    assert [(p.id, p.domain, p.chosen) for p in dataset.pairs] == [
        ("Natural/1", "Natural", "x"),
        ("Natural/2", "Natural", "y2"),
        ("Natural/3", "Natural", "x"),
    ]
    assert " ".join(capsys.readouterr().out.split()) == "Natural n 3 ab 0.333 ba 0.667 both 0.500"


def test_metrics_give_rubrics_and_verdicts(script: ModuleType, write: Callable[..., Path], tmp_path: Path) -> None:
    """The evaluator's own questions come as rubrics without an order, its verdicts as JSON."""
    _, replies = run(
        script, write, tmp_path, "Metrics", [row(2, "2", None, questions="1. Is it short?\n\n2. Is it kind?")]
    )
    assert [(r["role"], r.get("order"), json.loads(r["reply"])) for r in replies] == [
        ("self_rubrics", None, {"rubrics": ["Is it short?", "Is it kind?"], "rubric_note": ""}),
        ("compare", "ab", {"rubric_comparisons": [], "preferred_candidate": "B"}),
        ("compare", "ba", {"rubric_comparisons": []}),
    ]
