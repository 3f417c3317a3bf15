"""A bank's counts, settings and rubrics as texts for the tables of a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from svr_async.evaluation.wording import percent
from svr_async.scoring.bank_stats import in_one_level
from svr_async.vocabulary.rubric import IMPORTANCES

if TYPE_CHECKING:
    from svr_async.scoring.bank import BankRubric, RubricBank

COLUMNS = ("id", "weight", "active %", "seen", "supports", "domain", "facet", "rubric")

FEW_SETTINGS = 8

MAIN_SETTINGS = (
    "rounds",
    "ablate",
    "support_margin",
    "redundancy_cutoff",
    "pools.policy",
    "fit.kind",
    "fit.epochs",
    "fit.seed",
)


def counted(bank: RubricBank) -> str:
    """Say how many rubrics there are, and how many of them any training prompt uses, where that is known and fewer."""
    used = sum(entry.activation_rate > 0 for entry in bank.rubrics)
    return f"{len(bank):,}, {used:,} of them in use" if 0 < used < len(bank) else f"{len(bank):,}"


def percentages(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return metrics with their accuracies, fractions of 1, as percentages."""
    return {
        name: percent(value) if name.endswith("accuracy") and isinstance(value, int | float) else value
        for name, value in metrics.items()
    }


def main_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a fit that a reader asks for first, and how many more there are; all of a few."""
    flat = in_one_level(settings)
    if len(flat) <= FEW_SETTINGS:
        return flat
    main = {name: flat[name] for name in MAIN_SETTINGS if name in flat}
    return {**main, "and": f"{len(flat) - len(main)} more: --json"}


def rubric_row(entry: BankRubric) -> dict[str, str]:
    """Return one rubric as texts by the columns of the table."""
    marks = {"check": entry.rubric.check, "disabled": entry.disabled, "added": entry.added}
    check = "".join(f" [{name}]" for name, held in marks.items() if held)
    cells = (
        entry.id,
        f"{entry.weight:.3f}",
        f"{100 * entry.activation_rate:.2f}",
        f"{entry.observed_count:,}",
        f"{entry.support_count:,}",
        entry.domain or "generic",
        entry.rubric.facet or "–",
        entry.text + check,
    )
    return dict(zip(COLUMNS, cells, strict=True))


def group_row(name: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the counts of one domain or facet as texts."""
    return (
        name,
        f"{row['rubrics']:,}",
        f"{100 * row['share']:.1f}",
        *(f"{row[importance]:,}" for importance in IMPORTANCES),
        f"{row['activation']:.3f}",
        f"{row['supports']:,}",
        f"{row['mean_weight']:.3f}",
    )


def in_a_word(value: Any) -> str:
    """Return a value as people write it."""
    if isinstance(value, list | tuple):
        return " ".join(map(in_a_word, value)) or "none"
    return "–" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def in_pairs(values: Mapping[str, Any]) -> str:
    """Return names with their values in a line."""
    return ", ".join(f"{name} {in_a_word(value)}" for name, value in values.items())
