"""The `rules` author: checks that hold for the chosen response and not for the rejected one become rubrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from svr_async.core.pair import PreferencePair
from svr_async.core.rubric import Rubric
from svr_async.judges.protocol import Answer
from svr_async.judges.rules.damage import damaged
from svr_async.judges.rules.judge import view_of, view_of_prompt
from svr_async.judges.rules.registry import bound, grid_rubrics


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RulesAuthor:
    """Proposes rubrics and damaged responses without a model."""

    name: str = "rules"

    async def induce(self, pair: PreferencePair, *, contrastive: bool = True) -> Answer[tuple[Rubric, ...]]:
        """Return each check of the grid that the chosen response passes and the rejected fails.

        With `contrastive` False, each that the chosen response passes: a description that does not look at the other.
        """
        prompt, chosen, rejected = view_of_prompt(pair.prompt), view_of(pair.chosen), view_of(pair.rejected)
        found = []
        for rubric in grid_rubrics():
            assert rubric.check is not None
            decide = bound(rubric.check)
            good = decide(prompt, chosen)
            if good is None or not good.passed:
                continue
            bad = decide(prompt, rejected) if contrastive else None
            if not contrastive or (bad is not None and not bad.passed):
                found.append(rubric)
        return Answer(value=tuple(found))

    async def probe(self, pair: PreferencePair) -> Answer[str]:
        """Return the chosen response with one kind of damage; unchanged, and so discarded, where none applies."""
        return Answer(value=damaged(pair.chosen, pair.id))
