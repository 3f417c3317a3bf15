"""Which rubrics are wordings of one criterion: answers decide, and means alone do not."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from svr_async.fit.paraphrase_clusters import ParaphraseClusters, cluster_paraphrases, one_each

PAIRS = 600


def answers(truth: NDArray[Any], errors: float, seed: int | list[int] = 0) -> NDArray[Any]:
    """Return z of a judge who turns a share `errors` of what is so round, each time anew."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(truth.shape) < errors, -truth, truth)


def planted(wordings: int = 3, errors: float = 0.1, good: float = 0.6, seed: int = 0) -> NDArray[Any]:
    """Return z (pair, rubric): some wordings of one criterion, then as many criteria of the same mean."""
    rng = np.random.default_rng([seed, 1])
    truth = np.where(rng.random((PAIRS, wordings + 1)) < good, 1.25, -1.25)
    same = [answers(truth[:, 0], errors, seed=[seed, k]) for k in range(wordings)]
    other = [answers(truth[:, 1 + k], errors, seed=[seed, 9, k]) for k in range(wordings)]
    return np.column_stack(same + other)


@pytest.mark.parametrize("seed", range(3))
def test_wordings_with_errors_of_their_own_are_one_criterion(seed: int) -> None:
    """Planted wordings are joined; criteria that are as good, and answered apart, are not."""
    found = cluster_paraphrases(csr_matrix(planted(seed=seed)))
    assert found.of.tolist() == [0, 0, 0, 1, 2, 3]
    assert found.count == 4
    assert 0.4 < found.agreement[0] < 0.8, "what two answers of which one in ten is wrong have in common"
    assert found.agreement[1:].tolist() == [1, 1, 1]


def test_good_criteria_do_not_become_one_by_being_good() -> None:
    """Two criteria that favour the chosen response in nine of ten pairs have a mean in common and nothing else."""
    rng = np.random.default_rng(0)
    z = np.where(rng.random((PAIRS, 8)) < 0.9, 1.25, -1.25)
    assert cluster_paraphrases(csr_matrix(z)).count == 8


def test_the_authors_criteria_are_split_where_answers_say_so() -> None:
    """A criterion that a wrong link made of two is two again; wordings never judged together stay one."""
    z = planted()
    z[:300, 3], z[300:, 4] = 0, 0  # different criteria in truth, but no answer tells
    grouping = np.array([0, 0, 0, 1, 1, 0])
    assert cluster_paraphrases(csr_matrix(z), grouping).of.tolist() == [0, 0, 0, 1, 1, 2]


def test_a_wrong_link_of_two_criteria_with_all_their_wordings_is_undone() -> None:
    """Three wordings each: no wording disagrees with most others, and answers still show two criteria."""
    z = np.column_stack([planted()[:, :3], planted(seed=7)[:, :3]])
    assert cluster_paraphrases(csr_matrix(z), np.zeros(6, int)).of.tolist() == [0, 0, 0, 1, 1, 1]


def test_opposites_are_two() -> None:
    """A rubric that fails where another passes is not its wording."""
    z = planted(wordings=1)[:, :1]
    assert cluster_paraphrases(csr_matrix(np.column_stack([z, -answers(z, 0.05)]))).count == 2


def test_few_answers_prove_nothing() -> None:
    """Rubrics that were judged together on five pairs, or never, stay apart however alike they were answered."""
    z = np.zeros((PAIRS, 2))
    z[:300, 0] = planted()[:300, 0]
    z[295:, 1] = z[295:, 0] + (z[295:, 0] == 0) * 0.75
    assert cluster_paraphrases(csr_matrix(z)).count == 2
    z[295:300, 1] = 0
    z[300:, 0] = 0
    assert cluster_paraphrases(csr_matrix(z)).count == 2
    assert cluster_paraphrases(csr_matrix((PAIRS, 2))).count == 2


def test_two_criteria_do_not_meet_in_a_third() -> None:
    """A rubric that asks for both of two joins one of them at the most: the answers of the two speak against it."""
    rng = np.random.default_rng(3)
    one, other = rng.choice([-1.25, 1.25], (2, 4 * PAIRS))
    both = np.where(rng.random(4 * PAIRS) < 0.5, one, other)
    found = cluster_paraphrases(csr_matrix(np.column_stack([one, other, both])))
    assert found.of[0] != found.of[1]


def test_a_criterion_is_the_mean_of_the_wordings_that_were_judged() -> None:
    """Two answers are averaged, one alone stands, none leaves none; opposite answers make a 0 that counts."""
    criteria = ParaphraseClusters(of=np.array([0, 1, 0]), agreement=np.array([0.6, 1.0]))
    z = csr_matrix(np.array([[1.25, 0, 0.25], [0.75, -0.25, 0], [0, 1.25, 0], [0.75, 0, -0.75]]))
    merged = criteria.merge(z)
    np.testing.assert_allclose(merged.toarray(), np.array([[0.75, 0], [0.75, -0.25], [0, 1.25], [0, 0]]))
    assert merged.getnnz(axis=1).tolist() == [1, 2, 1, 1]
    plain = one_each(3)
    assert (plain.merge(z) != z).nnz == 0


@pytest.mark.parametrize("places", [1, 2, 3, 6, 99])
def test_what_is_spread_over_wordings_adds_up_to_the_criterion(places: int) -> None:
    """Each criterion's effect is shared evenly among its wordings that get a place, and the first one always does."""
    of = np.array([0, 0, 1, 0, 2, 1])
    criteria = ParaphraseClusters(of=of, agreement=np.array([0.5, 0.3, 1.0]))
    effects = np.array([[0.9, 0.4, 0.0], [0.1, 0.0, 2.0]])
    found = criteria.spread(effects, places)
    total = np.stack([found[:, of == criterion].sum(axis=1) for criterion in range(3)], axis=1)
    np.testing.assert_allclose(total, effects)
    for topic, criterion in np.argwhere(effects > 0):
        shares = found[topic, of == criterion]
        assert shares[0] > 0
        assert len(set(shares[shares > 0].tolist())) == 1
    assert (found >= 0).all()
    assert (found <= effects[:, of]).all()


def test_places_go_first_to_criteria_and_then_to_further_wordings() -> None:
    """With room for two, two criteria have one wording each; with room for all, the wordings share."""
    criteria = ParaphraseClusters(of=np.array([0, 0, 1]), agreement=np.array([0.5, 1.0]))
    effects = np.array([[1.0, 0.8]])
    np.testing.assert_allclose(criteria.spread(effects, 2), [[1.0, 0, 0.8]])
    np.testing.assert_allclose(criteria.spread(effects, 3), [[0.5, 0.5, 0.8]])


def test_a_wording_that_agrees_less_is_a_better_second_opinion() -> None:
    """Of two criteria of equal effect, the third place goes to the one whose wordings err more on their own."""
    criteria = ParaphraseClusters(of=np.array([0, 0, 1, 1]), agreement=np.array([0.9, 0.4]))
    found = criteria.spread(np.array([[1.0, 1.0]]), 3)
    np.testing.assert_allclose(found, [[1.0, 0, 0.5, 0.5]])


def test_without_wordings_effects_are_what_they_were() -> None:
    """One criterion a rubric: nothing is merged or spread."""
    effects = np.random.default_rng(0).random((2, 5))
    np.testing.assert_array_equal(one_each(5).spread(effects, 2), effects)


def test_numbers_of_criteria_follow_the_first_rubric_and_repeat() -> None:
    """Criteria are numbered in the order of their first rubrics, the same each time."""
    z = csr_matrix(planted()[:, [3, 0, 4, 1, 5, 2]])
    first, second = cluster_paraphrases(z), cluster_paraphrases(z)
    assert first.of.tolist() == second.of.tolist() == [0, 1, 2, 1, 3, 1]
    assert first.agreement.tobytes() == second.agreement.tobytes()
