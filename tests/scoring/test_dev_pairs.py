"""One rule says when an accuracy over dev pairs is told, and what stands in its place."""

from __future__ import annotations

import pytest

from svr_async.scoring.dev_pairs import accuracy_in_words, enough, metrics_in_words, small_dev_warnings


def test_an_accuracy_is_told_from_a_hundred_pairs_on() -> None:
    """Below, the line says how many there are and how many are wanted, and holds no percentage."""
    assert accuracy_in_words(0.7134, 100) == "dev accuracy 71.3 %"
    assert accuracy_in_words(0.7134, 99) == "accuracy not reported: 99 held-out pairs, 100 needed"
    assert (enough(100), enough(99), enough(0)) == (True, False, False)


def test_only_accuracies_of_too_few_pairs_are_replaced_in_metrics() -> None:
    """Other values stay, and so do accuracies over enough or over an unknown number of pairs."""
    text = "not reported: 12 held-out pairs, 100 needed"
    few = metrics_in_words({"accuracy": 0.7, "vote_accuracy": 0.6, "pairs": 12, "round": 3})
    assert few == {"accuracy": text, "vote_accuracy": text, "pairs": 12, "round": 3}
    for known in ({"accuracy": 0.7, "pairs": 100}, {"accuracy": 0.7}, {}):
        assert metrics_in_words(known) == known


@pytest.mark.parametrize("n_dev", [1, 23, 99])
def test_a_small_dev_split_is_named_with_its_error_and_a_cure(n_dev: int) -> None:
    """The count, the standard error at that size, and how many pairs would do."""
    text = small_dev_warnings(n_dev, 20 * n_dev)[0]
    assert f"{n_dev} held-out pairs" in text
    assert f"{100 * (0.21 / n_dev) ** 0.5:.1f} points" in text
    assert "2,000 pairs" in text
    assert "svr data split" in text
    assert "\n" not in text
