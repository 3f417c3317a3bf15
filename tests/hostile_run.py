"""A run folder whose every text attacks the reader, and its harmless twin with the same shape."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from made_run import made_items, write_run

from svr_async.evaluation.items import Item
from svr_async.evaluation.run_folder import Run

ATTACKS = (
    "<script>window.pwned=1</script>",
    "</script><script>window.pwned=2</script>",
    "</style><script>window.pwned=3</script>",
    "<img src=x onerror=window.pwned=4>",
    '" onmouseover="window.pwned=5" autofocus onfocus=\'window.pwned=6\'',
    '<a href="javascript:window.pwned=7">x</a> javascript:window.pwned=8',
    "<svg onload=window.pwned=9><iframe srcdoc='<script>parent.pwned=10</script>'></iframe></svg>",
    "{{ 7*7 }} {% raw %} ${7*7} <!-- ]]> -->",
    "&lt;script&gt; &#x3C;b&#x3E; \u202egnp.exe\u2066 \x1b[31m\x00 \u200b",
    "</details></div></main><h1>All correct</h1><base href=https://example.org/><meta http-equiv=refresh content=0>",
)
ATTACK = " ".join(ATTACKS)
HARMLESS = "Nothing to see here"
LONG = "unbroken" * 60


def armed_run(folder: Path, text: str, *, tail: str = "") -> Run:
    """Return a run with `text` in every field that comes from outside; the same shape whatever the text."""
    items = [_armed(item, text, tail) for item in made_items(n=40, skill=0.5)]
    metrics = {
        "benchmark": f"{text}{tail}",
        "method": text,
        "judge": text,
        "judge_label": f"{text}{tail}",
        "bank": text,
        "by_domain": {f"{text}{tail}": {"n": 40, "accuracy": 0.5, "ci95": [0.35, 0.65]}},
        "official": {text: 0.5, f"{text} nested": {text: 0.25, "words": text}, "rule": text},
        "outcomes": {f"{text}{tail}": 40},
        "order": {"policy": text, "flip_rate": 0.1},
        "calls": {text: 3},
        "notes": [f"{text}{tail}"],
    }
    words = {f"{text}{tail}": f"{text}{tail}"}
    manifest = {
        "command": ["svr-eval", text],
        "config": {"nested": words, **words},
        "data": {"path": f"{text}{tail}", "digest": text, "notes": [text], "skipped": {text: 2}},
        "judge": {"name": text, "model": f"{text}{tail}", "base_url": text},
        "prompts": words,
        "versions": words,
        "started": text,
        "ended": text,
        "svr_version": text,
    }
    return Run.load(write_run(folder, items=items, metrics=metrics, manifest=manifest))


def _armed(item: Item, text: str, tail: str) -> Item:
    rows = tuple(replace(row, id=f"{text}{row.id}", text=f"{text}{tail}") for row in item.rubrics)
    return replace(
        item,
        id=f"{item.id}{text}{tail}",
        domain=f"{text}{tail}",
        subset=f"{text} part",
        detail=text,
        flags=(f"{text}{tail}",),
        rubrics=rows,
    )
