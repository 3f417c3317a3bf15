"""Decontamination: training pairs that share a run of 13 words with a benchmark are found and left out."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from svr_async.core.pair import PreferencePair, prompt_text
from svr_async.training.bank.leaks import SPACELESS, half_words, word_runs

RUN_WORDS = 13
HeldRuns = dict[int, tuple[str, str]]
_WORD = re.compile(rf"[{SPACELESS}]|[^\W{SPACELESS}]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contamination:
    """A training pair that overlaps with a benchmark: which item of it, and the words that they share."""

    pair_id: str
    benchmark: str
    item: str
    shared: str


def words_of(text: str) -> list[str]:
    """Return the words of a text, HTML entities read, Unicode folded (NFKC), case and punctuation aside.

    Scripts without spaces give a word for each character; two of them count as one word.
    """
    return _WORD.findall(unicodedata.normalize("NFKC", html.unescape(text)).casefold())


def runs_of(text: str) -> Iterator[int]:
    """Yield a hash of each run of 13 words; a shorter text of at least 6 words is one run, a shorter one none."""
    words = words_of(text)
    for start, end in _spans(words):
        yield hash(tuple(words[start:end]))


def _spans(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield where the runs of 13 words begin and end: the whole of a shorter text that has 6."""
    halves = sum(half_words(words))
    if halves >= 2 * RUN_WORDS:
        yield from word_runs(words, RUN_WORDS)
    elif halves >= 2 * (RUN_WORDS // 2):
        yield 0, len(words)


def find_contaminated(
    pairs: Sequence[PreferencePair], benchmarks: Iterable[tuple[str, Sequence[PreferencePair]]]
) -> list[Contamination]:
    """Return the training pairs of which the prompt or a response shares a run with any text of a benchmark."""
    return overlapping(pairs, held_runs(benchmarks))


def held_runs(benchmarks: Iterable[tuple[str, Sequence[PreferencePair]]]) -> HeldRuns:
    """Return the hash of each run of benchmarks, with the name and the item that have it first."""
    held: HeldRuns = {}
    for name, items in benchmarks:
        for item in items:
            for text in _texts(item):
                held.update((run, (name, item.id)) for run in runs_of(text) if run not in held)
    return held


def overlapping(pairs: Sequence[PreferencePair], held: HeldRuns) -> list[Contamination]:
    """Return the pairs of which the prompt or a response has one of the runs."""
    return [hit for pair in pairs if (hit := _first_hit(pair, held)) is not None]


def _first_hit(pair: PreferencePair, held: HeldRuns) -> Contamination | None:
    for text in _texts(pair):
        words = words_of(text)
        for start, end in _spans(words):
            run = hash(tuple(words[start:end]))
            if run in held:
                benchmark, item = held[run]
                shared = " ".join(words[start:end])
                return Contamination(pair_id=pair.id, benchmark=benchmark, item=item, shared=shared)
    return None


def _texts(pair: PreferencePair) -> tuple[str, str, str]:
    return prompt_text(pair.prompt), pair.chosen, pair.rejected


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
