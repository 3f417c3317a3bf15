"""What a server has done, in plain counts; /readyz shows them, and /metrics where prometheus-client is installed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts since the start.

    `requests` by (route, status); `rewards` by why they are the fallback, "" for those that were judged; `groups` by
    how they closed (`full`, `short`: some members did not come); `judgements` by outcome; `renewed` counts how often
    the judge was opened anew. `seconds` and `answered` are of requests, for their mean.
    """

    requests: Counter[tuple[str, int]] = field(default_factory=Counter)
    rewards: Counter[str] = field(default_factory=Counter)
    groups: Counter[str] = field(default_factory=Counter)
    judgements: Counter[str] = field(default_factory=Counter)
    renewed: int = 0
    under_way: int = 0

    @property
    def fallbacks(self) -> int:
        """Rewards that are the declared fallback."""
        return sum(count for reason, count in self.rewards.items() if reason)

    def facts(self) -> dict[str, int]:
        """Return the totals as JSON values."""
        return {
            "requests": sum(self.requests.values()),
            "under_way": self.under_way,
            "rewards": sum(self.rewards.values()),
            "fallbacks": self.fallbacks,
            "groups": sum(self.groups.values()),
            "groups_short": self.groups["short"],
            "judge_renewed": self.renewed,
        }
