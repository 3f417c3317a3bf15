"""Runs of so many words in a row, where two characters of a script without spaces count as a word."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

# Thai, Lao, Burmese, Khmer, kana and Chinese characters: scripts that write no spaces between words.
SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_SPACELESS = re.compile(f"[{SPACELESS}]")


def half_words(tokens: Sequence[str]) -> list[int]:
    """Return what each token counts in half words: 1 for a character of a script without spaces, 2 for a word."""
    return [1 if len(token) == 1 and _SPACELESS.match(token) else 2 for token in tokens]


def word_runs(tokens: Sequence[str], words: int) -> Iterator[tuple[int, int]]:
    """Yield where every shortest run of tokens that counts so many words begins and ends, in rising order."""
    halves = half_words(tokens)
    start = held = 0
    for end, half in enumerate(halves, 1):
        held += half
        while held - halves[start] >= 2 * words:
            held -= halves[start]
            start += 1
        if held >= 2 * words:
            yield start, end
