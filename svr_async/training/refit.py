"""A bank from a feature store without judge or network: one fit, a sweep of settings, and the learning curve."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from svr_async.core.files import open_folder, write_atomic
from svr_async.core.integrity import Integrity
from svr_async.errors import DegenerateFitError, UsageError
from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import Structure
from svr_async.fit.history import FitResult
from svr_async.fit.learning_curve import LearningCurve, learning_curve
from svr_async.scoring.bank import BankHistory, RubricBank
from svr_async.scoring.bank_card import accuracy_in_words, enough, small_dev_warnings
from svr_async.scoring.provenance import write_provenance
from svr_async.training.rounds.algorithm import better_than_bank, fit_and_prune, in_use, unjudged_share
from svr_async.training.rounds.config import Preset, TrainConfig, config_of
from svr_async.training.rounds.session import FittedRound, Say
from svr_async.training.rounds.store import FeatureStore, Header, load_store, store_bank, stored_round
from svr_async.training.settings import TrainingListener, keep_bank

RECORD = "fit.json"
FEW_MISSING = 0.01  # a warning is due if more of the dev entries are missing that inference would need
Combination = Mapping[str, Any]  # settings of a sweep with a value for each


@dataclass(frozen=True, slots=True, kw_only=True)
class FitSettings:
    """A fit of a feature store to a bank in `out`/bank; None leaves a setting to the store's own.

    `sweep` names settings and their values, as `seed=0..4`; `epochs` are those of the paper's preset.
    """

    store: Path
    out: Path
    preset: Preset | None = None
    epochs: int | None = None
    seed: int | None = None
    top_k: int | None = None
    sweep: tuple[str, ...] = ()
    licence: str = ""
    learning_curve: bool = False


class StoreFit(NamedTuple):
    """One fit of a store: the values of a sweep, all settings, and the result."""

    values: Combination
    config: TrainConfig
    fitted: FittedRound

    @property
    def accuracy(self) -> float | None:
        """Accuracy on the dev pairs; None without judged pairs."""
        return self.fitted.dev_accuracy if self.fitted.dev.n_entries else None

    @property
    def result(self) -> FitResult:
        """The fit before pruning."""
        assert self.fitted.result is not None
        return self.fitted.result


def fit_store(settings: FitSettings, listener: TrainingListener | None = None) -> tuple[RubricBank, dict[str, Any]]:
    """Fit a store, write the bank to `out`/bank and fit.json next to it, and return both.

    Of a sweep the bank is that of the highest accuracy on dev pairs; of equals the lower dev loss, then the first. Each
    combination gives the bank that it would give by itself. SvrError for a store that fails its checks or has nothing
    to learn from, and for a sweep that cannot be done.
    """
    listener = listener or TrainingListener()
    store = load_store(settings.store)
    if settings.sweep and not store.is_dev.any():
        raise UsageError(f"{settings.store} holds 0 dev pairs, by which a sweep chooses", hint="--seed fits once")
    wanted = combinations(settings.sweep, settings.preset or store.header.config.preset)
    plans = [(values, _planned(settings, store.header, values)) for values in wanted]
    require_solved(plans[0][1], settings.learning_curve)
    keep_bank(settings.out, RECORD)
    open_folder(settings.out)
    stored = replace(stored_round(store, cutoff=plans[0][1].redundancy_cutoff), number=0)  # of no round of a training
    fits = []
    for values, config in plans:
        fits.append(StoreFit(values, config, in_use(stored, config, fit_and_prune(stored, config, listener))))
        if settings.sweep:
            listener.say(f"{len(fits)} of {len(plans)}: {name_of(values)}")
    best = max(fits, key=lambda one: (one.accuracy or 0.0, -one.result.dev_loss))
    learned = learned_curve(stored.train, best.config, listener.say) if settings.learning_curve else None
    record = _record(settings, store, best)
    record |= {} if learned is None else {"learning_curve": learned.as_json()}
    record |= {"sweep": [_row(one, is_best=one is best) for one in fits]} if settings.sweep else {}
    bank = store_bank(
        store,
        best.fitted,
        best.config,
        history=BankHistory(warnings=tuple(record["warnings"]), learning_curve=learned),
        dev_metrics={} if best.accuracy is None else {"accuracy": best.accuracy, "pairs": best.fitted.dev.n_pairs},
        licence=settings.licence,
    )
    write_atomic(settings.out / RECORD, orjson.dumps(record, option=orjson.OPT_INDENT_2))
    write_provenance(settings.out, bank.save(settings.out / "bank"))
    return bank, record


def _planned(settings: FitSettings, header: Header, values: Combination) -> TrainConfig:
    """Return the settings of a fit with these values: the store's, or those of another preset."""
    config = header.config
    if settings.preset not in {None, config.preset}:
        free = Integrity.OFFLINE_RULES in header.marks
        config = config_of(settings.preset, seed=config.split_seed, free=free, ablate=config.ablate)
    given = {"seed": settings.seed, "top_k": settings.top_k, "epochs": settings.epochs}
    values = {name: value for name, value in {**given, **values}.items() if value is not None}
    config = config.refitted(seed=values.get("seed"), top_k=values.get("top_k"))
    changes = {name: value for name, value in values.items() if name not in {"seed", "top_k", *STRUCTURE}}
    if form := {name: values[name] for name in STRUCTURE if name in values}:
        changes["structure"] = Structure(**form, top_k=min(config.fit.top_ks))
    return replace(config, fit=replace(config.fit, **changes))


def _record(settings: FitSettings, store: FeatureStore, best: StoreFit) -> dict[str, Any]:
    """Return what a fit reports: dev accuracy in use and of the fit, the baselines, warnings."""
    (n_train, n_dev), header = store.counts, store.header
    warnings = small_dev_warnings(n_dev, n_train + n_dev) if n_dev else []
    fitted, missing = best.fitted, unjudged_share(best.fitted) if best.fitted.dev.n_entries else 0.0
    # As trained, and with a free judge, a missing entry is one that the judge abstained from.
    complete = Integrity.OFFLINE_RULES in header.marks or (header.round > 0 and best.config == header.config)
    if missing > FEW_MISSING and not complete:
        share = f"{100 * missing:.0f} % of the judgements that the dev pairs need in use are not in the store"
        warnings.append(f"{share}, unasked or abstained from: they count 0, so the dev accuracy is rough")
    if better := better_than_bank(fitted.dev_hits, fitted.baselines, str(settings.store)):
        warnings.append(better)
    return {
        "dev_accuracy": best.accuracy,
        "dev_pairs": fitted.dev.n_pairs,
        "fit_accuracy": round(best.result.dev_accuracy, 6),
        "rubrics": len(fitted.bank),
        "top_k": fitted.settings.top_k,
        "filler_weight": fitted.settings.filler_weight,
        "dev_unjudged": round(missing, 6),
        "best_epoch": best.result.best_epoch,
        **fitted.accuracies,
        "device": best.result.device,
        "warnings": [*warnings, *best.result.warnings],
        "history": [record.as_json() for record in best.result.history],
    }


def require_solved(config: TrainConfig, asked: bool) -> None:
    """Raise UsageError for a learning curve of a preset that is trained by descent, before anything is judged."""
    if asked and config.fit.kind != "topics":
        raise UsageError("--learning-curve is of the default fit only", hint="leave it or --preset paper out")


def learned_curve(train: FitArrays, config: TrainConfig, say: Say) -> LearningCurve | None:
    """Return accuracy by number of pairs, from the entries that a round was fitted on; None with too few of them."""
    say("fitting on an eighth, a quarter and a half of the pairs")
    try:
        return learning_curve(train, config.fit)
    except DegenerateFitError as error:
        say(f"warning: no learning curve: {error.message}")
        return None


# ── sweeps ──────────────────────────────────────────────────────────────────────────────────────────────────────────

MOST = 256  # combinations
HINT = "as --sweep seed=0..9 --sweep sparsity=0.03,0.1"
STRUCTURE = ("groups", "sparsity", "common")  # naming one of them names the structure, which is not chosen then
WHOLE = {"seed": 0, "groups": 1, "top_k": 1}  # and the least of each
NAMES_OF = {
    "default": ("seed", "top_k", *STRUCTURE),
    "paper": ("seed", "top_k", "diversity", "learning_rate", "weight_decay"),
}


def combinations(sweep: Sequence[str], preset: str) -> list[Combination]:
    """Return every combination of `name=values` texts, the last setting varying fastest; UsageError for a bad one.

    Values are numbers with commas between, or a range of whole numbers as `0..9`, ends included.
    """
    named: dict[str, list[float]] = {}
    for text in sweep:
        name, equals, given = text.partition("=")
        if not equals:
            raise UsageError(f"--sweep {text!r} is not NAME=VALUES", hint=HINT)
        if name not in NAMES_OF[preset]:
            raise UsageError(
                f"--preset {preset} has no setting {name[:40]!r}", hint=f"one of {', '.join(NAMES_OF[preset])}"
            )
        if name in named:
            raise UsageError(f"--sweep {name} is given twice", hint=HINT)
        named[name] = list(dict.fromkeys(value for part in given.split(",") for value in _numbers(name, part.strip())))
    count = math.prod(map(len, named.values()))
    if count > MOST:
        raise UsageError(f"--sweep names {count} combinations, at most {MOST} are fitted", hint=HINT)
    return [dict(zip(named, values, strict=True)) for values in product(*named.values())]


def _numbers(name: str, text: str) -> Sequence[float]:
    """Return the number of a text, or the numbers of a range."""
    least, read = WHOLE.get(name), int if name in WHOLE else float
    first, dots, last = text.partition("..") if name in WHOLE else (text, "", "")
    try:
        low = read(first)
        high = read(last) if dots else low
    except ValueError:
        low = high = -1
    if not (least or 0) <= low <= high < math.inf or high - low >= MOST:
        kind = "a number >= 0" if least is None else f"a whole number >= {least}, or a rising range as {least}..9"
        raise UsageError(f"--sweep {name} must be {kind} (got {text[:40]!r})", hint=HINT)
    return [low] if least is None else range(int(low), int(high) + 1)


def name_of(values: Combination) -> str:
    """Return a combination in words that can be a folder's name, as seed=3,sparsity=0.1."""
    return ",".join(f"{name}={value:g}" for name, value in values.items())


def _row(one: StoreFit, *, is_best: bool) -> dict[str, Any]:
    choice = one.fitted.choice
    return {
        "name": name_of(one.values),
        **one.values,
        "dev_accuracy": one.accuracy,
        "dev_pairs": one.fitted.dev.n_pairs,
        "rubrics": len(one.fitted.bank),
        "structure": None if choice is None else choice.in_words(),
        "best": is_best,
    }


def sweep_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sweep as lines: each combination with its accuracy and standard error, the best marked."""
    lines, wide = [], max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        accuracy = "no dev pair was judged"
        if (known := row["dev_accuracy"]) is not None:
            error = 100 * (known * (1 - known) / max(1, row["dev_pairs"])) ** 0.5
            margin = f" ± {error:.1f}" if enough(row["dev_pairs"]) else ""
            accuracy = accuracy_in_words(known, row["dev_pairs"]) + margin
        lines.append(f"{'*' if row['best'] else ' '} {row['name']:<{wide}}  {accuracy}, {row['rubrics']} rubrics")
    if len(rows) > 1:
        lines.append(f"* kept: the highest of {len(rows)} dev accuracies, so on new pairs it will be lower")
    return lines
