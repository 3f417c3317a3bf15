"""From fitted rounds to a bank: the round that is published, settings for use, simpler ways, and example prompts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from baker import PAIR, REST, Baker, session
from hypothesis import given, settings
from hypothesis import strategies as st
from stand_ins import UnaskedJudge

from svr_async.core.pair import Presentation
from svr_async.core.rubric import Rubric
from svr_async.engine.caller import EngineConfig
from svr_async.engine.shutdown import ShutdownController
from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import Choice, Structure, Trial
from svr_async.fit.forward import Selector
from svr_async.fit.history import FitResult
from svr_async.judges.protocol import Answer, Preference
from svr_async.scoring.bank import BankRubric
from svr_async.training.bank.merge import EXAMPLES
from svr_async.training.rounds.algorithm import (
    USES,
    better_than_bank,
    chosen_round,
    direct_hits,
    in_use,
)
from svr_async.training.rounds.config import Publish, TrainConfig
from svr_async.training.rounds.session import JudgedRound, prepare
from svr_async.training.rounds.stages import TrainingJudges
from svr_async.training.rounds.store import describe

TEXTS = ("Names the year", "Shows the code")
BANK = [BankRubric(rubric=Rubric(text=text)) for text in TEXTS]
ONE = Selector(
    kind="topics",
    hidden=np.zeros((1, 1), np.float32),
    hidden_bias=np.zeros(1, np.float32),
    output=np.array([[1], [0.5]], np.float32),
    output_bias=np.zeros(2, np.float32),
    weight=np.ones(2, np.float32),
)
DEV = FitArrays(
    n_rubrics=2,
    n_features=1,
    feature_indptr=np.array([0, 1]),
    feature_index=np.zeros(1, np.int32),
    feature_value=np.ones(1, np.float32),
    pair_prompt=np.zeros(1, np.int32),
    z_indptr=np.array([0, 2]),
    z_rubric=np.arange(2),
    z_delta=np.array([1.25, -0.25], np.float32),
)
FITTED = FitResult(selector=ONE, history=(), best_epoch=0, dev_accuracy=1.0, dev_loss=0.0, device="cpu")


def chosen(accuracy: float, error: float) -> Choice:
    """Return a choice of one structure that did so well."""
    one = Structure(top_k=2)
    return Choice(structure=one, trials=(Trial(structure=one, accuracy=accuracy, error=error),))


@pytest.mark.parametrize(
    ("choice", "direct"),
    [(chosen(0.56, 0.03), True), (chosen(0.57, 0.03), False), (Choice(structure=Structure(top_k=2)), False)],
)
def test_what_did_no_better_than_a_coin_leaves_pairs_to_the_judge(choice: Choice, direct: bool) -> None:
    """Two standard errors decide; a structure that settings named was not tried. The bank says so in a note."""
    judged = JudgedRound(number=1, bank=tuple(BANK), train=DEV, dev=DEV, measured=DEV, last=True)
    fitted = in_use(judged, TrainConfig(), judged.fitted(np.arange(2), ONE, result=replace(FITTED, choice=choice)))
    assert (fitted.settings.direct, fitted.settings.top_k, fitted.dev_accuracy) == (direct, 2, 1.0)


# ── the published round ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("publish", "accuracies", "n_dev", "number"), [
    ("auto", [0.7], 100, 1),
    ("auto", [0.70, 0.71, 0.69], 100, 3),
    ("auto", [0.70, 0.80, 0.60], 100, 2),
    ("auto", [0.80, 0.80, 0.7999], 10**9, 2),
    ("auto", [1.0, 0.99], 100, 1),
    ("auto", [0.0, 0.0], 5, 2),
    ("auto", [0.70, 0.92, 0.92, 0.21], 100, 3),
    ("best", [0.70, 0.92, 0.92, 0.21], 100, 2),
    ("last", [0.70, 0.92, 0.92, 0.21], 100, 4),
])  # fmt: skip
def test_the_last_round_is_published_unless_another_is_clearly_better_or_asked_for(
    publish: Publish, accuracies: list[float], n_dev: int, number: int
) -> None:
    """Better by more than a standard error on the dev split; a perfect round has none; of equals the first is best."""
    rounds: list[Any] = [SimpleNamespace(number=n, dev_accuracy=value) for n, value in enumerate(accuracies, 1)]
    assert chosen_round(rounds, n_dev, publish).number == number


# ── simpler ways to decide ──────────────────────────────────────────────────────────────────────────────────────────

VOTE, LINEAR, DIRECTLY = USES


@pytest.mark.parametrize(("bank", "others", "expected"), [
    ([1, 0] * 100, {VOTE: [1, 1] * 100}, f"{VOTE} is better than the bank on 200 held-out pairs (100.0 % against"),
    ([1, 0] * 100, {VOTE: [1, 1] * 100, LINEAR: [1, 0.5] * 100}, VOTE),
    ([1, 0] * 100, {LINEAR: [1, 0.5] * 100, DIRECTLY: [0, 1] * 100}, "svr-fit STORE --out DIR --sweep groups=1"),
    ([0] * 200, {DIRECTLY: [1] * 200}, "use svr eval --method direct with this judge"),
    ([1, 0] * 100, {LINEAR: [0, 1] * 100}, ""),
    ([1, 0] * 49, {VOTE: [1, 1] * 49}, ""),
    ([1, 0] * 100, {}, ""),
])  # fmt: skip
def test_a_way_that_is_clearly_better_than_the_bank_is_named_with_its_use(
    bank: list[float], others: dict[str, list[float]], expected: str
) -> None:
    """The best of those that gain more than a standard error; nothing with fewer than 100 pairs."""
    said = better_than_bank(np.array(bank), {name: np.array(hits) for name, hits in others.items()}, "STORE")
    assert bool(said) == bool(expected)
    assert expected in said


class Verdicts(UnaskedJudge):
    """Prefers the response whose margin is larger, by name; None for no answer."""

    name = label = "verdicts"

    def __init__(self, margins: dict[str, float | None]) -> None:
        self.margins = margins

    async def prefer(self, shown: Presentation) -> Answer[Preference]:
        good, margin = shown.response_a == "good", self.margins[shown.pair_id]
        return Answer(value=None if margin is None else Preference(margin=margin if good else -margin))


@pytest.mark.parametrize(("last", "engines", "expected"), [(-2.0, 1, [1, 0.5, 0]), (None, 1, None), (-2.0, 0, None)])
async def test_direct_verdicts_count_only_if_all_are_in_the_cache(
    tmp_path: Path, last: float | None, engines: int, expected: list[float] | None
) -> None:
    """In whatever order they were shown; a missing one, or a judge without an engine, gives none."""
    config = EngineConfig()
    engine: Any = SimpleNamespace(config=config, on_missing=None)
    shutdown = ShutdownController(engines=(engine,) * engines)
    judge = Verdicts({"p1": 1.0, "p2": 0.0, "p3": last})
    run = session(tmp_path, TrainConfig(), Baker({}))
    run.judges = TrainingJudges(judge=judge, author=run.judges.author, shutdown=shutdown)
    run.material = prepare([PAIR], REST[:3], digest="d")
    found = await direct_hits(run)
    assert {name: hits.tolist() for name, hits in found.items()} == ({} if expected is None else {DIRECTLY: expected})
    assert engine.config is config


# ── example prompts ─────────────────────────────────────────────────────────────────────────────────────────────────


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


def described(values: list[float], sources: tuple[str, ...] = ("", "")) -> tuple[BankRubric, ...]:
    """Return both rubrics, each mined from one pair, after prompts p0, p1 … of these values."""
    bank = [replace(one, source_pair_ids=(pair,)) for one, pair in zip(BANK, sources, strict=True)]
    prompts = [(f"p{n}", (np.zeros(1, np.int32), np.array([value], np.float32))) for n, value in enumerate(values)]
    return describe(bank, selector(), prompts, domains={})


def test_of_equal_prompts_those_that_a_rubric_was_mined_from_come_first() -> None:
    """All prompts of a topic have the same alpha: the ones that a rubric comes from say more of it than the first."""
    values = [0.25] * 6 + [0.5]
    first, second = described(values, ("p5", "p0"))
    assert first.example_prompts == ("p6", "p5", "p0", "p1", "p2")
    assert second.example_prompts == ("p0", "p1", "p2", "p3", "p4")
    assert first.activation_rate == np.mean([(1 + value) / 2 for value in values])


@settings(deadline=None)
@given(values=st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), max_size=24))
def test_the_examples_are_those_of_a_plain_sort(values: list[float]) -> None:
    """By alpha, largest first, ties to the earlier prompt; a prompt with alpha 0 is no example."""
    for one, alphas in zip(described(values), ([1 + v for v in values], [1 - v for v in values]), strict=True):
        ranked = [n for _, n in sorted((-alpha, n) for n, alpha in enumerate(alphas))]
        assert one.example_prompts == tuple(f"p{n}" for n in ranked if alphas[n] > 0)[:EXAMPLES]
