"""Algorithm 1 as it will be asked, before anything is known: the same questions about rubrics that stand in for others.

What induction asks, and how many rubrics each pair is judged on at first, follows from the pairs and the settings. The
rest depends on replies, and `ASSUMED` stands for it.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from svr_async.core.pair import PreferencePair
from svr_async.core.rubric import Rubric
from svr_async.training.rounds import judge_calls
from svr_async.training.rounds.boundary import alternatives, most_support, probed_pair, random_rows
from svr_async.training.rounds.config import PoolPolicy, TrainConfig
from svr_async.training.rounds.judge_calls import PoolTask
from svr_async.training.rounds.session import Session

Judging = Callable[[str, Sequence[PreferencePair], Sequence[int]], Awaitable[None]]
PLANNED = "Planned rubric"  # how what an author gives in a dry run begins


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """What is not known before a training; near those of seven trainings on the simulated endpoint (docs/spending.md).

    `support` is the share of the training pairs that are near the boundary, before the cap of the settings, `repeated`
    the share of them that were so in the round before. `negatives` are hard negatives a support pair, `fresh` the share
    of a pool that is judged anew after the first round, `unjudged` the share of the rubrics for use that a dev pair was
    not judged on, `mined` the rubrics that a pair gives. A bank has `bank` rubrics for the root of its pairs, with
    `letters` each where the cache has none that were induced.
    """

    support: float = 0.3
    repeated: float = 0.65
    negatives: float = 0.6
    fresh: float = 1 / 3
    unjudged: float = 0.5
    mined: int = 4
    bank: float = 9.0
    letters: int = 90

    def in_words(self) -> str:
        """Say what is assumed, in a line."""
        return (
            f"assumed: {100 * self.support:.0f} % of the pairs support pairs up to the cap, of which "
            f"{100 * self.repeated:.0f} % again in the next round, {self.negatives:g} hard negatives for each, "
            f"{100 * self.fresh:.0f} % of a pool new after round 1, and all rounds"
        )


ASSUMED = Assumed()


async def plan_rounds(session: Session, assumed: Assumed = ASSUMED) -> None:
    """Ask what a training would ask; with engines in a dry run, nothing is sent."""
    crew, config, material = session.crew, session.config, session.material
    contrastive = "induction" not in config.ablate
    proposals, _ = await judge_calls.induce(crew, material.train, contrastive=contrastive)
    judge = partial(_judge, session, _letters(proposals, assumed))
    negatives: list[PreferencePair] = []
    known, apart = 0, "".join(f" without {part}" for part in sorted(config.ablate))
    for number in range(1, config.rounds + 1):
        pairs = [*material.pairs, *negatives]
        size = _pool_size(config, len(pairs), len(material.train), assumed)
        again = size if number == 1 else math.ceil(assumed.fresh * size)
        sizes = [again if place < len(material.pairs) + known else size for place in range(len(pairs))]
        named = apart if number > 1 or not contrastive else ""  # up to its fit a round is that of the whole method
        await judge(f"judging {number}{named}", pairs, sizes)
        wanted = max(*config.top_k_choices, *config.fit.top_ks)
        await judge(f"dev {number}{apart}", material.dev, [math.ceil(assumed.unjudged * wanted)] * len(material.dev))
        if number == config.rounds:
            return
        known = len(negatives) if config.keep_negatives else 0
        new = await _plan_boundary(session, number, assumed, judge)
        negatives = [*negatives, *new] if config.keep_negatives else new


async def _plan_boundary(session: Session, number: int, assumed: Assumed, judge: Judging) -> list[PreferencePair]:
    """Ask for probes of support pairs and judge both; return the hard negatives, which rubrics are induced from."""
    support = support_of(session, number, assumed)
    others = alternatives(session.material.train)
    probed = [] if "probe" in session.config.ablate else await _probed(session, number, support)
    beside = [other for pair in support for other in others.get(pair.id, ())]
    compared = [*(pair for pair in support if probed or pair.id in others), *probed, *beside]
    sizes = [session.config.selection_pool] * len(compared)
    await judge(f"negatives {number}", compared, sizes)
    negatives = (probed or beside)[: math.ceil(assumed.negatives * len(support))]
    contrastive = "induction" not in session.config.ablate
    await judge_calls.induce(session.crew, [*support, *negatives], contrastive=contrastive)
    return negatives


async def _probed(session: Session, number: int, support: Sequence[PreferencePair]) -> list[PreferencePair]:
    found, _ = await judge_calls.probe(session.crew, support)
    return [
        probed_pair(pair, f"{probe or pair.rejected} …", round_number=number)
        for pair, probe in zip(support, found, strict=True)
    ]


def support_of(session: Session, number: int, assumed: Assumed) -> list[PreferencePair]:
    """Return pairs that stand for the support pairs of a round, some of them those of the first."""
    config, train = session.config, session.material.train
    if "support" in config.ablate and config.without_support == "every":
        return list(train)
    most = most_support(len(train), share=config.support_share, most=config.max_support)
    count = min(most, math.ceil(assumed.support * len(train)))
    kept = random_rows(train, math.ceil(assumed.repeated * count), round_number=1) if number > 1 else []
    drawn = [row for row in random_rows(train, len(train), round_number=number) if row not in set(kept)]
    return [train[row] for row in [*kept, *drawn][:count]]


def _pool_size(config: TrainConfig, n_pairs: int, n_train: int, assumed: Assumed) -> int:
    """Return how many rubrics a pair is judged on in a round, out of a bank of the size that is assumed."""
    bank = min(config.bank_cap, math.ceil(assumed.bank * math.sqrt(n_train)))
    if config.pools.policy is PoolPolicy.ALL:
        return bank
    size = min(bank, config.pools.size_for(n_pairs))
    return min(size, assumed.mined) if config.pools.policy is PoolPolicy.OWN else size


def _letters(proposals: Sequence[Sequence[Rubric]], assumed: Assumed) -> int:
    """Return how long rubrics are: those that were induced before, where there are any."""
    held = [len(one.text) for rubrics in proposals for one in rubrics if not one.text.startswith(PLANNED)]
    return round(sum(held) / len(held)) if held else assumed.letters


async def _judge(
    session: Session, letters: int, stage: str, pairs: Sequence[PreferencePair], sizes: Sequence[int]
) -> None:
    """Judge each pair on so many rubrics that stand in for those of a stage."""
    rubrics = [Rubric(text=f"{number} {stage} ".ljust(letters, "…")) for number in range(max(sizes, default=0))]
    tasks = [PoolTask(pair, rubrics[:size]) for pair, size in zip(pairs, sizes, strict=True) if size]
    await judge_calls.judge_pools(session.crew, tasks)
