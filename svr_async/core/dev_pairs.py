"""When dev pairs are too few for an accuracy to be told, and what is said in its place: one rule for all that tells it.

At 100 pairs the standard error of an accuracy near 70 % is 4.6 points; with fewer, a percentage says more than is
known. Choices may still be made by it, and the raw number may be kept in a record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from svr_async.core.pair import PreferencePair, hashed_fraction, prompt_text

ENOUGH_DEV = 100


def enough(n_dev: int) -> bool:
    """Whether an accuracy over so many dev pairs may be told."""
    return n_dev >= ENOUGH_DEV


def too_few(n_dev: int) -> str:
    """Return what is said in the place of an accuracy."""
    return f"too few pairs to say: {n_dev} dev pairs of the {ENOUGH_DEV} that it takes"


def accuracy_in_words(accuracy: float, n_dev: int) -> str:
    """Return an accuracy (a fraction of 1) over dev pairs as a line tells it, or that they are too few."""
    return f"dev accuracy {100 * accuracy:.1f} %" if enough(n_dev) else too_few(n_dev)


def metrics_in_words(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return a bank's dev metrics with words in the place of each accuracy that its `pairs` are too few for."""
    n_dev = metrics.get("pairs")
    if not isinstance(n_dev, int) or enough(n_dev):
        return dict(metrics)
    return {name: too_few(n_dev) if name.endswith("accuracy") else value for name, value in metrics.items()}


def small_dev_warnings(n_dev: int, n_pairs: int) -> list[str]:
    """Say where dev pairs are too few to tell an accuracy, with a cure; nothing where they are not."""
    if enough(n_dev):
        return []
    error = 100 * (0.7 * 0.3 / max(1, n_dev)) ** 0.5
    wanted = -(-ENOUGH_DEV * n_pairs // max(1, n_dev) // 100) * 100
    text = (
        f"{n_dev} dev pairs: an accuracy near 70 % has a standard error of {error:.1f} points, so none is told, and "
        f"differences between epochs, rounds and settings are chance. {ENOUGH_DEV} dev pairs take about {wanted:,} "
        f"pairs in all, here are {n_pairs:,}: give more, or judge the bank on others (svr data split holds some out)"
    )
    return [text]


def in_share(pair: PreferencePair, share: float, *, salt: str) -> bool:
    """Whether a hash of the pair's prompt falls into the first `share` (a fraction of 1)."""
    return hashed_fraction("split", salt, prompt_text(pair.prompt)) < share


def split_by_prompt(
    pairs: Sequence[PreferencePair], share: float, *, salt: str
) -> tuple[list[PreferencePair], list[PreferencePair]]:
    """Return (the rest, the share): about `share` of the prompts, with all their pairs, in the second list."""
    inside = [in_share(pair, share, salt=salt) for pair in pairs]
    rest = [pair for pair, taken in zip(pairs, inside, strict=True) if not taken]
    return rest, [pair for pair, taken in zip(pairs, inside, strict=True) if taken]
