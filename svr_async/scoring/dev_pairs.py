"""Held-out (dev) pairs: when they are too few to report an accuracy.

At 100 pairs the standard error of an accuracy near 70 % is 4.6 points; a percentage of fewer pairs would mislead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ENOUGH_DEV = 100


def enough(n_dev: int) -> bool:
    """Whether this number of held-out pairs is enough to report an accuracy."""
    return n_dev >= ENOUGH_DEV


def not_reported(n_dev: int) -> str:
    """Return the text that is shown in place of an accuracy's value."""
    return f"not reported: {n_dev} held-out pairs, {ENOUGH_DEV} needed"


def too_few(n_dev: int) -> str:
    """Return the text that is shown in place of an accuracy."""
    return f"accuracy {not_reported(n_dev)}"


def accuracy_in_words(accuracy: float, n_dev: int) -> str:
    """Return an accuracy (a fraction of 1) over held-out pairs, or that they are too few."""
    return f"dev accuracy {100 * accuracy:.1f} %" if enough(n_dev) else too_few(n_dev)


def known_accuracy(accuracy: float, n_dev: int) -> str:
    """Return `, dev accuracy …` for the end of a sentence; empty if the held-out pairs are too few."""
    return f", {accuracy_in_words(accuracy, n_dev)}" if enough(n_dev) else ""


def metrics_in_words(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return a bank's dev metrics, with a text in place of each accuracy if its `pairs` are too few."""
    n_dev = metrics.get("pairs")
    if not isinstance(n_dev, int) or enough(n_dev):
        return dict(metrics)
    return {name: not_reported(n_dev) if name.endswith("accuracy") else value for name, value in metrics.items()}


def small_dev_warnings(n_dev: int, n_pairs: int) -> list[str]:
    """Return a warning with a remedy if the held-out pairs are too few; empty otherwise."""
    if enough(n_dev):
        return []
    error = 100 * (0.7 * 0.3 / max(1, n_dev)) ** 0.5
    wanted = -(-ENOUGH_DEV * n_pairs // max(1, n_dev) // 100) * 100
    text = (
        f"{too_few(n_dev)} (standard error {error:.1f} points near 70 %); differences between epochs, rounds and "
        f"settings are chance. Give about {wanted:,} pairs (now {n_pairs:,}), or evaluate the bank on other pairs "
        "(svr data split holds some out)"
    )
    return [text]
