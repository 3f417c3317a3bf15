"""Algorithm 1: induce, then for each round merge, judge, fit, prune, calibrate, find support, probe, induce again.

Every stage is a pure function of its inputs and is kept on disk (`stages.py`), and judge calls are cached. A
killed run resumes where it was and ends with the same bank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from svr_async.errors import DegenerateFitError
from svr_async.scoring.bank import BankRubric
from svr_async.scoring.bank_card import known_accuracy
from svr_async.training.bank.merge import merge, without
from svr_async.training.rounds.boundary import extend
from svr_async.training.rounds.fits import FitLog, Pruned, fit_and_prune, support_counts
from svr_async.training.rounds.induction import grouped, induced
from svr_async.training.rounds.pools import judge_pools
from svr_async.training.rounds.publish import choose_settings, judge_missing
from svr_async.training.rounds.session import FittedRound, JudgedRound, RoundCarryover, Session
from svr_async.training.rounds.stages import unanswered_lines

RoundFit = Callable[[Session, FitLog, JudgedRound], Pruned]
NO_RUBRIC = "ask a stronger judge, or give pairs whose responses differ in ways that a rubric can name"


def fitted_round(session: Session, log: FitLog, judged: JudgedRound) -> Pruned:
    """Fit, prune and calibrate a round; its fits are kept on disk."""
    kept, selector, result = fit_and_prune(judged, session.config, log, session.stages)
    if result is not None:
        how = f"best epoch {result.best_epoch}" if result.choice is None else result.choice.in_words()
        accuracy = known_accuracy(result.dev_accuracy, log.curves[-2].dev_pairs)
        session.say(f"round {judged.number}: fit ended, {how}{accuracy}")
    return kept, selector, result


async def run_rounds(session: Session, log: FitLog | None = None, *, fit: RoundFit = fitted_round) -> list[FittedRound]:
    """Run Algorithm 1 and return every round; the caller chooses which one is published."""
    config, log = session.config, log or FitLog()
    carryover = RoundCarryover(candidates=await induced(session, "induce-1", session.material.train, {}))
    rounds: list[FittedRound] = []
    for number in range(1, config.rounds + 1):
        session.judges.begin_stage()
        bank, carryover = await _build_bank(session, number, carryover)
        before = rounds[-1] if rounds else None
        fitted, after = await _one_round(session, number, bank, carryover, before, partial(fit, session, log))
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
) -> tuple[tuple[BankRubric, ...], RoundCarryover]:
    """Merge the candidates and group them into criteria; DegenerateFitError without candidates."""
    config, left = session.config, without(carryover.candidates, carryover.pruned)
    bank = merge(left, cutoff=config.merge_cutoff, cap=config.bank_cap, by_text_alone=config.by_text_alone)
    if not bank:
        failed = "".join(f"; {line}" for line in unanswered_lines(session.stages.outcomes))
        raise DegenerateFitError(f"no rubric was induced, so the bank is empty{failed}", hint=NO_RUBRIC)
    counts = f"{len(carryover.candidates)} candidates, {len(bank)} rubrics after merging"
    session.say(f"round {number} of {session.config.rounds}: {counts}")
    bank, criteria = await grouped(session, f"criteria-{number}", bank, carryover.criteria)
    return bank, replace(carryover, criteria=criteria)


async def _one_round(
    session: Session,
    number: int,
    bank: Sequence[BankRubric],
    carryover: RoundCarryover,
    before: FittedRound | None,
    fit: Callable[[JudgedRound], Pruned],
) -> tuple[FittedRound, RoundCarryover]:
    """Judge the pools, fit, prune, calibrate, measure on dev, and store the inputs."""
    config, material, indexed = session.config, session.material, session.indexed(bank)
    negatives = [negative.pair for negative in carryover.negatives]
    await judge_pools(session, f"judge-{number}", number, indexed, negatives, before)
    dev = session.arrays(indexed, material.dev)
    judged = JudgedRound(
        number=number,
        bank=tuple(bank),
        train=session.arrays(indexed, material.train, carryover.negatives),
        dev=dev,
        measured=dev,
        negatives=carryover.negatives,
        support=support_counts(carryover, session.ledger, indexed.place),
        last=number == config.rounds,
    )
    session.judges.begin_stage()
    kept, selector, result = fit(judged)
    choice = None if result is None else result.choice
    survivors = tuple(bank[place] for place in kept)
    await judge_missing(session, number, survivors, selector)
    judged = replace(judged, measured=session.arrays(indexed, material.dev))
    texts = [candidate.rubric.text for candidate in survivors]
    settings, hits = choose_settings(config, selector, texts, judged.measured.restrict_rubrics(kept), choice)
    session.keep_round(session, judged)
    margins = session.margins(selector, judged.train.restrict_rubrics(kept))
    dev_accuracy = round(float(hits.sum()) / max(1, len(hits)), 6)
    record: dict[str, Any] = {
        "round": number,
        "bank": len(bank),
        "kept": len(kept),
        "hard_negatives": len(negatives),
        "support": len(carryover.support),
        "judged_entries": judged.train.n_entries + dev.n_entries,
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
        choice=choice,
        settings=settings,
        dev_accuracy=dev_accuracy,
        dev_hits=hits,
        record=record,
    )
    pruned = tuple(bank[place] for place in np.setdiff1d(np.arange(len(bank)), kept))
    return fitted, replace(carryover, pruned=carryover.pruned + pruned)
