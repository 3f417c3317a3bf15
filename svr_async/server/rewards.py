"""A reward as every shape tells it: a number, whether it is the fallback and why, and the same keys each time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

DECIDED = ""
LATE = "late"  # came after its group had been closed
ALONE = "alone"  # the only member that came
DEADLINE = "deadline"  # not judged in time
UNCONNECTED = "unconnected"  # judged, but nothing connects it with most of its group


@dataclass(frozen=True, slots=True, kw_only=True)
class Reward:
    """What a trainer gets for one response: `value`, which is `score` less the penalties, or the declared fallback.

    `reason` says why it is the fallback, "" where it was judged. `coverage` is the share of what was asked about the
    response that got an answer; `members` counts the responses that were compared, 1 for one that was scored alone.
    """

    value: float
    score: float
    reason: str = DECIDED
    coverage: float = 1.0
    members: int = 1
    length_penalty: float = 0.0
    style_penalty: float = 0.0

    @property
    def is_fallback(self) -> bool:
        """Whether nothing was judged, and the value stands in its place."""
        return self.reason != DECIDED

    def numbers(self) -> dict[str, float]:
        """Return the same keys for every reward, all of them numbers."""
        return {
            "svr_score": self.score,
            "svr_fallback": float(self.is_fallback),
            "svr_coverage": self.coverage,
            "svr_members": float(self.members),
            "svr_length_penalty": self.length_penalty,
            "svr_style_penalty": self.style_penalty,
        }

    def facts(self, judge: str) -> dict[str, Any]:
        """Return the same keys for every reward, with why it is the fallback, and who judged."""
        return {**self.numbers(), "svr_fallback": self.is_fallback, "svr_reason": self.reason, "svr_judge": judge}


def fallback(value: float, reason: str, *, members: int = 0) -> Reward:
    """Return the declared fallback, marked as such."""
    return Reward(value=value, score=value, reason=reason, coverage=0.0, members=members)
