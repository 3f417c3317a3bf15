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
from svr_async.fit.arrays import FitArrays
from svr_async.fit.forward import Selector, alpha_numpy
from svr_async.fit.history import EpochRecord, FitCurve, FitResult, FitWatch, watched
from svr_async.fit.training import calibrate, fit
from svr_async.scoring.bank import BankRubric
from svr_async.scoring.bank_card import known_accuracy
from svr_async.training.bank.merge import drop_redundant, merge, near_duplicates, without
from svr_async.training.rounds.config import TrainConfig
from svr_async.training.rounds.induction import extend, grouped, induced
from svr_async.training.rounds.pools import judge_pools
from svr_async.training.rounds.publish import baseline_hits, in_use, judge_missing, rated
from svr_async.training.rounds.session import FittedRound, JudgedRound, PrunedFit, RoundCarryover, Session
from svr_async.training.rounds.stages import Stages, digest_of, unanswered_lines

OnEpoch = Callable[[EpochRecord], None]
NO_RUBRIC = "ask a stronger judge, or give pairs whose responses differ in ways that a rubric can name"


def fit_and_prune(
    judged: JudgedRound, config: TrainConfig, watch: FitWatch | None = None, stages: Stages | None = None
) -> PrunedFit:
    """Fit, prune, calibrate what is kept, and measure the baselines on it; fits that are in `stages` are read back."""
    curves: list[FitCurve] = []

    def kept(phase: str, run: Callable[..., FitResult], train: FitArrays, dev: FitArrays, *start: Any) -> FitResult:
        """Fit, unless the same fit is in a stage, and note its curve."""

        def result_of(on_epoch: OnEpoch) -> FitResult:
            if stages is None:
                return run(train, dev, config.fit, on_epoch=on_epoch)
            digest = digest_of(phase, train.digest(), dev.digest(), config.fit.as_json(), *start)
            result = stages.load(stage := f"{phase}-{judged.number}", digest, FitResult)
            if result is None:
                result = run(train, dev, config.fit, on_epoch=on_epoch)
                stages.save(stage, digest, result)
            return result

        used = dev if config.fit.use_own else dev.without_own()
        n_judged = int(np.count_nonzero(np.diff(used.z_indptr)))
        curve = FitCurve(seed=config.fit.seed, round=judged.number, phase=phase, dev_pairs=n_judged)
        result, done = watched(result_of, curve, watch)
        curves.append(done)
        return result

    fitted = kept("fit", fit, judged.train, judged.dev)
    places = np.array(prune(config, judged, fitted.selector), dtype=np.int64)
    train, dev = judged.train.restrict_rubrics(places), judged.dev.restrict_rubrics(places)
    start = fitted.selector.restrict(places)
    calibrated = kept("calibrate", partial(calibrate, start), train, dev, start.kind, *start.tensors().values())
    return PrunedFit(places, calibrated.selector, fitted, tuple(curves), baseline_hits(train, dev))


def prune(config: TrainConfig, judged: JudgedRound, selector: Selector) -> list[int]:
    """Return the places kept: relevant by weight, activation or support, and repeating no more relevant one.

    The paper (`sec:prune`) leaves relevance open: here it is activation times weight, and activation is the mean alpha
    over the training prompts, or a sample of them. A bank is never left empty: the most relevant rubric stays. Before
    the last round a rubric that several prompts gave is kept until it has been judged often enough to differ from
    chance: a pruned rubric does not come back. The preset `paper` has no such patience, a weight is enough for it, and
    it finds repeats by similarity alone.
    """
    prompts = np.unique(judged.train.pair_prompt)
    prompts = prompts[rated(len(prompts))].tolist()
    alphas = (alpha_numpy(selector, *judged.train.features(row)) for row in prompts)
    activation = sum(alphas, np.zeros(len(judged.bank))) / max(1, len(prompts))
    relevance = activation * selector.weight
    relevant = selector.weight >= config.min_weight
    if not config.is_paper:
        relevant &= activation > 0
    relevant |= activation >= config.min_activation
    relevant |= np.array([candidate.support_count > 0 for candidate in judged.bank])
    if not judged.last:
        several = np.array([candidate.observed_count >= config.several for candidate in judged.bank])
        train = judged.train  # an entry counts its weight
        counts = np.bincount(train.z_rubric, weights=train.z_weight, minlength=train.n_rubrics)
        relevant |= several & (counts < config.enough_judged)
    order = np.argsort(-relevance, kind="stable")
    wanted = [int(place) for place in order if relevant[place]] or [int(order[0])]
    rubrics = [candidate.rubric for candidate in judged.bank]
    similar = near_duplicates(rubrics, config.redundancy_cutoff, by_text_alone=config.is_paper)
    return sorted(drop_redundant(wanted, similar))


def fitted_round(session: Session, judged: JudgedRound) -> PrunedFit:
    """Fit, prune and calibrate a round; its fits are kept on disk."""
    pruned = fit_and_prune(judged, session.config, session.watch, session.stages)
    if (result := pruned.result) is not None:
        how = f"best epoch {result.best_epoch}" if result.choice is None else result.choice.in_words()
        accuracy = known_accuracy(result.dev_accuracy, pruned.curves[0].dev_pairs)
        session.say(f"round {judged.number}: fit ended, {how}{accuracy}")
    return pruned


RoundFit = Callable[[Session, JudgedRound], PrunedFit]


async def run_rounds(session: Session, *, fit: RoundFit = fitted_round) -> list[FittedRound]:
    """Run Algorithm 1 and return every round; the caller chooses which one is published."""
    config = session.config
    carryover = RoundCarryover(candidates=await induced(session, "induce-1", session.material.train, {}))
    rounds: list[FittedRound] = []
    for number in range(1, config.rounds + 1):
        session.judges.begin_stage()
        bank, carryover = await _build_bank(session, number, carryover)
        before = rounds[-1] if rounds else None
        fitted, after = await _one_round(session, number, bank, carryover, before, fit)
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
    bank = merge(left, cutoff=config.merge_cutoff, cap=config.bank_cap, by_text_alone=config.is_paper)
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
    fit: RoundFit,
) -> tuple[FittedRound, RoundCarryover]:
    """Judge the pools, fit, prune, calibrate, measure on dev, and store the inputs."""
    config, material, indexed = session.config, session.material, session.indexed(bank)
    negatives = [negative.pair for negative in carryover.negatives]
    await judge_pools(session, f"judge-{number}", number, indexed, negatives, before)
    judged = session.judged(indexed, carryover, number=number, last=number == config.rounds)
    session.judges.begin_stage()
    pruned = fit(session, judged)
    await judge_missing(session, number, tuple(bank[place] for place in pruned.kept), pruned.selector)
    judged = replace(judged, measured=session.arrays(indexed, material.dev))
    fitted = in_use(judged, config, pruned)
    session.keep_round(session, judged)
    margins = session.margins(pruned.selector, judged.train.restrict_rubrics(pruned.kept))
    record = {
        "round": number,
        "bank": len(bank),
        "kept": len(fitted.bank),
        "hard_negatives": len(negatives),
        "support": len(carryover.support),
        "judged_entries": judged.train.n_entries + judged.dev.n_entries,
        "train_margin": round(float(margins.mean()), 6) if len(margins) else 0.0,
        "dev_accuracy": fitted.dev_accuracy,
        "top_k": fitted.settings.top_k,
        "filler_weight": fitted.settings.filler_weight,
        **({} if fitted.choice is None else {"structure": fitted.choice.as_json()}),
    }
    gone = tuple(bank[place] for place in np.setdiff1d(np.arange(len(bank)), pruned.kept))
    return replace(fitted, record=record), replace(carryover, pruned=carryover.pruned + gone)
