"""A bank from a feature store without judge or network: one fit, a sweep of settings, and the learning curve."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from svr_async.core.files import open_folder, write_atomic
from svr_async.errors import DegenerateFitError, UsageError
from svr_async.fit.arrays import FitArrays, require_signal
from svr_async.fit.config import FitConfig, Structure
from svr_async.fit.forward import Selector
from svr_async.fit.history import FitResult
from svr_async.fit.learning_curve import LearningCurve, learning_curve
from svr_async.fit.topics import Solved, solve_each
from svr_async.fit.training import calibrate, fit, spread
from svr_async.scoring.bank import BankHistory, InferenceSettings, RubricBank, TrainedOn
from svr_async.scoring.bank_card import accuracy_in_words, enough, small_dev_warnings
from svr_async.scoring.provenance import write_provenance
from svr_async.training.bank.merge import Candidate
from svr_async.training.rounds.config import FitTerms, TrainConfig, config_of
from svr_async.training.rounds.fits import FitLog, OnEpoch, empty_curve, fit_and_prune, fit_settings, rated
from svr_async.training.rounds.publish import (
    Features,
    Hits,
    assemble,
    baseline_hits,
    better_than_bank,
    choose_settings,
    describe,
    unjudged_share,
)
from svr_async.training.rounds.session import JudgedRound, Say
from svr_async.training.running.run import TrainingListener, keep_bank
from svr_async.training.store.files import FeatureStore, load_store, stored_round

TABLE = "sweep.json"
FEW_MISSING = 0.01  # a warning is due if more of the dev entries are missing that inference would need


@dataclass(frozen=True, slots=True, kw_only=True)
class FitSettings:
    """A fit of a feature store to a bank in `out`/bank; None leaves a setting to the store's own terms.

    `seeds` fits are made and the best is kept; `epochs` are those of the paper's preset.
    """

    store: Path
    out: Path
    preset: str | None = None
    epochs: int | None = None
    seed: int | None = None
    seeds: int = 1
    top_k: int | None = None
    licence: str = ""
    learning_curve: bool = False

    def terms(self, terms: FitTerms) -> FitTerms:
        """Return the terms of a store with these settings in place of its own."""
        return replace(
            terms,
            preset=self.preset or terms.preset,
            seed=terms.seed if self.seed is None else self.seed,
            top_k=self.top_k or terms.top_k,
        )

    def config(self, terms: FitTerms) -> TrainConfig:
        """Return the settings of a fit with these terms."""
        config = config_of(terms)
        return config if self.epochs is None else replace(config, fit=replace(config.fit, epochs=self.epochs))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoreFit:
    """The result of a fit: the bank that is in `out`/bank, and its record; of a sweep, that of the best."""

    bank: RubricBank
    record: Mapping[str, Any]
    learned: LearningCurve | None = None


@dataclass(slots=True, kw_only=True)
class FitRuns:
    """The fits of one command: every seed, the best of them, its calibration; curves and results as they come."""

    config: FitConfig
    seeds: int
    log: FitLog
    solved: Solved | None = None  # the solution of the only seed, if a sweep has it
    results: list[FitResult] = field(default_factory=list)

    @property
    def best(self) -> int:
        """The place of the result with the best dev accuracy, then the lower dev loss, then the earlier."""
        ranks = [(result.dev_accuracy, -result.dev_loss, -place) for place, result in enumerate(self.results)]
        return ranks.index(max(ranks))

    @property
    def chosen(self) -> FitConfig:
        """The settings with the best seed."""
        return replace(self.config, seed=self.config.seed + self.best)

    def fit(self, train: FitArrays, dev: FitArrays) -> FitResult:
        """Fit once for each seed and return the best."""
        for number in range(self.seeds):
            config = replace(self.config, seed=self.config.seed + number)
            once = partial(fit, train, dev, config, solved=self.solved)
            self.results.append(self.log.run(_reporting(once), empty_curve(config, dev)))
        return self.results[self.best]

    def calibrate(self, selector: Selector, train: FitArrays, dev: FitArrays) -> Selector:
        """Continue for a few epochs with the kept rubrics, and measure the baselines on them."""
        config = self.chosen
        self.log.measure(0, train, dev)
        again = partial(calibrate, selector, train, dev, config)
        return self.log.run(_reporting(again), empty_curve(config, dev, phase="calibrate")).selector


def _reporting(run: Callable[..., FitResult]) -> Callable[[OnEpoch], FitResult]:
    return lambda on_epoch: run(on_epoch=on_epoch)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """The kept rubrics of a fit, their selector, the settings for use, and the dev pairs that the bank decides.

    `missing` is the share of dev entries that use would need and the store does not have.
    """

    bank: tuple[Candidate, ...]
    selector: Selector
    settings: InferenceSettings
    hits: Hits
    missing: float
    dev: FitArrays

    @property
    def accuracy(self) -> float | None:
        """Accuracy on the dev pairs; None if none was judged."""
        return round(float(self.hits.sum()) / len(self.hits), 6) if self.dev.n_entries else None


def fit_store(settings: FitSettings, listener: TrainingListener | None = None) -> StoreFit:
    """Fit a store and write the bank; SvrError for a store that fails its checks or has nothing to learn from."""
    listener = listener or TrainingListener()
    store = _open(settings.store)
    keep_bank(settings.out, "fit.json")
    open_folder(settings.out)
    terms = settings.terms(store.header.terms)
    config = settings.config(terms)
    require_solved(config, settings.learning_curve)
    stored = stored_round(store, cutoff=config.redundancy_cutoff)
    log = FitLog(watch=listener.fits(settings.seeds, fit_settings(config).epochs))
    runs = FitRuns(config=fit_settings(config), seeds=settings.seeds, log=log)
    outcome = _fitted(stored, config, runs)
    learned = learned_curve(stored.data.train, config, listener.say) if settings.learning_curve else None
    record = _record(settings, store, terms, runs, outcome)
    record |= {} if learned is None else {"learning_curve": learned.as_json()}
    bank = _bank(settings, store, runs, outcome, _history(store, terms, runs, record, learned))
    write_atomic(settings.out / "fit.json", orjson.dumps(record, option=orjson.OPT_INDENT_2))
    write_provenance(settings.out, bank.save(settings.out / "bank"))
    return StoreFit(bank=bank, record=record, learned=learned)


def _open(folder: Path) -> FeatureStore:
    store = load_store(folder)
    if not store.rubrics:
        raise DegenerateFitError(f"{folder} holds 0 rubrics", hint="induce some: svr stages induce, then judge")
    return store


def _fitted(stored: JudgedRound, config: TrainConfig, runs: FitRuns) -> Outcome:
    """Fit, prune, calibrate, and choose the settings for use, by the functions that training calls."""
    kept, selector, choice = fit_and_prune(stored.data, config, runs.fit, runs.calibrate)
    bank = tuple(stored.data.bank[place] for place in kept)
    texts, dev = [candidate.rubric.text for candidate in bank], stored.measured.restrict_rubrics(kept)
    settings, hits = choose_settings(config, selector, texts, dev, choice)
    missing = unjudged_share(settings, selector, texts, dev) if dev.n_entries else 0.0
    return Outcome(bank=bank, selector=selector, settings=settings, hits=hits, missing=missing, dev=dev)


def _record(
    settings: FitSettings, store: FeatureStore, terms: FitTerms, runs: FitRuns, outcome: Outcome
) -> dict[str, Any]:
    """Return what a fit reports: dev accuracy in use and of the best seed, the spread, the baselines, warnings."""
    best, (vote, linear) = runs.results[runs.best], runs.log.accuracies(0)
    mean, deviation = spread(runs.results)
    n_train, n_dev = _counts(store)
    warnings = small_dev_warnings(n_dev, n_train + n_dev) if n_dev else []
    as_trained = terms.round > 0 and terms == store.header.terms  # then a missing entry is one abstained from
    if not (terms.free or as_trained) and outcome.missing > FEW_MISSING:
        share = f"{100 * outcome.missing:.0f} % of the judgements that the dev pairs need in use are not in the store"
        warnings.append(f"{share}, unasked or abstained from: they count 0, so the dev accuracy is rough")
    others = baseline_hits(runs.log.baselines.get(0), outcome.dev)
    if better := better_than_bank(outcome.hits, others, str(settings.store)):
        warnings.append(better)
    return {
        "dev_accuracy": outcome.accuracy,
        "dev_pairs": outcome.dev.n_pairs,
        "fit_accuracy": round(best.dev_accuracy, 6),
        "rubrics": len(outcome.bank),
        "top_k": outcome.settings.top_k,
        "filler_weight": outcome.settings.filler_weight,
        "dev_unjudged": round(outcome.missing, 6),
        "best_epoch": best.best_epoch,
        "seeds": len(runs.results),
        "dev_accuracy_mean": round(mean, 6),
        "dev_accuracy_sd": round(deviation, 6),
        "vote_accuracy": vote,
        "linear_accuracy": linear,
        "device": best.device,
        "warnings": [*warnings, *best.warnings],
        "history": [record.as_json() for record in best.history],
    }


def _counts(store: FeatureStore) -> tuple[int, int]:
    """Return the numbers of training and dev pairs, without hard negatives."""
    own = store.arrays.originals
    return int((own & ~store.is_dev).sum()), int((own & store.is_dev).sum())


def _history(
    store: FeatureStore, terms: FitTerms, runs: FitRuns, record: Mapping[str, Any], learned: LearningCurve | None
) -> BankHistory:
    n_train, n_dev = _counts(store)
    return BankHistory(
        trained_on=TrainedOn(train_pairs=n_train, dev_pairs=n_dev, preset=terms.preset, ablate=terms.ablate),
        curves=tuple(runs.log.curves),
        chosen_seed=runs.chosen.seed,
        vote_accuracy=record["vote_accuracy"],
        linear_accuracy=record["linear_accuracy"],
        warnings=tuple(record["warnings"]),
        choice=runs.results[runs.best].choice,
        learning_curve=learned,
    )


def _bank(
    settings: FitSettings, store: FeatureStore, runs: FitRuns, outcome: Outcome, history: BankHistory
) -> RubricBank:
    own = np.flatnonzero(~store.is_dev & store.arrays.originals)
    domains = zip(
        store.pairs["pair_id"].take(own).to_pylist(), store.pairs["domain"].take(own).to_pylist(), strict=True
    )
    prompts = _training_prompts(store)
    metrics = {"accuracy": outcome.accuracy, "pairs": outcome.dev.n_pairs}
    return assemble(
        describe(outcome.bank, outcome.selector, prompts, support=store.support, domains=dict(domains)),
        outcome.selector,
        store.vocabulary,
        outcome.settings,
        fit_settings=runs.chosen.as_json(),
        dev_metrics={} if outcome.accuracy is None else metrics,
        judge=store.header.judge,
        marks=frozenset(store.header.marks),
        licence=settings.licence,
        prompts_digest=store.header.prompts_digest,
        data_digests={"pairs": store.header.pairs_digest},
        history=history,
    )


def _training_prompts(store: FeatureStore) -> list[tuple[str, Features]]:
    """Return (first pair id, features) of each training prompt that is rated, in the order of their first pairs."""
    pairs = np.flatnonzero(~store.is_dev)
    first = pairs[np.sort(np.unique(store.arrays.pair_prompt[pairs], return_index=True)[1])]
    first = first[rated(len(first))]
    names, rows = store.pairs["pair_id"].take(first).to_pylist(), store.arrays.pair_prompt[first].tolist()
    return [(name, store.arrays.features(row)) for name, row in zip(names, rows, strict=True)]


# ── the learning curve ──────────────────────────────────────────────────────────────────────────────────────────────


def require_solved(config: TrainConfig, asked: bool) -> None:
    """Raise UsageError for a learning curve of a preset that is trained by descent, before anything is judged."""
    if asked and config.fit.kind != "topics":
        raise UsageError("--learning-curve is of the default fit only", hint="leave it or --preset paper out")


def learned_curve(train: FitArrays, config: TrainConfig, say: Say) -> LearningCurve | None:
    """Return accuracy by number of pairs, from the entries that a round was fitted on; None with too few of them."""
    say("fitting on an eighth, a quarter and a half of the pairs")
    try:
        return learning_curve(train, fit_settings(config))
    except DegenerateFitError as error:
        say(f"warning: no learning curve: {error.message}")
        return None


# ── sweeps ──────────────────────────────────────────────────────────────────────────────────────────────────────────

MOST = 256  # combinations
HINT = "as --sweep seed=0..9 --sweep sparsity=0.03,0.1"
STRUCTURE = ("groups", "sparsity", "common")  # naming one of them names the structure, which is not chosen then
WHOLE = {"seed": 0, "groups": 1, "top_k": 1}  # and the least of each
FRACTIONS = ("sparsity", "common", "diversity", "learning_rate", "weight_decay")
NAMES_OF = {
    "default": ("seed", "top_k", *STRUCTURE, "diversity"),
    "paper": ("seed", "top_k", "diversity", "learning_rate", "weight_decay"),
}
READERS: dict[str, Callable[[str], Any]] = {".toml": tomllib.loads, ".json": orjson.loads}
Combination = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SweptFit:
    """The fit of one combination."""

    values: Combination
    terms: FitTerms
    runs: FitRuns
    outcome: Outcome
    record: Mapping[str, Any]


def sweep_store(settings: FitSettings, sweep: Sequence[str], *, listener: TrainingListener | None = None) -> StoreFit:
    """Fit a store with every combination of `sweep`, and write the best's bank to `out`/bank and the table.

    The best has the highest accuracy on dev pairs; of equals the lower dev loss, then the first. Settings that name a
    structure are solved as one batch; each combination gives the bank that it would give by itself. SvrError for a
    sweep that cannot be done, or a store without dev pairs.
    """
    listener = listener or TrainingListener()
    named = read_sweep(sweep)
    if settings.seeds > 1 or settings.learning_curve:
        flag = "--seeds" if settings.seeds > 1 else "--learning-curve"
        raise UsageError(f"{flag} does not go with --sweep", hint="--sweep seed=0..4 goes over seeds")
    store = _open(settings.store)
    wanted = combinations(named, settings.preset or store.header.terms.preset)
    if not _counts(store)[1]:
        raise UsageError(f"{settings.store} holds 0 dev pairs, by which a sweep chooses", hint="--seed fits once")
    keep_bank(settings.out, TABLE)
    open_folder(settings.out)
    planned = [_planned(settings, store.header.terms, values) for values in wanted]
    stored = stored_round(store, cutoff=planned[0][1].redundancy_cutoff)
    fits = []
    solved = _solved(stored.data.train, [fit_settings(config) for _, config in planned])
    for values, (terms, config), solution in zip(wanted, planned, solved, strict=True):
        runs = FitRuns(config=fit_settings(config), seeds=1, log=FitLog(), solved=solution)
        outcome = _fitted(stored, config, runs)
        record = _record(settings, store, terms, runs, outcome)
        fits.append(SweptFit(values=values, terms=terms, runs=runs, outcome=outcome, record=record))
        listener.say(f"{len(fits)} of {len(wanted)}: {name_of(values)}")
    best = max(fits, key=lambda one: (one.outcome.accuracy or 0.0, -one.runs.results[0].dev_loss))
    bank = _bank(settings, store, best.runs, best.outcome, _history(store, best.terms, best.runs, best.record, None))
    bank.save(settings.out / "bank")
    rows = [_row(one, is_best=one is best) for one in fits]
    table = {"chosen_by": "dev accuracy", "best": name_of(best.values), "candidates": rows}
    write_atomic(settings.out / TABLE, orjson.dumps(table, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    return StoreFit(bank=bank, record={**best.record, "sweep": table})


def _planned(settings: FitSettings, terms: FitTerms, values: Combination) -> tuple[FitTerms, TrainConfig]:
    """Return the terms and settings that a fit with this combination would have by itself."""
    own = replace(settings, **{name: values[name] for name in ("seed", "top_k") if name in values})
    fitted = own.terms(terms)
    config = own.config(fitted)
    changes = {name: values[name] for name in ("diversity", "learning_rate", "weight_decay") if name in values}
    if form := {name: values[name] for name in STRUCTURE if name in values}:
        changes["structure"] = Structure(**form, top_k=min(config.fit.top_ks))
    return fitted, replace(config, fit=replace(config.fit, **changes))


def _solved(train: FitArrays, configs: Sequence[FitConfig]) -> Sequence[Solved | None]:
    """Return the solutions of all combinations of the default; the paper's preset is trained by descent."""
    if configs[0].kind != "topics":
        return [None] * len(configs)
    train = train if configs[0].use_own else train.without_own()
    require_signal(train)
    return solve_each(train, configs)


def _row(one: SweptFit, *, is_best: bool) -> dict[str, Any]:
    accuracy, choice = one.outcome.accuracy, one.runs.results[0].choice
    pairs = one.outcome.dev.n_pairs
    error = None if accuracy is None else round((accuracy * (1 - accuracy) / max(1, pairs)) ** 0.5, 6)
    return {
        "name": name_of(one.values),
        **one.values,
        "dev_accuracy": accuracy,
        "standard_error": error,
        "dev_pairs": pairs,
        "rubrics": len(one.outcome.bank),
        "structure": None if choice is None else choice.in_words(),
        "best": is_best,
    }


def name_of(values: Combination) -> str:
    """Return a combination in words that can be a folder's name, as seed=3,sparsity=0.1."""
    return ",".join(f"{name}={value:g}" for name, value in values.items())


def sweep_lines(table: Mapping[str, Any] | None) -> list[str]:
    """Return the table of a sweep as lines: each combination with its accuracy and standard error, the best marked."""
    if table is None:
        return []
    rows, lines = table["candidates"], []
    wide = max(len(row["name"]) for row in rows)
    for row in rows:
        accuracy = "no dev pair was judged"
        if row["dev_accuracy"] is not None:
            error = f" ± {100 * row['standard_error']:.1f}" if enough(row["dev_pairs"]) else ""
            accuracy = accuracy_in_words(row["dev_accuracy"], row["dev_pairs"]) + error
        lines.append(f"{'*' if row['best'] else ' '} {row['name']:<{wide}}  {accuracy}, {row['rubrics']} rubrics")
    kept = f"* kept: the highest of {len(rows)} dev accuracies, so on new pairs it will be lower; no other data chose"
    return [*lines, kept if len(rows) > 1 else "* kept: the only one"]


def combinations(named: Mapping[str, Sequence[Any]], preset: str) -> list[Combination]:
    """Return every combination, the last setting varying fastest; UsageError for none or too many."""
    allowed = NAMES_OF[preset]
    if other := [name for name in named if name not in allowed]:
        raise UsageError(f"--preset {preset} has no setting {other[0]}", hint=f"one of {', '.join(allowed)}")
    count = math.prod(len(values) for values in named.values()) if named else 0
    if not 1 <= count <= MOST:
        raise UsageError(f"--sweep must name 1 to {MOST} combinations (got {count})", hint=HINT)
    return [dict(zip(named, values, strict=True)) for values in product(*named.values())]


def read_sweep(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Return the values of each setting, from `name=values` texts and from files; UsageError for anything else.

    Values are numbers with commas between, or a range of whole numbers as `0..9`, ends included.
    """
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, given = text.partition("=")
        if not equals and Path(text).suffix not in READERS:
            raise UsageError(f"--sweep {text!r} is neither NAME=VALUES nor a .toml or .json file", hint=HINT)
        for key, values in ({name.strip(): given} if equals else _of_file(Path(text))).items():
            if key not in (*WHOLE, *FRACTIONS):
                raise UsageError(
                    f"--sweep knows no setting {key[:40]!r}", hint=f"one of {', '.join((*WHOLE, *FRACTIONS))}"
                )
            if key in found:
                raise UsageError(f"--sweep {key} is given twice", hint=HINT)
            items = values if isinstance(values, list) else [values]
            parts = [part.strip() for item in items for part in str(item).split(",")]
            found[key] = list(dict.fromkeys(value for part in parts for value in _numbers(key, part)))
    return found


def _of_file(path: Path) -> dict[str, Any]:
    try:
        value = READERS[path.suffix](path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}", hint="check the path") from error
    except ValueError as error:
        text = f"{path} is not valid {path.suffix[1:].upper()}: {error}"
        raise UsageError(text, hint='a line is seed = "0..9"') from error
    if not isinstance(value, dict):
        raise UsageError(f"{path} holds no table of settings", hint='as {"seed": "0..9", "sparsity": [0.03, 0.1]}')
    return value


def _fraction(text: str) -> float:
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError(text)
    return value


def _numbers(name: str, text: str) -> list[Any]:
    """Return the number of a text, or the numbers of a range."""
    try:
        if name not in WHOLE:
            return [_fraction(text)]
        first, dots, last = text.partition("..")
        low, high = int(first), int(last if dots else first)
    except ValueError as error:
        kind = "a whole number or a range as 0..9" if name in WHOLE else "a number >= 0"
        raise UsageError(f"--sweep {name} must be {kind} (got {text[:40]!r})", hint=HINT) from error
    if not WHOLE[name] <= low <= high or high - low >= MOST:
        raise UsageError(f"--sweep {name} must rise from {WHOLE[name]} or more (got {text[:40]!r})", hint=HINT)
    return list(range(low, high + 1))
