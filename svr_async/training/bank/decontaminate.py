"""Decontamination: training pairs that share a run of 13 words with a benchmark are found and left out."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from svr_async.core.pair import PreferencePair, prompt_text
from svr_async.training.bank.word_runs import SPACELESS, half_words, word_runs

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
