"""What results are not: the marks that a judge carries and that are kept with all that it judged."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Integrity(StrEnum):
    """Why results must not be taken for those of a model that was asked. A model's own carry none of these."""

    SIMULATED = "simulated"
    OFFLINE_RULES = "offline_rules"
    RECORDED = "recorded"
    CONTENT_BLIND = "content_blind"


Marks = frozenset[str]
"""Values of `Integrity`; of a file that a newer version wrote also others, which are shown and not dropped."""
NO_MARKS: Marks = frozenset()
MOST_CHARS = 40  # longest mark
_OLD_WORDS = {
    "simulated": Integrity.SIMULATED,
    "no model": Integrity.OFFLINE_RULES,
    "recorded": Integrity.RECORDED,
    "content-blind": Integrity.CONTENT_BLIND,
}


def joined_marks(judges: Iterable[Marks]) -> Marks:
    """Return the marks of several judges together: any of theirs, but rules only where nothing else decided."""
    held = list(judges)
    found = frozenset[str]().union(*held)
    return found if all(Integrity.OFFLINE_RULES in marks for marks in held) else found - {Integrity.OFFLINE_RULES}


def marks_kept(kept: object) -> Marks | None:
    """Read the marks of a file, None where it has none; ValueError for what are no marks."""
    if kept is None:
        return None
    if not isinstance(kept, list) or not all(isinstance(mark, str) and len(mark) <= MOST_CHARS for mark in kept):
        raise ValueError("marks must be a list of short words")
    return frozenset(kept)


def marks_of_old_label(label: str) -> Marks:
    """Return the marks of a file from before marks were kept, of whose judge there is nothing but the label."""
    text = label.casefold()
    rules = {Integrity.OFFLINE_RULES} if text == "rules" else set()
    return frozenset({mark for word, mark in _OLD_WORDS.items() if word in text} | rules)
