"""The fits of a round: fit, prune, calibrate; the same for `svr train` and `svr-fit`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import FitConfig
from svr_async.fit.forward import Baselines, Selector, alpha_numpy, baselines
from svr_async.fit.history import EpochRecord, FitCurve, FitResult, FitWatch, watched
from svr_async.fit.training import calibrate, fit
from svr_async.scoring.bank import RoundFacts
from svr_async.training.bank.merge import drop_redundant, near_duplicates
from svr_async.training.rounds.config import TrainConfig
from svr_async.training.rounds.session import JudgedRound, Ledger, RoundCarryover
from svr_async.training.rounds.stages import Stages, digest_of

MOST_RATED, SAMPLE = 100_000, 5_000  # prompts: of more than that many, rates are counted on a sample
RECORDED = ("round", "bank", "kept", "support", "hard_negatives", "judged_entries", "train_margin", "dev_accuracy")
OnEpoch = Callable[[EpochRecord], None]
# The places of the kept rubrics, the calibrated selector, and the fit before it: None if nothing was fitted.
Pruned = tuple[NDArray[np.int64], Selector, FitResult | None]


@dataclass(slots=True, kw_only=True)
class FitLog:
    """The curves of all fits so far and the baselines by round; `watch` is called while a fit runs."""

    watch: FitWatch | None = None
    curves: list[FitCurve] = field(default_factory=list)
    baselines: dict[int, Baselines] = field(default_factory=dict)

    def run(self, fit: Callable[[OnEpoch], FitResult], curve: FitCurve) -> FitResult:
        """Run a fit, report its epochs and keep its curve."""
        result, done = watched(fit, curve, self.watch)
        self.curves.append(done)
        return result

    def measure(self, number: int, train: FitArrays, dev: FitArrays) -> None:
        """Fit the baselines of a round on the same entries, a pair's own left out; nothing without dev entries."""
        train, dev = train.without_own(), dev.without_own()
        if train.n_entries and dev.n_entries:
            self.baselines[number] = baselines(train, dev)

    def accuracies(self, number: int) -> tuple[float | None, float | None]:
        """Return the dev accuracies of the vote and of one weight per rubric of a round; None without dev entries."""
        found = self.baselines.get(number)
        return (None, None) if found is None else (round(found.vote_accuracy, 6), round(found.linear_accuracy, 6))

    def last(self, number: int) -> FitCurve | None:
        """Return the last curve of a round: that of the calibration, if there was one."""
        return next((curve for curve in reversed(self.curves) if curve.round == number), None)

    def facts(self, record: Mapping[str, Any]) -> RoundFacts:
        """Return what a bank keeps of a round: its record, and the dev numbers of the epoch that its fit took."""
        curve = self.last(record["round"])
        facts = {name: record[name] for name in RECORDED}
        if curve is not None and curve.best is not None:
            facts["active"] = curve.best.active
            facts |= {"dev_margin": round(curve.best.dev_margin, 6), "fit_accuracy": round(curve.best.dev_accuracy, 6)}
        vote, linear = self.accuracies(record["round"])
        return RoundFacts(**facts, vote_accuracy=vote, linear_accuracy=linear)


def fit_settings(config: TrainConfig) -> FitConfig:
    """Return the fit's settings, without the diversity term if that is ablated."""
    return replace(config.fit, diversity=0.0) if "diversity" in config.ablate else config.fit


def fit_and_prune(judged: JudgedRound, config: TrainConfig, log: FitLog, stages: Stages | None = None) -> Pruned:
    """Fit, prune, calibrate what is kept, and measure the baselines on it; fits that are in `stages` are read back."""
    kept = partial(_kept_fit, fit_settings(config), judged.number, log, stages)
    fitted = kept("fit", fit, judged.train, judged.dev)
    places = np.array(prune(config, judged, fitted.selector), dtype=np.int64)
    train, dev = judged.train.restrict_rubrics(places), judged.dev.restrict_rubrics(places)
    start = fitted.selector.restrict(places)
    calibrated = kept("calibrate", partial(calibrate, start), train, dev, start.kind, *start.tensors().values())
    log.measure(judged.number, train, dev)
    return places, calibrated.selector, fitted


def _kept_fit(
    config: FitConfig,
    number: int,
    log: FitLog,
    stages: Stages | None,
    phase: str,
    run: Callable[..., FitResult],
    train: FitArrays,
    dev: FitArrays,
    *start: Any,
) -> FitResult:
    """Fit and keep the result as a stage, if there are any; the same fit is read back."""

    def kept(on_epoch: OnEpoch) -> FitResult:
        if stages is None:
            return run(train, dev, config, on_epoch=on_epoch)
        stage, digest = f"{phase}-{number}", digest_of(phase, train.digest(), dev.digest(), config.as_json(), *start)
        result = stages.load(stage, digest, FitResult)
        if result is None:
            result = run(train, dev, config, on_epoch=on_epoch)
            stages.save(stage, digest, result)
        return result

    used = dev if config.use_own else dev.without_own()
    judged = int(np.count_nonzero(np.diff(used.z_indptr)))
    return log.run(kept, FitCurve(seed=config.seed, round=number, phase=phase, dev_pairs=judged))


def prune(config: TrainConfig, judged: JudgedRound, selector: Selector) -> list[int]:
    """Return the places kept: relevant by weight, activation or support, and repeating no more relevant one.

    The paper (`sec:prune`) leaves relevance open: here it is activation times weight, and activation is the mean alpha
    over the training prompts, or a sample of them. A bank is never left empty: the most relevant rubric stays. Before
    the last round a rubric that several prompts gave is kept until it has been judged often enough to differ
    from chance: a pruned rubric does not come back. That patience, and that weight counts only if a rubric is ever
    active, are ours, since the default's selector begins with equal weights; `config.PAPER` has neither, and finds
    repeats by similarity alone.
    """
    prompts = np.unique(judged.train.pair_prompt)
    prompts = prompts[rated(len(prompts))].tolist()
    alphas = (alpha_numpy(selector, *judged.train.features(row)) for row in prompts)
    activation = sum(alphas, np.zeros(len(judged.bank))) / max(1, len(prompts))
    relevance = activation * selector.weight
    relevant = selector.weight >= config.min_weight
    if not config.idle_weight_counts:
        relevant &= activation > 0
    relevant |= activation >= config.min_activation
    relevant |= np.array([judged.support.get(candidate.rubric.id, 0) > 0 for candidate in judged.bank])
    if not judged.last:
        several = np.array([candidate.observed_count >= config.several for candidate in judged.bank])
        relevant |= several & (judgements(judged.train) < config.enough_judged)
    order = np.argsort(-relevance, kind="stable")
    wanted = [int(place) for place in order if relevant[place]] or [int(order[0])]
    rubrics = [candidate.rubric for candidate in judged.bank]
    similar = near_duplicates(rubrics, config.redundancy_cutoff, by_text_alone=config.by_text_alone)
    return sorted(drop_redundant(wanted, similar))


def rated(count: int) -> NDArray[np.int64]:
    """Return the places of the training prompts on which rates are counted: all, or `SAMPLE` at even distances."""
    return np.arange(count) if count <= MOST_RATED else np.arange(SAMPLE) * count // SAMPLE


def judgements(arrays: FitArrays) -> NDArray[np.float64]:
    """Return how often each rubric was judged, an entry counting its weight, shape (n_rubrics,)."""
    counts = np.bincount(arrays.z_rubric, weights=arrays.z_weight, minlength=arrays.n_rubrics)
    return counts.astype(np.float64)


def support_counts(carryover: RoundCarryover, ledger: Ledger, index: Mapping[str, int]) -> dict[str, int]:
    """Count, for each rubric, the support pairs and hard negatives on which it clearly favours the chosen response.

    The pairs are those that the round was fitted with, found at the end of the one before. The paper's "support-pair
    coverage" has neither a definition nor a threshold: here one such pair is enough.
    """
    counts: Counter[int] = Counter()
    for pair_id in (*carryover.support, *(negative.pair.id for negative in carryover.negatives)):
        rubric, z = ledger.entries(pair_id, index)
        counts.update(int(place) for place in rubric[z > 0.5])
    ids = list(index)
    return {ids[place]: count for place, count in counts.items()}
