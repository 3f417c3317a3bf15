"""What a bank is used with after its fit: settings chosen on dev pairs, and no rubrics where little was learned."""

from __future__ import annotations

import numpy as np
import pytest

from svr_async.core.rubric import Rubric
from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import Choice, Structure, Trial
from svr_async.fit.forward import Selector
from svr_async.fit.tfidf import Vocabulary
from svr_async.training.bank.merge import Candidate
from svr_async.training.rounds.config import TrainConfig
from svr_async.training.rounds.dev_choice import choose_settings
from svr_async.training.rounds.round_bank import DIRECT, assemble, describe

TEXTS = ("Names the year", "Shows the code")
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
    settings, hits = choose_settings(TrainConfig(), ONE, TEXTS, DEV, choice)
    assert (settings.direct, settings.top_k, hits.tolist()) == (direct, 2, [1.0] * len(hits))
    rubrics = describe([Candidate(rubric=Rubric(text=text)) for text in TEXTS], ONE, [], support={}, domains={})
    bank = assemble(rubrics, ONE, Vocabulary(terms={"code": 0}, idf=np.ones(1, np.float32)), settings)
    assert bank.notes == ((DIRECT,) if direct else ())
