"""Records of adapters: a data set of pairs, the pairs of one row, and one judged pair for scoring."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from svr_async.core.pair import PreferencePair, Prompt, hashed_fraction

INVALID = "invalid: "
REPEATED = "repeated rows, kept with #2, #3 … after their ids"
CONTRADICTING = "rows that repeat an earlier row with the opposite label, kept"


@dataclass(slots=True)
class Problem:
    """One kind of odd row: the number, the first places, and whether they are used anyway."""

    what: str
    kept: bool
    count: int = 0
    first: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """Pairs in the data's order, with what a report says about them.

    `digest` is the SHA-256 of the pairs' contents, the same for every file format. `problems` list rows left out and
    odd rows that are kept. `official`: the row counts are those of the official release. `readings` say how labels
    were read; `origin` is the pinned address on the hub. `tied` are rows that prefer neither: they are in no count.
    """

    name: str
    pairs: Sequence[PreferencePair]
    source: Path
    digest: str
    n_rows: int
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    official: bool = False
    readings: tuple[str, ...] = ()
    encoding: str = ""
    origin: str = ""
    tied: Sequence[PreferencePair] = ()

    @property
    def skipped(self) -> dict[str, int]:
        """Rows left out, by reason."""
        return {one.what: one.count for one in self.problems if not one.kept}

    def left_out(self) -> dict[str, int]:
        """Return how many rows were left out (ties, others) and how many odd ones were kept."""
        counts = {one.what: one.count for one in self.problems}
        ties = sum(count for reason, count in self.skipped.items() if reason.startswith("tie"))
        found = {"ties": ties, "skipped": sum(self.skipped.values()) - ties}
        found |= {"repeated": counts.get(REPEATED, 0), "contradicting": counts.get(CONTRADICTING, 0)}
        return {name: count for name, count in found.items() if count}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """The pairs of one row, any number.

    `id` is the row's own id, or empty if the pairs' ids are hashes of their contents. `group` is the group of official
    counts. `skipped` and `notes` are reasons that the loader counts. `tied` is the pair of a row that prefers neither.
    """

    pairs: tuple[PreferencePair, ...] = ()
    id: str = ""
    group: str = ""
    skipped: str = ""
    notes: tuple[str, ...] = ()
    tied: PreferencePair | None = None


@dataclass(frozen=True, slots=True)
class PairResult:
    """A judged pair. `margin` is chosen minus rejected: above 0 the judge agrees, 0 is a tie, None is unscored.

    `scores` are those of the chosen and the rejected response, where a judge scores each response by itself.
    """

    pair: PreferencePair
    margin: float | None
    scores: tuple[float, float] | None = None

    def credit(self, tie_credit: float = 0.0, unscored_credit: float = 0.0) -> float:
        """Return 1 for a win, 0 for a loss, and the given credits for a tie and for no verdict."""
        if not self.margin:
            return unscored_credit if self.margin is None else tie_credit
        return float(self.margin > 0)


def accuracy(results: Sequence[PairResult], tie_credit: float = 0.0, unscored_credit: float = 0.0) -> float | None:
    """Return the mean credit over the pairs that have a right answer; None without any."""
    return mean([r.credit(tie_credit, unscored_credit) for r in results if r.pair.has_preference])


def accuracy_by(
    name_of: Callable[[PreferencePair], str], results: Sequence[PairResult], tie: float, unscored: float = 0.0
) -> dict[str, float]:
    """Return the accuracy of each group of pairs that has one, in alphabetical order of the groups' names."""
    groups = grouped(name_of, results)
    found = {name: accuracy(part, tie, unscored) for name, part in groups.items()}
    return {name: value for name, value in found.items() if value is not None}


def grouped(name_of: Callable[[PreferencePair], str], results: Sequence[PairResult]) -> dict[str, list[PairResult]]:
    """Return results by a name that their pairs have, in alphabetical order."""
    groups: dict[str, list[PairResult]] = defaultdict(list)
    for result in results:
        groups[name_of(result.pair)].append(result)
    return dict(sorted(groups.items()))


def micro_scores(results: Sequence[PairResult], tie_credit: float) -> dict[str, Any]:
    """Return the micro accuracy overall, by domain and by subset; no verdict counts as wrong."""
    by_subset = accuracy_by(lambda pair: pair.subset, results, tie_credit)
    return {
        "overall": accuracy(results, tie_credit),
        "by_domain": accuracy_by(lambda pair: pair.domain, results, tie_credit),
        "by_subset": {name: value for name, value in by_subset.items() if name},
        "rule": "correct / total over all pairs; a missing verdict is wrong",
    }


def mean(values: Sequence[float]) -> float | None:
    """Return the plain mean, or None of nothing."""
    return math.fsum(values) / len(values) if values else None


def content_id(prompt: Prompt, *responses: str) -> str:
    """Return a stable id for a row without one: a hash of its prompt and responses, in the data's order."""
    parts = [[[turn.role, turn.content] for turn in prompt], *responses]
    return "p" + hashlib.blake2b(orjson.dumps(parts), digest_size=8).hexdigest()


def pair_of(
    prompt: Prompt, first: str, second: str, pair_id: str = "", *, first_is_better: bool | None = None, **more: Any
) -> PreferencePair:
    """Build a pair; without an id, its id is a hash of its contents.

    None: the data lists "chosen, rejected", so a hash of the id, independent of `core.pair.hashed_order`, draws which
    is listed first. The data's order would give the answer away.
    """
    pair_id = pair_id or content_id(prompt, first, second)
    drawn = hashed_fraction("listed first", pair_id) < 0.5
    chosen, rejected = (second, first) if first_is_better is False else (first, second)
    listed = drawn if first_is_better is None else first_is_better
    return PreferencePair(id=pair_id, prompt=prompt, chosen=chosen, rejected=rejected, chosen_first=listed, **more)
