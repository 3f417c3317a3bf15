"""The smallest run folders that load: items with one rubric each, whose right answer is A."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from svr_async.evaluation.items import Item, RubricRow


def row(text: str, contribution: float) -> RubricRow:
    """Return a rubric with a contribution towards A (positive) or B."""
    better = "A" if contribution > 0 else "B"
    return RubricRow(
        id="r1", text=text, alpha=1.0, weight=1.0, importance=abs(contribution) * 4, filler=False, a="pass", b="pass",
        better=better, delta=0.25 if better == "A" else -0.25, contribution=contribution, shown="ab",
    )  # fmt: skip


def item(number: int, *, correct: bool = True, margin: float = 0.5, domain: str = "Chat") -> Item:
    """Return an item whose right answer is A."""
    margin = margin if correct else -margin
    return Item(
        id=f"q-{number:03d}", item=f"q-{number:03d}", domain=domain, subset="", order="ab", outcome="scored",
        predicted="A" if margin > 0 else "B", gold="A", correct=correct, margin=margin, margins={"ab": margin},
        rubrics=(row("Gives the price", margin),), flags=(), detail="", requests=(),
    )  # fmt: skip


def write_run(
    folder: Path,
    items: list[Item],
    *,
    manifest: dict[str, Any] | None = None,
    **metrics: Any,
) -> Path:
    """Write the smallest run folder that loads."""
    folder.mkdir(parents=True)
    right = sum(entry.correct is True for entry in items)
    numbers = {
        "benchmark": "pairs", "method": "svr", "judge": "tiny", "n_total": len(items), "n_scored": len(items),
        "accuracy": right / len(items), "complete": True, **metrics,
    }  # fmt: skip
    (folder / "metrics.json").write_bytes(orjson.dumps(numbers))
    (folder / "manifest.json").write_bytes(orjson.dumps(manifest or {}))
    (folder / "items.jsonl").write_bytes(b"".join(entry.to_line() for entry in items))
    return folder
