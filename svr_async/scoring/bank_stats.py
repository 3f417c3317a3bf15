"""Counting a bank: what the paper's table of the bank's distribution counts, and how weight and use are spread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import exp, fsum, log
from typing import Any

import numpy as np

from svr_async.core.rubric import IMPORTANCES
from svr_async.scoring.bank_content import BankContent, BankRubric

GENERIC = "generic"  # the domain of a rubric whose source pairs come from several
QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


def bank_stats(bank: BankContent) -> dict[str, Any]:
    """Return counts by domain and facet, quantiles of weights and lengths, and the effective number of rubrics in use.

    The effective number is exp(entropy) of the activation rates: n rubrics used equally count n.
    """
    rubrics = bank.rubrics
    return {
        "n_rubrics": len(rubrics),
        "with_check": sum(entry.rubric.check is not None for entry in rubrics),
        "never_active": sum(entry.activation_rate == 0 for entry in rubrics),
        "effective_rubrics": effective_number([entry.activation_rate for entry in rubrics]),
        "observed": sum(entry.observed_count for entry in rubrics),
        "aliases": sum(len(entry.aliases) for entry in rubrics),
        "source_pairs": len({pair for entry in rubrics for pair in entry.source_pair_ids}),
        "weight_quantiles": _quantiles([entry.weight for entry in rubrics]),
        "words_quantiles": _quantiles([len(entry.text.split()) for entry in rubrics]),
        "domains": group_rows(rubrics, lambda entry: entry.domain or GENERIC),
        "facets": group_rows(rubrics, lambda entry: entry.rubric.facet or "none"),
    }


def group_rows(rubrics: Sequence[BankRubric], key: Callable[[BankRubric], str]) -> dict[str, dict[str, Any]]:
    """Return, by group and for `total`: counts, severities, summed activation rates, supports, the mean weight."""
    groups: dict[str, list[BankRubric]] = {}
    for entry in sorted(rubrics, key=key):
        groups.setdefault(key(entry), []).append(entry)
    return {name: _row(group, len(rubrics)) for name, group in {**groups, "total": list(rubrics)}.items()}


def _row(group: Sequence[BankRubric], total: int) -> dict[str, Any]:
    severity = Counter(entry.rubric.importance for entry in group)
    return {
        "rubrics": len(group),
        "share": len(group) / total,
        **{importance: severity[importance] for importance in IMPORTANCES},
        "activation": fsum(entry.activation_rate for entry in group),
        "supports": sum(entry.support_count for entry in group),
        "mean_weight": fsum(entry.weight for entry in group) / len(group),
    }


def effective_number(shares: Sequence[float]) -> float:
    """Return exp(entropy) of shares that need not sum to 1; 0 where all are 0."""
    total = fsum(shares)
    return exp(-fsum(s / total * log(s / total) for s in shares if s > 0)) if total > 0 else 0.0


def _quantiles(values: Sequence[float]) -> list[float]:
    return [float(value) for value in np.quantile(values, QUANTILES)]


def in_one_level(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings in one level: those of a group under the group's name and a dot."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        path = f"{prefix}{name}"
        found |= in_one_level(value, f"{path}.") if isinstance(value, Mapping) else {path: value}
    return found
