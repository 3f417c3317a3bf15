"""From a fitted round to a bank: which prompts stand as examples of a rubric."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from svr_async.core.rubric import Rubric
from svr_async.fit.forward import Selector
from svr_async.training.bank.merge import EXAMPLES, Candidate
from svr_async.training.rounds.round_bank import describe

BANK = [Candidate(rubric=Rubric(text=text)) for text in ("Names the year", "Shows the code")]


def selector() -> Selector:
    """Return a selector with alpha (1 + v) / 2 and (1 − v) / 2 for a prompt of the value v in 0..1."""
    return Selector(
        kind="mlp",
        hidden=np.ones((1, 1), np.float32),
        hidden_bias=np.zeros(1, np.float32),
        output=np.array([[1], [0]], np.float32),
        output_bias=np.zeros(2, np.float32),
        weight=np.ones(2, np.float32),
    )


def examples(values: list[float]) -> list[tuple[str, ...]]:
    """Return the examples of both rubrics for prompts of these values."""
    prompts = [(f"p{n}", (np.zeros(1, np.int32), np.array([value], np.float32))) for n, value in enumerate(values)]
    return [entry.example_prompts for entry in describe(BANK, selector(), prompts, support={}, domains={})]


def test_of_equal_prompts_the_earlier_ones_stand_as_examples() -> None:
    """A stronger prompt drives out the last of the equals, not the first; a later equal drives out none."""
    equal, strong = [0.25] * 6, [0.5]
    assert examples(equal)[0] == ("p0", "p1", "p2", "p3", "p4")
    assert examples([*equal, *strong, *equal])[0] == ("p6", "p0", "p1", "p2", "p3")
    assert examples([0.5, 0.25])[1] == ("p1", "p0")


def test_of_equal_prompts_those_that_a_rubric_was_mined_from_come_first() -> None:
    """All prompts of a topic have the same alpha: the ones that a rubric comes from say more of it than the first."""
    bank = [
        Candidate(rubric=rubric.rubric, source_pair_ids=pairs)
        for rubric, pairs in zip(BANK, (("p5",), ("p0",)), strict=True)
    ]
    prompts = [(f"p{n}", (np.zeros(1, np.int32), np.array([v], np.float32))) for n, v in enumerate([0.25] * 6 + [0.5])]
    first, second = (entry.example_prompts for entry in describe(bank, selector(), prompts, support={}, domains={}))
    assert first == ("p6", "p5", "p0", "p1", "p2")
    assert second == ("p0", "p1", "p2", "p3", "p4")
    assert describe(bank, selector(), prompts, support={}, domains={})[0].activation_rate == np.mean(
        [(1 + v) / 2 for v in [0.25] * 6 + [0.5]]
    )


@settings(deadline=None)
@given(values=st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), max_size=24))
def test_the_examples_are_those_of_a_plain_sort(values: list[float]) -> None:
    """By alpha, largest first, ties to the earlier prompt; a prompt with alpha 0 is no example."""
    for found, alphas in zip(examples(values), ([1 + v for v in values], [1 - v for v in values]), strict=True):
        ranked = [n for _, n in sorted((-alpha, n) for n, alpha in enumerate(alphas))]
        assert found == tuple(f"p{n}" for n in ranked if alphas[n] > 0)[:EXAMPLES]
