"""The rubric bank: rubrics with weights, a fitted selector, TF-IDF features, settings and provenance."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from svr_async.core.integrity import NO_MARKS, Marks
from svr_async.core.rubric import MAX_RUBRIC_CHARS, Rubric, rubric_id
from svr_async.core.verdict import is_number, is_whole
from svr_async.fit.tfidf import MAX_TERM_CHARS
from svr_async.scoring.bank_history import BankHistory

Floats = NDArray[np.float32]

UNIFORM = "uniform"  # the selector kind without arrays: every prompt has alpha = 1 / n_rubrics
MAX_WEIGHT = float(np.finfo(np.float32).max)
MAX_NOTE_CHARS = 4_096
MAX_ALIASES = 1_024
MAX_SOURCES = 1_024  # source pairs that training keeps for a rubric; a bank with more can be read


@dataclass(frozen=True, slots=True, kw_only=True)
class BankRubric:
    """A rubric of a bank, its weight and its statistics. ValueError if a value is out of range.

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
    observed_count: int = 1
    support_count: int = 0
    activation_rate: float = 0.0
    aliases: tuple[str, ...] = ()
    criterion: str = ""
    source_pair_ids: tuple[str, ...] = ()
    example_prompts: tuple[str, ...] = ()
    disabled: bool = False
    added: bool = False

    def __post_init__(self) -> None:
        if problem := _rubric_problem(self):
            raise ValueError(f"rubric {self.rubric.id}: {problem}")

    @property
    def id(self) -> str:
        """The rubric's id."""
        return self.rubric.id

    @property
    def text(self) -> str:
        """The rubric's text."""
        return self.rubric.text


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
        for name in ("top_k", "selection_pool"):
            value = getattr(self, name)
            if not is_whole(value, least=1):
                raise ValueError(f"{name} must be a whole number >= 1 (got {value!r})")
        if not is_number(self.filler_weight) or not 0 <= self.filler_weight < math.inf:
            raise ValueError(f"filler_weight must be >= 0 and finite (got {self.filler_weight!r})")

    def as_json(self) -> dict[str, Any]:
        """Return the settings as plain values; `direct` only if set, since the digests of older banks lack it."""
        plain = {"top_k": self.top_k, "selection_pool": self.selection_pool, "filler_weight": float(self.filler_weight)}
        return plain | ({"direct": True} if self.direct else {})


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
        if problem := _bank_problem(self):
            raise ValueError(problem)
        frozen = {name: _read_only(values) for name, values in sorted(self.selector.items())}
        object.__setattr__(self, "selector", MappingProxyType(frozen))
        object.__setattr__(self, "vocabulary", MappingProxyType(dict(self.vocabulary)))
        object.__setattr__(self, "idf", _read_only(self.idf))

    @classmethod
    def load(cls, folder: str | Path, *, offline: bool = False) -> Self:
        """Read and check a bank from a folder or from `hf:user/name` on the hub.

        `offline` uses only what was downloaded before. UsageError if there is no bank, ArtefactError if it is invalid.
        """
        from svr_async.scoring.bank_files import load_bank
        from svr_async.scoring.bank_hub import locate_bank

        return load_bank(locate_bank(str(folder), offline=offline), cls)

    def save(self, folder: str | Path) -> str:
        """Write the bank's files, each whole, and return the bank's digest."""
        from svr_async.scoring.bank_files import save_bank

        return save_bank(self, Path(folder))

    def __len__(self) -> int:
        return len(self.rubrics)

    def __repr__(self) -> str:
        from svr_async.scoring.bank_card import in_short

        return f"<Bank {self.name or 'without a name'}, {in_short(self)}>"

    def _repr_html_(self) -> str:
        from svr_async.core.table import to_html
        from svr_async.scoring.bank_card import bank_sheet

        return to_html(bank_sheet(self))

    @property
    def digest(self) -> str:
        """SHA-256 of the bank's content, independent of its folder."""
        from svr_async.scoring.bank_files import bank_digest

        return bank_digest(self)

    @property
    def weights(self) -> Floats:
        """The rubrics' weights, shape (n_rubrics,)."""
        return np.array([entry.weight for entry in self.rubrics], dtype=np.float32)

    @property
    def texts(self) -> tuple[str, ...]:
        """The rubrics' texts."""
        return tuple(entry.text for entry in self.rubrics)

    def find(self, key: str) -> BankRubric | None:
        """Return the rubric with this id or an unambiguous start of it; None if there is no such rubric."""
        exact = [entry for entry in self.rubrics if entry.id == key]
        near = exact or [entry for entry in self.rubrics if key and entry.id.startswith(key)]
        return near[0] if len(near) == 1 else None


# ── checks: each returns the first problem in one line, or "" ───────────────────────────────────────────────────────


def _bank_problem(bank: RubricBank) -> str:
    words = (bank.name, bank.judge, bank.licence, bank.prompts_digest, *bank.notes)
    return (
        _rubrics_problem(bank.rubrics)
        or _selector_problem(bank.selector_kind, bank.selector, bank.rubrics)
        or features_problem(bank.vocabulary, bank.idf)
        or _texts_problem((*words, *bank.data_digests, *bank.data_digests.values()))
    )


def _rubrics_problem(rubrics: Sequence[BankRubric]) -> str:
    if not rubrics:
        return "a bank needs at least one rubric"
    most_frequent, count = Counter(entry.id for entry in rubrics).most_common(1)[0]
    if count > 1:
        return f"the rubric {most_frequent} occurs twice"
    if all(entry.disabled for entry in rubrics):
        return "a bank needs at least one rubric that is not disabled"
    total = sum(entry.weight for entry in rubrics)
    # A margin is a sum of weights in float32: without this check it would overflow after the judge was paid.
    return "" if total <= MAX_WEIGHT else f"the weights add up to {total:.3g}, more than float32 holds"


def _selector_problem(kind: str, arrays: Mapping[str, Floats], rubrics: Sequence[BankRubric]) -> str:
    if not kind or len(kind) > MAX_TERM_CHARS:
        return f"selector_kind must be a short word (got {kind[:40]!r})"
    if kind != UNIFORM and not arrays:
        return f"a selector of kind {kind!r} needs arrays"
    for name, values in arrays.items():
        if problem := _array_problem(values):
            return f"selector array {name!r} {problem}"
    weight = arrays.get("weight")
    if weight is None:
        return ""
    if weight.shape != (len(rubrics),):
        return f"selector array 'weight' must have one entry for each of {len(rubrics)} rubrics (got {weight.shape})"
    differing = np.flatnonzero(np.array([entry.weight for entry in rubrics], dtype=np.float32) != weight)
    return f"the weight of {rubrics[differing[0]].id} differs from the selector's" if len(differing) else ""


def features_problem(vocabulary: Mapping[str, int], idf: Floats) -> str:
    """Return the first problem of a vocabulary and its idf; "" if there is none."""
    if problem := _array_problem(idf):
        return f"idf {problem}"
    if idf.ndim != 1 or len(idf) != len(vocabulary):
        return f"the vocabulary has {len(vocabulary)} terms, idf has shape {idf.shape}"
    if bool((idf < 0).any()):
        return "idf must be >= 0"
    if sorted(vocabulary.values()) != list(range(len(vocabulary))):
        return "the vocabulary must number its terms 0, 1, 2 …, each once"
    bad = next((term for term in vocabulary if not 0 < len(term) <= MAX_TERM_CHARS or not _is_utf8(term)), None)
    size = f"a text of 1 to {MAX_TERM_CHARS} characters"
    return "" if bad is None else f"the vocabulary holds the term {bad[:40]!r}: a term is {size}"


def _texts_problem(texts: Iterable[object]) -> str:
    """Return the problem of the first text that a bank cannot hold; "" if there is none."""
    bad = (text for text in texts if not isinstance(text, str) or len(text) > MAX_NOTE_CHARS or not _is_utf8(text))
    found = next(bad, None)
    return "" if found is None else f"a text is too long, not a text or not valid Unicode: {repr(found)[:40]}"


def _rubric_problem(entry: BankRubric) -> str:
    rubric = entry.rubric
    if rubric.id != rubric_id(rubric.text):
        return f"its id is not the hash of its text ({rubric_id(rubric.text)})"
    if len(rubric.text) > MAX_RUBRIC_CHARS:
        return f"its text has {len(rubric.text)} characters, at most {MAX_RUBRIC_CHARS} are allowed"
    for name, most, limit in (("weight", MAX_WEIGHT, "finite in float32"), ("activation_rate", 1, "<= 1")):
        value = getattr(entry, name)
        if not is_number(value) or not 0 <= value <= most:
            return f"{name} must be >= 0 and {limit} (got {value!r})"
    for name in ("observed_count", "support_count"):
        if not is_whole(getattr(entry, name)):
            return f"{name} must be a whole number >= 0 (got {getattr(entry, name)!r})"
    if len(entry.aliases) > MAX_ALIASES:
        return f"it has {len(entry.aliases)} aliases, at most {MAX_ALIASES} are allowed"
    texts = (rubric.text, rubric.facet, rubric.importance, rubric.grounding, entry.domain, entry.criterion)
    return _texts_problem((*texts, *entry.aliases, *entry.source_pair_ids, *entry.example_prompts))


def _array_problem(values: Floats) -> str:
    if not isinstance(values, np.ndarray) or values.dtype != np.float32:
        return f"must be a float32 array (got {getattr(values, 'dtype', type(values).__name__)})"
    bad = values.size - int(np.isfinite(values).sum())
    return f"holds {bad} values that are not finite" if bad else ""


def _is_utf8(text: str) -> bool:
    """Whether a text can be written as UTF-8: it has no half of a surrogate pair."""
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def _read_only(values: Floats) -> Floats:
    copy = np.array(values, dtype=np.float32, order="C")
    copy.flags.writeable = False
    return copy
