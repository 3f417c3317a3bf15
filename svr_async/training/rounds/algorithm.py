"""Algorithm 1: induce, then for each round merge, judge, fit, prune, calibrate, find support, probe, induce again.

Every stage is a pure function of its inputs and is kept on disk (`stages.py`), and judge calls are cached. A
killed run resumes where it was and ends with the same bank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from svr_async.core.pair import hashed_order, present
from svr_async.errors import DegenerateFitError
from svr_async.fit.arrays import FitArrays
from svr_async.fit.forward import Selector, alpha_numpy, fit_linear, linear_margins
from svr_async.fit.history import EpochRecord, FitCurve, FitResult, FitWatch, watched
from svr_async.fit.training import calibrate, fit
from svr_async.scoring.bank import BankRubric, InferenceSettings
from svr_async.scoring.bank_card import enough, known_accuracy
from svr_async.scoring.selection import Active, select
from svr_async.training.bank.merge import drop_redundant, merge, near_duplicates, without
from svr_async.training.rounds.config import Publish, TrainConfig
from svr_async.training.rounds.induction import extend, grouped, induced
from svr_async.training.rounds.pools import Task, judge_pools, judge_tasks, sign_of
from svr_async.training.rounds.session import (
    ONE_WEIGHT,
    VOTE,
    FittedRound,
    Hits,
    JudgedRound,
    RoundCarryover,
    Session,
    rated,
)
from svr_async.training.rounds.stages import Stages, digest_of, from_cache, unanswered_lines

OnEpoch = Callable[[EpochRecord], None]
NO_RUBRIC = "ask a stronger judge, or give pairs whose responses differ in ways that a rubric can name"
DIRECTLY = "the judge asked directly"
USES = {
    VOTE: "svr eval --method uniform with this bank",
    ONE_WEIGHT: "svr-fit {store} --out DIR --sweep groups=1",
    DIRECTLY: "svr eval --method direct with this judge",
}


# ── one fit, the same for svr train and svr-fit ───────────────────────────────────────────────────────────────────────


def fit_and_prune(
    judged: JudgedRound, config: TrainConfig, watch: FitWatch | None = None, stages: Stages | None = None
) -> FittedRound:
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

    result = kept("fit", fit, judged.train, judged.dev)
    places = np.array(prune(config, judged, result.selector), dtype=np.int64)
    train, dev = judged.train.restrict_rubrics(places), judged.dev.restrict_rubrics(places)
    start = result.selector.restrict(places)
    calibrated = kept("calibrate", partial(calibrate, start), train, dev, start.kind, *start.tensors().values())
    hits = baseline_hits(train, dev)
    return judged.fitted(places, calibrated.selector, result=result, curves=tuple(curves), baselines=hits)


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


def fitted_round(session: Session, judged: JudgedRound) -> FittedRound:
    """Fit, prune and calibrate a round; its fits are kept on disk."""
    fitted = fit_and_prune(judged, session.config, session.watch, session.stages)
    if (result := fitted.result) is not None:
        how = f"best epoch {result.best_epoch}" if result.choice is None else result.choice.in_words()
        accuracy = known_accuracy(result.dev_accuracy, fitted.curves[0].dev_pairs)
        session.say(f"round {judged.number} fitted: {how}{accuracy}")
    return fitted


# ── rounds ────────────────────────────────────────────────────────────────────────────────────────────────────────────


RoundFit = Callable[[Session, JudgedRound], FittedRound]


async def run_rounds(session: Session, *, fit: RoundFit = fitted_round) -> list[FittedRound]:
    """Run Algorithm 1 and return every round; the caller chooses which one is published."""
    config = session.config
    carryover = RoundCarryover(candidates=await induced(session, "induce-1", session.material.train, {}))
    rounds: list[FittedRound] = []
    for number in range(1, config.rounds + 1):
        session.judges.before_stage()
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
    session.judges.before_stage()
    fitted = fit(session, judged)
    await judge_missing(session, fitted)
    judged = replace(judged, measured=session.arrays(indexed, material.dev))
    fitted = in_use(judged, config, fitted)
    session.keep_round(judged)
    margins = session.margins(fitted.selector, judged.train.restrict_rubrics(fitted.kept))
    record: dict[str, Any] = {  # a `RoundFacts`, and the settings
        "round": number,
        "bank": len(bank),
        "kept": len(fitted.bank),
        "hard_negatives": len(negatives),
        "support": len(carryover.support),
        "judged_entries": judged.train.n_entries + judged.dev.n_entries,
        "train_margin": round(float(margins.mean()), 6) if len(margins) else 0.0,
        "dev_accuracy": fitted.dev_accuracy,
        **fitted.accuracies,
        "top_k": fitted.settings.top_k,
        "filler_weight": fitted.settings.filler_weight,
        **({} if fitted.choice is None else {"structure": fitted.choice.as_json()}),
    }
    if fitted.curves and (best := fitted.curves[-1].best) is not None:
        record |= {"active": best.active, "dev_margin": round(best.dev_margin, 6)}
        record["fit_accuracy"] = round(best.dev_accuracy, 6)
    gone = tuple(bank[place] for place in np.setdiff1d(np.arange(len(bank)), fitted.kept))
    return replace(fitted, record=record), replace(carryover, pruned=carryover.pruned + gone)


# ── in use on the dev split ───────────────────────────────────────────────────────────────────────────────────────────


async def judge_missing(session: Session, fitted: FittedRound) -> None:
    """Judge the dev pairs on the rubrics that they would get at inference, unless they were judged."""
    config, material, selector = session.config, session.material, fitted.selector
    index = {candidate.id: place for place, candidate in enumerate(fitted.bank)}
    texts = [candidate.text for candidate in fitted.bank]
    widest = _settings(config, max(config.top_k, *config.fit.top_ks), filler_weight=1.0)
    tasks: list[Task] = []
    for pair in material.dev:
        alpha = alpha_numpy(selector, *material.features_of(material.row(pair)))
        known = set(session.ledger.asked(pair.id, index).tolist())
        wanted = [entry.index for entry in select(alpha, selector.weight, texts, widest)]
        tasks.append((pair, [fitted.bank[place].rubric for place in wanted if place not in known]))
    await judge_tasks(session, f"dev-{fitted.number}", tasks)


def in_use(judged: JudgedRound, config: TrainConfig, fitted: FittedRound) -> FittedRound:
    """Return a fitted round with the settings for use, and the hits on dev pairs that were judged as at inference.

    A chosen structure sets top_k. If it was no better than guessing, the judge decides directly. A missing entry
    counts 0.
    """
    dev, choice = judged.measured.restrict_rubrics(fitted.kept), fitted.choice
    top_k, direct = (config.top_k, False) if choice is None else (choice.structure.top_k, not choice.is_proven)
    settings = _settings(config, top_k, filler_weight=config.filler_weight, direct=direct)
    fitted = replace(fitted, settings=settings, dev=dev, dev_hits=np.zeros(dev.n_pairs))
    for pair, active, entries in _used(fitted):
        fitted.dev_hits[pair] = hits_of(sum(entry.importance * entries.get(entry.index, 0.0) for entry in active))
    return fitted


def hits_of(margins: Any) -> Any:
    """Return 1 for a margin above 0, 0.5 for a tie, 0 below."""
    return (1 + np.sign(margins)) / 2


def unjudged_share(fitted: FittedRound) -> float:
    """Return the share of the entries that a round's settings need for the dev pairs and that are missing.

    After `judge_missing` only abstentions are. A store that was judged for another bank may lack many.
    """
    missing = [entry.index not in entries for _, active, entries in _used(fitted) for entry in active]
    return sum(missing) / max(1, len(missing))


def _used(fitted: FittedRound) -> Iterator[tuple[int, Sequence[Active], dict[int, Any]]]:
    """Yield each dev pair with the rubrics that it gets and its entries by rubric, pairs of a prompt together."""
    dev, selector, texts = fitted.dev, fitted.selector, [rubric.text for rubric in fitted.bank]
    weighted = dev.weighted
    row = -1
    active: Sequence[Active] = ()
    for pair in np.argsort(dev.pair_prompt, kind="stable").tolist():
        if row != (row := int(dev.pair_prompt[pair])):
            active = select(alpha_numpy(selector, *dev.features(row)), selector.weight, texts, fitted.settings)
        span = slice(int(dev.z_indptr[pair]), int(dev.z_indptr[pair + 1]))
        yield pair, active, dict(zip(dev.z_rubric[span].tolist(), weighted[span], strict=True))


def _settings(config: TrainConfig, top_k: int, **changes: Any) -> InferenceSettings:
    pool = max(config.selection_pool, top_k)
    return InferenceSettings(top_k=top_k, selection_pool=pool, **changes)


def chosen_round(rounds: Sequence[FittedRound], n_dev: int, publish: Publish = "auto") -> FittedRound:
    """Return the round whose bank is published; `n_dev` dev pairs were judged.

    `last` is Algorithm 1. `best` is by dev accuracy, the first of equals, as in the authors' public code; on a small
    dev split that is chance, and later rounds have seen more judgements. `auto`, which is ours, is the last unless an
    earlier one is better by more than a standard error.
    """
    top = max(rounds, key=lambda one: one.dev_accuracy)
    if publish != "auto":
        return top if publish == "best" else rounds[-1]
    error = (top.dev_accuracy * (1 - top.dev_accuracy) / max(1, n_dev)) ** 0.5
    return next(one for one in reversed(rounds) if one.dev_accuracy >= top.dev_accuracy - error)


# ── simpler ways to decide ──────────────────────────────────────────────────────────────────────────────────────────


async def direct_hits(session: Session) -> dict[str, Hits]:
    """Return the hits of a model's direct verdicts on the dev pairs, by name; {} unless all are in the cache."""
    judges, dev, hits = session.judges, session.material.dev, []
    with from_cache(judges.shutdown.engines):
        for pair in dev if judges.shutdown.engines else ():
            answer = await judges.judge.prefer(present(pair, hashed_order(pair.id)))
            if answer.value is None:
                break
            hits.append(hits_of(sign_of(pair) * answer.value.margin))
    return {DIRECTLY: np.array(hits)} if len(hits) == len(dev) else {}


def baseline_hits(train: FitArrays, dev: FitArrays) -> dict[str, Hits]:
    """Fit the baselines, a pair's own entries left out, and return their hits by name; {} without dev entries."""
    train, dev = train.without_own(), dev.without_own()
    if not (train.n_entries and dev.n_entries):
        return {}
    weights = {VOTE: np.ones(dev.n_rubrics), ONE_WEIGHT: fit_linear(train)}
    return {name: hits_of(linear_margins(weight, dev)) for name, weight in weights.items()}


def better_than_bank(bank: Hits, others: Mapping[str, Hits], store: str) -> str:
    """Return a sentence if another way decides the dev pairs better by more than the standard error; else "".

    The error is that of the mean difference, pair by pair. With too few dev pairs nothing is reported.
    """
    gains = {name: hits - bank for name, hits in others.items() if enough(len(bank))}
    errors = {name: float(gain.std(ddof=1)) / len(gain) ** 0.5 for name, gain in gains.items()}
    found = [(float(gain.mean()), errors[name], name) for name, gain in gains.items() if gain.mean() > errors[name]]
    if not found:
        return ""
    gain, error, name = max(found)
    accuracy = f"{100 * (float(bank.mean()) + gain):.1f} % against {100 * float(bank.mean()):.1f} %"
    how = USES[name].format(store=store)
    return f"{name} is better than the bank on {len(bank)} held-out pairs ({accuracy}, ± {100 * error:.1f}): use {how}"
