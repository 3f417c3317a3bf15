"""A bank from a feature store, with no judge and no network: fitted as a round of training is."""

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

from svr_async.core.dev_pairs import accuracy_in_words, enough, small_dev_warnings
from svr_async.core.files import open_folder, write_atomic
from svr_async.errors import DegenerateFitError, UsageError
from svr_async.fit.arrays import FitArrays, require_signal
from svr_async.fit.baselines import Baselines
from svr_async.fit.choices import Structure
from svr_async.fit.config import FitConfig
from svr_async.fit.forward import Selector
from svr_async.fit.history import FitCurve, FitResult, FitWatch, watched
from svr_async.fit.learning_curve import LearningCurve, learning_curve
from svr_async.fit.tfidf import Vocabulary
from svr_async.fit.topics import Solved, solve_each
from svr_async.fit.training import OnEpoch, calibrate, fit, spread
from svr_async.scoring.bank import InferenceSettings, RubricBank
from svr_async.scoring.bank_history import BankHistory, TrainedOn
from svr_async.scoring.bank_made import keep_made
from svr_async.training.bank.merge import Candidate
from svr_async.training.rounds.config import FitTerms, TrainConfig, config_of
from svr_async.training.rounds.dev_choice import choose_settings, unjudged_share
from svr_async.training.rounds.fits import empty_curve, fit_and_prune, fit_settings, rated, yardsticks_of
from svr_async.training.rounds.round_bank import Features, assemble, describe
from svr_async.training.rounds.session import Say
from svr_async.training.running.run import FitListener, Silent, keep_bank
from svr_async.training.store.arrays import StoredRound, stored_round
from svr_async.training.store.reader import load_store
from svr_async.training.store.records import FeatureStore


def require_solved(config: TrainConfig, asked: bool) -> None:
    """Refuse a learning curve of a preset that is descended rather than solved, before anything is judged."""
    if asked and config.fit.kind != "topics":
        raise UsageError("--learning-curve is of the default fit only", hint="leave it or --preset paper out")


def learned_curve(train: FitArrays, config: TrainConfig, say: Say) -> LearningCurve | None:
    """Return the curve of what a round was fitted on, with no call; None, said, where there is too little of it."""
    say("fitting on an eighth, a quarter and a half of the pairs")
    try:
        return learning_curve(train, fit_settings(config))
    except DegenerateFitError as error:
        say(f"warning: no learning curve: {error.message}")
        return None


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
            once = partial(fit, solved=self.solved)
            self.results.append(self._run(once, (train, dev, config), empty_curve(config, dev)))
        return self.results[self.best]

    def calibrate(self, selector: Selector, train: FitArrays, dev: FitArrays) -> Selector:
        """Go on for a few epochs with the rubrics that are left, and measure the yardsticks on them."""
        config = self.chosen
        curve = empty_curve(config, dev, phase="calibrate")
        self.yardsticks = yardsticks_of(train, dev)
        return self._run(calibrate, (selector, train, dev, config), curve).selector

    def _run(self, what: Callable[..., FitResult], args: tuple[Any, ...], curve: FitCurve) -> FitResult:
        def run(on_epoch: OnEpoch) -> FitResult:
            return what(*args, on_epoch=on_epoch)

        result, done = watched(run, curve, self.watch)
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


FEW_MISSING = 0.01  # a warning is due where more of the dev entries are missing that inference would need


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


def missing_warnings(outcome: Outcome) -> list[str]:
    """Warn where the store lacks more than a few of the judgements that use would need."""
    if outcome.missing <= FEW_MISSING:
        return []
    share = f"{100 * outcome.missing:.0f} % of the judgements that the dev pairs need in use are not in the store"
    return [f"{share}, unasked or abstained from: they count 0, so the dev accuracy is rough"]


def dev_warnings(store: FeatureStore) -> list[str]:
    """Warn where the store has few dev pairs."""
    own = store.negative_of < 0  # a hard negative is no pair of the data
    n_dev = int((own & store.is_dev).sum())
    return small_dev_warnings(n_dev, int(own.sum())) if n_dev else []


def history_of(
    store: FeatureStore, terms: FitTerms, runs: FitRuns, record: Mapping[str, Any], learned: LearningCurve | None
) -> BankHistory:
    """Return the history of a fit's bank."""
    own = store.negative_of < 0  # a hard negative is no pair of the data
    n_train, n_dev = int((own & ~store.is_dev).sum()), int((own & store.is_dev).sum())
    return BankHistory(
        trained_on=TrainedOn(train_pairs=n_train, dev_pairs=n_dev, preset=terms.preset, ablate=terms.ablate),
        curves=tuple(runs.curves),
        chosen_seed=runs.chosen.seed,
        vote_accuracy=record["vote_accuracy"],
        linear_accuracy=record["linear_accuracy"],
        warnings=tuple(record["warnings"]),
        choice=runs.results[runs.best].choice,
        learning_curve=learned,
    )


def bank_of(
    store: FeatureStore, stored: StoredRound, runs: FitRuns, outcome: Outcome, history: BankHistory, licence: str
) -> RubricBank:
    """Return the bank of a fit."""
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
        marks=store.header.marks,
        licence=licence,
        prompts_digest=store.header.prompts_digest,
        data_digests=dict(store.header.data_digests),
        history=history,
    )


def _training_domains(store: FeatureStore) -> dict[str, str]:
    """Return the domain of each training pair; nothing where none has one."""
    if set(store.pairs["domain"].unique().to_pylist()) == {""}:
        return {}
    columns = store.pair_ids, store.pairs["domain"].to_pylist(), store.is_dev.tolist(), store.negative_of.tolist()
    return {pair: domain for pair, domain, dev, of in zip(*columns, strict=True) if not dev and of < 0}


def _training_prompts(store: FeatureStore) -> list[tuple[str, Features]]:
    """Return (first pair id, features) of each training prompt that is rated, in the order of their first pairs."""
    pairs = np.flatnonzero(~store.is_dev)
    first = pairs[np.sort(np.unique(store.prompt_row[pairs], return_index=True)[1])]
    first = first[rated(len(first))]
    names, rows = store.pairs["pair_id"].take(first).to_pylist(), store.prompt_row[first].tolist()
    index, value, borders = store.features.index, store.features.value, store.features.indptr
    spans = [slice(int(borders[row]), int(borders[row + 1])) for row in rows]
    return [(name, (index[span], value[span])) for name, span in zip(names, spans, strict=True)]


RECORD = "fit.json"  # what a fit came to, in its folder


@dataclass(frozen=True, slots=True, kw_only=True)
class FitSettings:
    """A fit of a feature store to a bank in `out`/bank; None where the store's own terms decide.

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoreFit:
    """What came of a fit: the bank that is in `out`/bank, and what is told of it."""

    bank: RubricBank
    record: Mapping[str, Any]
    learned: LearningCurve | None = None


def fit_store(settings: FitSettings, listener: FitListener | None = None) -> StoreFit:
    """Fit a store and write the bank; SvrError for a store that fails its checks, or has nothing to learn from.

    A fit that was stopped goes on.
    """
    listener = listener or Silent()
    store = open_store(settings.store)
    keep_bank(settings.out, RECORD)
    open_folder(settings.out)
    terms = terms_for(settings, store.header.terms)
    config = with_epochs(config_of(terms), settings.epochs)
    require_solved(config, settings.learning_curve)
    fit = fit_settings(config)
    stored = stored_round(store, cutoff=config.redundancy_cutoff)
    watch = listener.fits(settings.seeds, fit.epochs)
    runs = FitRuns(out=settings.out, config=fit, seeds=settings.seeds, watch=watch)
    outcome = fit_stored(stored, config, runs)
    learned = learned_curve(stored.data.train, config, listener.say) if settings.learning_curve else None
    record = record_of(store, terms, runs, outcome)
    record |= {} if learned is None else {"learning_curve": learned.as_json()}
    bank = bank_of(store, stored, runs, outcome, history_of(store, terms, runs, record, learned), settings.licence)
    keep_made(settings.out, bank.save(settings.out / "bank"))
    write_atomic(settings.out / RECORD, orjson.dumps(record, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    return StoreFit(bank=bank, record=record, learned=learned)


def open_store(folder: Path) -> FeatureStore:
    """Return a store that holds rubrics; SvrError for any other."""
    store = load_store(folder)
    if not store.rubrics:
        raise DegenerateFitError(f"{folder} holds 0 rubrics", hint="induce some: svr induce, then svr stages judge")
    return store


def record_of(store: FeatureStore, terms: FitTerms, runs: FitRuns, outcome: Outcome) -> dict[str, Any]:
    """Return what is reported of a fit, with what is to be warned of."""
    as_trained = terms.round > 0 and terms == store.header.terms
    complete = terms.free or as_trained  # then an entry that is missing is one that the judge abstained from
    return make_record(runs, outcome, [*dev_warnings(store), *([] if complete else missing_warnings(outcome))])


def terms_for(settings: FitSettings, terms: FitTerms) -> FitTerms:
    """Return the store's terms with what these settings say over it."""
    return replace(
        terms,
        preset=settings.preset or terms.preset,
        seed=terms.seed if settings.seed is None else settings.seed,
        top_k=settings.top_k or terms.top_k,
    )


def with_epochs(config: TrainConfig, epochs: int | None) -> TrainConfig:
    """Return the settings with another number of epochs, where one is given."""
    return config if epochs is None else replace(config, fit=replace(config.fit, epochs=epochs))


MOST = 256  # candidates
HINT = "as --sweep seed=0..9 --sweep sparsity=0.03,0.1"
STRUCTURE = ("groups", "sparsity", "common")  # naming one of them names the structure, which is not chosen then
WHOLE = {"seed": 0, "groups": 1, "top_k": 1}  # and the least of each
FRACTIONS = ("sparsity", "common", "diversity", "learning_rate", "weight_decay")
NAMES_OF = {
    "default": ("seed", "top_k", *STRUCTURE, "diversity"),
    "paper": ("seed", "top_k", "diversity", "learning_rate", "weight_decay"),
}


def read_sweep(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Return the values of each setting: of `name=values` texts and of files; UsageError in one line for anything else.

    Values are numbers with commas between, or a range of whole numbers as `0..9`, ends included.
    """
    found: dict[str, list[Any]] = {}
    for text in texts:
        for name, values in _parts(text).items():
            if name in found:
                raise UsageError(f"--sweep {name} is given twice", hint=HINT)
            found[name] = list(dict.fromkeys(_values(name, values)))
    return found


def _parts(text: str) -> dict[str, Any]:
    if Path(text).suffix in READERS:
        return _of_file(Path(text))
    name, equals, values = text.partition("=")
    if not equals:
        raise UsageError(f"--sweep {text!r} is neither NAME=VALUES nor a .toml or .json file", hint=HINT)
    return {name.strip(): values}


READERS: dict[str, Callable[[str], Any]] = {".toml": tomllib.loads, ".json": orjson.loads}


def _of_file(path: Path) -> dict[str, Any]:
    try:
        value = READERS[path.suffix](path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}", hint="check the path") from error
    except ValueError as error:
        raise UsageError(f"{path} is no {path.suffix[1:].upper()}: {error}", hint='a line is seed = "0..9"') from error
    if not isinstance(value, dict):
        raise UsageError(f"{path} holds no table of settings", hint='as {"seed": "0..9", "sparsity": [0.03, 0.1]}')
    return value


def _values(name: str, given: Any) -> list[Any]:
    if name not in (*WHOLE, *FRACTIONS):
        raise UsageError(f"--sweep knows no setting {name[:40]!r}", hint=f"one of {', '.join((*WHOLE, *FRACTIONS))}")
    items = given if isinstance(given, list) else [given]
    return [value for item in items for value in _spelt(name, item)]


def _spelt(name: str, item: Any) -> list[Any]:
    """Return the numbers of a text with commas and ranges, or of one number."""
    texts = item.split(",") if isinstance(item, str) else [str(item)]
    return [value for text in texts for value in _numbers(name, text.strip())]


def _numbers(name: str, text: str) -> list[Any]:
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


def _fraction(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError(text)
    return value


def candidates(named: Mapping[str, Sequence[Any]], allowed: Sequence[str], preset: str) -> list[dict[str, Any]]:
    """Return every combination, the last setting varying fastest; UsageError where there are too many or none."""
    if other := [name for name in named if name not in allowed]:
        raise UsageError(f"--sweep {other[0]} says nothing to --preset {preset}", hint=f"one of {', '.join(allowed)}")
    count = math.prod(len(values) for values in named.values())
    if not named or not 1 <= count <= MOST:
        raise UsageError(f"--sweep must name 1 to {MOST} combinations (got {count if named else 0})", hint=HINT)
    return [dict(zip(named, values, strict=True)) for values in product(*named.values())]


def name_of(values: Mapping[str, Any]) -> str:
    """Return a combination in words that can be a folder's name, e.g. "seed=3 sparsity=0.1" with a comma between."""
    return ",".join(f"{name}={value:g}" for name, value in values.items())


def with_structure(fit: FitConfig, values: Mapping[str, Any]) -> FitConfig:
    """Return the settings of a fit with those of a combination that no flag names by itself."""
    own: dict[str, Any] = {
        name: values[name] for name in ("diversity", "learning_rate", "weight_decay") if name in values
    }
    if form := {name: values[name] for name in STRUCTURE if name in values}:
        own["structure"] = Structure(**form, top_k=min(fit.top_ks))
    return replace(fit, **own)


TABLE = "sweep.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptSetting:
    """One combination: its name, the settings that it sets, and the terms and settings of its fit."""

    name: str
    values: Mapping[str, Any]
    terms: FitTerms
    config: TrainConfig


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Swept:
    """What came of a sweep: a row for each candidate in the order asked for, and the best's name, bank and record."""

    rows: Sequence[Mapping[str, Any]]
    best: str
    bank: RubricBank
    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Ended:
    """A candidate's fit, what it came to and its record."""

    candidate: SweptSetting
    runs: FitRuns
    outcome: Outcome
    record: Mapping[str, Any]

    @property
    def rank(self) -> tuple[float, float]:
        """Dev accuracy, then the lower dev loss."""
        return float(self.outcome.accuracy or 0.0), -self.runs.results[0].dev_loss


def sweep_store(settings: FitSettings, sweep: Sequence[str], *, listener: FitListener | None = None) -> Swept:
    """Fit a store with every combination of `sweep`, and write the best's bank to `out`/bank and the table.

    The best is that with the highest accuracy on dev pairs, of equals that with the lower dev loss, then the first.
    SvrError for a sweep that cannot be done, or a store without dev pairs.
    """
    listener = listener or Silent()
    named = read_sweep(sweep)
    if settings.seeds > 1 or settings.learning_curve:
        flag = "--seeds" if settings.seeds > 1 else "--learning-curve"
        raise UsageError(f"{flag} does not go with --sweep", hint="--sweep seed=0..4 goes over seeds")
    store = open_store(settings.store)
    wanted = _candidates(settings, store.header.terms, named)
    if not (store.is_dev & (store.negative_of < 0)).any():
        raise UsageError(f"{settings.store} holds 0 dev pairs, by which a sweep chooses", hint="--seed fits once")
    keep_bank(settings.out, TABLE)
    open_folder(settings.out)
    stored = stored_round(store, cutoff=wanted[0].config.redundancy_cutoff)
    ended = []
    for number, (candidate, solution) in enumerate(zip(wanted, _solved(stored, wanted), strict=True), 1):
        ended.append(_ended(settings, store, stored, candidate, solution))
        listener.say(f"{number} of {len(wanted)}: {candidate.name}")
    best = max(ended, key=lambda one: one.rank)
    rows = [_row(one, is_best=one is best) for one in ended]
    bank = _bank(settings, store, stored, best)
    bank.save(settings.out / "bank")
    table = {"chosen_by": "dev accuracy", "best": best.candidate.name, "candidates": rows}
    write_atomic(settings.out / TABLE, orjson.dumps(table, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    return Swept(rows=rows, best=best.candidate.name, bank=bank, record={**best.record, "sweep": table})


def _candidates(settings: FitSettings, terms: FitTerms, named: Mapping[str, Sequence[Any]]) -> list[SweptSetting]:
    """Return every combination with the settings that a fit by itself would have."""
    found = []
    preset = settings.preset or terms.preset
    for values in candidates(named, NAMES_OF[preset], preset):
        own = replace(settings, **{name: values[name] for name in ("seed", "top_k") if name in values})
        fitted = terms_for(own, terms)
        config = with_epochs(config_of(fitted), settings.epochs)
        config = replace(config, fit=with_structure(config.fit, values))
        found.append(SweptSetting(name=name_of(values), values=values, terms=fitted, config=config))
    return found


def _solved(stored: StoredRound, wanted: Sequence[SweptSetting]) -> list[Solved] | list[None]:
    """Return the solutions of all candidates of the default; none of the paper's, which is descended."""
    configs = [fit_settings(candidate.config) for candidate in wanted]
    if configs[0].kind != "topics":
        return [None] * len(configs)
    train = stored.data.train if configs[0].use_own else stored.data.train.without_own()
    require_signal(train)
    return solve_each(train, configs)


def _ended(
    settings: FitSettings, store: FeatureStore, stored: StoredRound, candidate: SweptSetting, solved: Solved | None
) -> _Ended:
    folder = settings.out / "candidates" / candidate.name
    config = fit_settings(candidate.config)
    runs = FitRuns(out=folder, config=config, seeds=1, watch=None, solved=solved)
    outcome = fit_stored(stored, candidate.config, runs)
    record = record_of(store, candidate.terms, runs, outcome)
    return _Ended(candidate=candidate, runs=runs, outcome=outcome, record=record)


def _row(one: _Ended, *, is_best: bool) -> dict[str, Any]:
    """Return a candidate's row: accuracy on dev pairs and its standard error, a pair each."""
    accuracy, pairs = one.outcome.accuracy, one.outcome.dev_pairs
    error = None if accuracy is None else round((accuracy * (1 - accuracy) / max(1, pairs)) ** 0.5, 6)
    choice = one.runs.results[0].choice
    return {
        "name": one.candidate.name,
        **one.candidate.values,
        "dev_accuracy": accuracy,
        "standard_error": error,
        "dev_pairs": pairs,
        "rubrics": len(one.outcome.bank),
        "structure": None if choice is None else choice.in_words(),
        "best": is_best,
    }


def _bank(settings: FitSettings, store: FeatureStore, stored: StoredRound, one: _Ended) -> RubricBank:
    history = history_of(store, one.candidate.terms, one.runs, one.record, None)
    return bank_of(store, stored, one.runs, one.outcome, history, settings.licence)


def sweep_lines(table: Mapping[str, Any] | None) -> list[str]:
    """Return the table of a sweep as lines: each candidate with its accuracy and standard error, the best marked."""
    if table is None:
        return []
    rows = table["candidates"]
    wide = max(len(row["name"]) for row in rows)
    lines = [
        f"{'*' if row['best'] else ' '} {row['name']:<{wide}}  {_accuracy(row)}, {row['rubrics']} rubrics"
        for row in rows
    ]
    kept = f"* kept: the highest of {len(rows)} dev accuracies, so on new pairs it will be lower; no other data chose"
    return [*lines, kept if len(rows) > 1 else "* kept: the only one"]


def _accuracy(row: Mapping[str, Any]) -> str:
    if row["dev_accuracy"] is None:
        return "no dev pair was judged"
    told = accuracy_in_words(row["dev_accuracy"], row["dev_pairs"])
    return f"{told} ± {100 * row['standard_error']:.1f}" if enough(row["dev_pairs"]) else told
