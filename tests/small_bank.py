"""Small banks for the front door: one that checks decide, and one of a simulated world's criteria."""

from __future__ import annotations

from svr_async.core.rubric import Check, Rubric
from svr_async.judges.rules.registry import rubric_for
from svr_async.scoring.bank import BankRubric, InferenceSettings, RubricBank
from svr_async.simulation.catalogue import CRITERIA


def checked_bank() -> RubricBank:
    """Return a bank that the rules judge decides, but for one rubric."""
    rubrics = (
        BankRubric(rubric=rubric_for(Check.of("max_words", n=10)), weight=0.9),
        BankRubric(rubric=rubric_for(Check.of("bullet_list")), weight=0.5),
        BankRubric(rubric=Rubric(text="Sounds like a friend."), weight=0.4),
    )
    return RubricBank(rubrics=rubrics, name="checked")


def planted_bank(count: int = 12) -> RubricBank:
    """Return a bank of criteria that a simulated endpoint recognises."""
    rubrics = tuple(BankRubric(rubric=Rubric(text=entry.rubric)) for entry in CRITERIA[:count])
    return RubricBank(rubrics=rubrics, name="planted", inference=InferenceSettings(top_k=6))
