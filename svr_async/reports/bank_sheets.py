"""What is shown of a bank on a terminal: where it comes from, its rubrics, one of them, its counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from svr_async.core.dev_pairs import metrics_in_words
from svr_async.core.rubric import IMPORTANCES
from svr_async.core.table import Line, Parts, Table, in_words
from svr_async.evaluation.wording import percent
from svr_async.scoring.bank import BankRubric, RubricBank
from svr_async.scoring.bank_stats import in_one_level

SHOWN = 20
COLUMNS = ("id", "weight", "active %", "seen", "supports", "domain", "facet", "rubric")
SHORT_DIGEST = 12
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
NARROW_COLUMNS = ("id", "weight", "active %", "rubric")


def bank_sheet(bank: RubricBank, chosen: Sequence[BankRubric], *, narrow: bool = False) -> Parts:
    """Yield where a bank comes from and a table of the chosen rubrics, of few columns where there is little room."""
    settings = bank.inference
    yield Line(label="bank", text=f"{bank.name or 'without a name'}  {bank.digest[:12]}")
    yield Line(label="rubrics", text=f"{_counted(bank)}, selector {bank.selector_kind}, {len(bank.vocabulary):,} terms")
    top, pool = min(settings.top_k, len(bank)), min(settings.selection_pool, len(bank))
    yield Line(label="inference", text=f"top {top} of the best {pool}, a filler weighs {settings.filler_weight:g}")
    yield Line(label="judge", text=bank.judge or "not recorded")
    yield Line(label="licence", text=bank.licence or "not recorded")
    data = {name: digest[:SHORT_DIGEST] for name, digest in bank.data_digests.items()}
    dev, fit = _percentages(metrics_in_words(bank.dev_metrics)), _main_settings(bank.fit_settings)
    for label, values in (("dev", dev), ("fit", fit), ("data", data)):
        if values:
            yield Line(wrapped=True, label=label, text=in_words(in_one_level(values)))
    if bank.history is not None and bank.history.choice is not None:
        yield Line(wrapped=True, label="structure", text=bank.history.choice.in_words())
    for note in bank.notes:
        yield Line(wrapped=True, label="note", text=note)
    weights = {f"{entry.weight:.3f}" for entry in bank.rubrics}
    alike = len(bank) > 1 and len(weights) == 1  # then prompts alone tell them apart
    order = f"the most active first; each weighs {bank.rubrics[0].weight:.4g}" if alike else "the heaviest first"
    yield Table(caption=f"{len(chosen)} of {len(bank)} rubrics, {order}")
    columns, texts = (NARROW_COLUMNS, 1) if narrow else (COLUMNS, 3)
    heads = [head for head in columns if not (alike and head == "weight")]
    rows = (_row(entry) for entry in chosen)
    yield Table(heads, tuple([row[head] for head in heads] for row in rows), texts=texts)


def _counted(bank: RubricBank) -> str:
    """Say how many rubrics there are, and how many of them any training prompt uses, where that is known and fewer."""
    used = sum(entry.activation_rate > 0 for entry in bank.rubrics)
    return f"{len(bank):,}, {used:,} of them in use" if 0 < used < len(bank) else f"{len(bank):,}"


def _percentages(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return metrics with their accuracies, fractions of 1, as percentages."""
    return {
        name: percent(value) if name.endswith("accuracy") and isinstance(value, int | float) else value
        for name, value in metrics.items()
    }


def _main_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a fit that a reader asks for first, and how many more there are; all of a few."""
    flat = in_one_level(settings)
    if len(flat) <= FEW_SETTINGS:
        return flat
    main = {name: flat[name] for name in MAIN_SETTINGS if name in flat}
    return {**main, "and": f"{len(flat) - len(main)} more: --json"}


def _row(entry: BankRubric) -> dict[str, str]:
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


def rubric_sheet(entry: BankRubric) -> Parts:
    """Yield all about one rubric."""
    rubric = entry.rubric
    check = "none: a judge decides" if rubric.check is None else in_words(rubric.check.to_json())
    facts = {
        "rubric": entry.text,
        "id": entry.id,
        "weight": f"{entry.weight:.4f}",
        "active": f"{100 * entry.activation_rate:.3f} % of training prompts, by mean alpha",
        "seen": f"{entry.observed_count} times, in {len(entry.source_pair_ids)} pairs",
        "supports": f"{entry.support_count} support pairs",
        "domain": entry.domain or "generic",
        "facet": rubric.facet or "–",
        "importance": rubric.importance or "–",
        "grounding": rubric.grounding or "–",
        "check": check,
    }
    for label, text in facts.items():
        yield Line(label=label, text=text)
    for label, texts in (
        ("examples", entry.example_prompts),
        ("alias", entry.aliases),
        ("mined from", entry.source_pair_ids),
    ):
        for text in texts[:SHOWN]:
            yield Line(label=label, text=text)
        if len(texts) > SHOWN:
            yield Line(label=label, text=f"and {len(texts) - SHOWN} more: --json lists them")


def stats_sheet(bank: RubricBank, found: Mapping[str, Any]) -> Parts:
    """Yield the counts of a bank by domain and by facet."""
    weights, words = found["weight_quantiles"], found["words_quantiles"]
    yield Line(
        label="rubrics", text=f"{len(bank)}, {found['with_check']} with a check, {found['aliases']} other wordings"
    )
    yield Line(label="in use", text=f"{found['effective_rubrics']:.1f} effective, {found['never_active']} never active")
    yield Line(label="weight", text=f"median {weights[2]:.3f}, quartiles {weights[1]:.3f} to {weights[3]:.3f}")
    yield Line(label="length", text=f"median {words[2]:.0f} words, longest {words[4]:.0f}")
    yield Line(label="mined from", text=f"{found['source_pairs']:,} pairs, {found['observed']:,} proposals")
    heads = ("rubrics", "%", *IMPORTANCES, "active", "supports", "weight")
    for group in ("domain", "facet"):
        yield Table(caption=f"by {group}")
        yield Table((group, *heads), tuple(_group(name, row) for name, row in found[f"{group}s"].items()), texts=0)


def _group(name: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        name,
        f"{row['rubrics']:,}",
        f"{100 * row['share']:.1f}",
        *(f"{row[importance]:,}" for importance in IMPORTANCES),
        f"{row['activation']:.3f}",
        f"{row['supports']:,}",
        f"{row['mean_weight']:.3f}",
    )
