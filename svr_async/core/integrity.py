"""Caveats of results: marks that a judge carries and that are stored with all its results, and required coverage."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from svr_async.errors import CoverageError


class Integrity(StrEnum):
    """Why results are not those of a language model; a model's results carry no mark."""

    SIMULATED = "simulated"
    OFFLINE_RULES = "offline_rules"
    RECORDED = "recorded"
    CONTENT_BLIND = "content_blind"


Marks = frozenset[str]
"""Values of `Integrity`."""
NO_MARKS: Marks = frozenset()


def joined_marks(judges: Iterable[Marks]) -> Marks:
    """Return the marks of several judges together: any of theirs, but rules only if all are rules."""
    each = list(judges)
    found = NO_MARKS.union(*each)
    return found if all(Integrity.OFFLINE_RULES in marks for marks in each) else found - {Integrity.OFFLINE_RULES}


def read_marks(value: object) -> Marks:
    """Read the marks of a file, which may be missing; ValueError for an unknown mark."""
    known = [mark.value for mark in Integrity]
    if value is not None and not (isinstance(value, list) and all(mark in known for mark in value)):
        raise ValueError(f"marks must be a list of {', '.join(known)}")
    return frozenset(value or ())


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


def integrity_marks(marks: Marks) -> tuple[Mark, ...]:
    """Return the caveats of a judge's marks, the most serious first."""
    return tuple(caveat for mark, caveat in CAVEATS.items() if mark in marks)


def require_coverage(missing: int, total: int, least: float, *, lack: str, hint: str) -> None:
    """Raise CoverageError if less than the share `least` of `total` has an answer; `lack` names the missing items."""
    coverage = (total - missing) / total if total else 1.0
    if coverage < least:
        shares = f"coverage {math.floor(1e4 * coverage) / 100:g} % is below {100 * least:g} %"
        raise CoverageError(f"{missing:,} of {total:,} {lack}: {shares}", hint=hint)
