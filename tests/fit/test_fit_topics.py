"""The default selector, solved: groups found by words, effects by group, and alpha on the simplex in any case."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made_arrays import made_arrays, with_negatives, with_sources
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from svr_async.fit import evidence as fit_evidence
from svr_async.fit import topics
from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import DEFAULT, FitConfig, Structure
from svr_async.fit.evidence import evidence_of
from svr_async.fit.forward import Selector, alpha_numpy, hidden_matrix, importance_matrix
from svr_async.fit.structure import SHRINKAGE, shrunken_means
from svr_async.fit.topics import solve_topics
from svr_async.fit.training import fit

TWO = replace(DEFAULT, structure=Structure(groups=2, sparsity=0.3, top_k=6))
ONE = replace(DEFAULT, structure=Structure(groups=1, sparsity=0.3, top_k=6))


def sources(arrays: FitArrays, each: int = 8) -> FitArrays:
    """Return the arrays with rubrics mined from some prompts of their own kind, noise from any."""
    rng = np.random.default_rng(0)
    even, odd = np.arange(0, arrays.n_prompts, 2), np.arange(1, arrays.n_prompts, 2)
    found = [rng.choice(even if r < 3 else odd if r < 6 else np.arange(arrays.n_prompts), each, replace=False)
             for r in range(arrays.n_rubrics)]  # fmt: skip
    return replace(arrays, source_indptr=np.arange(arrays.n_rubrics + 1) * each, source_prompt=np.concatenate(found))


def selector_of(arrays: FitArrays, config: FitConfig = TWO) -> Selector:
    """Return the solved selector."""
    return solve_topics(arrays, config).selector


def importances(selector: Selector, arrays: FitArrays) -> NDArray[np.float32]:
    """Return alpha · weight of every prompt (prompt, rubric)."""
    return importance_matrix(selector, arrays, np.arange(arrays.n_prompts))


def test_groups_follow_the_words_and_each_has_the_rubrics_that_decide_there() -> None:
    """Prompts of the two kinds get different mixture, and their best three rubrics are those of their kind."""
    arrays = sources(made_arrays(n_pairs=600), 30)
    selector = selector_of(arrays)
    first = hidden_matrix(selector, arrays, np.arange(600))[:, 0] > 0.5
    assert abs(first[::2].mean() - first[1::2].mean()) > 0.95
    best = np.argsort(-importances(selector, arrays), axis=1)[:, :3]
    hits = [set(row.tolist()) == {3 * (n % 2) + k for k in range(3)} for n, row in enumerate(best)]
    assert np.mean(hits) > 0.9


@pytest.mark.parametrize("config", [ONE, TWO, replace(TWO, structure=Structure(groups=5, sparsity=1.0, common=0.2))])
@pytest.mark.parametrize("n", [1, 6, 200])
def test_alpha_is_on_the_simplex_for_any_prompt(config: FitConfig, n: int) -> None:
    """Known words, no known words, all words at once: alpha >= 0 and sums to 1, with one pair or many."""
    arrays = sources(made_arrays(n_pairs=n + 40), 4).take_pairs(np.arange(n))
    selector = selector_of(arrays, config)
    empty = np.zeros(0, int), np.zeros(0, np.float32)
    every = np.arange(24), np.ones(24, np.float32)
    for features in (empty, every, arrays.features(0)):
        alpha = alpha_numpy(selector, *features)
        assert alpha.min() >= 0
        np.testing.assert_allclose(alpha.sum(), 1, atol=1e-5)


def test_after_pruning_the_kept_rubrics_stand_in_the_same_order() -> None:
    """A selector restricted to some rubrics ranks them as before, and shares alpha out among them."""
    arrays = sources(made_arrays(n_pairs=300))
    selector, kept = selector_of(arrays), np.array([0, 2, 3, 5, 7, 11])
    whole, part = importances(selector, arrays)[:, kept], importances(selector.restrict(kept), arrays)
    np.testing.assert_allclose(part.sum(axis=1), DEFAULT.topic_weight, rtol=1e-5)
    shares = whole / whole.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(part / DEFAULT.topic_weight, shares, atol=1e-5)


def test_effects_of_a_structure_have_a_mean_sum_of_one() -> None:
    """Over the training pairs the logits sum to 1 in the mean, so structures can be averaged."""
    arrays = sources(made_arrays(n_pairs=300))
    for config in (ONE, TWO):
        selector = selector_of(arrays, config)
        logits = hidden_matrix(selector, arrays, np.arange(300)) @ selector.output.T
        np.testing.assert_allclose(logits.sum(axis=1).mean(), 1, atol=0.02)


def test_structures_that_are_averaged_share_one_softmax() -> None:
    """Topics of two structures stand side by side, each structure about as likely as the other, mixture of sum 1."""
    arrays = sources(made_arrays(n_pairs=300))
    evidence = evidence_of(arrays, TWO)
    assert ONE.structure is not None
    assert TWO.structure is not None
    learner = topics._Learner(evidence, TWO)
    both = topics._selector(evidence, learner, (ONE.structure, TWO.structure))
    mixture = hidden_matrix(both, arrays, np.arange(300))
    assert mixture.shape == (300, 3)
    np.testing.assert_allclose(mixture.sum(axis=1), 1, atol=1e-5)
    assert 0.3 < mixture[:, 0].mean() < 0.7
    same = topics._selector(evidence, learner, (TWO.structure, TWO.structure))
    np.testing.assert_allclose(importances(same, arrays), importances(selector_of(arrays), arrays), atol=1e-5)


def test_the_settings_name_a_structure_or_cross_validation_chooses_one() -> None:
    """A named structure is taken without trials; otherwise the choice comes with what was tried."""
    arrays = sources(made_arrays(n_pairs=300))
    named, free = (solve_topics(arrays, config).choice for config in (TWO, replace(DEFAULT, hidden=4)))
    assert (named.structure, named.trials) == (TWO.structure, ())
    assert len(free.trials) > 1
    assert free.structure.top_k in (*DEFAULT.top_ks, 12)
    assert free.structure.groups <= 4


def test_without_sources_or_words_there_is_one_group_whatever_is_asked_for() -> None:
    """Nothing tells prompts apart: one topic, and every prompt has the same alpha."""
    arrays = sources(made_arrays(n_pairs=120))
    blank: dict[str, Any] = {
        "n_features": 0,
        "feature_index": np.zeros(0, int),
        "feature_value": np.zeros(0, np.float32),
    }
    for other in (
        replace(arrays, source_indptr=None, source_prompt=None),
        replace(arrays, **blank, feature_indptr=np.zeros(121, int)),
    ):
        selector = selector_of(other)
        assert selector.hidden.shape == (other.n_features, 1)
        assert (np.ptp(importances(selector, other), axis=0) < 1e-6).all()


def test_rubrics_that_are_answered_alike_share_one_effect() -> None:
    """With a rubric's answers given to another as well, both together get what the one had; apart they are two."""
    arrays = made_arrays(n_pairs=400, pool=12)
    z = arrays.z_delta.reshape(400, 12).copy()
    alone = importances(selector_of(arrays, ONE), arrays)[0]
    rng = np.random.default_rng(0)
    z[:, 11] = np.where(rng.random(400) < 0.1, -z[:, 0], z[:, 0])
    twins = replace(arrays, z_delta=z.ravel())
    evidence = evidence_of(twins, ONE)
    assert evidence.paraphrases.of.tolist() == [*range(11), 0]
    assert evidence.merged.shape == (400, 11)
    assert ONE.structure is not None
    shared = importances(selector_of(twins, replace(ONE, structure=replace(ONE.structure, top_k=12))), twins)[0]
    assert shared[0] == pytest.approx(shared[11])
    assert 0.5 * alone[0] < shared[0] + shared[11] < 2 * alone[0]
    means = replace(ONE, structure=Structure(solver="shrunken", sparsity=0.0, top_k=12))
    of_means = importances(selector_of(twins, means), twins)[0]
    assert of_means[0] == pytest.approx(of_means[11])
    assert evidence_of(twins, replace(ONE, by_answers=False)).paraphrases.count == 12


def test_hard_negatives_say_nothing_of_how_often_a_rubric_decides() -> None:
    """The solution is the same with other judgements of them, and other than with them as pairs."""
    arrays = sources(with_negatives(made_arrays(n_pairs=202)))
    other = replace(arrays, z_delta=np.where(np.arange(202 * 6) >= 200 * 6, -arrays.z_delta, arrays.z_delta))
    first, second = selector_of(arrays), selector_of(other)
    np.testing.assert_array_equal(first.output, second.output)
    assert not np.array_equal(first.output, selector_of(replace(arrays, negative_of=None)).output)


def test_means_are_shrunk_by_the_number_of_judgements() -> None:
    """Σ gate z / (Σ gate + κ), worked out by hand: of few judgements little is believed."""
    z = csr_matrix(np.array([[1.25, 0.75], [0.75, 0], [-0.25, 0]]))
    mixture = np.array([[1, 0], [0.5, 0.5], [0, 1.0]])
    expected = [
        [(1.25 + 0.375) / (1.5 + SHRINKAGE), 0.75 / (1 + SHRINKAGE)],
        [(0.375 - 0.25) / (1.5 + SHRINKAGE), 0],
    ]
    np.testing.assert_allclose(shrunken_means(z, mixture), expected)


def test_where_nothing_survives_the_penalty_the_shrunken_means_rank() -> None:
    """An empty solution would decide nothing: the order is that of the means, and a rubric that fails has no effect."""
    arrays = made_arrays(n_pairs=60)
    none = replace(ONE, structure=Structure(sparsity=1e6), by_answers=False)
    selector = selector_of(arrays, none)
    evidence = evidence_of(arrays, none)
    means = shrunken_means(evidence.z, np.ones((60, 1)))[0]
    np.testing.assert_allclose(selector.output[:, 0] / selector.output[:, 0].sum(), means / means.sum(), atol=1e-6)


def test_a_large_corpus_is_learned_from_a_sample_drawn_by_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limits pairs and prompts are drawn: the same seed gives the same bits, another one another sample."""
    monkeypatch.setattr(fit_evidence, "MOST_PAIRS", 150)
    monkeypatch.setattr(topics, "LEARNING_PROMPTS", 120)
    arrays = sources(made_arrays(n_pairs=300), 20)
    assert evidence_of(arrays, TWO).z.shape[0] == 150
    first, second, third = (selector_of(arrays, replace(TWO, seed=seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.output, second.output)
    assert not np.array_equal(first.output, third.output)


def test_equal_inputs_give_equal_bytes() -> None:
    """Choice and selector are the same to the bit, with cross-validation too."""
    arrays = with_sources(made_arrays(n_pairs=200))
    first, second = (solve_topics(arrays, replace(DEFAULT, hidden=4)) for _ in range(2))
    assert first.choice == second.choice
    for name, value in first.selector.tensors().items():
        assert value.tobytes() == second.selector.tensors()[name].tobytes()


@pytest.mark.parametrize(("noise", "proven"), [(False, True), (True, False)])
def test_a_fit_says_whether_it_decides_better_than_a_coin(noise: bool, proven: bool) -> None:
    """On prompts that were left out: rubrics that speak are told from verdicts by lot, of which a warning tells."""
    arrays = made_arrays(n_pairs=300)
    lot = np.random.default_rng(3).choice(np.array([-1, 1], np.float32), arrays.n_pairs)[
        np.repeat(np.arange(arrays.n_pairs), 6)
    ]
    result = fit(replace(arrays, z_delta=np.abs(arrays.z_delta) * lot) if noise else arrays, None, DEFAULT)

    assert result.choice is not None
    assert result.choice.is_proven is proven
    assert [warning for warning in result.warnings if warning.endswith("no better than guessing")] == (
        [] if proven else list(result.warnings)
    )
