"""What changed from one bank to another: rubrics, their wording and weights, settings, metrics, edits by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from svr_async.core.rubric import rubric_id
from svr_async.core.similarity import similarity
from svr_async.core.table import Line, Parts, Table, plain_word
from svr_async.scoring.bank import BankRubric, Edit, RubricBank
from svr_async.scoring.bank_card import in_one_level
from svr_async.training.bank.merge import MERGE_CUTOFF
from svr_async.training.bank.near_duplicates import repeating_pairs, similar_pairs

SHOWN = 20  # rubrics of a kind in a table


@dataclass(frozen=True, slots=True)
class Change:
    """A rubric of the first bank and what it is in the second: the same text or a near-identical one, two weights."""

    first: BankRubric
    second: BankRubric
    similarity: float

    @property
    def by(self) -> float:
        """How much the weight grew."""
        return self.second.weight - self.first.weight

    @property
    def switched(self) -> bool:
        """Whether one of the banks has it disabled."""
        return self.first.disabled is not self.second.disabled


@dataclass(frozen=True, slots=True)
class BankDiff:
    """Rubrics of the second bank only, of the first only, reworded, and of both; each list by weight.

    `switched` are those of both that one bank has disabled; `edits` what people did to the second and not to the first.
    """

    gained: tuple[BankRubric, ...]
    lost: tuple[BankRubric, ...]
    reworded: tuple[Change, ...]
    kept: tuple[Change, ...]
    settings: Mapping[str, tuple[Any, Any]]
    switched: tuple[Change, ...] = ()
    edits: tuple[Edit, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the difference as plain JSON values."""
        return {
            "gained": [_plain(entry) for entry in self.gained],
            "lost": [_plain(entry) for entry in self.lost],
            "reworded": [_changed(change) for change in self.reworded],
            "kept": [_changed(change) for change in self.kept],
            "switched": [_changed(change) for change in self.switched],
            "edits": [asdict(edit) for edit in self.edits],
            "settings": {name: list(values) for name, values in self.settings.items()},
        }


def diff_banks(first: RubricBank, second: RubricBank) -> BankDiff:
    """Compare two banks; a rubric is reworded where a new one has its text as an alias, or merging would join them."""
    old, new = ({entry.id: entry for entry in held.rubrics} for held in (first, second))
    kept = [Change(old[key], new[key], 1.0) for key in old.keys() & new.keys()]
    gone = [entry for key, entry in old.items() if key not in new]
    come = [entry for key, entry in new.items() if key not in old]
    reworded = _reworded(gone, come)
    moved = {change.first.id for change in reworded} | {change.second.id for change in reworded}
    return BankDiff(
        gained=_by_weight(entry for entry in come if entry.id not in moved),
        lost=_by_weight(entry for entry in gone if entry.id not in moved),
        reworded=tuple(sorted(reworded, key=lambda change: (-change.second.weight, change.second.id))),
        kept=tuple(sorted(kept, key=lambda change: (-abs(change.by), change.first.id))),
        settings=_settings(first, second),
        switched=tuple(c for c in sorted(kept + reworded, key=lambda change: change.first.id) if c.switched),
        edits=tuple(edit for edit in _edits(second) if edit not in _edits(first)),
    )


def _edits(bank: RubricBank) -> tuple[Edit, ...]:
    return bank.history.edits if bank.history else ()


def _reworded(gone: Sequence[BankRubric], come: Sequence[BankRubric]) -> list[Change]:
    """Pair the rubrics that only one bank has: by alias, then the most similar first, each once."""
    known = {rubric_id(alias): entry for entry in come for alias in entry.aliases}
    held = {known[one.id].id: one for one in gone if one.id in known}
    found = [Change(held[one.id], one, similarity(held[one.id].text, one.text)) for one in come if one.id in held]
    paired = {change.first.id for change in found} | held.keys()
    gone, come = ([entry for entry in side if entry.id not in paired] for side in (gone, come))
    entries = [*gone, *come]
    similar = similar_pairs([entry.text for entry in entries], MERGE_CUTOFF)
    same = repeating_pairs(similar, [entry.rubric for entry in entries])
    ranked = sorted(zip((-same.similarity).tolist(), same.first.tolist(), same.second.tolist(), strict=True))
    taken: set[int] = set()
    for value, one, other in ranked:
        if one < len(gone) <= other and not {one, other} & taken:
            taken |= {one, other}
            found.append(Change(entries[one], entries[other], -value))
    return found


def _settings(first: RubricBank, second: RubricBank) -> dict[str, tuple[Any, Any]]:
    one, other = _flat(first), _flat(second)
    return {
        name: (one.get(name), other.get(name)) for name in sorted({*one, *other}) if one.get(name) != other.get(name)
    }


def _flat(bank: RubricBank) -> dict[str, Any]:
    groups: dict[str, Mapping[str, Any]] = {
        "inference": bank.inference.as_json(),
        "fit": bank.fit_settings,
        "dev": bank.dev_metrics,
        "data": bank.data_digests,
    }
    found: dict[str, Any] = {}
    for group, values in groups.items():
        found |= in_one_level(values, f"{group}.")
    return {**found, "judge": bank.judge, "selector": bank.selector_kind, "prompts": bank.prompts_digest}


def _by_weight(entries: Any) -> tuple[BankRubric, ...]:
    return tuple(sorted(entries, key=lambda entry: (-entry.weight, entry.id)))


def _plain(entry: BankRubric) -> dict[str, Any]:
    plain = {"id": entry.id, "text": entry.text, "weight": entry.weight}
    return plain | ({"disabled": True} if entry.disabled else {})


def _changed(change: Change) -> dict[str, Any]:
    return {"first": _plain(change.first), "second": _plain(change.second), "similarity": change.similarity}


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
