"""What a bank shows of itself in a notebook."""

from __future__ import annotations

from svr_async.core.table import Line, Parts, Table
from svr_async.scoring.bank_content import BankContent, BankRubric

SHOWN = 12


def bank_sheet(bank: BankContent) -> Parts:
    """Yield where a bank comes from and its heaviest rubrics, of equal weight the most active."""
    yield Line(f"{bank.name or 'a bank without a name'}: {in_short(bank)}", loud=True)
    yield Line(bank.judge or "not recorded", label="trained with judge")
    for note in bank.notes:
        yield Line(note, label="note")
    ranked = sorted(bank.rubrics, key=lambda entry: (entry.disabled, -entry.weight, -entry.activation_rate))
    yield Table(("rubric", "weight", "active %", "domain"), tuple(map(_row, ranked[:SHOWN])), texts=1)
    if (more := len(bank) - SHOWN) > 0:
        yield Line(f"and {more:,} more in .rubrics")


def in_short(bank: BankContent) -> str:
    """Return how many rubrics a bank has, and what chooses among them."""
    disabled = sum(entry.disabled for entry in bank.rubrics)
    off = f" ({disabled:,} disabled)" if disabled else ""
    many = f"{len(bank):,} rubric{'' if len(bank) == 1 else 's'}"
    return f"{many}{off}, selector {bank.selector_kind}, top {bank.inference.top_k}"


def _row(entry: BankRubric) -> tuple[str, str, str, str]:
    text = f"{entry.text} (disabled)" if entry.disabled else entry.text
    return text, f"{entry.weight:.2f}", f"{100 * entry.activation_rate:.0f}", entry.domain
