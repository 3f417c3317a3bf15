"""Redundancy edges and the sweep over near-duplicates."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rubric_texts import rubric_texts

from svr_async.core.rubric import Check, Rubric
from svr_async.core.similarity import redundancy, similarity
from svr_async.training.bank.prune_redundant import drop_redundant, redundancy_edges, same_criterion
from svr_async.training.bank.similarity_join import similar_pairs


@given(seed=st.integers(0, 50), cutoff=st.sampled_from([0.7, 0.88, 0.92]))
@settings(deadline=None, max_examples=25)
def test_edges_are_the_positive_entries_of_the_matrix(seed: int, cutoff: float) -> None:
    """Every pair above the cutoff has an edge with the paper's value, and no other pair has."""
    texts = rubric_texts(25, seed=seed, near=0.8)
    edges = redundancy_edges(texts, cutoff)
    found = {(int(i), int(j)): v for i, j, v in zip(edges.i, edges.j, edges.value, strict=True)}
    for i in range(len(texts)):
        for j in range(i + 1, len(texts)):
            expected = redundancy(similarity(texts[i], texts[j]), cutoff)
            assert found.get((i, j), 0.0) == pytest.approx(expected, rel=1e-6)
            assert ((i, j) in found) == (expected > 0)


def test_edges_fit_what_the_fit_reads() -> None:
    """Integers and float32 in (0, 1], i < j, also where there are none."""
    for texts in (["a b c", "A b c", "xyz"], ["abc", "xyz"], []):
        edges = redundancy_edges(texts)
        assert (edges.i.dtype, edges.j.dtype) == (np.dtype(np.int32),) * 2
        assert edges.value.dtype == np.dtype(np.float32)
        assert bool(np.all(edges.i < edges.j))
        assert bool(np.all((edges.value > 0) & (edges.value <= 1)))
    with pytest.raises(ValueError, match="cutoff must be >= 0 and < 1"):
        redundancy_edges(["a"], 1.0)


@given(order=st.permutations(list(range(20))), seed=st.integers(0, 20))
@settings(deadline=None, max_examples=40)
def test_the_sweep_is_that_of_a_plain_loop(order: list[int], seed: int) -> None:
    """In order of relevance, each is kept unless one kept before it is similar."""
    texts = rubric_texts(20, seed=seed, near=0.8)
    kept: list[int] = []
    for place in order:
        if all(similarity(texts[place], texts[other]) < 0.92 for other in kept):
            kept.append(place)
    assert drop_redundant(order, similar_pairs(texts, 0.88)) == kept


def test_the_sweep_takes_a_part_of_the_bank() -> None:
    """Positions that are not in the order neither stay nor drop anything."""
    similar = similar_pairs(["uses plain words", "Uses plain words.", "cites a source"], 0.9)
    assert drop_redundant([1, 2], similar) == [1, 2]
    assert drop_redundant([2, 0, 1], similar) == [2, 0]
    assert drop_redundant([], similar) == []


def test_pairs_of_different_criteria_can_be_left_out() -> None:
    """Texts that read alike with other numbers or other checks are not one criterion."""
    rubrics = [
        Rubric(text="The response uses at most 50 words"),
        Rubric(text="The response uses at most 60 words"),
        Rubric(text="The response uses at most fifty words", check=Check.of("max_words", n=50)),
        Rubric(text="The response uses at most fifty words!", check=Check.of("min_words", n=50), id="other"),
    ]
    similar = similar_pairs([rubric.text for rubric in rubrics], 0.8)
    same = same_criterion(similar, rubrics)
    assert list(zip(same.first.tolist(), same.second.tolist(), strict=True)) == [(0, 2), (0, 3)]
    assert len(similar) > len(same)
