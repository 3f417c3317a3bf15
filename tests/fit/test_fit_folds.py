"""What cross-validation leaves out: prompts, or sources that count the same."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from svr_async.fit.structure import FOLDS, MOST_PAIRS, Folds, even_rows, folds_of


def made(sizes: tuple[int, ...], *, prompts: NDArray[Any] | None = None) -> Folds:
    """Return folds of sources of these sizes, each pair with a prompt of its own unless said otherwise."""
    source = np.repeat(np.arange(len(sizes)), sizes)
    prompt = np.arange(len(source)) if prompts is None else prompts
    return folds_of(prompt, source, np.random.default_rng(0))


@pytest.mark.parametrize("sizes", [(200, 100), (100, 100, 20), (29, 29, 29)])
def test_fewer_than_three_large_sources_leave_prompts_out(sizes: tuple[int, ...]) -> None:
    """Prompts are left out where two sources at most have thirty pairs, and each prompt in one fold."""
    folds = made(sizes, prompts=np.arange(sum(sizes)) // 2)
    assert folds.left_out == "prompts"
    for held in range(folds.count):
        assert not set(folds.prompt[folds.inside(held)]) & set(folds.prompt[folds.fold == held])


def test_a_source_is_left_out_whole() -> None:
    """Each large source lies outside in one fold alone; small ones are learned from in all of them."""
    folds = made((300, 200, 100, 50, 40, 10))
    assert (folds.left_out, folds.count) == ("sources", FOLDS)
    for source in range(5):
        assert len(set(folds.fold[folds.source == source])) == 1
    assert set(folds.fold[folds.source == 5]) == {-1}
    assert folds.averaged(np.ones((2, len(folds.used)))).shape == (2, 5)


def test_a_left_out_prompt_is_not_learned_from_in_another_source() -> None:
    """Pairs of a prompt that the left-out source asks are not inside."""
    folds = made((50, 50, 50), prompts=np.tile(np.arange(50), 3))
    assert all(len(folds.inside(held)) == 0 for held in range(folds.count))


def test_sources_count_the_same() -> None:
    """The mean over sources is not that over pairs."""
    folds = made((300, 100, 100))
    assert folds.source is not None
    points = np.equal(folds.source, 0).astype(float)[None]
    np.testing.assert_allclose(folds.averaged(points), [[1, 0, 0]])


def test_a_sample_takes_from_large_sources_first() -> None:
    """Small sources are whole, large ones share the rest, and no more pairs than allowed are taken."""
    source = np.repeat([0, 1, 2], [9000, 5000, 100])
    rows = even_rows(source, MOST_PAIRS, np.random.default_rng(0))
    counts = np.bincount(source[rows])
    assert counts[2] == 100
    assert counts[0] == counts[1] == (MOST_PAIRS - 100) // 2
    assert len(np.unique(rows)) == len(rows)
