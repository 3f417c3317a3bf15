"""What a feature store holds, in figures."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svr_async.training.store.files import MEASURED, OWN, FeatureStore

MOST_NAMED = 50  # sources that are named, those with the most pairs
NO_VERDICT = 0.25  # |z| up to here: both responses pass, or both fail, and only the preference tells them apart


def store_facts(store: FeatureStore) -> dict[str, Any]:
    """Return counts, splits, entries a pair, ties, hard negatives, weights, sizes and terms of the fit, all plain."""
    negative, header, z = store.negative_of >= 0, store.header, store.z
    counts, flags = np.diff(z.indptr), z.flags if z.flags is not None else np.zeros(len(z.value), np.uint8)
    sources = Counter(name for name in store.pairs["source"].to_pylist() if name)
    return {
        "pairs": {
            "train": int((~store.is_dev & ~negative).sum()),
            "dev": int((store.is_dev & ~negative).sum()),
            "hard_negatives": int(negative.sum()),
        },
        "prompts": store.features.n_rows,
        "sources": dict(sources.most_common(MOST_NAMED)),
        "features": len(store.vocabulary.terms),
        "rubrics": {"all": len(store.rubrics), "with_support": sum(count > 0 for count in store.support.values())},
        "entries": {
            "all": len(z.value),
            "own": int(((flags & OWN) > 0).sum()),
            "for_measuring_only": int(((flags & MEASURED) > 0).sum()),
            "a_pair": _spread(counts),
            "pairs_without": int((counts == 0).sum()),
        },
        "z": {
            "mean": _mean(z.value),
            "share_zero": _mean(z.value == 0),
            "share_same_verdict": _mean(np.abs(z.value) <= NO_VERDICT),
            "share_for_chosen": _mean(z.value > 0),
        },
        "weight": None if z.weight is None else _spread(z.weight),
        "judge": header.judge,
        "marks": list(header.marks),
        "plan": header.plan.as_json(),
        "schema_version": header.schema_version,
        "bytes": sum(path.stat().st_size for path in store.folder.iterdir() if path.is_file()),
    }


def _mean(values: NDArray[Any]) -> float | None:
    return round(float(values.mean()), 6) if len(values) else None


def _spread(values: NDArray[Any]) -> dict[str, float] | None:
    if not len(values):
        return None
    figures = {"least": values.min(), "median": np.median(values), "mean": values.mean(), "most": values.max()}
    return {name: round(float(value), 6) for name, value in figures.items()}


def facts_in_words(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the figures of `store_facts` as labelled lines."""
    pairs, rubrics, entries, plan, z = (facts[name] for name in ("pairs", "rubrics", "entries", "plan", "z"))
    spread, weight = entries["a_pair"], facts["weight"]
    each = f"; a pair {spread['least']:g} to {spread['most']:g}, median {spread['median']:g}" if spread else ""
    preset = f"{plan['preset']}, seed {plan['seed']}"
    counts = f"{pairs['train']:,} train, {pairs['dev']:,} dev, {pairs['hard_negatives']:,} hard negatives"
    shares = {
        name: f"{100 * (z[name] or 0):.1f} %" for name in ("share_zero", "share_same_verdict", "share_for_chosen")
    }
    verdicts = f"{shares['share_zero']} ties (0), {shares['share_same_verdict']} within ±{NO_VERDICT}"
    return [
        ("judge", facts["judge"] or "not recorded"),
        ("pairs", f"{counts}; {facts['prompts']:,} prompts, {facts['features']:,} features"),
        ("sources", ", ".join(f"{name} {count:,}" for name, count in facts["sources"].items()) or "not named"),
        ("rubrics", f"{rubrics['all']:,}, {rubrics['with_support']:,} with support"),
        ("entries", f"{entries['all']:,}{each}; {entries['pairs_without']:,} pairs without"),
        ("", f"{entries['own']:,} on the pair they were mined from, {entries['for_measuring_only']:,} to measure only"),
        (
            "z",
            "none" if z["mean"] is None else f"mean {z['mean']:+.3f}; {verdicts}, {shares['share_for_chosen']} above 0",
        ),
        (
            "weights",
            "1 each" if weight is None else f"{weight['least']:g} to {weight['most']:g}, mean {weight['mean']:g}",
        ),
        ("fit", f"{preset}, round {plan['round']}" if plan["round"] else preset),
    ]
