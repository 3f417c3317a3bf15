"""A feature store from what people bring: pairs, rubrics, and a z for some of the entries between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from svr_async.core.files import read_plain
from svr_async.core.pair import PreferencePair, prompt_text, split_by_prompt
from svr_async.core.verdict import is_whole
from svr_async.errors import DataError, UsageError
from svr_async.fit import ragged
from svr_async.fit.tfidf import learn
from svr_async.training.bank.build import bank_rubric, refuse_long_names
from svr_async.training.bank.merge import Candidate
from svr_async.training.rounds.fit_terms import FitTerms, config_of
from svr_async.training.rounds.problem import Prompts, Sources
from svr_async.training.rounds.session import Material
from svr_async.training.rounds.state import candidate_from_json
from svr_async.training.store.entry_files import Entries, names_of, read_entries
from svr_async.training.store.reader import load_store
from svr_async.training.store.records import OWN, FeatureStore, Judged, StoreRubric, rubrics_problem
from svr_async.training.store.session_store import put_beside, settle, store_content, store_header

RUBRICS_HINT = 'a line is {"text": …} with an optional id, or what svr stages induce writes'


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """How an import is made: the share of prompts held out as dev (0: none), the terms of the fit, who judged."""

    dev_share: float = 0.05
    terms: FitTerms = FitTerms()  # noqa: RUF009  (frozen)
    judge: str = "imported"


def import_store(
    pairs: Sequence[PreferencePair],
    digest: str,
    rubrics: Path,
    z: Path,
    out: Path,
    options: ImportOptions,
) -> FeatureStore:
    """Write a store of these pairs, of the rubrics and entries in two files, and return it.

    `digest` is that of the pairs. Pairs that teach nothing (no preference, equal responses) are left out with their
    entries. DataError or UsageError, in one line, for anything wrong; nothing is written then.
    """
    named = read_rubrics(rubrics)
    candidates = [candidate for candidate, _ in named]
    entries = read_entries(z, names_of([pair.id for pair in pairs]), len(pairs), _names(rubrics, named))
    material = _material(pairs, digest, options)
    judged = _judged(pairs, material, candidates, entries)
    header = store_header(material, judge=options.judge, prompts_digest="", terms=options.terms)
    content = store_content(material, [StoreRubric(candidate=one) for one in candidates], (), judged)
    settle(put_beside(out, header, content), out)
    return load_store(out)


# ── rubrics ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_rubrics(path: Path) -> list[tuple[Candidate, str]]:
    """Return the rubrics of a JSON Lines file, each with the id that the file gives it (empty: none)."""
    try:
        lines = read_plain(path).splitlines()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}", hint=RUBRICS_HINT) from error
    found = [_rubric(line, f"{path} line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise DataError(f"{path} holds 0 rubrics", hint=RUBRICS_HINT)
    if problem := rubrics_problem([StoreRubric(candidate=candidate) for candidate, _ in found]):
        raise DataError(f"{path}: {problem}", hint="each rubric once")
    return found


def _rubric(line: bytes, where: str) -> tuple[Candidate, str]:
    try:
        value = orjson.loads(line)
        candidate = candidate_from_json(_as_candidate(value))
        bank_rubric(candidate)  # a bank must be able to hold it
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        why = f"the field {error} is missing" if isinstance(error, KeyError) else str(error)
        raise DataError(f"{where} is no rubric: {why}", hint=RUBRICS_HINT) from error
    return candidate, value.get("id", "")


def _as_candidate(value: Any) -> dict[str, Any]:
    """Return a line in the form that `svr stages induce` writes; TypeError where a value is of another type."""
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, found {type(value).__name__}")
    if not isinstance(value.get("id", ""), str):
        raise TypeError(f"id must be a text (got {type(value['id']).__name__})")
    rubric = value.get("rubric", value)
    if not isinstance(rubric, dict) or not isinstance(rubric.get("text"), str) or not rubric["text"].strip():
        raise TypeError("text must be a text that is not empty")
    lists = {name: value.get(name, []) for name in ("sources", "aliases")}
    for name, texts in lists.items():
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise TypeError(f"{name} must be a list of texts")
    count = value.get("count", 1)
    if not is_whole(count, least=1):
        raise TypeError(f"count must be a whole number >= 1 (got {str(count)[:40]!r})")
    return {"rubric": rubric, "count": count, **lists}


def _names(path: Path, named: Sequence[tuple[Candidate, str]]) -> dict[str, int]:
    """Return the place of every name of a rubric: its own id and the one that the file gives it."""
    names = names_of([candidate.rubric.id for candidate, _ in named])
    for place, (_, name) in enumerate(named):
        if name and names.setdefault(name, place) != place:
            raise DataError(f"{path}: two rubrics have the id {name[:60]!r}", hint="give each an id of its own")
    return names


# ── pairs and entries ───────────────────────────────────────────────────────────────────────────────────────────────


def _material(pairs: Sequence[PreferencePair], digest: str, options: ImportOptions) -> Material:
    """Return the pairs, split by prompt as training splits them, with the features of their prompts."""
    useful = [pair for pair in pairs if pair.has_preference and pair.chosen != pair.rejected]
    refuse_long_names(useful)
    train, dev = split_by_prompt(useful, options.dev_share, salt=str(options.terms.seed))
    if not train:
        raise UsageError(
            f"0 of {len(pairs)} pairs are left to train on", hint="give more pairs with a preference, or hold out less"
        )
    texts = list(dict.fromkeys(prompt_text(pair.prompt) for pair in train))
    vocabulary = learn(texts, pairs_of_words=config_of(options.terms).fit.pairs_of_words)
    return Material(
        train=tuple(train),
        dev=tuple(dev),
        vocabulary=vocabulary,
        prompts=Prompts.of((*train, *dev), vocabulary),
        digest=digest,
    )


def _judged(
    pairs: Sequence[PreferencePair], material: Material, rubrics: Sequence[Candidate], entries: Entries
) -> Judged:
    """Return the entries as rows of the material's pairs; those that a pair's own rubric judges are flagged."""
    row_of = {pair.id: row for row, pair in enumerate(material.pairs)}
    rows = np.array([row_of.get(pair.id, -1) for pair in pairs], dtype=np.int64)[entries.pair]
    order = np.argsort(rows, kind="stable")[int(np.count_nonzero(rows < 0)) :]
    rows, index = rows[order], entries.rubric[order].astype(np.int32)
    return Judged(
        indptr=ragged.indptr_of(np.bincount(rows, minlength=len(material.pairs))),
        index=index,
        value=entries.z[order],
        flags=_own_flags(material, rubrics, rows, index),
        weight=None if entries.weight is None else entries.weight[order],
    )


def _own_flags(
    material: Material, rubrics: Sequence[Candidate], rows: np.ndarray[Any, Any], index: np.ndarray[Any, Any]
) -> np.ndarray[Any, np.dtype[np.uint8]]:
    prompts = np.array([material.prompts.row(pair) for pair in material.pairs], dtype=np.int64)
    train, dev = ({pair.id: material.prompts.row(pair) for pair in side} for side in (material.train, material.dev))
    sources = Sources.of(rubrics, train, dev)
    own = np.array(
        [prompt * len(rubrics) + int(rubric) for prompt in np.unique(prompts) for rubric in sources.own(int(prompt))],
        dtype=np.int64,
    )
    mine = np.isin(prompts[rows] * len(rubrics) + index, own)
    return np.where(mine, OWN, 0).astype(np.uint8)
