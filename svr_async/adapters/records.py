"""What adapters hand over: a data set of pairs, what one row became, and one judged pair for scoring."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from svr_async.core.pair import PreferencePair, Prompt, hashed_fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """Pairs in the data's order, with what a report has to say about them.

    `digest` is the SHA-256 of the pairs' canonical contents, whatever file format they came in.
    `n_rows` counts the rows read; `skipped` counts rows or pairs left out, by reason; `notes` are for people.
    `official` is True where the row counts are those of the official release. `readings` say how labels were read;
    `origin` is where the file is from and its pinned revision, empty for one of the user's own. `repeated` rows have
    an earlier one's id or texts, `contradicting` ones prefer the other response of the same two. `tied` are the rows
    that prefer neither, where they could be read: in no count and no digest, for what is asked of texts alone.
    """

    name: str
    pairs: Sequence[PreferencePair]
    source: Path
    digest: str
    n_rows: int
    notes: tuple[str, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    official: bool = False
    readings: tuple[str, ...] = ()
    origin: str = ""
    repeated: int = 0
    contradicting: int = 0
    tied: Sequence[PreferencePair] = ()

    def left_out(self) -> dict[str, int]:
        """Return how many rows are not, or not once, among the pairs: ties, other skipped rows; and odd pairs."""
        ties = sum(count for reason, count in self.skipped.items() if reason.startswith("tie"))
        found = {
            "ties": ties,
            "skipped": sum(self.skipped.values()) - ties,
            "repeated": self.repeated,
            "contradicting": self.contradicting,
        }
        return {name: count for name, count in found.items() if count}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What one row became: no, one or several pairs.

    `id` is the row's own id, or empty where the pairs' ids are hashes of their contents. `group` is what official
    counts are kept by. `skipped` and `notes` are reasons that the loader counts. Pairs of a `fallback` row are
    used only when no other row gives any: `fallback` names such rows in the note that says so. `value` is the row's
    label, as errors of rows name theirs. `tied` is the pair of a row that is skipped because it prefers neither.
    """

    pairs: tuple[PreferencePair, ...] = ()
    id: str = ""
    group: str = ""
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    fallback: str = ""
    value: str = ""
    tied: PreferencePair | None = None


@dataclass(frozen=True, slots=True)
class PairResult:
    """A judged pair. `margin` is chosen minus rejected: above 0 the judge agrees, 0 is a tie, None is unscored.

    `scores` are those of the chosen and the rejected response, where a judge scores each response by itself.
    """

    pair: PreferencePair
    margin: float | None
    scores: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.margin is not None and math.isnan(self.margin):
            raise ValueError(f"the margin of pair {self.pair.id!r} is NaN; an unscored pair has None")

    def credit(self, tie_credit: float = 0.0, unscored_credit: float = 0.0) -> float:
        """Return 1 for a win, 0 for a loss, and the given credits for a tie and for no verdict."""
        if self.margin is None:
            return unscored_credit
        if self.margin == 0:
            return tie_credit
        return 1.0 if self.margin > 0 else 0.0


def accuracy(results: Sequence[PairResult], tie_credit: float = 0.0, unscored_credit: float = 0.0) -> float | None:
    """Return the mean credit over the pairs that have a right answer; None where there are none."""
    return mean([r.credit(tie_credit, unscored_credit) for r in results if r.pair.has_preference])


def accuracy_by(
    name_of: Callable[[PreferencePair], str],
    results: Sequence[PairResult],
    tie_credit: float,
    unscored_credit: float = 0.0,
) -> dict[str, float]:
    """Return the accuracy of each group of pairs that has one, in alphabetical order of the groups' names."""
    groups = grouped(name_of, results)
    found = {name: accuracy(part, tie_credit, unscored_credit) for name, part in groups.items()}
    return {name: value for name, value in found.items() if value is not None}


def grouped(name_of: Callable[[PreferencePair], str], results: Sequence[PairResult]) -> dict[str, list[PairResult]]:
    """Return results by a name that their pairs have, in alphabetical order."""
    groups: dict[str, list[PairResult]] = defaultdict(list)
    for result in results:
        groups[name_of(result.pair)].append(result)
    return dict(sorted(groups.items()))


def mean(values: Sequence[float]) -> float | None:
    """Return the plain mean, or None of nothing."""
    return math.fsum(values) / len(values) if values else None


def content_id(prompt: Prompt, *responses: str) -> str:
    """Return a stable id for a row that has none: a hash of its prompt and responses, in the data's order."""
    parts = [[[turn.role, turn.content] for turn in prompt], *responses]
    return "p" + hashlib.blake2b(orjson.dumps(parts), digest_size=8).hexdigest()


def drawn_first(pair_id: str) -> bool:
    """Say whether the chosen response is listed first, where the data lists "chosen, rejected" and so tells nothing.

    A bit of a hash of the id: balanced, free of seeds, and independent of `core.pair.hashed_order`.
    Without it the data's order would give the answer away.
    """
    return hashed_fraction("listed first", pair_id) < 0.5
