"""What changed from one bank to another: rubrics, their wording and weights, settings, metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from svr_async.scoring.bank import BankRubric, RubricBank
from svr_async.scoring.bank_stats import in_one_level
from svr_async.training.bank.merge import MERGE_CUTOFF
from svr_async.training.bank.prune_redundant import same_criterion
from svr_async.training.bank.similarity_join import similar_pairs


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


@dataclass(frozen=True, slots=True)
class BankDiff:
    """Rubrics of the second bank only, of the first only, reworded, and of both; each list by weight."""

    gained: tuple[BankRubric, ...]
    lost: tuple[BankRubric, ...]
    reworded: tuple[Change, ...]
    kept: tuple[Change, ...]
    settings: Mapping[str, tuple[Any, Any]]

    def to_json(self) -> dict[str, Any]:
        """Return the difference as plain JSON values."""
        return {
            "gained": [_plain(entry) for entry in self.gained],
            "lost": [_plain(entry) for entry in self.lost],
            "reworded": [_changed(change) for change in self.reworded],
            "kept": [_changed(change) for change in self.kept],
            "settings": {name: list(values) for name, values in self.settings.items()},
        }


def diff_banks(first: RubricBank, second: RubricBank) -> BankDiff:
    """Compare two banks; a rubric that is gone counts as reworded where merging would make it one with a new one."""
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
    )


def _reworded(gone: Sequence[BankRubric], come: Sequence[BankRubric]) -> list[Change]:
    """Pair the rubrics that only one bank has, the most similar first, each once."""
    entries = [*gone, *come]
    similar = similar_pairs([entry.text for entry in entries], MERGE_CUTOFF)
    same = same_criterion(similar, [entry.rubric for entry in entries])
    ranked = sorted(zip((-same.similarity).tolist(), same.first.tolist(), same.second.tolist(), strict=True))
    taken: set[int] = set()
    found = []
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
    return {"id": entry.id, "text": entry.text, "weight": entry.weight}


def _changed(change: Change) -> dict[str, Any]:
    return {"first": _plain(change.first), "second": _plain(change.second), "similarity": change.similarity}
