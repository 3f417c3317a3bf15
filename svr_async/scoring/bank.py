"""The rubric bank: rubrics with weights, a fitted selector, TF-IDF features, settings, and the history of its fits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from svr_async.core.files import HUB_SCHEME
from svr_async.core.integrity import NO_MARKS, Marks
from svr_async.core.rubric import MAX_RUBRIC_CHARS, Rubric, rubric_id
from svr_async.fit.config import Choice
from svr_async.fit.history import FitCurve
from svr_async.fit.learning_curve import LearningCurve

Floats = NDArray[np.float32]
Count = Annotated[int, Meta(ge=0)]
UNIFORM = "uniform"  # the selector kind without arrays: every prompt has alpha = 1 / n_rubrics
MAX_WEIGHT = float(np.finfo(np.float32).max)
MAX_NOTE_CHARS = 4_096
MAX_ALIASES = 1_024
MAX_SOURCES = 1_024  # source pairs that training keeps for a rubric; a bank with more can be read


@dataclass(frozen=True, slots=True, kw_only=True)
class BankRubric:
    """A rubric of a bank, or a candidate for one; weight and statistics. ValueError if its id or text is invalid.

    Args:
        weight: w ≥ 0.
        criterion: The id of the first wording of its criterion; empty if it is the only wording.
        domain: Where most of its source pairs come from; empty for several domains.
        observed_count: How often it was proposed.
        support_count: How many support pairs it covered.
        activation_rate: Mean of alpha over training prompts, 0 to 1.
        example_prompts: Ids of pairs whose prompts activate it.
        disabled: Kept, never chosen.
        added: Added by hand, so that no fit knows it: its alpha is 1 for every prompt.
    """

    rubric: Rubric
    weight: float = 1.0
    domain: str = ""
    observed_count: Count = 1
    support_count: Count = 0
    activation_rate: Annotated[float, Meta(ge=0, le=1)] = 0.0
    aliases: tuple[str, ...] = ()
    criterion: str = ""
    source_pair_ids: tuple[str, ...] = ()
    example_prompts: tuple[str, ...] = ()
    disabled: bool = False
    added: bool = False

    def __post_init__(self) -> None:
        if self.id != (expected := rubric_id(self.text)):  # contributions and merging go by ids
            raise ValueError(f"rubric {self.id}: its id is not the hash of its text ({expected})")
        if (size := len(self.text)) > MAX_RUBRIC_CHARS:
            raise ValueError(
                f"rubric {self.id}: its text has {size} characters, at most {MAX_RUBRIC_CHARS} are allowed"
            )

    @property
    def id(self) -> str:
        """The rubric's id."""
        return self.rubric.id

    @property
    def text(self) -> str:
        """The rubric's text."""
        return self.rubric.text

    @property
    def texts(self) -> tuple[str, ...]:
        """The text and its aliases."""
        return (self.text, *self.aliases)


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceSettings:
    """How rubrics are chosen: `top_k` of the best `selection_pool`; free slots weigh `filler_weight` each.

    With `direct` the judge is asked without rubrics: in cross-validation the fit was no better than guessing.
    """

    top_k: int = 6  # app:hparams
    selection_pool: int = 18  # app:hparams
    filler_weight: float = 1.0  # app:topk; a fit chooses its own on the dev split
    direct: bool = False

    def __post_init__(self) -> None:
        if min(self.top_k, self.selection_pool) < 1 or not 0 <= self.filler_weight < math.inf:
            raise ValueError(f"top_k and selection_pool must be >= 1, filler_weight >= 0 and finite (got {self})")

    def as_json(self) -> dict[str, Any]:
        """Return the settings as plain values; `direct` only if set, since the digests of older banks lack it."""
        plain = {"top_k": self.top_k, "selection_pool": self.selection_pool, "filler_weight": float(self.filler_weight)}
        return plain | ({"direct": True} if self.direct else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFacts:
    """One round of Algorithm 1; unmeasured values are None.

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RubricBank:
    """Everything that scoring with a trained bank needs, and its provenance. ValueError if it is incoherent.

    `selector` holds float32 arrays by name, their meaning set by `selector_kind` (see `fit.forward`). An array named
    `weight` must equal the rubrics' weights. `vocabulary` maps a term to its place in `idf`. `history` and `marks`
    (those of the training judge) are for readers; scoring does not use them.
    """

    rubrics: tuple[BankRubric, ...]
    selector_kind: str = UNIFORM
    selector: Mapping[str, Floats] = field(default_factory=dict)
    vocabulary: Mapping[str, int] = field(default_factory=dict)
    idf: Floats = field(default_factory=lambda: np.zeros(0, np.float32))
    inference: InferenceSettings = field(default_factory=InferenceSettings)
    fit_settings: Mapping[str, Any] = field(default_factory=dict)
    dev_metrics: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    judge: str = ""
    marks: Marks = NO_MARKS
    licence: str = ""
    prompts_digest: str = ""
    data_digests: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    history: BankHistory | None = None

    def __post_init__(self) -> None:
        selector = {name: _read_only(values) for name, values in sorted(self.selector.items())}
        object.__setattr__(self, "selector", MappingProxyType(selector))
        object.__setattr__(self, "vocabulary", MappingProxyType(dict(self.vocabulary)))
        object.__setattr__(self, "idf", _read_only(self.idf))
        problem = (
            _rubrics_problem(self.rubrics) or _selector_problem(self) or features_problem(self.vocabulary, self.idf)
        )
        if problem:
            raise ValueError(problem)

    @staticmethod
    def load(folder: str | Path, *, offline: bool = False) -> RubricBank:
        """Read and check a bank from a folder or from `hf:user/name` on the hub.

        `offline` uses only what was downloaded before. UsageError without a bank, ArtefactError if it is invalid.
        """
        from svr_async.scoring.bank_files import load_bank
        from svr_async.scoring.bank_hub import fetch_bank

        on_hub = str(folder).startswith(HUB_SCHEME)
        return load_bank(fetch_bank(str(folder), offline=offline) if on_hub else Path(folder))

    def save(self, folder: str | Path) -> str:
        """Write the bank's files, each whole, and return the bank's digest."""
        from svr_async.scoring.bank_files import save_bank

        return save_bank(self, Path(folder))

    def __len__(self) -> int:
        return len(self.rubrics)

    def __repr__(self) -> str:
        disabled = sum(entry.disabled for entry in self.rubrics)
        size = f"{len(self):,} rubric{'' if len(self) == 1 else 's'}{f' ({disabled:,} disabled)' if disabled else ''}"
        of = f"selector {self.selector_kind}, top {self.inference.top_k}"
        return f"<Bank {self.name or 'without a name'}, {size}, {of}>"

    def _repr_markdown_(self) -> str:  # in a notebook
        from svr_async.scoring.bank_card import render_card

        return render_card(self).partition("\n---\n")[2]  # without the front matter

    @property
    def digest(self) -> str:
        """SHA-256 of the bank's content, independent of its folder."""
        from svr_async.scoring.bank_files import BANK, bank_contents, sha256_of

        return sha256_of(bank_contents(self)[BANK])

    @property
    def weights(self) -> Floats:
        """The rubrics' weights, shape (n_rubrics,)."""
        return np.array([entry.weight for entry in self.rubrics], dtype=np.float32)

    @property
    def texts(self) -> tuple[str, ...]:
        """The rubrics' texts."""
        return tuple(entry.text for entry in self.rubrics)

    def find(self, key: str) -> BankRubric | None:
        """Return the rubric with this id or an unambiguous start of it; None without a match."""
        exact = [entry for entry in self.rubrics if entry.id == key]
        near = exact or [entry for entry in self.rubrics if key and entry.id.startswith(key)]
        return near[0] if len(near) == 1 else None


def _rubrics_problem(rubrics: Sequence[BankRubric]) -> str:
    if not rubrics:
        return "a bank needs at least one rubric"
    most_frequent, count = Counter(entry.id for entry in rubrics).most_common(1)[0]
    if count > 1:
        return f"the rubric {most_frequent} occurs twice"
    if all(entry.disabled for entry in rubrics):
        return "a bank needs at least one rubric that is not disabled"
    if wrong := next((entry for entry in rubrics if not 0 <= entry.weight <= MAX_WEIGHT), None):
        return f"rubric {wrong.id}: weight must be >= 0 and finite in float32 (got {wrong.weight!r})"
    total = sum(entry.weight for entry in rubrics)
    # A margin is a sum of weights in float32: without this check it would overflow after the judge was paid.
    return "" if total <= MAX_WEIGHT else f"the weights add up to {total:.3g}, more than float32 holds"


def _selector_problem(bank: RubricBank) -> str:
    if bank.selector_kind != UNIFORM and not bank.selector:
        return f"a selector of kind {bank.selector_kind[:40]!r} needs arrays"
    for name, values in bank.selector.items():
        if bad := _n_not_finite(values):
            return f"selector array {name!r} holds {bad} values that are not finite"
    differ = not np.array_equal(bank.selector.get("weight", bank.weights), bank.weights)
    return "selector array 'weight' differs from the weights of the rubrics" if differ else ""


def features_problem(vocabulary: Mapping[str, int], idf: Floats) -> str:
    """Return the first problem of a vocabulary and its idf, or ""."""
    if idf.shape != (len(vocabulary),):
        return f"the vocabulary has {len(vocabulary)} terms, idf has shape {idf.shape}"
    if _n_not_finite(idf) or bool((idf < 0).any()):
        return "idf must be >= 0 and finite"
    if sorted(vocabulary.values()) != list(range(len(vocabulary))):
        return "the vocabulary must number its terms 0, 1, 2 …, each once"
    return ""


def _n_not_finite(values: Floats) -> int:
    return values.size - int(np.isfinite(values).sum())


def _read_only(values: Floats) -> Floats:
    copy = np.array(values, dtype=np.float32, order="C")
    copy.flags.writeable = False
    return copy
