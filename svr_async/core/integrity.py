"""What results are not: the marks that a judge carries and that are kept with all that it judged."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from svr_async.errors import CoverageError


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


STRANGE = "A newer version of svr-async put this mark here; install it to read what it says."


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One caveat: a word for captions, and a sentence for the top of a report."""

    word: str
    text: str


CAVEATS = {
    Integrity.SIMULATED: Mark(
        word="SIMULATED",
        text="Replies come from a simulated endpoint with planted answers. They test the software and say nothing "
        "about any real judge.",
    ),
    Integrity.OFFLINE_RULES: Mark(
        word="OFFLINE RULES",
        text="Offline checks decided, without a language model. Not comparable with a model's results.",
    ),
    Integrity.RECORDED: Mark(
        word="RECORDED", text="Replies were read from a recording; no judge was asked in this run."
    ),
}


def integrity_marks(held: Marks) -> tuple[Mark, ...]:
    """Return the caveats of what a judge is not, the gravest first; an unknown one, of a newer version, by its word."""
    known = [caveat for mark, caveat in CAVEATS.items() if mark in held]
    strange = [Mark(word=one.replace("_", " ").upper(), text=STRANGE) for one in sorted(held - set(Integrity))]
    return (*known, *strange)


def require_coverage(missing: int, total: int, least: float, *, lack: str, hint: str) -> None:
    """Raise CoverageError where less than the share `least` of `total` has an answer; `lack` says what is missing."""
    coverage = (total - missing) / total if total else 1.0
    if coverage < least:
        shares = f"coverage {math.floor(1e4 * coverage) / 100:g} % is below {100 * least:g} %"
        raise CoverageError(f"{missing:,} of {total:,} {lack}: {shares}", hint=hint)
