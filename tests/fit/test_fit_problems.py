"""Many sparse margin problems in one program: each finds its own optimum, whatever the padding and the company."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from svr_async.fit.problems import (
    SLOTS,
    Batch,
    Gates,
    Penalties,
    Problem,
    batch_of,
    compile_ahead,
    solutions,
    sparse_gates,
)
from svr_async.fit.sizes import roomy
from svr_async.fit.solver import RIDGE

from svr_async.fit import problems

PENALTIES = [Penalties(sparsity=0.3), Penalties(sparsity=0.25, common=0.1, diversity=0.003)]


def effects(batch: Batch, problem: Problem) -> NDArray[Any]:
    """Return V of one problem."""
    return solutions(batch, [problem])[0]


def _world(
    *, n_pairs: int = 240, rubrics: int = 12, topics: int = 5, uses: int = 2, seed: int = 0
) -> tuple[Any, Gates]:
    """Uneven pairs, real-valued z, a few gates a pair; two rubrics of each topic decide."""
    rng = np.random.default_rng(seed)
    judged = rng.random((n_pairs, rubrics)) < np.where(rng.random((n_pairs, 1)) < 0.1, 1.0, 0.4)
    topic = np.argsort(rng.random((n_pairs, topics)), axis=1)[:, :uses]
    value = rng.dirichlet(np.ones(uses), n_pairs)
    z = np.where(judged, rng.normal(scale=0.7, size=judged.shape), 0.0)
    deciding = (topic[:, :1] * 2 + np.arange(2)) % rubrics
    np.put_along_axis(z, deciding, np.abs(np.take_along_axis(z, deciding, axis=1)), axis=1)
    return csr_matrix(z), Gates(topic=topic, value=value, topics=topics)


def _dense(gates: Gates) -> NDArray[Any]:
    out = np.zeros((len(gates.topic), gates.topics))
    np.put_along_axis(out, gates.topic, gates.value, axis=1)
    return out


def _likeness(rubrics: int) -> csr_matrix:
    near = np.eye(rubrics, k=1) * 0.6
    return csr_matrix(near + near.T)


def _loss(z: csr_matrix, dense: NDArray[Any], penalties: Penalties, likeness: csr_matrix) -> Callable[..., Any]:
    """Return the objective of the docstring of `fit.sparse_margin` as a function of W and c, laid flat."""
    topics = dense.shape[1]
    own = penalties.sparsity * np.sqrt(len(dense) / topics)
    common = penalties.common * np.sqrt(len(dense))
    share = dense.sum(axis=0)

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        rows = flat.reshape(topics + 1, -1)
        v = rows[:-1] + rows[-1]
        margin = np.einsum("pk,kr,pr->p", dense, v, z)
        slope = -(dense / (1 + np.exp(margin))[:, None]).T @ z
        apart = penalties.diversity * share[:, None] * (v @ likeness)
        slope = slope + apart
        cost = np.array([own] * topics + [common])[:, None]
        value = np.logaddexp(0, -margin).sum() + (cost * rows).sum() + RIDGE / 2 * (rows**2).sum()
        both = np.vstack([slope, slope.sum(axis=0)]) + cost + RIDGE * rows
        return value + (apart * v).sum() / 2, both.ravel()

    return loss


def _by_scipy(z: csr_matrix, gates: Gates, penalties: Penalties, likeness: csr_matrix) -> Any:
    """Return the least loss and V by L-BFGS-B."""
    dense, topics = _dense(gates), gates.topics
    loss = _loss(z.toarray(), dense, penalties, likeness.toarray())
    bounds = [(0, None)] * (topics * z.shape[1]) + [(0, None if penalties.common else 0)] * z.shape[1]
    start = np.full((topics + 1) * z.shape[1], 0.0)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-13, "maxiter": 2000})
    rows = found.x.reshape(topics + 1, -1)
    return rows[:-1] + rows[-1]


@pytest.mark.parametrize("penalties", PENALTIES)
@pytest.mark.parametrize("uses", [1, 2, 5])
def test_the_effects_are_those_of_another_solver(penalties: Penalties, uses: int) -> None:
    """Effects equal L-BFGS-B's on the objective as it is written, for one gate, few gates and dense ones."""
    z, gates = _world(uses=uses)
    likeness = _likeness(z.shape[1])
    wanted = _by_scipy(z, gates, penalties, likeness)
    found = effects(batch_of(z, [gates], alike=likeness), Problem(penalties=penalties))

    assert wanted.max() > 0.05
    np.testing.assert_allclose(found, wanted, atol=5e-3)


def test_whole_or_as_edges_the_diversity_term_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """S is taken in the form that is faster; both give the same effects, and others than no term at all."""
    z, gates = _world()
    likeness, problem = _likeness(z.shape[1]), Problem(penalties=Penalties(sparsity=0.2, diversity=0.02))
    whole = effects(batch_of(z, [gates], alike=likeness), problem)
    monkeypatch.setattr(problems, "EDGE", 0)
    edges = effects(batch_of(z, [gates], alike=likeness), problem)

    np.testing.assert_allclose(edges, whole, atol=1e-3)
    assert np.abs(effects(batch_of(z, [gates]), problem) - whole).max() > 0.01


def test_what_the_penalties_leave_out_is_exactly_zero() -> None:
    """Most effects are zeros to the bit, not small numbers."""
    z, gates = _world()
    found = effects(batch_of(z, [gates]), Problem(penalties=Penalties(sparsity=0.5)))

    assert (found == 0).mean() > 0.5
    assert found[found > 0].min() > 1e-5


def test_gates_that_do_not_count_are_left_out() -> None:
    """Gates of under a fiftieth of the largest change nothing that matters, and cost no row; others keep theirs."""
    z, gates = _world(uses=1)
    dense = _dense(gates) + 1e-4
    few = sparse_gates(dense / dense.sum(axis=1, keepdims=True))
    problem = Problem(penalties=PENALTIES[0])

    assert few.topic.shape == gates.topic.shape
    np.testing.assert_allclose(effects(batch_of(z, [few]), problem), effects(batch_of(z, [gates]), problem), atol=1e-6)
    assert sparse_gates(np.array([[0.9, 0.1]])).topic.shape == (1, 2)


def test_a_problem_does_not_depend_on_its_company() -> None:
    """In a batch of more problems than one call holds, other gates beside it, each solution is the same to the bit."""
    z, gates = _world()
    _, other = _world(topics=9, uses=4, seed=3)
    wanted = [
        Problem(gates=number, penalties=Penalties(sparsity=sparsity, common=common))
        for number in (0, 1)
        for sparsity in (0.2, 0.3, 0.4, 0.6, 0.8)
        for common in (0.0, 0.1)
    ]
    batch = batch_of(z, [gates, other])
    together = solutions(batch, wanted)

    assert len(wanted) > SLOTS
    assert [len(each) for each in together] == [(5, 9)[problem.gates] for problem in wanted]
    for first, second in zip(together, solutions(batch, wanted), strict=True):
        assert first.tobytes() == second.tobytes()
    for number in (0, 7, len(wanted) - 1):
        np.testing.assert_array_equal(effects(batch, wanted[number]), together[number])


def test_in_how_many_blocks_rows_are_gone_through_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a pair in two blocks add up as they do in one; blocks of padding are passed over."""
    z, gates = _world()
    _, wide = _world(uses=4)
    problem = Problem(penalties=PENALTIES[1])
    whole = batch_of(z, [gates, wide], alike=_likeness(z.shape[1]))
    monkeypatch.setattr(problems, "BLOCK", 50)
    cut = batch_of(z, [gates, wide], alike=_likeness(z.shape[1]))

    assert whole.design.piece.shape[1] == 1
    assert 1 < int(cut.design.blocks[0]) < cut.design.piece.shape[1]
    np.testing.assert_allclose(effects(cut, problem), effects(whole, problem), atol=1e-5)


def test_what_was_compiled_ahead_is_not_compiled_again(caplog: pytest.LogCaptureFixture) -> None:
    """The program that was prepared for pairs and a number of topics is the one that their problems take."""
    z, gates = _world(n_pairs=700, topics=6)
    with caplog.at_level("WARNING"), jax.log_compiles():
        compile_ahead(z, 6, alike=_likeness(z.shape[1]))
        assert "solve_tasks" in caplog.text
        caplog.clear()
        effects(batch_of(z, [gates], alike=_likeness(z.shape[1])), Problem(penalties=PENALTIES[0]))
    assert "solve_tasks" not in caplog.text


def test_dense_gates_become_sparse_ones_with_the_same_sum() -> None:
    """Zeros are left out, the rows sum to 1, and with a limit the largest gates are kept."""
    dense = np.array([[0.0, 0.75, 0.25, 0.0], [0.5, 0.0, 0.2, 0.3]])
    exact, few = sparse_gates(dense), sparse_gates(dense, at_most=1)

    np.testing.assert_allclose(_dense(exact), dense)
    np.testing.assert_array_equal(few.topic[:, 0], [1, 0])
    np.testing.assert_array_equal(few.value, 1.0)


def test_pairs_without_judgements_do_no_harm() -> None:
    """Where nothing was judged no rubric has an effect."""
    z, gates = csr_matrix((4, 3)), Gates(topic=np.zeros((4, 1), int), value=np.ones((4, 1)), topics=1)

    assert not effects(batch_of(z, [gates]), Problem(penalties=PENALTIES[0])).any()


def test_sizes_are_rounded_to_few() -> None:
    """A rounded size is never less, at most a quarter more, and a thousand sizes become thirty."""
    sizes = range(1, 1000)

    assert all(size <= roomy(size) <= 1.25 * size for size in sizes)
    assert len({roomy(size) for size in sizes}) < 40
