"""Algorithm 1 of the paper, round by round: induce, build, judge, fit, prune, find support, probe, induce again.

Every stage is a pure function of its inputs and is kept on disk (`stages.py`), and judge calls are memoised besides, so
a run that was killed goes on where it was and ends with the same bank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from svr_async.errors import DegenerateFitError
from svr_async.fit.arrays import FitArrays
from svr_async.fit.forward import Selector
from svr_async.training.answers import unanswered_lines
from svr_async.training.boundary import grow
from svr_async.training.choosing import measure
from svr_async.training.inducing import induced
from svr_async.training.judging import judge_pools, sources_of
from svr_async.training.merge import Candidate, merge, without
from svr_async.training.problem import build_arrays
from svr_async.training.prune_redundant import redundancy_edges
from svr_async.training.pruning import prune, support_counts
from svr_async.training.session import FittedRound, Growth, Session

NO_RUBRIC = "ask a stronger judge, or give pairs whose responses differ in what can be said of them"


async def run_rounds(session: Session) -> list[FittedRound]:
    """Run Algorithm 1 and return every round; which one is published is the caller's to choose."""
    config, material = session.config, session.material
    growth = Growth(candidates=await induced(session, "induce-1", material.train, {}))
    rounds: list[FittedRound] = []
    for number in range(1, config.rounds + 1):
        left = without(growth.candidates, growth.pruned)
        bank = merge(left, cutoff=config.merge_cutoff, cap=config.bank_cap, by_text_alone=config.by_text_alone)
        if not bank:
            failed = "".join(f"; {line}" for line in unanswered_lines(session.stages.outcomes))
            raise DegenerateFitError(f"no rubric was induced, so the bank is empty{failed}", hint=NO_RUBRIC)
        session.say(f"round {number}: {len(growth.candidates)} candidates, {len(bank)} rubrics after merging")
        fitted, growth_after = await one_round(session, number, bank, growth, rounds)
        rounds.append(fitted)
        session.say(f"round {number}: {len(fitted.bank)} rubrics kept, dev accuracy {100 * fitted.dev_accuracy:.1f} %")
        if number == config.rounds:
            break
        following = await grow(session, number, fitted, growth_after)
        nothing_new = following.candidates == growth_after.candidates and following.negatives == growth.negatives
        if nothing_new and not config.all_rounds:
            session.say(f"round {number} found nothing new: training ends early")
            break
        growth = following
    return rounds


async def one_round(
    session: Session, number: int, bank: Sequence[Candidate], growth: Growth, before: Sequence[FittedRound]
) -> tuple[FittedRound, Growth]:
    """Judge the pools, fit, prune, calibrate and measure on dev."""
    task = await _judged(session, number, bank, growth, before)
    support = support_counts(growth, session.ledger, task.index)
    kept, selector = _fitted(session, number, bank, task, support)
    survivors = tuple(bank[place] for place in kept)
    settings, dev_accuracy = await measure(session, number, survivors, selector)
    sizes = {"round": number, "bank": len(bank), "kept": len(kept)}
    mined = {"hard_negatives": len(growth.negatives), "support": len(growth.support)}
    fitted = FittedRound(
        number=number,
        bank=survivors,
        selector=selector,
        settings=settings,
        dev_accuracy=dev_accuracy,
        support_counts=support,
        record={
            **sizes,
            **mined,
            "judged_entries": int(task.train.n_entries + task.dev.n_entries),
            "train_margin": _mean_margin(session, selector, task.train.restrict_rubrics(kept)),
            "dev_accuracy": dev_accuracy,
            "top_k": settings.top_k,
            "filler_weight": settings.filler_weight,
        },
    )
    gone = set(range(len(bank))) - set(kept.tolist())
    return fitted, replace(growth, pruned=growth.pruned + tuple(bank[place] for place in sorted(gone)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Task:
    """What one round fits: the places of its rubrics by id, and the entries judged on them as arrays."""

    index: Mapping[str, int]
    train: FitArrays
    dev: FitArrays


async def _judged(
    session: Session, number: int, bank: Sequence[Candidate], growth: Growth, before: Sequence[FittedRound]
) -> _Task:
    """Judge the pools of all pairs and return what was judged as arrays; hard negatives are trained on only."""
    material = session.material
    index = {candidate.rubric.id: place for place, candidate in enumerate(bank)}
    sources = sources_of(session, bank)
    await judge_pools(session, f"judge-{number}", number, bank, index, sources, growth, before)
    edges = redundancy_edges([candidate.rubric.text for candidate in bank], session.config.redundancy_cutoff)
    parts = (material.prompts, session.ledger, index, sources, edges)
    train = build_arrays(material.train, growth.negatives, *parts)
    return _Task(index=index, train=train, dev=build_arrays(material.dev, (), *parts))


def _fitted(
    session: Session, number: int, bank: Sequence[Candidate], task: _Task, support: Mapping[str, int]
) -> tuple[NDArray[np.int64], Selector]:
    """Fit, prune and calibrate; return the places of the kept rubrics and the selector of those."""
    selector = session.fit_round(session, number, task.train, task.dev)
    judged = np.bincount(task.train.z_rubric, minlength=len(bank))
    kept = prune(session, bank, selector, support, judged, last=number == session.config.rounds)
    places = np.array(kept, dtype=np.int64)
    train, dev = task.train.restrict_rubrics(places), task.dev.restrict_rubrics(places)
    return places, session.calibrate(session, number, selector.restrict(places), train, dev)


def _mean_margin(session: Session, selector: Selector, arrays: FitArrays) -> float:
    margins = session.margins(selector, arrays)
    return round(float(margins.mean()), 6) if len(margins) else 0.0
