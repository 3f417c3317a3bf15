"""The fits of a round: what is read back, which rubrics are pruned, and how support is counted."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.core.rubric import Rubric
from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import DEFAULT, FitConfig, Kind
from svr_async.fit.forward import Selector
from svr_async.scoring.bank import BankRubric
from svr_async.training.rounds import algorithm
from svr_async.training.rounds.algorithm import fit_and_prune, prune
from svr_async.training.rounds.config import PRESETS, TrainConfig
from svr_async.training.rounds.session import HardNegative, JudgedRound, Ledger, RoundCarryover, support_counts
from svr_async.training.rounds.stages import Stages

TEXTS = ("Names the year of the event", "Shows the code in one block", "Keeps a friendly tone", "Gives two sources")
ARRAYS = FitArrays(
    n_rubrics=4,
    n_features=6,
    feature_indptr=np.arange(25),
    feature_index=np.arange(24) % 6,
    feature_value=np.ones(24, np.float32),
    pair_prompt=np.arange(24),
    z_indptr=np.arange(25) * 2,
    z_rubric=np.tile([0, 1, 2, 3], 12),
    z_delta=np.random.default_rng(3).choice(np.array([-0.25, 0.75, 1.25], np.float32), 48),
)


@pytest.mark.parametrize("kind", ["topics", "mlp"])
def test_a_finished_fit_is_read_back_and_is_the_same(
    tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second time nothing is fitted, and the result is equal in all its parts."""
    config = DEFAULT if kind == "topics" else FitConfig(hidden=4, epochs=2, calibration_epochs=1, batch=16)
    judged = JudgedRound(number=1, bank=tuple(bank()), train=ARRAYS, dev=ARRAYS, measured=ARRAYS, last=True)
    found = []
    for _ in range(2):
        found.append(fit_and_prune(judged, TrainConfig(fit=config), None, Stages(tmp_path)))
        for name in ("fit", "calibrate"):
            monkeypatch.setattr(algorithm, name, lambda *_, **_named: pytest.fail("fitted again"))
    (one, other), first, second = found, *(fitted.result for fitted in found)
    assert first is not None
    assert second is not None
    assert replace(first, selector=second.selector) == second
    assert [curve.phase for curve in one.curves] == ["fit", "calibrate"]
    assert one.curves == other.curves
    for before, after in ((first.selector, second.selector), (one.selector, other.selector)):
        assert all(value.tobytes() == after.tensors()[name].tobytes() for name, value in before.tensors().items())


# ── pruning ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def selector(weight: list[float], bias: list[float], kind: Kind = "topics") -> Selector:
    """Return a selector whose alphas depend on the bias alone."""
    return Selector(
        kind=kind,
        hidden=np.zeros((ARRAYS.n_features, 2), np.float32),
        hidden_bias=np.zeros(2, np.float32),
        output=np.zeros((len(weight), 2), np.float32),
        output_bias=np.array(bias, np.float32),
        weight=np.array(weight, np.float32),
    )


def bank(texts: tuple[str, ...] = TEXTS, counts: tuple[int, ...] = (1, 1, 1, 1)) -> list[BankRubric]:
    """Return candidates."""
    return [BankRubric(rubric=Rubric(text=t), observed_count=c) for t, c in zip(texts, counts, strict=True)]


def kept(
    fitted: Selector,
    config: TrainConfig | None = None,
    candidates: list[BankRubric] | None = None,
    *,
    judged: tuple[int, ...] = (1000, 1000, 1000, 1000),
    support: tuple[int, ...] = (),
    last: bool = True,
) -> list[int]:
    """Prune as a round does; `support` are the places of rubrics with a support pair."""
    candidates = [replace(one, support_count=n in support) for n, one in enumerate(candidates or bank())]
    weight = np.zeros(ARRAYS.n_entries, np.float32)
    weight[:4] = judged  # the first entries are one of each rubric
    judged_round = JudgedRound(
        number=1,
        bank=tuple(candidates),
        train=replace(ARRAYS, z_weight=weight),
        dev=ARRAYS,
        measured=ARRAYS,
        last=last,
    )
    return prune(config or TrainConfig(), judged_round, fitted)


def test_relevant_by_weight_activation_or_support_is_kept_and_the_rest_is_pruned() -> None:
    """Weight counts only where the rubric is ever active; a favoured support pair keeps an inactive rubric."""
    fitted = selector([0.5, 0.01, 0.9, 0.9], [5.0, 5.0, -5.0, -5.0])
    assert kept(fitted) == [0, 1]
    assert kept(fitted, support=(3,)) == [0, 1, 3]


def test_the_papers_preset_prunes_by_the_papers_text() -> None:
    """A weight is enough though the rubric is active nowhere, and a rubric that was judged little has no grace."""
    fitted = selector([1.0, 1.5, 0.01, 0.0], [5.0, 0.0, 0.0, 0.0], kind="mlp")
    for last in (True, False):
        assert kept(fitted, PRESETS["paper"], bank(counts=(9, 9, 9, 9)), judged=(0, 0, 0, 0), last=last) == [0, 1]


def test_a_bank_is_never_left_empty() -> None:
    """Where nothing is relevant, the most relevant rubric stays."""
    config = TrainConfig(min_weight=2.0, min_activation=2.0)
    assert kept(selector([0.1, 0.4, 0.2, 0.0], [0.0, 0.0, 0.0, 0.0]), config) == [1]


def test_rubrics_judged_little_are_kept_before_the_last_round() -> None:
    """Given by several prompts and judged too seldom: kept, until the last round; given once: pruned at once."""
    fitted, several = selector([0.5, 0.0, 0.0, 0.0], [9.0, 0.0, 0.0, 0.0]), bank(counts=(1, 3, 3, 2))
    assert kept(fitted, candidates=several, judged=(1000, 399, 400, 399), last=False) == [0, 1]
    assert kept(fitted, candidates=several, judged=(1000, 399, 400, 399)) == [0]


@pytest.mark.parametrize(("weight", "expected"), [((0.9, 0.5), [0, 2, 3]), ((0.5, 0.9), [1, 2, 3])])
def test_of_two_that_read_alike_the_more_relevant_stays(weight: tuple[float, float], expected: list[int]) -> None:
    """A near-duplicate is dropped, whichever of the two comes first in the bank."""
    texts = ("Keeps a friendly tone throughout", "Keeps a friendly tone throughout it", *TEXTS[:2])
    assert kept(selector([*weight, 0.5, 0.5], [0.0] * 4), candidates=bank(texts)) == expected


def test_support_is_counted_over_support_pairs_and_hard_negatives() -> None:
    """Only clear verdicts for the chosen response count."""
    ledger = Ledger()
    ledger.note("s", ["a", "b"], [0.75, 0.25])
    ledger.note("n", ["a", "b"], [1.25, -1.25])
    ledger.note("other", ["b"], [1.25])
    negative = PreferencePair(id="n", prompt=user_prompt("q"), chosen="a", rejected="b")
    carryover = RoundCarryover(candidates=(), support=("s",), negatives=(HardNegative(pair=negative, of="s"),))
    assert support_counts(carryover, ledger, {"a": 0, "b": 1}) == {"a": 2}
