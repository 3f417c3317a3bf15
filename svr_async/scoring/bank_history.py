"""How a bank was made: its fits, its rounds, its training data, and the edits made since."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import orjson

from svr_async.fit.config import Choice, Structure, Trial
from svr_async.fit.history import EpochRecord, FitCurve
from svr_async.fit.learning_curve import LearningCurve, LearningPoint

__all__ = [
    "BankHistory", "Choice", "Edit", "EpochRecord", "FitCurve", "LearningCurve", "LearningPoint", "RoundFacts",
    "Structure", "TrainedOn", "Trial", "history_bytes", "read_history",
]  # fmt: skip

FORMAT = "svr-history"
SCHEMA_VERSION = 1
OPTIONAL = ("choice", "learning_curve", "edits", "trained_on")  # omitted if empty, as in older histories


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFacts:
    """One round of Algorithm 1; None for what was not measured.

    `bank` rubrics were fitted, `kept` remain after pruning. `dev_accuracy` is that of the bank as it is used.
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
    """Training data and settings; `contaminated` pairs were excluded, None if that was not checked."""

    train_pairs: int
    dev_pairs: int
    source: str = ""
    preset: str = ""
    ablate: tuple[str, ...] = ()
    contaminated: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One change by a person: what, to which rubric, by whom, when (YYYY-MM-DD) and why.

    `what` is disabled, enabled, reworded, reweighed or added; `was` and `now` are the text or weight that changed.
    `bank` is the digest of the bank before the edit.
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
    """The fits of a bank in the order in which they ran; `chosen_round` and `chosen_seed` name the one in use.

    A single fit has round 0 and no `rounds`. `vote_accuracy` and `linear_accuracy` are baselines on the dev split,
    None without one. `choice` holds the structures tried by the default fit. `edits` are in order, oldest first.
    """

    trained_on: TrainedOn | None = None
    curves: tuple[FitCurve, ...] = ()
    rounds: tuple[RoundFacts, ...] = ()
    chosen_round: int = 0
    chosen_seed: int = 0
    vote_accuracy: float | None = None
    linear_accuracy: float | None = None
    warnings: tuple[str, ...] = ()
    choice: Choice | None = None
    learning_curve: LearningCurve | None = None
    edits: tuple[Edit, ...] = ()

    @property
    def chosen(self) -> FitCurve | None:
        """The last curve of the chosen round and seed: the fit that gave the bank's selector."""
        wanted = (self.chosen_round, self.chosen_seed)
        return next((curve for curve in reversed(self.curves) if (curve.round, curve.seed) == wanted), None)


def history_bytes(history: BankHistory) -> bytes:
    """Return the file: the same history gives the same bytes, without paths or times except the days of edits."""
    plain: dict[str, Any] = {name: value for name, value in asdict(history).items() if value or name not in OPTIONAL}
    value = {"format": FORMAT, "schema_version": SCHEMA_VERSION, **plain}
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def read_history(data: bytes) -> BankHistory:
    """Read the output of `history_bytes`; ValueError names the field and its problem."""
    head = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    version = (head.get("format"), head.get("schema_version"))
    if version != (msgspec.Raw(f'"{FORMAT}"'.encode()), msgspec.Raw(str(SCHEMA_VERSION).encode())):
        raise ValueError(f"its format is not {FORMAT} of schema version {SCHEMA_VERSION}")
    history = msgspec.json.decode(data, type=BankHistory)
    if history.learning_curve is not None and len(history.learning_curve.points) < 2:
        raise ValueError("learning_curve.points must hold two points or more")
    return history
