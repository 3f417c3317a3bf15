"""TF-IDF of prompts: learned with scikit-learn, stored as plain arrays, applied with NumPy (paper app:selector)."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from svr_async.errors import ArtefactError
from svr_async.fit import ragged

MAX_FEATURES = 4096  # app:selector
MAX_TERM_CHARS = 256  # a longer word, such as a sequence of DNA, says nothing of another prompt; no bank holds it
_TOKEN = re.compile(r"(?u)\b\w\w+\b")  # scikit-learn's: two or more word characters

SparseRows = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.float32]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Vocabulary:
    """The learned features: `terms` maps a word or a pair of words to its column, `idf` holds each column's weight."""

    terms: dict[str, int]
    idf: npt.NDArray[np.float32]

    def __post_init__(self) -> None:
        if sorted(self.terms.values()) != list(range(len(self.idf))):
            raise ArtefactError(f"a vocabulary of {len(self.terms)} terms does not number {len(self.idf)} idf weights")
        if not np.isfinite(self.idf).all():
            raise ArtefactError("idf holds values that are not finite")

    def to_json(self) -> str:
        """Return the terms as JSON, sorted, for a file next to the idf array."""
        return json.dumps(self.terms, sort_keys=True, ensure_ascii=False)


def learn(texts: Sequence[str], *, max_features: int = MAX_FEATURES, pairs_of_words: bool = True) -> Vocabulary:
    """Learn the most frequent words, and pairs of them, accents folded; empty where the texts hold no word.

    Of equally frequent terms the alphabetically first are taken; scikit-learn's choice depends on the processor.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    if not any(True for text in texts for _ in _terms(text)):
        return Vocabulary(terms={}, idf=np.zeros(0, np.float32))
    vectoriser = CountVectorizer(strip_accents="unicode", ngram_range=(1, 2 if pairs_of_words else 1))
    counts = vectoriser.fit_transform(texts)
    names = vectoriser.get_feature_names_out()
    short = np.flatnonzero([len(name) <= MAX_TERM_CHARS for name in names])
    often = np.asarray(counts.sum(axis=0)).ravel()[short]
    kept = np.sort(short[np.argsort(-often, kind="stable")[:max_features]])
    shown_in = np.asarray((counts[:, kept] > 0).sum(axis=0)).ravel()
    idf = np.log((1 + len(texts)) / (1 + shown_in)) + 1
    return Vocabulary(terms={str(names[n]): place for place, n in enumerate(kept)}, idf=idf.astype(np.float32))


def transform(vocabulary: Vocabulary, texts: Sequence[str]) -> SparseRows:
    """Return the L2-normalised TF-IDF rows of texts as CSR (indptr, index, value), columns in rising order.

    A text without a known term gives an empty row: φ = 0.
    """
    rows = [_row(vocabulary, text) for text in texts]
    indptr = ragged.indptr_of(np.array([len(index) for index, _ in rows], np.int64))
    index = np.concatenate([index for index, _ in rows] or [np.zeros(0, np.int32)])
    value = np.concatenate([value for _, value in rows] or [np.zeros(0, np.float32)])
    return indptr, index.astype(np.int32), value.astype(np.float32)


def _row(vocabulary: Vocabulary, text: str) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """Return one text's columns and values: count · idf, scaled to length 1."""
    columns = [column for term in _terms(text) if (column := vocabulary.terms.get(term)) is not None]
    index, count = np.unique(np.array(columns, np.int32), return_counts=True)
    value = count * vocabulary.idf[index].astype(np.float64)
    length = np.sqrt(np.sum(value**2))
    return index, (value / length if length > 0 else value).astype(np.float32)


def _terms(text: str) -> Iterator[str]:
    """Yield the words of a text, then its pairs of neighbouring words."""
    words = _TOKEN.findall(fold(text.lower()))
    yield from words
    for first, second in pairwise(words):
        yield f"{first} {second}"


def fold(text: str) -> str:
    """Return the text without accents: decomposed (NFKD), combining marks left out."""
    if text.isascii():
        return text
    return "".join(mark for mark in unicodedata.normalize("NFKD", text) if not unicodedata.combining(mark))
