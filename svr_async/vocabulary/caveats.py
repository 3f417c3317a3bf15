"""The marks of a judge as a reader is told of them: a word and a sentence each."""

from __future__ import annotations

import math
from dataclasses import dataclass

from svr_async.errors import CoverageError
from svr_async.vocabulary.integrity import Integrity, Marks

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
