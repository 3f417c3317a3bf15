"""All attributes of the simulated world with their wordings, by number."""

from __future__ import annotations

from svr_async.simulation.catalogue import CRITERIA, Criterion
from svr_async.simulation.commonplaces import COMMONPLACES

EVERYTHING: tuple[Criterion, ...] = CRITERIA + COMMONPLACES
"""All attributes that a response can show; `CRITERIA` come first, under the same numbers."""

PREDICATES: tuple[tuple[str, ...], ...] = tuple((one.predicate, one.second, one.third) for one in EVERYTHING)
"""The wordings of every attribute by its number, the usual one first."""

MOST_WORDINGS = 3
