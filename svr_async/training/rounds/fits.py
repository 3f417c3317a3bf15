"""The fits of a round: selector and weights on the judged entries, and the short calibration after pruning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svr_async.core.dev_pairs import accuracy_in_words
from svr_async.fit.arrays import FitArrays
from svr_async.fit.baselines import Baselines, baselines
from svr_async.fit.choices import Choice
from svr_async.fit.config import FitConfig
from svr_async.fit.forward import Selector, alpha_numpy
from svr_async.fit.history import FitCurve, FitResult, FitWatch, watched
from svr_async.fit.learning_curve import LearningCurve
from svr_async.fit.training import OnEpoch, calibrate, fit, pair_margins
from svr_async.scoring.bank_history import BankHistory, RoundFacts, TrainedOn
from svr_async.training.bank.merge import Candidate
from svr_async.training.bank.near_duplicates import SimilarPairs, drop_redundant, repeating_pairs, similar_pairs
from svr_async.training.rounds.config import TrainConfig
from svr_async.training.rounds.session import FittedRound, Growth, Ledger, RoundData, Session
from svr_async.training.rounds.stages import choice_from_values, digest_of, kept_fit

COUNTS = ("round", "bank", "kept", "support", "hard_negatives", "judged_entries")


@dataclass(slots=True, kw_only=True)
class FitLog:
    """The curves of all fits so far and the yardsticks by round; `watch` is told while a fit runs."""

    watch: FitWatch | None = None
    curves: list[FitCurve] = field(default_factory=list)
    yardsticks: dict[int, Baselines] = field(default_factory=dict)

    def last(self, number: int) -> FitCurve | None:
        """Return the last curve of a round: that of the calibration, where there was one."""
        return next((curve for curve in reversed(self.curves) if curve.round == number), None)


def empty_curve(config: FitConfig, dev: FitArrays, *, number: int = 0, phase: str = "fit") -> FitCurve:
    """Return the curve of a fit that is about to begin, with the dev pairs that its accuracy will be over."""
    used = dev if config.use_own else dev.without_own()
    return FitCurve(
        seed=config.seed, round=number, phase=phase, dev_pairs=int(np.count_nonzero(np.diff(used.z_indptr)))
    )


def yardsticks_of(train: FitArrays, dev: FitArrays) -> Baselines | None:
    """Return vote and linear fit on the same entries, a pair's own left out; None where dev has none."""
    train, dev = train.without_own(), dev.without_own()
    return baselines(train, dev) if train.n_entries and dev.n_entries else None


def training_history(
    log: FitLog,
    rounds: Sequence[FittedRound],
    chosen: FittedRound,
    trained_on: TrainedOn,
    warnings: Sequence[str],
    learned: LearningCurve | None = None,
) -> BankHistory:
    """Return the history of a training's bank."""
    last = log.last(chosen.number)
    vote, linear = _beside(log, chosen.number)
    return BankHistory(
        trained_on=trained_on,
        curves=tuple(log.curves),
        rounds=tuple(round_facts(one.record, log) for one in rounds),
        chosen_round=chosen.number,
        chosen_seed=last.seed if last else 0,
        vote_accuracy=vote,
        linear_accuracy=linear,
        warnings=tuple(warnings),
        choice=choice_from_values(chosen.record.get("structure")),
        learning_curve=learned,
    )


def round_facts(record: Mapping[str, Any], log: FitLog) -> RoundFacts:
    """Return what is kept of a round: its record, and the dev numbers of the epoch that its fit took."""
    curve = log.last(record["round"])
    best = curve.best if curve else None
    vote, linear = _beside(log, record["round"])
    return RoundFacts(
        **{name: int(record[name]) for name in COUNTS},
        active=best.active if best else None,
        train_margin=float(record["train_margin"]),
        dev_margin=round(best.dev_margin, 6) if best else None,
        dev_accuracy=float(record["dev_accuracy"]),
        fit_accuracy=round(best.dev_accuracy, 6) if best else None,
        vote_accuracy=vote,
        linear_accuracy=linear,
    )


def _beside(log: FitLog, number: int) -> tuple[float | None, float | None]:
    """Return the accuracies of vote and linear fit of a round; None where there was no dev split."""
    found = log.yardsticks.get(number)
    return (None, None) if found is None else (round(found.vote_accuracy, 6), round(found.linear_accuracy, 6))


MOST_RATED, SAMPLE = 100_000, 20_000  # prompts: of more than that many, rates are counted on a sample


def prune(
    config: TrainConfig,
    bank: Sequence[Candidate],
    selector: Selector,
    activation: NDArray[np.float64],
    support: Mapping[str, int],
    judged: NDArray[np.floating],
    *,
    last: bool,
) -> list[int]:
    """Return the places kept: relevant by weight, activation or support, and repeating no more relevant one.

    Relevance is activation times weight, which the paper leaves open. A bank is never left empty: where nothing is
    relevant, the most relevant rubric stays. Before the `last` round a rubric that several prompts gave is kept until
    it has been `judged` often enough to be told apart from chance: what is pruned does not come back. That patience,
    and that weight counts only where a rubric is ever active, are ours, since the default's selector begins with equal
    weights; `config.PAPER` has neither, and repeats are found there by similarity alone.
    """
    relevance = activation * selector.weight
    covered = np.array([support.get(candidate.rubric.id, 0) > 0 for candidate in bank])
    relevant = selector.weight >= config.min_weight
    if not config.idle_weight_counts:
        relevant &= activation > 0
    relevant |= (activation >= config.min_activation) | covered
    if not last:
        several = np.array([candidate.observed_count >= config.several for candidate in bank])
        relevant |= several & (judged < config.enough_judged)
    order = np.lexsort((np.arange(len(bank)), -relevance))
    wanted = [int(place) for place in order if relevant[place]] or [int(order[0])]
    return sorted(drop_redundant(wanted, _repeats(bank, config), config.redundancy_cutoff))


def _repeats(bank: Sequence[Candidate], config: TrainConfig) -> SimilarPairs:
    """Return which rubrics repeat each other by their texts; without different criteria, unless texts alone decide."""
    rubrics = [candidate.rubric for candidate in bank]
    similar = similar_pairs([rubric.text for rubric in rubrics], config.redundancy_cutoff)
    return similar if config.by_text_alone else repeating_pairs(similar, rubrics)


def activation_rates(selector: Selector, train: FitArrays) -> NDArray[np.float64]:
    """Return the mean alpha of each rubric over the training prompts, or a sample of them, shape (n_rubrics,)."""
    rows = np.unique(train.pair_prompt)
    rows = rows[rated(len(rows))]
    total = np.zeros(selector.n_rubrics)
    for row in rows.tolist():
        total += alpha_numpy(selector, *train.features(row))
    return total / max(1, len(rows))


def rated(count: int) -> NDArray[np.int64]:
    """Return the places of the training prompts on which rates are counted: all, or `SAMPLE` at even distances."""
    return np.arange(count) if count <= MOST_RATED else np.arange(SAMPLE) * count // SAMPLE


def support_counts(growth: Growth, ledger: Ledger, index: Mapping[str, int]) -> dict[str, int]:
    """Count, for each rubric, the support pairs and hard negatives on which it clearly favours the chosen response.

    The pairs are those that the round was fitted with, found at the end of the one before. The paper's "support-pair
    coverage" has neither a definition nor a threshold: here one such pair is enough.
    """
    counts: Counter[int] = Counter()
    for pair_id in (*growth.support, *(negative.pair.id for negative in growth.negatives)):
        rubric, z = ledger.entries(pair_id, index)
        counts.update(int(place) for place in rubric[z > 0.5])
    ids = list(index)
    return {ids[place]: count for place, count in counts.items()}


Fit = Callable[[FitArrays, FitArrays], FitResult]  # train, dev
Calibrate = Callable[[Selector, FitArrays, FitArrays], Selector]


def fit_and_prune(
    data: RoundData, config: TrainConfig, fit: Fit, calibrate: Calibrate
) -> tuple[NDArray[np.int64], Selector, Choice | None]:
    """Return the places of the rubrics that are kept, the selector of those, and the structure that was chosen.

    `fit` and `calibrate` are how the caller runs a fit: with what checkpoints, and who is told.
    """
    fitted = fit(data.train, data.dev)
    selector = fitted.selector
    rates = activation_rates(selector, data.train)
    kept = prune(config, data.bank, selector, rates, data.support, judgements(data.train), last=data.last)
    places = np.array(kept, dtype=np.int64)
    train, dev = data.train.restrict_rubrics(places), data.dev.restrict_rubrics(places)
    return places, calibrate(selector.restrict(places), train, dev), fitted.choice


def judgements(arrays: FitArrays) -> NDArray[np.float64]:
    """Return how often each rubric was judged, an entry counting its weight, shape (n_rubrics,)."""
    counts = np.bincount(arrays.z_rubric, weights=arrays.z_weight, minlength=arrays.n_rubrics)
    return counts.astype(np.float64)


def fit_round(
    session: Session, number: int, train: FitArrays, dev: FitArrays, *, log: FitLog | None = None
) -> FitResult:
    """Fit one round, or read it back; a fit that was killed goes on. The curve goes to the log."""
    config, log = fit_settings(session.config), log or FitLog()
    inputs = ("fit", train.digest(), dev.digest(), config.as_json())

    def run(on_epoch: OnEpoch) -> FitResult:
        return kept_fit(session.stages, f"fit-{number}", inputs, partial(fit, train, dev, config), on_epoch)

    result, curve = watched(run, empty_curve(config, dev, number=number), log.watch)
    log.curves.append(curve)
    told = accuracy_in_words(result.dev_accuracy, curve.dev_pairs)
    how = f"best epoch {result.best_epoch}" if result.choice is None else result.choice.in_words()
    session.say(f"round {number}: fit ended, {how}, {told}")
    return result


def calibrate_round(
    session: Session, number: int, selector: Selector, train: FitArrays, dev: FitArrays, *, log: FitLog | None = None
) -> Selector:
    """Go on for a few epochs at a lower rate with the kept rubrics; curve and yardsticks go to the log."""
    config, log = fit_settings(session.config), log or FitLog()
    start = [selector.kind, *(digest_of(array) for _, array in sorted(selector.tensors().items()))]
    inputs = ("calibrate", train.digest(), dev.digest(), config.as_json(), start)

    def run(on_epoch: OnEpoch) -> FitResult:
        again = partial(calibrate, selector, train, dev, config)
        return kept_fit(session.stages, f"calibrate-{number}", inputs, again, on_epoch)

    result, curve = watched(run, empty_curve(config, dev, number=number, phase="calibrate"), log.watch)
    log.curves.append(curve)
    if (beside := yardsticks_of(train, dev)) is not None:
        log.yardsticks[number] = beside
    return result.selector


def fit_settings(config: TrainConfig) -> FitConfig:
    """Return the fit's settings, without the diversity term where that is ablated."""
    return replace(config.fit, diversity=0.0) if "diversity" in config.ablate else config.fit


def margins_with(_config: FitConfig, selector: Selector, arrays: FitArrays) -> NDArray[np.float32]:
    """Return F of every pair as the fit sees it, shape (n_pairs,)."""
    return pair_margins(selector, arrays)
