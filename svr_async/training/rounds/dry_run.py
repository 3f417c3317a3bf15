"""A dry run of a training: the real stages, with an author whose rubrics are placeholders and nothing fitted.

The questions about pairs follow from the pairs and the settings. The rest depends on replies; `ASSUMED` replaces them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from svr_async.core.pair import PreferencePair, hashed_fraction
from svr_async.core.rubric import Rubric
from svr_async.fit.arrays import FitArrays
from svr_async.fit.forward import Selector
from svr_async.judges.protocol import Answer, Author, CriteriaQuestion
from svr_async.training.rounds.algorithm import run_rounds
from svr_async.training.rounds.session import FittedRound, JudgedRound, Session

PLANNED = "Planned rubric"  # how the placeholder of an induced rubric begins
# Near the figures of seven simulated trainings (docs/spending.md). Half of the probes are hard negatives.
SUPPORT = 0.3  # share of the training pairs near the boundary
REPEATED = 0.65  # share of them that were so in the first round
MINED, LETTERS = 4, 90  # rubrics that a pair gives, and the length of each
RUBRICS = 9.0  # of a bank, times the root of the number of pairs, without pruning
ASSUMED = {"support": SUPPORT, "repeated": REPEATED, "mined": MINED, "bank": RUBRICS, "letters": LETTERS}
ASSUMPTIONS = (
    f"assumed: {100 * SUPPORT:.0f} % of the pairs support pairs up to the cap, of which {100 * REPEATED:.0f} % again "
    f"in the next round, a hard negative for every second one, {RUBRICS:g} rubrics times the root of the number of "
    "pairs, and all rounds"
)


async def count_rounds(session: Session) -> None:
    """Ask what a training would ask; with engines in a dry run, nothing is sent."""
    author = CountingAuthor(session.judges.writer, math.ceil(RUBRICS * math.sqrt(len(session.material.train))))
    fits = AssumedFits()
    counting = replace(
        session,
        judges=replace(session.judges, author=author),
        config=replace(session.config, all_rounds=True),
        margins=fits.margins,
    )
    await run_rounds(counting, fit=fits.fit)


@dataclass(frozen=True, slots=True)
class CountingAuthor:
    """Asks an author, and returns placeholder rubrics of a bank of `size` for those that it has not induced yet."""

    author: Author
    size: int

    @property
    def name(self) -> str:
        """The author's short name."""
        return self.author.name

    async def induce(self, pair: PreferencePair, *, contrastive: bool = True) -> Answer[tuple[Rubric, ...]]:
        """Ask, and return the reply if the cache has it."""
        answer = await self.author.induce(pair, contrastive=contrastive)
        if answer.value and not answer.value[0].text.startswith(PLANNED):
            return answer
        drawn = [hashed_fraction("planned", str(number), pair.id) for number in range(MINED)]
        return Answer(value=tuple(_placeholder(int(one * self.size)) for one in drawn))

    async def probe(self, pair: PreferencePair) -> Answer[str]:
        """Ask, and return another text than the pair's."""
        answer = await self.author.probe(pair)
        return answer.map(lambda text: f"{text} …")

    async def same_criterion(self, asked: CriteriaQuestion) -> Answer[Mapping[str, str | None]]:
        """Ask."""
        return await self.author.same_criterion(asked)


def _placeholder(number: int) -> Rubric:
    """Return a rubric of the usual length that merging keeps separate."""
    letters = "".join(hashlib.sha256(f"{number} {part}".encode()).hexdigest() for part in range(2))
    return Rubric(text=f"{PLANNED} {letters}"[:LETTERS])


class AssumedFits:
    """Fits that keep every rubric and find the assumed share of the pairs near the boundary."""

    def fit(self, session: Session, judged: JudgedRound) -> FittedRound:
        """Return a selector that gives all rubrics the same importance, and draw the pairs that are near."""
        ids = [pair.id for pair in session.material.train]
        self._is_near = np.array([hashed_fraction("near", pair_id) < SUPPORT for pair_id in ids])
        if (number := judged.number) > 1:
            drawn = np.array([hashed_fraction("near", str(2 * number), pair_id) for pair_id in ids])
            self._is_near = drawn < np.where(self._is_near, REPEATED, SUPPORT * (1 - REPEATED) / (1 - SUPPORT))
        count, n_features = len(judged.bank), session.material.features["n_features"]
        selector = Selector(
            kind="topics",
            hidden=np.zeros((n_features, 1), np.float32),
            hidden_bias=np.zeros(1, np.float32),
            output=np.ones((count, 1), np.float32),
            output_bias=np.zeros(count, np.float32),
            weight=np.ones(count, np.float32),
        )
        return judged.fitted(np.arange(count), selector)

    def margins(self, _selector: Selector, arrays: FitArrays) -> NDArray[np.float32]:
        """Return 0 for pairs near the boundary, 1 for others."""
        return np.where(np.resize(self._is_near, arrays.n_pairs), 0, 1).astype(np.float32)
