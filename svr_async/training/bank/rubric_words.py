"""The content words of a bank's rubrics, numbered: what rubrics have in common that no two prompts worded alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from svr_async.core.similarity import normalised
from svr_async.training.bank.distinct import carried


def rubric_words(texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return, as a CSR from rubrics to words, the content words of each text; words are numbered alphabetically."""
    words = [sorted(_roots(text)) for text in texts]
    number = {word: place for place, word in enumerate(sorted({word for found in words for word in found}))}
    borders = np.cumsum([0, *map(len, words)]).astype(np.int64)
    return borders, np.array([number[word] for found in words for word in found], dtype=np.int32)


def _roots(text: str) -> set[str]:
    """Return the content words of a text, singular and plural alike: "source" and "sources" are "sourc"."""
    return {word.removesuffix("e") for word in carried(frozenset(normalised(text).split()))}
