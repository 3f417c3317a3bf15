"""What is shown of the care for a bank on a terminal: what lint finds, and what changed from one bank to another."""

from __future__ import annotations

from collections.abc import Sequence

from svr_async.core.table import Line, Parts, Table, plain_word
from svr_async.scoring.bank import RubricBank
from svr_async.training.bank.bank_diff import BankDiff, Change
from svr_async.training.bank.lint import LintFinding

SHOWN = 20


def findings_sheet(bank: RubricBank, found: Sequence[LintFinding]) -> Parts:
    """Yield the findings by kind, each with its advice once."""
    if not found:
        yield Line(f"nothing to find fault with in {len(bank)} rubrics")
        return
    for kind in dict.fromkeys(finding.kind for finding in sorted(found, key=lambda finding: finding.kind)):
        group = [finding for finding in found if finding.kind is kind]
        yield Table(caption=f"{kind.value}: {len(group)}  —  {group[0].advice}")
        yield Table(("id", "rubric"), tuple((finding.rubric_id, _worded(finding)) for finding in group), texts=1)


def _worded(finding: LintFinding) -> str:
    return f"{finding.text}  ({finding.detail})" if finding.detail else finding.text


def diff_sheet(found: BankDiff) -> Parts:
    """Yield what changed from one bank to another."""
    counts = (("gained", found.gained), ("lost", found.lost), ("reworded", found.reworded), ("kept", found.kept))
    yield Line(label="rubrics", text=", ".join(f"{len(entries)} {name}" for name, entries in counts))
    if found.edits:
        yield Table(caption="edits by hand")
        told = (
            (one.date, one.author, one.what, one.rubric, " → ".join(filter(None, (one.was, one.now))), one.reason)
            for one in found.edits
        )
        yield Table(("date", "by", "what", "rubric", "change", "reason"), tuple(told), texts=6)
    if found.settings:
        yield Table(caption="settings and metrics")
        rows = ((name, plain_word(one), plain_word(other)) for name, (one, other) in found.settings.items())
        yield Table(("what", "first", "second"), tuple(rows), texts=2)
    for title, entries in (("gained", found.gained), ("lost", found.lost)):
        if entries:
            yield Table(caption=title)
            rows_ = ((entry.id, f"{entry.weight:.3f}", entry.text) for entry in entries[:SHOWN])
            yield Table(("id", "weight", "rubric"), tuple(rows_), texts=1)
            yield from _more(len(entries))
    yield from _changes("reworded", found.reworded)
    yield from _changes("reweighed", [change for change in found.kept if change.by])
    if found.switched:
        yield Table(caption="disabled or enabled")
        switched = (
            (c.second.id, "disabled" if c.second.disabled else "enabled", c.second.text) for c in found.switched
        )
        yield Table(("id", "now", "rubric"), tuple(switched), texts=2)


def _changes(title: str, changes: Sequence[Change]) -> Parts:
    if not changes:
        return
    yield Table(caption=title)
    rows = (
        (c.second.id, f"{c.first.weight:.3f}", f"{c.second.weight:.3f}", f"{c.by:+.3f}", _wording(c))
        for c in changes[:SHOWN]
    )
    yield Table(("id", "first", "second", "by", "rubric"), tuple(rows), texts=1)
    yield from _more(len(changes))


def _wording(change: Change) -> str:
    same = change.first.id == change.second.id
    return change.second.text if same else f"{change.first.text} → {change.second.text}"


def _more(count: int) -> Parts:
    if count > SHOWN:
        yield Line(f"and {count - SHOWN} more: --json lists them")
