"""What a feature store holds, in figures."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svr_async.training.store.records import MEASURED, OWN, FeatureStore

MOST_NAMED = 50  # sources that are named, those with the most pairs
STEPS = 8  # of z in 1: verdicts differ by quarters, and two orders are averaged
ROUNDING = 1e-3
NO_VERDICT = 0.25  # |z| up to here: the responses both pass, or both fail, and only the preference tells them apart


def store_facts(store: FeatureStore) -> dict[str, Any]:
    """Return counts, splits, entries a pair, ties, hard negatives, weights, sizes and terms of the fit, all plain."""
    negative, header = store.negative_of >= 0, store.header
    return {
        "pairs": {
            "train": int((~store.is_dev & ~negative).sum()),
            "dev": int((store.is_dev & ~negative).sum()),
            "hard_negatives": int(negative.sum()),
        },
        "prompts": store.features.n_rows,
        "sources": dict(Counter(name for name in store.sources if name).most_common(MOST_NAMED)),
        "features": len(header.vocabulary),
        "rubrics": {
            "all": len(store.rubrics),
            "with_support": sum(entry.support_count > 0 for entry in store.rubrics),
        },
        "entries": {
            "all": len(store.z.value),
            "own": int(((store.z.flags & OWN) > 0).sum()),
            "for_measuring_only": int(((store.z.flags & MEASURED) > 0).sum()),
            "a_pair": _spread(np.diff(store.z.indptr)),
            "pairs_without": int((np.diff(store.z.indptr) == 0).sum()),
        },
        "z": _z_facts(store.z.value),
        "weight": None if store.z.weight is None else _spread(store.z.weight),
        "judge": header.judge,
        "marks": sorted(header.integrity),
        "plan": header.terms.as_json(),
        "schema_version": store.meta["schema_version"],
        "bytes": sum(path.stat().st_size for path in store.folder.iterdir() if path.is_file()),
    }


def _z_facts(z: NDArray[np.float32]) -> dict[str, Any]:
    """Return where z lies: its mean, ties, how often the chosen is favoured, and how much no verdicts can give."""
    size = np.abs(z)
    return {
        "mean": _rounded(z.mean()) if len(z) else None,
        "share_zero": _share(z == 0),
        "share_same_verdict": _share(size <= NO_VERDICT),
        "share_for_chosen": _share(z > 0),
        "share_soft": _share(np.abs(STEPS * z - np.round(STEPS * z)) > ROUNDING),
    }


def _share(marks: NDArray[np.bool_]) -> float | None:
    return _rounded(marks.mean()) if len(marks) else None


def _spread(values: NDArray[Any]) -> dict[str, float] | None:
    if not len(values):
        return None
    figures = {"least": values.min(), "median": np.median(values), "mean": values.mean(), "most": values.max()}
    return {name: _rounded(value) for name, value in figures.items()}


def _rounded(value: Any) -> float:
    return round(float(value), 6)


def facts_in_words(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the figures of `store_facts` as labelled lines for people."""
    pairs, rubrics, entries, plan = (facts[name] for name in ("pairs", "rubrics", "entries", "plan"))
    counts = f"{pairs['train']:,} train, {pairs['dev']:,} dev, {pairs['hard_negatives']:,} hard negatives"
    judged = f"{entries['all']:,}"
    if entries["a_pair"]:
        spread = entries["a_pair"]
        judged += f"; a pair {spread['least']:g} to {spread['most']:g}, median {spread['median']:g}"
    judged += f"; {entries['pairs_without']:,} pairs without"
    flagged = (
        f"{entries['own']:,} on the pair they were mined from, {entries['for_measuring_only']:,} for measuring only"
    )
    weight = facts["weight"]
    weighed = "1 each" if weight is None else f"{weight['least']:g} to {weight['most']:g}, mean {weight['mean']:g}"
    preset = f"{plan['preset']}, seed {plan['seed']}"
    named = ", ".join(f"{name} {count:,}" for name, count in facts["sources"].items())
    return [
        ("judge", facts["judge"] or "not recorded"),
        ("pairs", f"{counts}; {facts['prompts']:,} prompts, {facts['features']:,} features"),
        ("sources", named or "not named"),
        ("rubrics", f"{rubrics['all']:,}, {rubrics['with_support']:,} with support"),
        ("entries", judged),
        ("", flagged),
        ("z", _z_line(facts["z"])),
        ("weights", weighed),
        ("fit", f"{preset}, round {plan['round']}" if plan["round"] else preset),
    ]


def _z_line(z: dict[str, Any]) -> str:
    if z["mean"] is None:
        return "none"
    shares = {name: f"{100 * z[name]:.1f} %" for name in ("share_zero", "share_same_verdict", "share_for_chosen")}
    near = "within ±0.25" if z["share_soft"] else "with one verdict for both (up to ±0.25)"
    tied = f"{shares['share_zero']} ties (0), {shares['share_same_verdict']} {near}"
    soft = f"; soft: {100 * z['share_soft']:.1f} % lie between what verdicts give" if z["share_soft"] else ""
    return f"mean {z['mean']:+.3f}; {tied}, {shares['share_for_chosen']} for the chosen{soft}"
