"""Algorithm 1 of the paper, round by round: induce, build, judge, fit, prune, find support, probe, induce again.

Every stage is a pure function of its inputs and is kept on disk (`stages.py`), and judge calls are cached besides. A
killed run resumes where it was and ends with the same bank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svr_async.errors import DegenerateFitError
from svr_async.fit.config import Choice
from svr_async.fit.forward import Selector
from svr_async.scoring.dev_pairs import known_accuracy
from svr_async.training.bank.merge import Candidate, merge, without
from svr_async.training.rounds.boundary import extend
from svr_async.training.rounds.dev_choice import choose_settings, judge_missing
from svr_async.training.rounds.fits import FitLog, calibrate_round, fit_and_prune, fit_round, support_counts
from svr_async.training.rounds.induction import grouped, induced
from svr_async.training.rounds.judge_calls import begin_stage
from svr_async.training.rounds.pools import judge_pools
from svr_async.training.rounds.session import FittedRound, JudgedRound, RoundCarryover, RoundData, Session
from svr_async.training.rounds.stages import unanswered_lines

RoundFit = Callable[[Session, int, FitLog, RoundData], tuple[NDArray[np.int64], Selector, Choice | None]]
NO_RUBRIC = "ask a stronger judge, or give pairs whose responses differ in ways that a rubric can name"


def fitted_round(
    session: Session, number: int, log: FitLog, data: RoundData
) -> tuple[NDArray[np.int64], Selector, Choice | None]:
    """Fit, prune and calibrate a round: places of the kept rubrics, their selector, the structure that was chosen."""
    fits = partial(fit_round, session, number, log), partial(calibrate_round, session, number, log)
    return fit_and_prune(data, session.config, *fits)


async def run_rounds(session: Session, log: FitLog | None = None, *, fit: RoundFit = fitted_round) -> list[FittedRound]:
    """Run Algorithm 1 and return every round; the caller chooses which one is published."""
    config, log = session.config, log or FitLog()
    carryover = RoundCarryover(candidates=await induced(session, "induce-1", session.material.train, {}))
    rounds: list[FittedRound] = []
    for number in range(1, config.rounds + 1):
        begin_stage(session.judges)
        bank, carryover = await _build_bank(session, number, carryover)
        fitted, after = await one_round(session, number, bank, carryover, rounds, partial(fit, session, number, log))
        rounds.append(fitted)
        accuracy = known_accuracy(fitted.dev_accuracy, len(session.material.dev))
        session.say(f"round {number}: {len(fitted.bank)} rubrics kept{accuracy}")
        if number == config.rounds:
            break
        following = await extend(session, number, fitted, after)
        nothing_new = following.candidates == after.candidates and following.negatives == carryover.negatives
        if nothing_new and not config.all_rounds:
            session.say(f"round {number} found nothing new: training ends early")
            break
        carryover = following
    return rounds


async def _build_bank(
    session: Session, number: int, carryover: RoundCarryover
) -> tuple[tuple[Candidate, ...], RoundCarryover]:
    """Merge the candidates and group them into criteria; DegenerateFitError if there is none."""
    config, left = session.config, without(carryover.candidates, carryover.pruned)
    bank = merge(left, cutoff=config.merge_cutoff, cap=config.bank_cap, by_text_alone=config.by_text_alone)
    if not bank:
        failed = "".join(f"; {line}" for line in unanswered_lines(session.stages.outcomes))
        raise DegenerateFitError(f"no rubric was induced, so the bank is empty{failed}", hint=NO_RUBRIC)
    counts = f"{len(carryover.candidates)} candidates, {len(bank)} rubrics after merging"
    session.say(f"round {number} of {session.config.rounds}: {counts}")
    bank, criteria = await grouped(session, f"criteria-{number}", bank, carryover.criteria)
    return bank, replace(carryover, criteria=criteria)


async def one_round(
    session: Session,
    number: int,
    bank: Sequence[Candidate],
    carryover: RoundCarryover,
    before: Sequence[FittedRound],
    fit: Callable[[RoundData], tuple[NDArray[np.int64], Selector, Choice | None]],
) -> tuple[FittedRound, RoundCarryover]:
    """Judge the pools, fit, prune, calibrate, measure on dev, and keep what it was done with."""
    config, material, indexed = session.config, session.material, session.indexed(bank)
    negatives = [negative.pair for negative in carryover.negatives]
    await judge_pools(session, f"judge-{number}", number, indexed, negatives, before[-1] if before else None)
    data = RoundData(
        bank=tuple(bank),
        train=session.arrays(indexed, material.train, carryover.negatives),
        dev=session.arrays(indexed, material.dev),
        support=support_counts(carryover, session.ledger, indexed.place),
        last=number == config.rounds,
    )
    begin_stage(session.judges)
    kept, selector, choice = fit(data)
    survivors = tuple(bank[place] for place in kept)
    await judge_missing(session, number, survivors, selector)
    measured = session.arrays(indexed, material.dev)
    texts = [candidate.rubric.text for candidate in survivors]
    settings, hits = choose_settings(config, selector, texts, measured.restrict_rubrics(kept), choice)
    dev_accuracy = round(float(hits.sum()) / max(1, len(hits)), 6)
    session.keep_round(session, JudgedRound(number=number, data=data, measured=measured, negatives=carryover.negatives))
    margins = session.margins(selector, data.train.restrict_rubrics(kept))
    record: dict[str, Any] = {
        "round": number,
        "bank": len(bank),
        "kept": len(kept),
        "hard_negatives": len(carryover.negatives),
        "support": len(carryover.support),
        "judged_entries": int(data.train.n_entries + data.dev.n_entries),
        "train_margin": round(float(margins.mean()), 6) if len(margins) else 0.0,
        "dev_accuracy": dev_accuracy,
        "top_k": settings.top_k,
        "filler_weight": settings.filler_weight,
        **({} if choice is None else {"structure": choice.as_json()}),
    }
    fitted = FittedRound(
        number=number,
        bank=survivors,
        selector=selector,
        settings=settings,
        dev_accuracy=dev_accuracy,
        dev_hits=hits,
        support_counts=data.support,
        record=record,
    )
    gone = tuple(candidate for place, candidate in enumerate(bank) if place not in set(kept.tolist()))
    return fitted, replace(carryover, pruned=carryover.pruned + gone)
