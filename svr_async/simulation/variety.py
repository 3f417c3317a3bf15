"""What sets other worlds apart from the plain one: things that real preference data have and that one lacks."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from svr_async.errors import ConfigError
from svr_async.simulation.commonplaces import COMMONPLACES
from svr_async.simulation.topics import TOPICS
from svr_async.simulation.wordings import MOST_WORDINGS


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Variety:
    """How varied a world is; the defaults add nothing."""

    wordings: int = 1
    """Wordings in which a model proposes one criterion. Models seldom say the same thing the same way twice."""
    shared_errors: float = 0.0
    """Chance that a wording is misread where the criterion is: a judge that overlooks a sentence does so whatever the
    rubric is called, so asking twice in other words is not two opinions."""
    shared_whims: bool = False
    """Whether a criterion so shared also keeps, under every wording, the whim that settles equal verdicts."""
    commonplaces: int = 0
    """Attributes that nearly every response shows, preferred or not: being on topic, in sentences, civil."""
    commonplace_rate: float = 0.96
    """Chance that a response shows a commonplace."""
    delicate_kinds: int = 0
    """Types of prompts whose criteria are all inconspicuous: what decides there is a slip in one clause, and two
    responses that differ in twenty other sentences hide it. An inducer sees it between near copies."""
    delicate_share: float = 1.0
    """How often a training prompt is of a delicate type, relative to any other: what needs care is rare in data that
    was collected at large. Test pairs keep their proportions."""
    overlooked: float = 0.98
    """Chance that an inconspicuous difference goes unnoticed where the responses are not near copies."""

    def __post_init__(self) -> None:
        _require(1 <= self.wordings <= MOST_WORDINGS, f"wordings must be 1 to {MOST_WORDINGS} (got {self.wordings})")
        most = len(COMMONPLACES)
        _require(0 <= self.commonplaces <= most, f"commonplaces must be 0 to {most} (got {self.commonplaces})")
        most = len(TOPICS) - 1
        _require(0 <= self.delicate_kinds <= most, f"delicate_kinds must be 0 to {most} (got {self.delicate_kinds})")
        _require(self.delicate_share > 0, f"delicate_share must be > 0 (got {self.delicate_share})")
        for name in ("shared_errors", "commonplace_rate", "overlooked"):
            value = getattr(self, name)
            _require(0 <= value <= 1, f"{name} must be in [0, 1] (got {value})")

    def __repr__(self) -> str:
        """Name all settings but an unused `shared_whims`: by this an endpoint tells its world from others."""
        held = [(one.name, getattr(self, one.name), one.default) for one in fields(self)]
        used = [f"{name}={value!r}" for name, value, usual in held if name != "shared_whims" or value != usual]
        return f"Variety({', '.join(used)})"


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigError(message)


NONE = Variety()
"""The plain world's."""
VARIED = Variety(wordings=2, shared_errors=0.8, commonplaces=8, delicate_kinds=2, delicate_share=0.8)
"""The varied world's, chosen on worlds of seeds 11 and 12 (docs/training-measured.md says what for)."""
REDUNDANT = replace(VARIED, shared_errors=1.0, shared_whims=True)
"""The redundant world's, chosen on worlds of seeds 20 to 22: a second wording is judged as the first is."""
