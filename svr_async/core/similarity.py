"""The paper's similarity of two rubric texts (`app:hparams`).

The paper names neither stopwords nor a normal form of Unicode nor the order of the two texts: those are ours.
"""

from __future__ import annotations

import re
import unicodedata
from difflib import SequenceMatcher

try:
    from cdifflib import CSequenceMatcher as Matcher  # the same numbers, in C
except ImportError:
    Matcher = SequenceMatcher

REDUNDANCY_CUTOFF = 0.92  # app:hparams
# Without negations, quantities, places in time or order ("not", "all", "before"): they make a rubric its opposite.
STOPWORDS = frozenset(
    """
    a about also am an and are as at be because been being but by can could did do does doing during for from had has
    have having he her here hers him his how i if in into is it its itself just me my of on or our ours own she should
    so some such than that the their theirs them then there these they this those through to too until upon very was we
    were what when where whether which while who whom whose why will with would you your yours
    """.split()  # noqa: SIM905  (a list of a hundred quoted words reads worse)
)
_WORD = re.compile(r"[^\W_]+")


def normalised(text: str) -> str:
    """Return the text lower-cased, its runs of letters and digits joined by single spaces (Unicode NFKC first)."""
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).lower()))


def content_tokens(text: str) -> frozenset[str]:
    """Return the distinct lower-cased words and numbers, without stopwords and one-letter tokens."""
    return frozenset(token for token in normalised(text).split() if len(token) > 1 and token not in STOPWORDS)


def jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    """Return |first ∩ second| / |first ∪ second|; 0 where both are empty, since nothing is shared."""
    union = len(first | second)
    return len(first & second) / union if union else 0.0


def sequence_ratio(first: str, second: str) -> float:
    """Return difflib's matching-blocks ratio 2·M/T of two normalised texts; 0 where either is empty.

    The ratio depends on the order of its arguments, so the shorter text goes first (then the lesser), and
    `autojunk` is off: it would ignore frequent letters from 200 characters on.
    """
    if not first or not second:
        return 0.0
    shorter, longer = sorted((first, second), key=lambda text: (len(text), text))
    return float(Matcher(None, shorter, longer, autojunk=False).ratio())


def similarity(first: str, second: str) -> float:
    """Return max(Jaccard of content tokens, sequence ratio of normalised texts) ∈ [0, 1] (paper `app:hparams`).

    Symmetric; equal texts give 1.
    """
    if first == second:
        return 1.0
    overlap = jaccard(content_tokens(first), content_tokens(second))
    return max(overlap, sequence_ratio(normalised(first), normalised(second)))


def redundancy(value: float, cutoff: float = REDUNDANCY_CUTOFF) -> float:
    """Return max(0, similarity − cutoff) / (1 − cutoff): 0 up to the cutoff, 1 for equal texts (`app:hparams`)."""
    if not 0 <= cutoff < 1:
        raise ValueError(f"cutoff must be >= 0 and < 1 (got {cutoff})")
    return max(0.0, value - cutoff) / (1 - cutoff)
