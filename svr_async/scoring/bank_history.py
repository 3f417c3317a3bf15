"""How a bank came to be: its fits, its rounds, what it was trained on, who edited it; checked values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar, get_args

import orjson

from svr_async.fit.choices import Choice, LeftOut, Solver, Structure, Trial
from svr_async.fit.history import EpochRecord, FitCurve
from svr_async.fit.learning_curve import LearningCurve, LearningPoint
from svr_async.fit.prompt_clusters import View

__all__ = [
    "BankHistory", "Choice", "Edit", "EpochRecord", "FitCurve", "LearningCurve", "LearningPoint", "RoundFacts",
    "Structure", "TrainedOn", "Trial", "history_bytes", "history_from_json",
]  # fmt: skip

FORMAT = "svr-history"
SCHEMA_VERSION = 1
MOST_TRIALS = 65_536
MOST = {"curves": 4_096, "epochs": 10_000, "rounds": 1_024}  # of a list; of any other MOST_TRIALS
LATER = ("choice", "learning_curve", "edits", "trained_on")  # left out where there are none, as in older histories
MOST_CHARS = 4_096
NAMES = {
    "Solver": get_args(Solver),
    "LeftOut": get_args(LeftOut),
    "View": get_args(View),
}  # by annotation, what a field may be
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFacts:
    """One round of Algorithm 1; None for what was not measured.

    `bank` rubrics were fitted, `kept` are left after pruning. `dev_accuracy` is that of the bank as it is used;
    `fit_accuracy`, `vote_accuracy` and `linear_accuracy` are over the judged pools of the same dev pairs: of the fit,
    of an unweighted vote, and of one weight per rubric for all prompts.
    """

    round: int
    bank: int
    kept: int
    support: int = 0
    hard_negatives: int = 0
    judged_entries: int = 0
    active: int | None = None
    train_margin: float | None = None
    dev_margin: float | None = None
    dev_accuracy: float | None = None
    fit_accuracy: float | None = None
    vote_accuracy: float | None = None
    linear_accuracy: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedOn:
    """What a bank was trained on and how; `contaminated` pairs were left out, None where nobody looked."""

    train_pairs: int
    dev_pairs: int
    source: str = ""
    preset: str = ""
    ablate: tuple[str, ...] = ()
    contaminated: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One change that a person made to a bank: what was done to which rubric, by whom, when (YYYY-MM-DD) and why.

    `what` is disabled, enabled, reworded, reweighed or added; `was` and `now` are the text or the weight that changed.
    `bank` is the digest of the bank before it.
    """

    what: str
    rubric: str
    author: str
    date: str
    reason: str
    bank: str
    was: str = ""
    now: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BankHistory:
    """The fits behind a bank in the order in which they ran; `chosen_round` and `chosen_seed` say which one it is.

    A fit by itself has round 0 and no `rounds`. `vote_accuracy` and `linear_accuracy` are the yardsticks beside the
    chosen fit's dev accuracy, None where there was no dev split. `choice` is the structure of the chosen fit with all
    that were tried, None for one that is descended; `learning_curve` is there where it was asked for. `edits` are what
    people changed since, oldest first; a bank that was merged and then edited has nothing else.
    """

    trained_on: TrainedOn | None = None
    curves: tuple[FitCurve, ...] = ()
    rounds: tuple[RoundFacts, ...] = ()
    chosen_round: int = 0
    chosen_seed: int = 0
    vote_accuracy: float | None = None
    linear_accuracy: float | None = None
    warnings: tuple[str, ...] = field(default=())
    choice: Choice | None = None
    learning_curve: LearningCurve | None = None
    edits: tuple[Edit, ...] = ()

    @property
    def chosen(self) -> FitCurve | None:
        """The last curve of the chosen round and seed: the fit that the bank's selector comes from."""
        wanted = (self.chosen_round, self.chosen_seed)
        return next((curve for curve in reversed(self.curves) if (curve.round, curve.seed) == wanted), None)


RECORDS: Mapping[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        Choice,
        Edit,
        EpochRecord,
        FitCurve,
        LearningCurve,
        LearningPoint,
        RoundFacts,
        Structure,
        TrainedOn,
        Trial,
    )
}  # by annotation, the records that a field may hold


def history_bytes(history: BankHistory) -> bytes:
    """Return the file: the same history gives the same bytes; no path is in it, and no time but the days of edits."""
    plain = {name: value for name, value in asdict(history).items() if value or name not in LATER}
    value = {"format": FORMAT, "schema_version": SCHEMA_VERSION, **plain}
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def history_from_json(value: Mapping[str, Any]) -> BankHistory:
    """Read what `history_bytes` wrote; ValueError says which field holds what it cannot hold."""
    if value.get("format") != FORMAT or value.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(f"it is no {FORMAT} of schema version {SCHEMA_VERSION}")
    plain = {key: entry for key, entry in value.items() if key not in {"format", "schema_version"}}
    history = _record(BankHistory, plain, "history")
    if history.learning_curve is not None and len(history.learning_curve.points) < 2:
        raise ValueError("learning_curve.points must hold two points or more")
    return history


def _record(kind: type[T], value: Any, where: str) -> T:
    """Return a record of checked fields."""
    plain = _object(value, where)
    known = {one.name: str(one.type) for one in fields(kind)}  # type: ignore[arg-type]  # only dataclasses are passed
    unknown = sorted(set(plain) - set(known))
    if unknown:
        raise ValueError(f"{where} has the unknown field {unknown[0][:40]!r}")
    try:
        return kind(**{name: _field(entry, known[name], name, where) for name, entry in plain.items()})
    except TypeError as error:
        raise ValueError(f"{where} is incomplete: {error}") from error


def _field(value: Any, annotation: str, name: str, where: str) -> Any:
    """Return a field: a record, a tuple of records, or a checked value, as its annotation says."""
    kind = annotation.removesuffix(" | None").removeprefix("tuple[").removesuffix(", ...]")
    record = RECORDS.get(kind)
    if record is None or (value is None and annotation.endswith("| None")):
        return _checked(value, annotation, f"{where}.{name}")
    inside = name if where == "history" else f"{where}.{name}"
    if not annotation.startswith("tuple"):
        return _record(record, value, inside)
    most = MOST.get(name, MOST_TRIALS)
    if not isinstance(value, list) or len(value) > most:
        raise ValueError(f"{inside} must be a list of at most {most:,} entries")
    return tuple(_record(record, entry, f"{inside}[{place}]") for place, entry in enumerate(value))


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be an object")
    return value


def _checked(value: Any, annotation: str, where: str) -> Any:
    """Return a value that its field's annotation allows: a finite number, a count, a short text, a list of those."""
    if value is None and annotation.endswith("| None"):
        return None
    kind = annotation.removesuffix(" | None")
    if kind in NAMES and value in NAMES[kind]:
        return value
    if kind.startswith("tuple[") and isinstance(value, list):
        inner = kind.removeprefix("tuple[").removesuffix(", ...]")
        return tuple(_checked(entry, inner, where) for entry in value[:MOST_TRIALS])
    short = isinstance(value, str) and len(value) <= MOST_CHARS
    if (kind == "str" and short) or (kind == "bool" and type(value) is bool):
        return value
    if kind == "int" and type(value) is int and 0 <= value < 2**53:
        return value
    if kind == "float" and type(value) in {int, float} and math.isfinite(value):
        if where.endswith("accuracy") and not 0 <= value <= 1:
            raise ValueError(f"{where} must lie in 0..1 (got {value!r})")
        return float(value)
    raise ValueError(f"{where} cannot be {str(value)[:40]!r}")
