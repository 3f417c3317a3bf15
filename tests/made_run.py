"""A made-up but coherent run folder: every number in metrics.json follows from its items; all words are our own."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import orjson

from svr_async.core.statistics import wilson_interval
from svr_async.evaluation.items import Item, RubricRow

DOMAINS = {"Chat": 118, "Code": 76, "STEM": 70, "Instruction following": 35, "Safety": 21}
RUBRICS = (
    ("Answers the question that was asked, in its first two sentences", 0.62),
    ("Keeps every number of the prompt and adds none of its own", 0.48),
    ("Names the exception to the rule that it states", 0.31),
    ("Stays within the length that was asked for", 0.27),
    ("Uses the units of the prompt throughout, and converts where both appear", 0.22),
    ("Says plainly what it does not know", 0.12),
)
PROMPT = (
    "My sourdough starter doubled in four hours last week, and now it needs ten. The kitchen went from 24 °C to 17 °C. "
    "Is it dying?\n\nPlease answer in at most three sentences, and tell me one thing to change."
)
RESPONSE_A = (
    "No, it is only cold: yeast works about half as fast for every eight degrees that you take away, so ten hours at "
    "17 °C is what four hours at 24 °C becomes. Feed it as before. Move the jar to the top of the refrigerator, where "
    "it is warmer."
)
RESPONSE_B = (
    "# Understanding your starter\n\nA sourdough starter is a living community of wild yeast and lactic acid "
    "bacteria. There are **many reasons** why it may slow down:\n\n- Temperature\n- Flour quality\n- Water hardness\n"
    "- Feeding ratio\n\nIt is hard to say which of them applies here. You could try a new flour, filtered water, a "
    "different ratio, or begin again from scratch. Let me know how it goes!"
)


def made_items(*, n: int | None = None, seed: int = 7, skill: float = 0.72) -> list[Item]:
    """Return items over five domains; a larger `skill` is right more often, and wider margins are right more often."""
    domains = [name for name, size in DOMAINS.items() for _ in range(size)][:n]
    return [made_item(f"{name[:4].lower()}-{i:04d}", name, seed, skill) for i, name in enumerate(domains)]


def made_item(key: str, domain: str, seed: int, skill: float) -> Item:
    """Return one item whose contributions add up to its margin; one in forty has no verdict, one in sixty is a tie."""
    rng = random.Random(f"{seed}/{key}")
    gold = random.Random(key).choice("AB")
    fate = rng.random()
    if fate < 0.025:
        return _item(
            key, domain, gold, outcome=rng.choice(["parse_error", "api_error"]), detail="no verdict in the reply"
        )
    if fate < 0.04:
        return _item(key, domain, gold, outcome="tie", margin=0.0)
    lean = skill + (0.1 if domain == "Code" else -0.16 if domain == "Safety" else 0.0)
    rows = tuple(_row(text, weight, gold, rng, lean) for text, weight in RUBRICS)
    margin = round(sum(row.contribution for row in rows), 9)
    margins = {"ab": margin}
    if rng.random() < 0.1:
        margins["ba"] = round(margin + rng.gauss(0, 0.5), 9)
    return _item(key, domain, gold, margin=margin, rows=rows, margins=margins)


def _item(
    key: str,
    domain: str,
    gold: str,
    *,
    outcome: str = "scored",
    margin: float | None = None,
    rows: tuple[RubricRow, ...] = (),
    margins: dict[str, float] | None = None,
    detail: str = "",
) -> Item:
    predicted = None if not margin else "A" if margin > 0 else "B"
    return Item(
        id=key,
        item=key,
        domain=domain,
        subset=f"{domain.lower()}-held-out",
        order="ab",
        outcome=outcome,
        predicted=predicted,
        gold=gold,
        correct=predicted == gold,
        margin=margin,
        margins=margins or {},
        rubrics=rows,
        flags=("repaired",) if key.endswith("7") else (),
        detail=detail,
        requests=("0" * 16,),
    )


def _row(text: str, weight: float, gold: str, rng: random.Random, lean: float) -> RubricRow:
    better = gold if rng.random() < lean else "B" if gold == "A" else "A"
    clear = rng.random() < 0.55
    a, b = ("pass", "pass") if not clear else ("pass", "fail") if better == "A" else ("fail", "pass")
    delta = (a == "pass") - (b == "pass") + (0.25 if better == "A" else -0.25)
    return RubricRow(
        id=f"r{len(text):03d}",
        text=text,
        alpha=0.5,
        weight=2 * weight,
        importance=weight,
        filler=weight < 0.15,
        a=a,
        b=b,
        better=better,
        delta=delta,
        contribution=round(weight * delta, 9),
        shown="ab",
    )


def made_metrics(items: list[Item], **changes: Any) -> dict[str, Any]:
    """Return metrics.json of the items, with some keys replaced."""
    n, right = len(items), sum(item.correct is True for item in items)
    scored = sum(item.outcome == "scored" for item in items)
    ties = sum(item.outcome == "tie" for item in items)
    lost = n - scored - ties
    metrics: dict[str, Any] = {
        "benchmark": "rubricbench",
        "method": "svr",
        "judge": "gpt-oss-120b",
        "judge_label": "gpt-oss-120b",
        "bank": "bank-three-rounds",
        "n_total": n,
        "n_scored": scored + ties,
        "coverage": (scored + ties) / n,
        "accuracy": right / n,
        "accuracy_scored": right / max(1, scored + ties),
        "accuracy_half_credit": (right + 0.5 * ties) / n,
        "accuracy_bounds": [right / n, (right + ties + lost) / n],
        "accuracy_ci95": list(wilson_interval(right, n)),
        "by_domain": _by_domain(items),
        "official": {"Overall": right / n, "Per domain": {k: v["accuracy"] for k, v in _by_domain(items).items()}},
        "outcomes": dict(Counter(item.outcome for item in items)),
        "order": {
            "policy": "hash",
            "audited": sum(len(item.margins) == 2 for item in items),
            "flip_rate": 0.094,
            "lean_a": 0.531,
        },
        "calls": {"sent": n - 14, "cache_hits": 30, "retries": 6, "failed": lost},
        "usage": {"prompt_tokens": 2104 * n, "cached_tokens": 890 * n, "completion_tokens": 611 * n},
        "cost_usd": 0.00071 * n,
        "wall_s": 214.6,
        "complete": True,
        "notes": [],
    }
    return {**metrics, **changes}


def _by_domain(items: list[Item]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in dict.fromkeys(item.domain for item in items):
        marks = [item.correct is True for item in items if item.domain == name]
        interval = wilson_interval(sum(marks), len(marks))
        found[name] = {"n": len(marks), "accuracy": sum(marks) / len(marks), "ci95": list(interval)}
    return found


def made_manifest(**changes: Any) -> dict[str, Any]:
    """Return manifest.json with some keys replaced."""
    manifest: dict[str, Any] = {
        "svr_version": "0.1.0",
        "command": "svr-eval rubricbench --judge gpt-oss-120b --bank bank-three-rounds --order hash",
        "config": {"top_k": 6, "order": "hash", "seed": 0, "concurrency": "auto", "judge": {"temperature": 0}},
        "benchmark": "rubricbench",
        "method": "svr",
        "data": {
            "path": "rubricbench.parquet",
            "digest": "blake2b:5f0e7c4412aa93d1",
            "n_pairs": 320,
            "official": True,
            "notes": [],
            "skipped": 0,
        },
        "judge": {
            "name": "gpt-oss-120b",
            "label": "gpt-oss-120b",
            "model": "openai/gpt-oss-120b",
            "base_url": "http://localhost:8000/v1",
        },
        "prompts": {"compare": "sha256:1c9b7e20", "prefer": "sha256:77d0a4c3"},
        "started": "2026-01-05T10:22:33+00:00",
        "ended": "2026-01-05T10:26:08+00:00",
        "versions": {"python": "3.11.9", "aiohttp": "3.11.2"},
        "sample": False,
    }
    return {**manifest, **changes}


def write_run(
    folder: Path,
    *,
    items: list[Item] | None = None,
    metrics: dict[str, Any] | None = None,
    manifest: dict[str, Any] | None = None,
) -> Path:
    """Write a run folder; `metrics` and `manifest` replace keys."""
    folder.mkdir(parents=True, exist_ok=True)
    items = made_items() if items is None else items
    (folder / "items.jsonl").write_bytes(b"".join(item.to_line() for item in items))
    (folder / "metrics.json").write_bytes(orjson.dumps(made_metrics(items, **(metrics or {}))))
    (folder / "manifest.json").write_bytes(orjson.dumps(made_manifest(**(manifest or {}))))
    return folder
