"""The fits of one store: every seed, the best of them, pruned and calibrated, and the settings for use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from svr_async.errors import ArtefactError
from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import FitConfig
from svr_async.fit.forward import Selector
from svr_async.fit.history import FitCurve, FitResult, FitWatch, watched
from svr_async.fit.linear import Baselines
from svr_async.fit.topics import Solved
from svr_async.fit.training import OnEpoch, calibrate, fit
from svr_async.scoring.bank import InferenceSettings
from svr_async.training.bank.merge import Candidate
from svr_async.training.rounds.config import TrainConfig
from svr_async.training.rounds.dev_choice import choose_settings, unjudged_share
from svr_async.training.rounds.fit_log import empty_curve, yardsticks_of
from svr_async.training.rounds.round_fit import fit_and_prune
from svr_async.training.store.arrays import StoredRound


@dataclass(slots=True, kw_only=True)
class FitRuns:
    """The fits of one command: every seed, the best of them, and its calibration; curves and results as they come."""

    out: Path
    config: FitConfig
    seeds: int
    watch: FitWatch | None
    solved: Solved | None = None  # the solution of the only seed, where somebody has it
    results: list[FitResult] = field(default_factory=list)
    curves: list[FitCurve] = field(default_factory=list)
    yardsticks: Baselines | None = None

    @property
    def best(self) -> int:
        """The place of the result with the best dev accuracy, then the lower dev loss, then the earlier."""
        ranks = [(result.dev_accuracy, -result.dev_loss, -place) for place, result in enumerate(self.results)]
        return ranks.index(max(ranks))

    @property
    def chosen(self) -> FitConfig:
        """The settings with the seed that was the best."""
        return replace(self.config, seed=self.config.seed + self.best)

    def fit(self, train: FitArrays, dev: FitArrays) -> FitResult:
        """Fit once for each seed and return the best."""
        for number in range(self.seeds):
            config = replace(self.config, seed=self.config.seed + number)
            folder = self.out / "fit" / f"seed-{config.seed}"
            once = partial(fit, solved=self.solved)
            self.results.append(self._run(once, (train, dev, config), empty_curve(config, dev), folder))
        return self.results[self.best]

    def calibrate(self, selector: Selector, train: FitArrays, dev: FitArrays) -> Selector:
        """Go on for a few epochs with the rubrics that are left, and measure the yardsticks on them."""
        config = self.chosen
        folder = self.out / "fit" / f"seed-{config.seed}-calibrate"
        curve = empty_curve(config, dev, phase="calibrate")
        self.yardsticks = yardsticks_of(train, dev)
        return self._run(calibrate, (selector, train, dev, config), curve, folder).selector

    def _run(self, what: Callable[..., FitResult], args: tuple[Any, ...], curve: FitCurve, folder: Path) -> FitResult:
        def run(on_epoch: OnEpoch) -> FitResult:
            return what(*args, on_epoch=on_epoch, checkpoint_dir=folder, resume=True)

        try:
            result, done = watched(run, curve, self.watch)
        except ArtefactError as error:
            hint = f"name another folder with --out, or remove {folder}"
            raise ArtefactError(error.message, hint=hint) from error
        self.curves.append(done)
        return result


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """What a fit came to: the kept rubrics, their selector, the settings for use, and how it does on dev.

    `accuracy` over `dev_pairs` is None where none was judged; `missing` is the share of dev entries that use would
    need and the store does not have.
    """

    bank: tuple[Candidate, ...]
    selector: Selector
    settings: InferenceSettings
    accuracy: float | None
    missing: float
    dev_pairs: int


def fit_stored(stored: StoredRound, config: TrainConfig, runs: FitRuns) -> Outcome:
    """Fit, prune, calibrate, and choose what is used for a prompt, by the functions that training calls."""
    kept, selector, choice = fit_and_prune(stored.data, config, runs.fit, runs.calibrate)
    bank = tuple(stored.data.bank[place] for place in kept)
    texts, dev = [candidate.rubric.text for candidate in bank], stored.measured.restrict_rubrics(kept)
    settings, accuracy = choose_settings(config, selector, texts, dev, choice)
    return Outcome(
        bank=bank,
        selector=selector,
        settings=settings,
        accuracy=accuracy if dev.n_entries else None,
        missing=unjudged_share(settings, selector, texts, dev) if dev.n_entries else 0.0,
        dev_pairs=dev.n_pairs,
    )
