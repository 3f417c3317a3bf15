"""What an effect costs: less where the topic's prompts gave the criterion often."""

import numpy as np
import pytest
from made_arrays import solve
from scipy.sparse import csr_matrix
from svr_async.fit.price import LEAST, MOST, USUAL, prices
from svr_async.fit.sparse_margin import Penalties


def test_what_a_topic_gives_often_costs_less_there_than_elsewhere() -> None:
    """A criterion of every second prompt of one topic is cheap there and dear where it never comes."""
    gates = np.repeat(np.eye(2), 100, axis=0)
    mined = np.zeros((200, 3))
    mined[:100:2, 0], mined[100::2, 1], mined[:, 2] = 1, 1, 0
    price = prices(gates, csr_matrix(mined))
    assert price is not None
    assert price[0, 0] == pytest.approx(USUAL, rel=0.01) == price[1, 1]
    assert price[0, 1] == price[1, 0] == price[0, 2] == MOST


def test_prices_do_not_depend_on_how_much_is_mined() -> None:
    """Where every rate is a third, what is typical is a third as well; prices stay within their bounds."""
    rng = np.random.default_rng(0)
    gates = np.ones((3000, 1))
    many = csr_matrix((rng.random((3000, 20)) < np.linspace(0.02, 0.6, 20)).astype(float))
    few = csr_matrix((rng.random((3000, 20)) < np.linspace(0.02, 0.6, 20) / 3).astype(float))
    of_many, of_few = prices(gates, many), prices(gates, few)
    assert of_many is not None
    assert of_few is not None
    np.testing.assert_allclose(of_many, of_few, rtol=0.5)
    assert of_many.min() >= LEAST
    assert of_many.max() <= MOST


@pytest.mark.parametrize("mined", [None, csr_matrix((4, 3))])
def test_where_nothing_was_mined_there_are_no_prices(mined: csr_matrix) -> None:
    """None, and a solve without prices is one at price 1."""
    assert prices(np.ones((4, 1)), mined) is None
    rng = np.random.default_rng(1)
    z, gates, start = csr_matrix(rng.choice([-1.0, 0.0, 1.0], (80, 5))), np.ones((80, 1)), np.zeros((1, 5))
    plain = solve(z, gates, start, Penalties(sparsity=0.05))
    np.testing.assert_array_equal(plain, solve(z, gates, start, Penalties(sparsity=0.05), price=np.ones((1, 5))))


def test_a_dear_effect_stays_out_where_a_cheap_one_enters() -> None:
    """Of two criteria that decide alike, the one that the prompts gave is weighed."""
    rng = np.random.default_rng(2)
    decides = np.where(rng.random((200, 1)) < 0.65, 1.0, -1.0)
    z = csr_matrix(np.hstack([decides, decides, rng.choice([-1.0, 1.0], (200, 3))]))
    found = solve(
        z, np.ones((200, 1)), np.zeros((1, 5)), Penalties(sparsity=0.5), price=np.array([[5.0, 0.5, 1.0, 1.0, 1.0]])
    )
    assert found[0, 1] > 0.1
    assert found[0, 0] == 0
