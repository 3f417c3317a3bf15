"""A training about bread: a judge and author that answer by a table, and rounds whose fit gives equal weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from stand_ins import UnaskedAuthor, UnaskedJudge

from svr_async.core.pair import PreferencePair, Presentation, Side, user_prompt
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Outcome, RubricComparison, Verdict
from svr_async.fit.forward import Selector
from svr_async.judges.protocol import Answer, Comparisons
from svr_async.scoring.bank import BankRubric, InferenceSettings
from svr_async.training.rounds.config import TrainConfig
from svr_async.training.rounds.session import FittedRound, Session, prepare
from svr_async.training.rounds.stages import Stages, TrainingJudges

OVEN, TIME = Rubric(text="Names the oven"), Rubric(text="Gives the time")
PAIR = PreferencePair(id="p0", prompt=user_prompt("How is bread baked?"), chosen="good", rejected="bad")
REST = [replace(PAIR, id=f"p{n}", prompt=user_prompt(f"What is bread {n}?")) for n in range(1, 5)]
FAIL, PASS = Verdict.FAIL, Verdict.PASS
Verdicts = Mapping[Rubric, Verdict | None]  # rubrics that are not named pass; None for no answer


class Baker(UnaskedJudge, UnaskedAuthor):
    """Proposes the same rubrics for any pair and writes the probe "worse".

    "good" passes every rubric; `verdicts` are those on other responses, None for no answer at all.
    """

    name = label = "baker"

    def __init__(self, verdicts: Mapping[str, Verdicts | None], proposes: Sequence[Rubric] = (OVEN, TIME)) -> None:
        self.verdicts, self.proposes = verdicts, proposes
        self.probed: list[str] = []
        self.induced: list[str] = []
        self.compared: list[list[str]] = []

    async def induce(self, pair: PreferencePair, *, contrastive: bool = True) -> Answer[tuple[Rubric, ...]]:
        self.induced.append(pair.id)
        return Answer(value=tuple(self.proposes))

    async def probe(self, pair: PreferencePair) -> Answer[str]:
        self.probed.append(pair.id)
        return Answer(value="worse")

    async def compare(
        self, shown: Presentation, rubrics: Sequence[Rubric], *, overall: bool, note: str = ""
    ) -> Answer[Comparisons]:
        self.compared.append([rubric.id for rubric in rubrics])
        good = Side.A if shown.response_a == "good" else Side.B
        held = self.verdicts[shown.response_b if good is Side.A else shown.response_a]
        if held is None:
            return Answer(value=None, outcome=Outcome.CONTEXT_TOO_LONG)
        rows = []
        for rubric in rubrics:
            verdict = held.get(rubric, PASS)
            if verdict is not None:
                both = {good: PASS, good.other(): verdict}
                rows.append(RubricComparison(rubric.id, both[Side.A], both[Side.B], good))
        return Answer(value=Comparisons(rows=tuple(rows)))


def session(
    folder: Path, config: TrainConfig, judge: Baker, pairs: Sequence[PreferencePair] = (PAIR, *REST)
) -> Session:
    """Return a run on these pairs, of which the last is held out."""
    return Session(
        judges=TrainingJudges(judge=judge, author=judge, workers=2),
        config=config,
        stages=Stages(folder),
        material=prepare(pairs[:-1], pairs[-1:], digest="d"),
    )


def selector(n_features: int, n_rubrics: int) -> Selector:
    """Return a selector that has all rubrics equally active for every prompt."""
    shapes = {"hidden": (n_features, 2), "hidden_bias": (2,), "output": (n_rubrics, 2), "output_bias": (n_rubrics,)}
    zeros = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    return Selector(kind="mlp", **zeros, weight=np.ones(n_rubrics, np.float32))


def fitted_of(run: Session) -> FittedRound:
    """Return a fitted round with both rubrics."""
    return FittedRound(
        number=1,
        kept=np.arange(2),
        bank=tuple(BankRubric(rubric=rubric) for rubric in (OVEN, TIME)),
        selector=selector(run.material.features["n_features"], 2),
        settings=InferenceSettings(),
        dev=run.arrays(run.indexed(()), run.material.dev),
        dev_hits=np.ones(1),
    )
