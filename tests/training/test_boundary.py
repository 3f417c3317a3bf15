"""The boundary: which response becomes a hard negative, also where the judge has no answer to some questions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from stand_ins import UnaskedAuthor, UnaskedJudge

from svr_async.core.pair import PreferencePair, Presentation, Side, user_prompt
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Outcome, RubricComparison, Verdict
from svr_async.fit.forward import Selector
from svr_async.judges.protocol import Answer, Comparisons
from svr_async.scoring.bank import InferenceSettings
from svr_async.training.bank.merge import Candidate
from svr_async.training.rounds.boundary import find_negatives
from svr_async.training.rounds.config import TrainConfig
from svr_async.training.rounds.judge_calls import TrainingJudges
from svr_async.training.rounds.session import FittedRound, Session, prepare
from svr_async.training.rounds.stages import Stages

RUBRICS = [Rubric(text="Names the oven"), Rubric(text="Gives the time")]
PAIR = PreferencePair(id="p0", prompt=user_prompt("How is bread baked?"), chosen="good", rejected="bad")
REST = [replace(PAIR, id=f"p{n}", prompt=user_prompt(f"What is bread {n}?")) for n in range(1, 4)]


class Baker(UnaskedJudge, UnaskedAuthor):
    """Writes the probe "worse"; prefers "good" by what `verdicts` say of the other response, None for no answer."""

    name = label = "baker"

    def __init__(self, verdicts: Mapping[str, Mapping[str, Verdict | None] | None]) -> None:
        self.verdicts = verdicts

    async def probe(self, pair: PreferencePair) -> Answer[str]:
        return Answer(value="worse")

    async def compare(
        self, shown: Presentation, rubrics: Sequence[Rubric], *, overall: bool, note: str = ""
    ) -> Answer[Comparisons]:
        good = Side.A if shown.response_a == "good" else Side.B
        held = self.verdicts[shown.response_b if good is Side.A else shown.response_a]
        if held is None:
            return Answer(value=None, outcome=Outcome.CONTEXT_TOO_LONG)
        rows = []
        for rubric in rubrics:
            verdict = held[rubric.text]
            if verdict is not None:
                both = {good: Verdict.PASS, good.other(): verdict}
                rows.append(RubricComparison(rubric.id, both[Side.A], both[Side.B], good))
        return Answer(value=Comparisons(rows=tuple(rows)))


def selector(n_features: int) -> Selector:
    """Return a selector that has both rubrics active for every prompt."""
    shapes = {"hidden": (n_features, 2), "hidden_bias": (2,), "output": (2, 2), "output_bias": (2,)}
    return Selector(
        kind="mlp",
        **{name: np.zeros(shape, np.float32) for name, shape in shapes.items()},
        weight=np.ones(2, np.float32),
    )


async def negatives(folder: Path, **verdicts: Mapping[str, Verdict | None] | None) -> list[str]:
    """Return the ids of the hard negatives of the one support pair."""
    material = prepare([PAIR, *REST[:2]], REST[2:], digest="d")
    judge = Baker(verdicts)
    session = Session(
        judges=TrainingJudges(judge=judge, author=judge, workers=2),
        config=TrainConfig(),
        stages=Stages(folder),
        material=material,
    )
    fitted = FittedRound(
        number=1,
        bank=tuple(Candidate(rubric=rubric) for rubric in RUBRICS),
        selector=selector(material.prompts.n_features),
        settings=InferenceSettings(),
        dev_accuracy=1.0,
        dev_hits=np.ones(1),
        support_counts={},
        record={},
    )
    return [negative.pair.id for negative in await find_negatives(session, 1, fitted, [PAIR])]


def says(oven: Verdict | None, time: Verdict) -> dict[str, Verdict | None]:
    """Return the verdicts on a response."""
    return {"Names the oven": oven, "Gives the time": time}


FAIL, PASS = Verdict.FAIL, Verdict.PASS


@pytest.mark.parametrize(
    ("bad", "worse", "expected"),
    [
        (says(FAIL, FAIL), says(FAIL, PASS), ["p0~probe1"]),
        (says(PASS, PASS), says(FAIL, PASS), []),
        (says(PASS, PASS), None, []),
        (says(FAIL, PASS), says(None, PASS), []),
        (says(None, FAIL), says(None, PASS), ["p0~probe1"]),
        (None, says(PASS, PASS), []),
        (None, None, []),
    ],
    ids=["nearer", "further", "no answer", "half an answer", "alike", "none to its original", "none to both"],
)
async def test_a_response_is_a_hard_negative_only_by_verdicts_wherever_its_original_has_one(
    tmp_path: Path, bad: dict[str, Verdict | None] | None, worse: dict[str, Verdict | None] | None, expected: list[str]
) -> None:
    """What the judge did not answer is no low margin: a probe without verdicts never beats a judged response."""
    assert await negatives(tmp_path, bad=bad, worse=worse) == expected
