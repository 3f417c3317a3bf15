"""Rounds: which rubrics are pruned, and which round becomes the bank."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.core.rubric import Rubric
from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import Kind
from svr_async.fit.forward import Selector
from svr_async.training.bank.merge import Candidate
from svr_async.training.rounds import fits as prune
from svr_async.training.rounds.config import PAPER, TrainConfig
from svr_async.training.rounds.dev_choice import chosen_round
from svr_async.training.rounds.fits import support_counts
from svr_async.training.rounds.session import HardNegative, Ledger, RoundCarryover, prepare

TEXTS = ("Names the year of the event", "Shows the code in one block", "Keeps a friendly tone", "Gives two sources")


def session(**settings: Any) -> SimpleNamespace:
    """Return what pruning needs of a session: settings, over the default's, and prompts."""
    pairs = [
        PreferencePair(id=f"p{n}", prompt=user_prompt(f"question about bread {n % 3}"), chosen="a", rejected="b")
        for n in range(6)
    ]
    return SimpleNamespace(config=TrainConfig(**settings), material=prepare(pairs, pairs[:1], digest="d"))


def selector(here: SimpleNamespace, weight: list[float], bias: list[float], kind: Kind = "topics") -> Selector:
    """Return a selector whose alphas depend on the bias alone."""
    width, n = here.material.prompts.n_features, len(weight)
    return Selector(
        kind=kind,
        hidden=np.zeros((width, 2), np.float32),
        hidden_bias=np.zeros(2, np.float32),
        output=np.zeros((n, 2), np.float32),
        output_bias=np.array(bias, np.float32),
        weight=np.array(weight, np.float32),
    )


def bank(texts: tuple[str, ...] = TEXTS, counts: tuple[int, ...] = (1, 1, 1, 1)) -> list[Candidate]:
    """Return candidates."""
    return [Candidate(rubric=Rubric(text=t), observed_count=c) for t, c in zip(texts, counts, strict=True)]


JUDGED = np.full(4, 1000)


def pruned(
    here: SimpleNamespace,
    candidates: list[Candidate],
    fitted: Selector,
    support: dict[str, int],
    judged: NDArray[Any],
    *,
    last: bool,
) -> list[int]:
    """Prune as a round does."""
    rates = activation_rates(here, fitted)
    return prune.prune(here.config, candidates, fitted, rates, support, judged, last=last)


def activation_rates(here: SimpleNamespace, fitted: Selector) -> NDArray[np.float64]:
    """Return the rates over the session's training prompts."""
    prompts = here.material.prompts
    arrays = FitArrays(
        n_rubrics=len(fitted.weight),
        n_features=prompts.n_features,
        feature_indptr=prompts.indptr,
        feature_index=prompts.index,
        feature_value=prompts.value,
        pair_prompt=np.array([prompts.row(pair) for pair in here.material.train]),
        z_indptr=np.zeros(len(here.material.train) + 1, np.int64),
        z_rubric=np.zeros(0, np.int32),
        z_delta=np.zeros(0, np.float32),
    )
    return prune.activation_rates(fitted, arrays)


def test_relevant_by_weight_activation_or_support_is_kept_and_the_rest_is_pruned() -> None:
    """Weight counts only where the rubric is ever active; a favoured support pair keeps an inactive rubric."""
    here = session()
    fitted = selector(here, [0.5, 0.01, 0.9, 0.9], [5.0, 5.0, -5.0, -5.0])
    assert activation_rates(here, fitted).tolist() == [0.5, 0.5, 0.0, 0.0]
    assert pruned(here, bank(), fitted, {}, JUDGED, last=True) == [0, 1]
    assert pruned(here, bank(), fitted, {bank()[3].rubric.id: 1}, JUDGED, last=True) == [0, 1, 3]


def test_the_papers_preset_prunes_by_the_papers_text() -> None:
    """A weight is enough though the rubric is active nowhere, and a rubric that was judged little has no grace."""
    here = SimpleNamespace(config=PAPER, material=session().material)
    fitted = selector(here, [1.0, 1.5, 0.01, 0.0], [5.0, 0.0, 0.0, 0.0], kind="mlp")
    few = np.zeros(4, np.int64)
    for last in (True, False):
        assert pruned(here, bank(counts=(9, 9, 9, 9)), fitted, {}, few, last=last) == [0, 1]


def test_a_bank_is_never_left_empty() -> None:
    """Where nothing is relevant, the most relevant rubric stays."""
    here = session(min_weight=2.0, min_activation=2.0)
    fitted = selector(here, [0.1, 0.4, 0.2, 0.0], [0.0, 0.0, 0.0, 0.0])
    assert pruned(here, bank(), fitted, {}, JUDGED, last=True) == [1]


def test_rubrics_judged_little_are_kept_before_the_last_round() -> None:
    """Given by several prompts and judged too seldom: kept, until the last round; given once: pruned at once."""
    here = session()
    fitted = selector(here, [0.5, 0.0, 0.0, 0.0], [9.0, 0.0, 0.0, 0.0])
    judged = np.array([1000, 399, 400, 399])
    several = bank(counts=(1, 3, 3, 2))
    assert pruned(here, several, fitted, {}, judged, last=False) == [0, 1]
    assert pruned(here, several, fitted, {}, judged, last=True) == [0]


def test_of_two_that_read_alike_the_more_relevant_stays() -> None:
    """A near-duplicate is dropped, whichever of the two comes first in the bank."""
    here = session()
    texts = ("Keeps a friendly tone throughout", "Keeps a friendly tone throughout it", *TEXTS[:2])
    for weight, kept in (([0.9, 0.5, 0.5, 0.5], [0, 2, 3]), ([0.5, 0.9, 0.5, 0.5], [1, 2, 3])):
        assert pruned(here, bank(texts), selector(here, weight, [0.0] * 4), {}, JUDGED, last=True) == kept


def test_support_is_counted_over_support_pairs_and_hard_negatives() -> None:
    """Only clear verdicts for the chosen response count."""
    ledger = Ledger()
    ledger.note("s", ["a", "b"], {"a": 0.75, "b": 0.25})
    ledger.note("n", ["a", "b"], {"a": 1.25, "b": -1.25})
    ledger.note("other", ["b"], {"b": 1.25})
    negative = PreferencePair(id="n", prompt=user_prompt("q"), chosen="a", rejected="b")
    growth = RoundCarryover(candidates=(), support=("s",), negatives=(HardNegative(pair=negative, of="s"),))
    assert support_counts(growth, ledger, {"a": 0, "b": 1}) == {"a": 2}


@pytest.mark.parametrize(
    ("accuracies", "n_dev", "number"),
    [
        ([0.7], 100, 1),
        ([0.70, 0.71, 0.69], 100, 3),
        ([0.70, 0.80, 0.60], 100, 2),
        ([0.90, 0.80, 0.60], 100, 1),
        ([0.80, 0.80, 0.7999], 10**9, 2),
        ([1.0, 0.99], 100, 1),
        ([0.0, 0.0], 5, 2),
    ],
)
def test_the_last_round_is_chosen_unless_an_earlier_one_is_clearly_better(
    accuracies: list[float], n_dev: int, number: int
) -> None:
    """Better by more than a standard error on the dev split; a perfect round has none."""
    rounds: list[Any] = [SimpleNamespace(number=n, dev_accuracy=value) for n, value in enumerate(accuracies, 1)]
    assert chosen_round(rounds, n_dev).number == number


def test_the_last_round_or_the_best_is_published_where_that_is_asked_for() -> None:
    """The best by dev accuracy is, of equals, the first, however small its lead; the last is so whatever it lost."""
    rounds: list[Any] = [
        SimpleNamespace(number=n, dev_accuracy=value) for n, value in enumerate((0.70, 0.92, 0.92, 0.21), 1)
    ]
    assert chosen_round(rounds, 100, "best").number == 2
    assert chosen_round(rounds, 100, "last").number == 4
    assert chosen_round(rounds, 100, "auto").number == 3
