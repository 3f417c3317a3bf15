"""How much of a training set overlaps with benchmarks, each by itself, before and after dropping ties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from svr_async.core.pair import PreferencePair
from svr_async.training.bank.decontaminate import RUN_WORDS, held_runs, overlapping

HEADS = ("benchmark", "its pairs", "removed, with ties", "share", "removed, without ties", "share")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Pairs that share a run of words with a benchmark of so many pairs: `with_ties` before ties are dropped."""

    benchmark: str
    items: int
    with_ties: int
    without_ties: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContaminationReport:
    """The overlaps of `pairs` pairs and `ties` more that prefer neither; `clean` are the pairs without any."""

    pairs: int
    ties: int
    overlaps: tuple[Overlap, ...]
    clean: tuple[PreferencePair, ...]

    def to_json(self) -> dict[str, Any]:
        """Return counts and shares as plain JSON values."""
        rows = [
            {
                "benchmark": one.benchmark,
                "items": one.items,
                "before_dropping_ties": {"removed": one.with_ties, "share": _share(one.with_ties, self.before)},
                "after_dropping_ties": {"removed": one.without_ties, "share": _share(one.without_ties, self.pairs)},
            }
            for one in self.overlaps
        ]
        return {"run_words": RUN_WORDS, "pairs": self.pairs, "ties": self.ties, "clean": len(self.clean), "by": rows}

    @property
    def sentence(self) -> str:
        """What is left, in words."""
        gone = self.pairs - len(self.clean)
        return f"{len(self.clean):,} pairs are clean; {gone:,} overlap, {self.ties:,} ties are dropped"

    @property
    def before(self) -> int:
        """How many pairs there are before ties are dropped."""
        return self.pairs + self.ties

    def rows(self) -> list[tuple[str, ...]]:
        """Return a row of texts for each benchmark, and one for all of them together: what is removed, of how many."""
        return [
            (
                one.benchmark,
                f"{one.items:,}",
                f"{one.with_ties:,} of {self.before:,}",
                f"{100 * (_share(one.with_ties, self.before) or 0):.2f} %",
                f"{one.without_ties:,} of {self.pairs:,}",
                f"{100 * (_share(one.without_ties, self.pairs) or 0):.2f} %",
            )
            for one in self.overlaps
        ]


def contamination(
    pairs: Sequence[PreferencePair],
    ties: Sequence[PreferencePair],
    benchmarks: Sequence[tuple[str, Sequence[PreferencePair]]],
) -> ContaminationReport:
    """Look for runs of 13 words that prompts and responses of pairs share with any text of each benchmark.

    The last overlap, `any`, is that with all of them together.
    """
    overlaps, gone, tied = [], set[str](), set[str]()
    for name, items in benchmarks:
        runs = held_runs([(name, items)])
        hit, even = ({found.pair_id for found in overlapping(side, runs)} for side in (pairs, ties))
        overlaps.append(_overlap(name, len(items), hit, even))
        gone, tied = gone | hit, tied | even
    if len(overlaps) > 1:
        overlaps.append(_overlap("any", sum(one.items for one in overlaps), gone, tied))
    clean = tuple(pair for pair in pairs if pair.id not in gone)
    return ContaminationReport(pairs=len(pairs), ties=len(ties), overlaps=tuple(overlaps), clean=clean)


def _overlap(name: str, items: int, hit: set[str], even: set[str]) -> Overlap:
    return Overlap(benchmark=name, items=items, with_ties=len(hit) + len(even), without_ties=len(hit))


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None
