"""What `svr bank` prints: tables and lines, with nothing in them that a bank's texts could steer a terminal with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from svr_async.commands.screen import plain_table, safe_console
from svr_async.evaluation.safetext import one_line
from svr_async.evaluation.wording import percent
from svr_async.scoring.bank_stats import in_one_level
from svr_async.vocabulary.dev_pairs import metrics_in_words
from svr_async.vocabulary.rubric import IMPORTANCES

if TYPE_CHECKING:
    from rich.console import Console

    from svr_async.scoring.bank import BankRubric, RubricBank
    from svr_async.training.bank.bank_diff import BankDiff, Change
    from svr_async.training.bank.lint import LintFinding

CELL = 300
SHOWN = 20
NARROW = 100  # columns of a terminal below which a rubric's text needs the room of the counts
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


def _table(console: Console, heads: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int = 1) -> None:
    """Print a table whose last `texts` columns are texts and whose others, but for the first, are numbers."""
    console.print(plain_table(heads, rows, texts=texts))


def _line(console: Console, label: str, text: str) -> None:
    from rich.text import Text

    console.print(Text.assemble((f"{label:<12}", "dim"), one_line(text, 2_000)), soft_wrap=True)


def _paragraph(console: Console, label: str, text: str) -> None:
    """Print a long line, wrapped between words and set in below its label."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid()
    grid.add_column(width=12)
    grid.add_column(overflow="fold")
    grid.add_row(Text(label, style="dim"), Text(one_line(text, 2_000)))
    console.print(grid)


def _heading(console: Console, text: str) -> None:
    from rich.text import Text

    console.print()
    console.print(Text(one_line(text, CELL), style="bold"))


def show_bank(bank: RubricBank, chosen: Sequence[BankRubric]) -> None:
    """Print where a bank comes from and a table of the chosen rubrics."""
    console = safe_console()
    settings = bank.inference
    _line(console, "bank", f"{bank.name or 'without a name'}  {bank.digest[:12]}")
    _line(console, "rubrics", f"{_counted(bank)}, selector {bank.selector_kind}, {len(bank.vocabulary):,} terms")
    top, pool = min(settings.top_k, len(bank)), min(settings.selection_pool, len(bank))
    _line(console, "inference", f"top {top} of the best {pool}, a filler weighs {settings.filler_weight:g}")
    _line(console, "judge", bank.judge or "not recorded")
    _line(console, "licence", bank.licence or "not recorded")
    data = {name: digest[:SHORT_DIGEST] for name, digest in bank.data_digests.items()}
    dev, fit = _percentages(metrics_in_words(bank.dev_metrics)), _main_settings(bank.fit_settings)
    for label, values in (("dev", dev), ("fit", fit), ("data", data)):
        if values:
            _paragraph(console, label, _pairs(in_one_level(values)))
    if bank.history is not None and bank.history.choice is not None:
        _paragraph(console, "structure", bank.history.choice.in_words())
    for note in bank.notes:
        _paragraph(console, "note", note)
    weights = {f"{entry.weight:.3f}" for entry in bank.rubrics}
    alike = len(bank) > 1 and len(weights) == 1  # then prompts alone tell them apart
    order = f"the most active first; each weighs {bank.rubrics[0].weight:.4g}" if alike else "the heaviest first"
    _heading(console, f"{len(chosen)} of {len(bank)} rubrics, {order}")
    columns, texts = (NARROW_COLUMNS, 1) if console.width < NARROW else (COLUMNS, 3)
    heads = [head for head in columns if not (alike and head == "weight")]
    rows = (_row(entry) for entry in chosen)
    _table(console, heads, ([row[head] for head in heads] for row in rows), texts=texts)


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


def show_rubric(entry: BankRubric) -> None:
    """Print all about one rubric."""
    console = safe_console()
    rubric = entry.rubric
    check = "none: a judge decides" if rubric.check is None else _pairs(rubric.check.to_json())
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
        _line(console, label, text)
    for label, texts in (
        ("examples", entry.example_prompts),
        ("alias", entry.aliases),
        ("mined from", entry.source_pair_ids),
    ):
        for text in texts[:SHOWN]:
            _line(console, label, text)
        if len(texts) > SHOWN:
            _line(console, label, f"and {len(texts) - SHOWN} more: --json lists them")


def show_stats(bank: RubricBank, found: Mapping[str, Any]) -> None:
    """Print the counts of a bank by domain and by facet."""
    console = safe_console()
    weights, words = found["weight_quantiles"], found["words_quantiles"]
    _line(console, "rubrics", f"{len(bank)}, {found['with_check']} with a check, {found['aliases']} other wordings")
    _line(console, "in use", f"{found['effective_rubrics']:.1f} effective, {found['never_active']} never active")
    _line(console, "weight", f"median {weights[2]:.3f}, quartiles {weights[1]:.3f} to {weights[3]:.3f}")
    _line(console, "length", f"median {words[2]:.0f} words, longest {words[4]:.0f}")
    _line(console, "mined from", f"{found['source_pairs']:,} pairs, {found['observed']:,} proposals")
    heads = ("rubrics", "%", *IMPORTANCES, "active", "supports", "weight")
    for group in ("domain", "facet"):
        _heading(console, f"by {group}")
        _table(console, (group, *heads), (_group(name, row) for name, row in found[f"{group}s"].items()), texts=0)


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


def show_findings(bank: RubricBank, found: Sequence[LintFinding]) -> None:
    """Print the findings by kind, each with its advice once."""
    console = safe_console()
    if not found:
        console.print(f"nothing to find fault with in {len(bank)} rubrics")
        return
    for kind in dict.fromkeys(finding.kind for finding in sorted(found, key=lambda finding: finding.kind)):
        group = [finding for finding in found if finding.kind is kind]
        _heading(console, f"{kind.value}: {len(group)}  —  {group[0].advice}")
        _table(console, ("id", "rubric"), ((finding.rubric_id, _worded(finding)) for finding in group))


def _worded(finding: LintFinding) -> str:
    return f"{finding.text}  ({finding.detail})" if finding.detail else finding.text


def show_diff(found: BankDiff) -> None:
    """Print what changed from one bank to another."""
    console = safe_console()
    counts = (("gained", found.gained), ("lost", found.lost), ("reworded", found.reworded), ("kept", found.kept))
    _line(console, "rubrics", ", ".join(f"{len(entries)} {name}" for name, entries in counts))
    if found.edits:
        _heading(console, "edits by hand")
        told = (
            (one.date, one.author, one.what, one.rubric, " → ".join(filter(None, (one.was, one.now))), one.reason)
            for one in found.edits
        )
        _table(console, ("date", "by", "what", "rubric", "change", "reason"), told, texts=6)
    if found.settings:
        _heading(console, "settings and metrics")
        rows = ((name, _word(one), _word(other)) for name, (one, other) in found.settings.items())
        _table(console, ("what", "first", "second"), rows, texts=2)
    for title, entries in (("gained", found.gained), ("lost", found.lost)):
        if entries:
            _heading(console, title)
            rows_ = ((entry.id, f"{entry.weight:.3f}", entry.text) for entry in entries[:SHOWN])
            _table(console, ("id", "weight", "rubric"), rows_)
            _more(console, len(entries))
    _changes(console, "reworded", found.reworded)
    _changes(console, "reweighed", [change for change in found.kept if change.by])


def _changes(console: Console, title: str, changes: Sequence[Change]) -> None:
    if not changes:
        return
    _heading(console, title)
    rows = (
        (c.second.id, f"{c.first.weight:.3f}", f"{c.second.weight:.3f}", f"{c.by:+.3f}", _wording(c))
        for c in changes[:SHOWN]
    )
    _table(console, ("id", "first", "second", "by", "rubric"), rows)
    _more(console, len(changes))


def _wording(change: Change) -> str:
    same = change.first.id == change.second.id
    return change.second.text if same else f"{change.first.text} → {change.second.text}"


def _more(console: Console, count: int) -> None:
    if count > SHOWN:
        console.print(f"and {count - SHOWN} more: --json lists them")


def _word(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " ".join(map(_word, value)) or "none"
    return "–" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_word(value)}" for name, value in values.items())
