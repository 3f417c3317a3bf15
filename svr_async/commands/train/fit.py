"""The work behind `svr-fit`: a feature store in, a bank out, as a round of training makes it. Loaded only for a fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import orjson

from svr_async.commands.places import keep_bank, open_folder
from svr_async.commands.report import write_bank_report
from svr_async.commands.train.epochs import fit_screen
from svr_async.commands.train.learning import learned_curve, print_learning, require_solved
from svr_async.errors import ArtefactError, DegenerateFitError
from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import FitConfig
from svr_async.fit.forward import Selector
from svr_async.fit.history import FitCurve, FitResult, FitWatch, watched
from svr_async.fit.learning_curve import LearningCurve
from svr_async.fit.linear import Baselines
from svr_async.fit.tfidf import Vocabulary
from svr_async.fit.training import OnEpoch, calibrate, fit, spread
from svr_async.scoring.bank import InferenceSettings, RubricBank
from svr_async.scoring.bank_history import BankHistory, TrainedOn
from svr_async.training.banking import Features, assemble, describe
from svr_async.training.choosing import choose_settings, unjudged_share
from svr_async.training.config import TrainConfig
from svr_async.training.fit_log import empty_curve, yardsticks_of
from svr_async.training.fitting import fit_settings
from svr_async.training.merge import Candidate
from svr_async.training.plans import FitPlan, config_of
from svr_async.training.round_fit import fit_and_prune
from svr_async.training.store import FeatureStore
from svr_async.training.store_arrays import StoredRound, stored_round
from svr_async.vocabulary.dev_pairs import accuracy_in_words, enough, small_dev_warnings

FEW_MISSING = 0.01  # of the dev entries that use would need; with more missing a warning is due


@dataclass(frozen=True, slots=True, kw_only=True)
class FitFlags:
    """The flags of `svr-fit`, by name; None where the store's own plan decides."""

    store: Path
    out: Path
    preset: str | None
    epochs: int | None
    seed: int | None
    seeds: int
    top_k: int | None
    licence: str
    quiet: bool
    as_json: bool
    learning_curve: bool = False


@dataclass(slots=True, kw_only=True)
class FitRuns:
    """The fits of one command: every seed, the best of them, and its calibration; curves and results as they come."""

    out: Path
    config: FitConfig
    seeds: int
    watch: FitWatch | None
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
            self.results.append(self._run(fit, (train, dev, config), empty_curve(config, dev), folder))
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


def run_command(flags: FitFlags) -> int:
    """Fit and return the exit code; SvrError for a store that fails its checks, or has nothing to learn from."""
    store = FeatureStore.load(flags.store)
    if not store.rubrics:
        raise DegenerateFitError(f"{flags.store} holds 0 rubrics", hint="induce some: svr induce, then svr judge")
    keep_bank(flags.out, "fit")
    open_folder(flags.out)
    plan = plan_for(flags, store.header.plan)
    config = with_epochs(config_of(plan), flags.epochs)
    require_solved(config, flags.learning_curve)
    settings = fit_settings(config)
    stored = stored_round(store, cutoff=config.redundancy_cutoff)
    with fit_screen(seeds=flags.seeds, epochs=settings.epochs, quiet=flags.quiet or flags.as_json) as watch:
        runs = FitRuns(out=flags.out, config=settings, seeds=flags.seeds, watch=watch)
        outcome = fit_stored(stored, config, runs)
    complete = plan.free or (plan.round > 0 and plan == store.header.plan)  # what is missing, the judge abstained from
    missing = [] if complete else _missing_warnings(outcome)
    record = make_record(runs, outcome, [*_dev_warnings(store), *missing])
    learned = learned_curve(stored.data.train, config, _said(flags)) if flags.learning_curve else None
    record |= {} if learned is None else {"learning_curve": learned.as_json()}
    history = _history(store, plan, runs, record, learned)
    _bank(flags, store, stored, runs, outcome, history).save(flags.out / "bank")
    write_bank_report(flags.out / "bank", flags.out / "report.html")
    if flags.as_json:
        click.echo(orjson.dumps(record, option=orjson.OPT_INDENT_2))
    else:
        _print_record(record, flags.out)
        print_learning(learned)
    return 0


def _said(flags: FitFlags) -> Callable[[str], None]:
    return lambda text: None if flags.quiet else click.echo(text, err=True)


def plan_for(flags: FitFlags, plan: FitPlan) -> FitPlan:
    """Return the store's plan with what the flags say over it."""
    return replace(
        plan,
        preset=flags.preset or plan.preset,
        seed=plan.seed if flags.seed is None else flags.seed,
        top_k=flags.top_k or plan.top_k,
    )


def with_epochs(config: TrainConfig, epochs: int | None) -> TrainConfig:
    """Return the settings with another number of epochs, where one is given."""
    return config if epochs is None else replace(config, fit=replace(config.fit, epochs=epochs))


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


def _missing_warnings(outcome: Outcome) -> list[str]:
    if outcome.missing <= FEW_MISSING:
        return []
    share = f"{100 * outcome.missing:.0f} % of the judgements that the dev pairs need in use are not in the store"
    return [f"{share}, unasked or abstained from: they count 0, so the dev accuracy is rough"]


def _dev_warnings(store: FeatureStore) -> list[str]:
    own = store.negative_of < 0  # a hard negative is no pair of the data
    n_dev = int((own & store.is_dev).sum())
    return small_dev_warnings(n_dev, int(own.sum())) if n_dev else []


def make_record(runs: FitRuns, outcome: Outcome, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """Return what a fit reports: dev accuracy as used and of the best seed's fit, the spread, the yardsticks."""
    best, beside = runs.results[runs.best], runs.yardsticks
    mean, deviation = spread(runs.results)
    return {
        "dev_accuracy": outcome.accuracy,
        "dev_pairs": outcome.dev_pairs,
        "fit_accuracy": round(best.dev_accuracy, 6),
        "rubrics": len(outcome.bank),
        "top_k": outcome.settings.top_k,
        "filler_weight": outcome.settings.filler_weight,
        "dev_unjudged": round(outcome.missing, 6),
        "best_epoch": best.best_epoch,
        "seeds": len(runs.results),
        "dev_accuracy_mean": round(mean, 6),
        "dev_accuracy_sd": round(deviation, 6),
        "vote_accuracy": None if beside is None else round(beside.vote_accuracy, 6),
        "linear_accuracy": None if beside is None else round(beside.linear_accuracy, 6),
        "device": best.device,
        "warnings": [*warnings, *best.warnings],
        "history": [record.as_json() for record in best.history],
    }


def _history(
    store: FeatureStore, plan: FitPlan, runs: FitRuns, record: Mapping[str, Any], learned: LearningCurve | None
) -> BankHistory:
    own = store.negative_of < 0  # a hard negative is no pair of the data
    n_train, n_dev = int((own & ~store.is_dev).sum()), int((own & store.is_dev).sum())
    return BankHistory(
        trained_on=TrainedOn(train_pairs=n_train, dev_pairs=n_dev, preset=plan.preset, ablate=plan.ablate),
        curves=tuple(runs.curves),
        chosen_seed=runs.chosen.seed,
        vote_accuracy=record["vote_accuracy"],
        linear_accuracy=record["linear_accuracy"],
        warnings=tuple(record["warnings"]),
        choice=runs.results[runs.best].choice,
        learning_curve=learned,
    )


def _bank(
    flags: FitFlags, store: FeatureStore, stored: StoredRound, runs: FitRuns, outcome: Outcome, history: BankHistory
) -> RubricBank:
    vocabulary = Vocabulary(terms=dict(store.header.vocabulary), idf=np.asarray(store.header.idf))
    prompts, support = _training_prompts(store), stored.data.support
    rubrics = describe(outcome.bank, outcome.selector, prompts, support=support, domains=_training_domains(store))
    metrics = {"accuracy": outcome.accuracy, "pairs": stored.measured.n_pairs}
    return assemble(
        rubrics,
        outcome.selector,
        vocabulary,
        outcome.settings,
        fit_settings=runs.chosen.as_json(),
        dev_metrics={} if outcome.accuracy is None else metrics,
        judge=store.header.judge,
        licence=flags.licence,
        prompts_digest=store.header.prompts_digest,
        data_digests=dict(store.header.data_digests),
        history=history,
    )


def _training_domains(store: FeatureStore) -> dict[str, str]:
    """Return the domain of each training pair."""
    columns = store.pair_ids, store.pairs["domain"].to_pylist(), store.is_dev.tolist(), store.negative_of.tolist()
    return {pair: domain for pair, domain, dev, of in zip(*columns, strict=True) if not dev and of < 0}


def _training_prompts(store: FeatureStore) -> list[tuple[str, Features]]:
    """Return (first pair id, features) of each training prompt."""
    first: dict[int, str] = {}
    for pair_id, row, dev in zip(store.pair_ids, store.prompt_row.tolist(), store.is_dev.tolist(), strict=True):
        if not dev:
            first.setdefault(row, pair_id)
    features = store.features
    borders = features.indptr
    return [
        (pair_id, (features.index[borders[row] : borders[row + 1]], features.value[borders[row] : borders[row + 1]]))
        for row, pair_id in first.items()
    ]


def _print_record(record: Mapping[str, Any], out: Path) -> None:
    taken = f"epoch {record['best_epoch']}" if record["best_epoch"] else "the start, before any epoch"
    measured = record["dev_accuracy"]
    accuracy = "no dev pair was judged" if measured is None else accuracy_in_words(measured, record["dev_pairs"])
    click.echo(f"{accuracy} ({taken}, {record['device']})")
    click.echo(f"rubrics    {record['rubrics']} kept, up to {record['top_k']} for a prompt")
    told = enough(record["dev_pairs"])
    if told and record["seeds"] > 1:
        mean, deviation = 100 * record["dev_accuracy_mean"], 100 * record["dev_accuracy_sd"]
        click.echo(f"over {record['seeds']} seeds {mean:.1f} % ± {deviation:.1f}")
    if told and record["linear_accuracy"] is not None:
        click.echo(f"beside it  unweighted vote {100 * record['vote_accuracy']:.1f} %")
        click.echo(f"           one weight per rubric for all prompts {100 * record['linear_accuracy']:.1f} %")
    for warning in record["warnings"]:
        click.echo(f"warning    {warning}")
    click.echo(f"bank       {out / 'bank'}")
    click.echo(f"report     {out / 'report.html'}")
