"""Changes that a person makes to a bank: rubrics disabled, reworded, reweighed, added; each kept in its history."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from math import fsum
from pathlib import Path

import numpy as np

from svr_async.core.files import open_folder
from svr_async.core.rubric import MAX_RUBRIC_CHARS, Check, Rubric
from svr_async.errors import StorageError, UsageError
from svr_async.scoring.bank import (
    MAX_ALIASES,
    MAX_NOTE_CHARS,
    UNIFORM,
    BankHistory,
    BankRubric,
    Edit,
    Floats,
    RubricBank,
)
from svr_async.training.bank.distinct import differ, predicate, profile
from svr_async.training.bank.merge import MERGE_CUTOFF
from svr_async.training.bank.near_duplicates import repeating_pairs, similar_pairs

NEVER = np.float32(-1e6)  # the logit of an added rubric: what the fit shares out is as it was without it
MOST_WEIGHT = 1e30
OTHER_CHECK = {"numbers", "quoted words", "negation"}  # what a check cannot follow in a new text
EDITED = "Edited by hand after its fit: what the dev split says is of the bank before. history.json lists the edits."


@dataclass(frozen=True, slots=True, kw_only=True)
class EditPlan:
    """What to change, in this order; rubrics are named by the start of their ids, texts and weights stand beside them.

    `added` rubrics weigh `added_weight`, by default what a chosen rubric counts in the mean.
    """

    disabled: Sequence[str] = ()
    enabled: Sequence[str] = ()
    reworded: Sequence[tuple[str, str]] = ()
    reweighed: Sequence[tuple[str, float]] = ()
    added: Sequence[str] = ()
    added_weight: float | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing is to change."""
        return not (self.disabled or self.enabled or self.reworded or self.reweighed or self.added)


def edit_bank(bank: RubricBank, plan: EditPlan, *, author: str, reason: str, day: date) -> RubricBank:
    """Return the bank with a plan carried out and noted in its history; all that was not named is chosen as before.

    A reworded rubric keeps its place, weight, counts and check, and its old text as an alias. UsageError in one line
    for a rubric that is not there, a text that is there already (or that merging would make one with another), a weight
    that is no number >= 0, and for what changes nothing.
    """
    if plan.empty:
        raise UsageError("nothing is to be edited", hint="--disable, --enable, --reword, --weight or --add says what")
    for name, text in (("--by", author), ("--reason", reason)):
        if not text.strip() or not text.isprintable() or len(text) > MAX_NOTE_CHARS:
            hint = f"one line of 1 to {MAX_NOTE_CHARS:,} characters"
            raise UsageError(f"{name} has {len(text):,} characters, or some that cannot be printed", hint=hint)
    editor = _Editor(
        bank, Edit(what="", rubric="", author=author, date=day.isoformat(), reason=reason, bank=bank.digest)
    )
    for key in plan.disabled:
        editor.switch(key, disabled=True)
    for key in plan.enabled:
        editor.switch(key, disabled=False)
    for key, text in plan.reworded:
        editor.reword(key, text)
    for key, weight in plan.reweighed:
        editor.reweigh(key, weight)
    for text in plan.added:
        editor.add(text, _usual_weight(bank) if plan.added_weight is None else plan.added_weight)
    return editor.edited()


def save_in_place(edited: RubricBank, folder: Path, former: str) -> Path:
    """Write an edited bank over the one in `folder`, and return the folder beside it where the former is kept whole.

    `former` is the former's digest, of which its name has eight digits. UsageError where that folder is there already.
    """
    folder = folder.resolve()
    kept = folder.with_name(f"{folder.name}-{former[:8]}")
    if kept.exists():
        raise UsageError(f"{kept} is there already", hint="remove it, or write the edited bank with --out DIR")
    try:
        shutil.copytree(folder, kept)
    except OSError as error:
        raise StorageError(f"cannot keep the former bank in {kept}: {error}", hint="use --out DIR") from error
    edited.save(folder)
    return kept


def save_anew(edited: RubricBank, folder: Path) -> None:
    """Write an edited bank into a folder that holds none; UsageError where it does, also by another edit just now."""
    open_folder(folder)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)  # until the folder is closed: the second of two edits finds the first's bank
        if (folder / "bank.json").exists():
            raise UsageError(f"{folder} holds a bank", hint="name another folder, or edit that one with --in-place")
        edited.save(folder)
    finally:
        os.close(handle)


class _Editor:
    """A bank on its way to being another: its rubrics as they are by now, and what was done."""

    def __init__(self, bank: RubricBank, stamp: Edit) -> None:
        self.bank, self.stamp = bank, stamp
        self.entries, self.edits = list(bank.rubrics), list[Edit]()

    def switch(self, key: str, *, disabled: bool) -> None:
        place = self._find(key)
        entry, word = self.entries[place], "disabled" if disabled else "enabled"
        if entry.disabled is disabled:
            raise UsageError(f"the rubric {entry.id} is {word} already", hint="leave it out")
        self._put(place, replace(entry, disabled=disabled), word)

    def reword(self, key: str, text: str) -> None:
        place = self._find(key)
        entry, text = self.entries[place], " ".join(text.split())
        if text == entry.text:
            raise UsageError(f"the rubric {entry.id} has this text already", hint="leave it out")
        check = entry.rubric.check
        why = differ(profile(entry.text), profile(text))
        if check is not None and why in OTHER_CHECK:
            hint = f"its check {check.name} would decide as before; disable it and add the new one"
            raise UsageError(f"the new text of {entry.id} asks for something else ({why})", hint=hint)
        rubric = self._new(text, check, beside=place)
        aliases = tuple(dict.fromkeys((entry.text, *entry.aliases)))[:MAX_ALIASES]
        kept = tuple(alias for alias in aliases if alias != text)
        self._put(
            place,
            replace(entry, rubric=replace(entry.rubric, text=text, id=rubric.id), aliases=kept),
            "reworded",
            entry.text,
            text,
        )

    def reweigh(self, key: str, weight: float) -> None:
        place = self._find(key)
        entry, held = self.entries[place], _checked(weight)
        if held == entry.weight:
            raise UsageError(f"the rubric {entry.id} weighs {held:g} already", hint="leave it out")
        self._put(place, replace(entry, weight=held), "reweighed", f"{entry.weight:g}", f"{held:g}")

    def add(self, text: str, weight: float) -> None:
        text = " ".join(text.split())
        rubric = self._new(text)
        self.entries.append(BankRubric(rubric=rubric, weight=_checked(weight), observed_count=0, added=True))
        self._note("added", rubric.id, "", f"{weight:g}")

    def edited(self) -> RubricBank:
        if all(entry.disabled for entry in self.entries):
            raise UsageError("no rubric would be left to judge by", hint="keep one, or judge with --method direct")
        history = self.bank.history or BankHistory()
        return replace(
            self.bank,
            rubrics=tuple(self.entries),
            selector=_fitted_to(self.bank, self.entries),
            notes=tuple(dict.fromkeys((*self.bank.notes, EDITED))),
            history=replace(history, edits=(*history.edits, *self.edits)),
        )

    def _find(self, key: str) -> int:
        found = [place for place, entry in enumerate(self.entries) if entry.id == key]
        found = found or [place for place, entry in enumerate(self.entries) if key and entry.id.startswith(key)]
        if len(found) != 1:
            many = f"{len(found)} rubrics have ids that begin" if found else "no rubric has an id that begins"
            raise UsageError(f"{many} {key!r}", hint="svr bank show BANK --all lists them")
        return found[0]

    def _new(self, text: str, check: Check | None = None, beside: int | None = None) -> Rubric:
        """Return the rubric of a new text; UsageError where the bank has it, but for the rubric that it replaces."""
        if not text or len(text) > MAX_RUBRIC_CHARS or not text.isprintable():
            hint = f"one line of 1 to {MAX_RUBRIC_CHARS} characters"
            raise UsageError(f"a rubric of {len(text):,} characters, or with some that cannot be printed", hint=hint)
        rubric = Rubric(text=text, check=check)
        others = [entry for place, entry in enumerate(self.entries) if place != beside]
        texts = [*(entry.text for entry in others), text]
        similar = similar_pairs(texts, MERGE_CUTOFF)
        same = repeating_pairs(similar, [*(entry.rubric for entry in others), rubric])
        twins = [others[one] for one, other in zip(same.first.tolist(), same.second.tolist(), strict=True)
                 if other == len(others)]  # fmt: skip
        twins = [entry for entry in others if predicate(entry.text) == predicate(text)] + twins
        if twins:
            state = ", disabled" if twins[0].disabled else ""
            hint = f"reword, reweigh or enable {twins[0].id} instead"
            raise UsageError(
                f"the bank has {text[:80]!r} already: {twins[0].id}{state}, {twins[0].text[:80]!r}", hint=hint
            )
        return rubric

    def _put(self, place: int, entry: BankRubric, what: str, was: str = "", now: str = "") -> None:
        self.entries[place] = entry
        self._note(what, entry.id, was, now)

    def _note(self, what: str, rubric: str, was: str, now: str) -> None:
        self.edits.append(replace(self.stamp, what=what, rubric=rubric, was=was, now=now))


def _checked(weight: float) -> float:
    """Return a weight as the bank's files hold it, in single precision."""
    if not 0 <= weight <= MOST_WEIGHT:
        raise UsageError(
            f"a rubric cannot weigh {weight:g}", hint="a weight is a number from 0 to 1e30; --disable takes one out"
        )
    return float(np.float32(weight))


def _usual_weight(bank: RubricBank) -> float:
    """Return what a chosen rubric counts in the mean, alpha times weight; of an unfitted bank the mean weight."""
    if bank.selector_kind == UNIFORM:
        return fsum(entry.weight for entry in bank.rubrics) / len(bank)
    total = fsum(entry.weight * entry.activation_rate for entry in bank.rubrics)
    if total == 0:
        raise UsageError("the bank does not say how active its rubrics are", hint="give --add-weight W")
    return total / min(bank.inference.top_k, len(bank))


def _fitted_to(bank: RubricBank, entries: Sequence[BankRubric]) -> dict[str, Floats]:
    """Return the selector's arrays for the rubrics as they are now: new weights, and a row for each that was added."""
    more = len(entries) - len(bank)
    arrays = dict(bank.selector)
    if "weight" in arrays:
        arrays["weight"] = np.array([entry.weight for entry in entries], dtype=np.float32)
    if more and "output" in arrays:
        arrays["output"] = np.concatenate([arrays["output"], np.zeros((more, arrays["output"].shape[1]), np.float32)])
    if more and "output_bias" in arrays:
        arrays["output_bias"] = np.append(arrays["output_bias"], np.full(more, NEVER))
    return arrays
