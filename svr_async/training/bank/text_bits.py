"""Texts and token sets as bit strings whose distance never exceeds the distance of what they stand for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Counts = NDArray[np.int16]

OWN_CLASSES = 64  # the commonest letters each have a class of their own
LETTER_CLASSES = 128  # the others share the rest
LETTER_BITS = 256
TELLING_WORDS = 2
ROWS_AT_ONCE = 8192


@dataclass(frozen=True, slots=True, eq=False)
class LetterBits:
    """Bits "this letter occurs at least so often": an insertion or deletion changes at most one of them.

    `telling`: the most telling 64-bit words, each an array over the texts. `rows`: all words, one row for each text.
    """

    telling: tuple[Words, ...]
    rows: Words


def letter_bits(texts: Sequence[str]) -> LetterBits:
    """Return the bit strings of texts that are not empty; which letters and levels have bits is chosen by the texts."""
    classes = _classes(texts)
    counts = np.concatenate([_letter_counts(block, classes) for block in _blocks(texts)])
    rows = np.ascontiguousarray(np.packbits(_level_bits(counts), axis=1)).view(np.uint64)
    return LetterBits(tuple(np.ascontiguousarray(rows[:, place]) for place in range(TELLING_WORDS)), rows)


def _blocks(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    return (texts[start : start + ROWS_AT_ONCE] for start in range(0, len(texts), ROWS_AT_ONCE))


def _classes(texts: Sequence[str]) -> NDArray[np.uint8]:
    """Return the class of every code point up to the largest: one of its own for the commonest, else a shared one."""
    counts = np.zeros(1 + max(ord(max(text)) for text in texts), dtype=np.int64)
    for block in _blocks(texts):
        counts += np.bincount(_codes("".join(block)), minlength=len(counts))
    places = np.arange(len(counts))
    shared = OWN_CLASSES + places % (LETTER_CLASSES - OWN_CLASSES)
    common = np.argsort(-counts, kind="stable")[:OWN_CLASSES]
    shared[common] = places[: len(common)]
    return shared.astype(np.uint8)


def _codes(text: str) -> NDArray[np.int64]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.int64)


def _letter_counts(block: Sequence[str], classes: NDArray[np.uint8]) -> Counts:
    """Return how often each class occurs in each text."""
    rows = np.repeat(np.arange(len(block)), [len(text) for text in block])
    letters = classes[_codes("".join(block))].astype(np.int64)
    found = np.bincount(rows * LETTER_CLASSES + letters, minlength=len(block) * LETTER_CLASSES)
    return np.minimum(found, 32_000).astype(np.int16).reshape(len(block), LETTER_CLASSES)


def _level_bits(counts: Counts) -> NDArray[np.bool_]:
    """Return the most telling bits "class c occurs at least k times": those nearest to half of the texts first."""
    levels = np.arange(1, 33)
    share = np.stack([(counts >= level).mean(axis=0) for level in levels])
    telling = np.argsort(-(share * (1 - share)).ravel(), kind="stable")[:LETTER_BITS]
    level, letter = np.divmod(telling, counts.shape[1])
    return counts[:, letter] >= levels[level]


def token_bits(sets: Sequence[frozenset[str]]) -> Words:
    """Return 64 parity bits for each set: two sets differ in at most as many bits as in tokens."""
    bit = {token: 1 << _hash(token) % 64 for tokens in sets for token in tokens}
    found = np.zeros(len(sets), dtype=np.uint64)
    for place, tokens in enumerate(sets):
        parity = 0
        for token in tokens:
            parity ^= bit[token]
        found[place] = parity
    return found


def _hash(token: str) -> int:
    return int.from_bytes(hashlib.blake2b(token.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
