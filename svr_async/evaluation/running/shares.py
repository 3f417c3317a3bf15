"""How a run is divided among processes: its pairs and its caps. What is a limit of rates, `JudgeLimits` divides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from svr_async.evaluation.running.settings import EvalSettings
from svr_async.judges.limits import Share, part_of
from svr_async.vocabulary.pair import PreferencePair


def places_of(pairs: Sequence[PreferencePair], share: Share) -> list[int]:
    """Return the places of the pairs of a share. Pairs of one prompt stay together: they ask about the same rubrics."""
    number, count = share
    groups: dict[object, int] = {}
    return [place for place, pair in enumerate(pairs) if groups.setdefault(pair.prompt, len(groups)) % count == number]


def settings_of(settings: EvalSettings, share: Share, *, calls: int = 0, usd: float = 0.0) -> EvalSettings:
    """Return the settings of the process that does a share: its part of the caps, less what it has spent already."""
    whole = settings.limits
    limits = replace(
        whole,
        share=share,
        max_calls=None if whole.max_calls is None else max(0, part_of(whole.max_calls, share) - calls),
        budget=None if whole.budget is None else max(0.0, whole.budget / share[1] - usd),
    )
    return replace(settings, limits=limits, processes=1)
