"""Sparse margin problems in one program: each finds its own optimum, whatever the layout and the company."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from svr_async.fit import margin_solver
from svr_async.fit.margin_solver import RIDGE, SLOTS, Problem, pad_to_bucket, solve
from svr_async.fit.structure import keep_largest

Array = NDArray[Any]


class Penalties(NamedTuple):
    """L1 terms by topic, and of the common part."""

    sparsity: float
    common: float = 0.0


PENALTIES = [Penalties(0.3), Penalties(0.25, 0.1)]


def effects(z: Any, mixture: Array, penalties: Penalties, price: Array | None = None) -> Array:
    """Return V of one problem."""
    return solve(z, [Problem(mixture, *penalties, price)])[0]


def _world(
    *, n_pairs: int = 240, rubrics: int = 12, topics: int = 5, uses: int = 2, seed: int = 0
) -> tuple[Any, Array]:
    """Uneven pairs, real-valued z, a few topics per pair; two rubrics of each topic decide."""
    rng = np.random.default_rng(seed)
    judged = rng.random((n_pairs, rubrics)) < np.where(rng.random((n_pairs, 1)) < 0.1, 1.0, 0.4)
    topic = np.argsort(rng.random((n_pairs, topics)), axis=1)[:, :uses]
    mixture = np.zeros((n_pairs, topics))
    np.put_along_axis(mixture, topic, rng.dirichlet(np.ones(uses), n_pairs), axis=1)
    z = np.where(judged, rng.normal(scale=0.7, size=judged.shape), 0.0)
    deciding = (topic[:, :1] * 2 + np.arange(2)) % rubrics
    np.put_along_axis(z, deciding, np.abs(np.take_along_axis(z, deciding, axis=1)), axis=1)
    return csr_matrix(z), mixture


def _loss(z: Array, mixture: Array, penalties: Penalties) -> Callable[..., Any]:
    """Return the objective of the docstring of `fit.margin_solver` as a function of W and c, laid flat."""
    topics = mixture.shape[1]
    own = penalties.sparsity * np.sqrt(len(mixture) / topics)
    common = penalties.common * np.sqrt(len(mixture))

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        rows = flat.reshape(topics + 1, -1)
        margin = np.einsum("pk,kr,pr->p", mixture, rows[:-1] + rows[-1], z)
        slope = -(mixture / (1 + np.exp(margin))[:, None]).T @ z
        cost = np.array([own] * topics + [common])[:, None]
        value = np.logaddexp(0, -margin).sum() + (cost * rows).sum() + RIDGE / 2 * (rows**2).sum()
        return value, (np.vstack([slope, slope.sum(axis=0)]) + cost + RIDGE * rows).ravel()

    return loss


def _by_scipy(z: Any, mixture: Array, penalties: Penalties) -> Any:
    """Return V by L-BFGS-B."""
    topics = mixture.shape[1]
    bounds = [(0, None)] * (topics * z.shape[1]) + [(0, None if penalties.common else 0)] * z.shape[1]
    loss, start = _loss(z.toarray(), mixture, penalties), np.zeros((topics + 1) * z.shape[1])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-13, "maxiter": 2000})
    rows = found.x.reshape(topics + 1, -1)
    return rows[:-1] + rows[-1]


@pytest.mark.parametrize("dense", [0.0, 1.0])
@pytest.mark.parametrize("penalties", PENALTIES)
@pytest.mark.parametrize("uses", [1, 2, 5])
def test_the_effects_are_those_of_another_solver(
    penalties: Penalties, uses: int, dense: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Effects equal L-BFGS-B's on the objective as written, for one topic, few and all, laid out in pieces or dense."""
    monkeypatch.setattr(margin_solver, "DENSE", dense)
    z, mixture = _world(uses=uses)
    wanted = _by_scipy(z, mixture, penalties)
    assert wanted.max() > 0.05
    np.testing.assert_allclose(effects(z, mixture, penalties), wanted, atol=5e-3)


def test_what_the_penalties_leave_out_is_exactly_zero() -> None:
    """Most effects are zeros to the bit, not small numbers."""
    found = effects(*_world(), Penalties(0.5))
    assert (found == 0).mean() > 0.5
    assert found[found > 0].min() > 1e-5


def test_an_expensive_effect_stays_out_where_a_cheap_one_enters() -> None:
    """Of two criteria that decide alike, the one that the prompts gave gets the weight."""
    rng = np.random.default_rng(2)
    decides = np.where(rng.random((200, 1)) < 0.65, 1.0, -1.0)
    z = csr_matrix(np.hstack([decides, decides, rng.choice([-1.0, 1.0], (200, 3))]))
    found = effects(z, np.ones((200, 1)), Penalties(0.5), np.array([[5.0, 0.5, 1.0, 1.0, 1.0]]))
    assert found[0, 1] > 0.1
    assert found[0, 0] == 0


def test_the_largest_mixture_weights_are_kept() -> None:
    """At most four per row, none below a fiftieth of the largest, scaled to sum 1."""
    kept = keep_largest(np.array([[0.4, 0.3, 0.15, 0.1, 0.05], [0.97, 0.01, 0.02, 0.0, 0.0]]))
    np.testing.assert_allclose(kept.sum(axis=1), 1)
    assert np.count_nonzero(kept, axis=1).tolist() == [4, 2]


def test_a_problem_does_not_depend_on_its_company() -> None:
    """In a batch of more problems than one call holds, with other mixtures, each solution is the same to the bit."""
    z, first = _world()
    _, other = _world(topics=9, uses=4, seed=3)
    wanted = [
        Problem(mixture, sparsity, common)
        for mixture in (first, other)
        for sparsity in (0.2, 0.3, 0.4, 0.6, 0.8)
        for common in (0.0, 0.1)
    ]
    together, again = solve(z, wanted), solve(z, wanted)
    assert len(wanted) > SLOTS
    assert [each.shape for each in together] == [(problem.mixture.shape[1], 12) for problem in wanted]
    assert [each.tobytes() for each in together] == [each.tobytes() for each in again]
    for number in (0, 7, len(wanted) - 1):
        np.testing.assert_allclose(solve(z, [wanted[number]])[0], together[number], atol=1e-5)


def test_the_number_of_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a pair in two blocks add up as in one; blocks of padding are skipped."""
    monkeypatch.setattr(margin_solver, "DENSE", 1.0)
    z, mixture = _world(uses=4)
    whole = effects(z, mixture, PENALTIES[1])
    monkeypatch.setattr(margin_solver, "BLOCK", 50)
    np.testing.assert_allclose(effects(z, mixture, PENALTIES[1]), whole, atol=1e-5)


def test_pairs_without_judgements_do_no_harm() -> None:
    """Where nothing was judged no rubric has an effect."""
    assert not effects(csr_matrix((4, 3)), np.ones((4, 1)), PENALTIES[0]).any()


def test_sizes_are_padded_to_few() -> None:
    """A padded size is never less, at most a quarter more, and a thousand sizes become thirty."""
    sizes = range(1, 1000)
    assert all(size <= pad_to_bucket(size) <= 1.25 * size for size in sizes)
    assert len({pad_to_bucket(size) for size in sizes}) < 40
