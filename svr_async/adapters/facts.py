"""What people are told of a data set: where it is from, its counts, how its labels were read, and one pair."""

from __future__ import annotations

from collections import Counter
from typing import Any

from svr_async.adapters.records import Dataset
from svr_async.core.pair import prompt_text
from svr_async.errors import UsageError


def dataset_facts(dataset: Dataset, row: int) -> dict[str, Any]:
    """Return the facts as JSON values, with pair number `row`; UsageError where there are fewer pairs."""
    if row > len(dataset.pairs):
        raise UsageError(f"--row {row}: there are {len(dataset.pairs)} pairs", hint="give a smaller row")
    pair = dataset.pairs[row - 1]
    return {
        "path": str(dataset.source),
        "rows": dataset.n_rows,
        "pairs": len(dataset.pairs),
        "digest": dataset.digest,
        "origin": dataset.origin,
        "labels": list(dataset.readings),
        "first preferred": sum(p.chosen_first for p in dataset.pairs),
        "left out": dataset.left_out(),
        "official": dataset.official,
        "skipped": dict(dataset.skipped),
        "notes": list(dataset.notes),
        "rubrics": rubrics_in_words(dataset),
        "domains": dict(Counter(p.domain for p in dataset.pairs)),
        "pair": {
            "id": pair.id,
            "domain": pair.domain,
            "subset": pair.subset,
            "gold": pair.gold.value if pair.gold else None,
            "prompt": prompt_text(pair.prompt),
            "response_a": pair.response_a,
            "response_b": pair.response_b,
            "rubrics": [text if points is None else f"{text} ({points:+g})" for text, points in pair.human_rubrics],
        },
    }


def rubrics_in_words(dataset: Dataset) -> str:
    """Say how many rubrics the pairs have, and how many of them have negative points; nothing where they have none."""
    found = sum(len(pair.rubrics) for pair in dataset.pairs)
    negative = sum(points < 0 for pair in dataset.pairs for points in pair.points)
    return (f"{found:,}" + (f", {negative:,} with negative points" if negative else "")) if found else ""
