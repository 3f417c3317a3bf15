"""Care of banks: edits by hand, the rubrics of several banks in one, and the difference between two banks."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from math import fsum
from pathlib import Path
from typing import Any

import numpy as np

from svr_async.core.integrity import joined_marks
from svr_async.core.rubric import Rubric, rubric_id
from svr_async.core.similarity import similarity
from svr_async.core.table import Line, Parts, Table, plain_word
from svr_async.errors import StorageError, UsageError
from svr_async.scoring.bank import MAX_ALIASES, UNIFORM, BankRubric, Floats, InferenceSettings, RubricBank
from svr_async.scoring.bank_card import in_one_level
from svr_async.scoring.bank_history import BankHistory, Edit
from svr_async.training.bank.criteria import differ, predicate, profile
from svr_async.training.bank.merge import Candidate, bank_rubric, candidate_of, merge, near_duplicates

NEVER = np.float32(-1e6)  # the logit of an added rubric: the fit shares attention among the others as before
OTHER_CHECK = {"numbers", "quoted words", "negation"}  # what a check cannot follow in a new text
EDITED = "Edited by hand after its fit: what the dev split says is of the bank before. history.json lists the edits."
MERGED = "Merged from several banks and not fitted since: the selector is the same for every prompt."
SHOWN = 20  # rubrics of a kind in a table


# ── edits by hand ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class EditPlan:
    """Edits in the order in which they are made; rubrics are named by the start of their ids."""

    disabled: Sequence[str] = ()
    reworded: Sequence[tuple[str, str]] = ()
    reweighed: Sequence[tuple[str, float]] = ()
    added: Sequence[str] = ()


def edit_bank(bank: RubricBank, plan: EditPlan, *, author: str, reason: str, day: date) -> RubricBank:
    """Return the bank with a plan carried out and noted in its history; the selector chooses the others as before.

    A reworded rubric keeps its place, weight, counts and check, and its old text as an alias. A new weight enables a
    disabled rubric. An added rubric weighs what a chosen rubric counts in the mean. UsageError for an unknown rubric,
    a text that the bank has already (or that merging would join with another), and an invalid text or weight.
    """
    if not any((plan.disabled, plan.reworded, plan.reweighed, plan.added)):
        raise UsageError("nothing is to be edited", hint="give --disable, --reword, --weight or --add")
    stamp = Edit(what="", rubric="", author=author, date=day.isoformat(), reason=reason, bank=bank.digest)
    try:
        return _edited(bank, plan, stamp)
    except ValueError as error:  # from the checks of Rubric, BankRubric and RubricBank
        raise UsageError(f"the bank cannot be edited so: {error}", hint="give another text or weight") from error


def _edited(bank: RubricBank, plan: EditPlan, stamp: Edit) -> RubricBank:
    entries, edits = list(bank.rubrics), list[Edit]()

    def change(place: int, what: str, was: str = "", now: str = "", **fields: Any) -> None:
        entries[place] = replace(entries[place], **fields)
        edits.append(replace(stamp, what=what, rubric=entries[place].id, was=was, now=now))

    for key in plan.disabled:
        change(place_of(entries, key), "disabled", disabled=True)
    for key, text in plan.reworded:
        place = place_of(entries, key)
        before = entries[place]
        rubric = _reworded(before.rubric, text, [entry for entry in entries if entry is not before])
        aliases = tuple(alias for alias in dict.fromkeys((before.text, *before.aliases)) if alias != rubric.text)
        change(place, "reworded", before.text, rubric.text, rubric=rubric, aliases=aliases[:MAX_ALIASES])
    for key, weight in plan.reweighed:
        place, held = place_of(entries, key), _single(weight)
        was = "disabled" if entries[place].disabled else f"{entries[place].weight:g}"
        change(place, "reweighed", was, f"{held:g}", weight=held, disabled=False)
    for text in plan.added:
        rubric, weight = _new(Rubric(text=" ".join(text.split())), entries), _single(_usual_weight(bank))
        entries.append(BankRubric(rubric=rubric, weight=weight, observed_count=0, added=True))
        change(len(entries) - 1, "added", now=f"{weight:g}")
    history = bank.history or BankHistory()
    return replace(
        bank,
        rubrics=tuple(entries),
        selector=_fitted_to(bank, entries),
        notes=tuple(dict.fromkeys((*bank.notes, EDITED))),
        history=replace(history, edits=(*history.edits, *edits)),
    )


def place_of(entries: Sequence[BankRubric], key: str) -> int:
    """Return the place of the rubric with this id, or the only one whose id begins so; UsageError otherwise."""
    exact = [place for place, entry in enumerate(entries) if entry.id == key]
    found = exact or [place for place, entry in enumerate(entries) if entry.id.startswith(key)]
    if len(found) != 1:
        many = f"{len(found)} rubrics have ids that begin" if found else "no rubric has an id that begins"
        raise UsageError(f"{many} {key!r}", hint="svr bank show BANK --top 0 lists them")
    return found[0]


def _reworded(rubric: Rubric, text: str, others: Sequence[BankRubric]) -> Rubric:
    """Return a rubric with another text; UsageError if its check would decide something else than the text asks."""
    text = " ".join(text.split())
    why = differ(profile(rubric.text), profile(text))
    if rubric.check is not None and why in OTHER_CHECK:
        hint = f"its check {rubric.check.name} would decide as before; disable it and add the new one"
        raise UsageError(f"the new text of {rubric.id} asks for something else ({why})", hint=hint)
    return _new(replace(rubric, text=text, id=rubric_id(text)), others)


def _new(rubric: Rubric, others: Sequence[BankRubric]) -> Rubric:
    """Return a rubric; UsageError if another one states its criterion."""
    twins = [entry for entry in others if predicate(entry.text) == predicate(rubric.text)]
    pairs = near_duplicates([*(entry.rubric for entry in others), rubric])
    twins += [others[one] for one, other, _ in pairs if other == len(others)]
    if twins:
        known = f"{twins[0].id}{', disabled' if twins[0].disabled else ''}, {twins[0].text[:80]!r}"
        hint = f"reword {twins[0].id}, or give it a weight: that enables it, too"
        raise UsageError(f"the bank has {rubric.text[:80]!r} already: {known}", hint=hint)
    return rubric


def _single(weight: float) -> float:
    """Return a weight in single precision, as the bank's files hold it."""
    with np.errstate(over="ignore"):  # BankRubric refuses infinite weights
        return float(np.float32(weight))


def _usual_weight(bank: RubricBank) -> float:
    """Return what a chosen rubric counts in the mean, alpha times weight; of an unfitted bank the mean weight."""
    total = fsum(entry.weight * entry.activation_rate for entry in bank.rubrics)
    if bank.selector_kind == UNIFORM or total == 0:
        return fsum(entry.weight for entry in bank.rubrics) / len(bank)
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


def save_in_place(edited: RubricBank, folder: Path, former: str) -> Path:
    """Write an edited bank over that in `folder`; return the folder next to it that keeps the former one, whole.

    Its name ends with the first eight digits of the former's digest. UsageError if that folder exists already.
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


# ── several banks in one ────────────────────────────────────────────────────────────────────────────────────────────


def merge_banks(banks: Sequence[RubricBank]) -> RubricBank:
    """Return one bank with the rubrics of all, near-identical ones merged as in training; it still needs a fit.

    Selectors of different fits cannot be joined, so every prompt gets the rubrics with the largest weights. A weight is
    the mean of the merged rubrics' importances by their counts: weight times activation rate, since a fit may leave all
    weights equal and distinguish rubrics by how active they are. Activation rates are dropped.
    """
    entries = [entry for bank in banks for entry in _by_importance(bank)]
    merged = merge([candidate_of(entry) for entry in entries])
    place = {rubric_id(text): number for number, candidate in enumerate(merged) for text in candidate.texts}
    members: list[list[BankRubric]] = [[] for _ in merged]
    for entry in entries:
        if entry.id in place:  # not dropped by the cap
            members[place[entry.id]].append(entry)
    rubrics = map(_joined, merged, members)
    settings = {bank.inference for bank in banks}
    return RubricBank(
        rubrics=tuple(sorted(rubrics, key=lambda entry: (-entry.weight, entry.id))),
        selector_kind=UNIFORM,
        inference=replace(settings.pop(), direct=False) if len(settings) == 1 else InferenceSettings(),
        name=" + ".join(bank.name or bank.digest[:8] for bank in banks),
        judge=_common(bank.judge for bank in banks),
        marks=joined_marks(bank.marks for bank in banks),
        licence=_common(bank.licence for bank in banks),
        prompts_digest=_common(bank.prompts_digest for bank in banks),
        data_digests={name: digest for bank in banks for name, digest in bank.data_digests.items()},
        notes=(MERGED,),
    )


def _by_importance(bank: RubricBank) -> Iterator[BankRubric]:
    """Yield the rubrics weighing their importance for a prompt in the mean; alpha is 1 / n if a bank has no rates."""
    rated = any(entry.activation_rate for entry in bank.rubrics)
    for entry in bank.rubrics:
        if not entry.disabled:
            alpha = 1.0 if entry.added else entry.activation_rate if rated else 1 / len(bank)
            yield replace(entry, weight=entry.weight * alpha)


def _joined(candidate: Candidate, members: Sequence[BankRubric]) -> BankRubric:
    counts = [max(1, entry.observed_count) for entry in members]
    joined = bank_rubric(
        candidate,
        weight=fsum(n * entry.weight for n, entry in zip(counts, members, strict=True)) / sum(counts),
        support_count=sum(entry.support_count for entry in members),
        example_prompts=tuple(dict.fromkeys(key for entry in members for key in entry.example_prompts)),
    )
    return replace(joined, domain=_common(entry.domain for entry in members))


def _common(values: Iterable[str]) -> str:
    """Return the value that all have; empty if they differ."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else ""


# ── the difference between two banks ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Change:
    """A rubric of the first bank, and the rubric of the second with the same text or a near-identical one."""

    first: BankRubric
    second: BankRubric
    similarity: float

    @property
    def by(self) -> float:
        """The second weight minus the first."""
        return self.second.weight - self.first.weight


@dataclass(frozen=True, slots=True)
class BankDiff:
    """Rubrics of the second bank only, of the first only, reworded, and of both; each list by weight.

    `edits` are those by hand that only the second bank has; `settings` map a name to both values.
    """

    gained: Sequence[BankRubric]
    lost: Sequence[BankRubric]
    reworded: Sequence[Change]
    kept: Sequence[Change]
    settings: Mapping[str, tuple[Any, Any]]
    edits: Sequence[Edit]

    @property
    def switched(self) -> list[Change]:
        """Those of both that only one bank has disabled."""
        both = sorted((*self.kept, *self.reworded), key=lambda change: change.first.id)
        return [change for change in both if change.first.disabled is not change.second.disabled]

    def to_json(self) -> dict[str, Any]:
        """Return the difference as plain JSON values."""
        changes = {"reworded": self.reworded, "kept": self.kept, "switched": self.switched}
        return {
            "gained": [_plain(entry) for entry in self.gained],
            "lost": [_plain(entry) for entry in self.lost],
            **{
                name: [{"first": _plain(c.first), "second": _plain(c.second), "similarity": c.similarity} for c in rows]
                for name, rows in changes.items()
            },
            "edits": [asdict(edit) for edit in self.edits],
            "settings": {name: list(values) for name, values in self.settings.items()},
        }


def _plain(entry: BankRubric) -> dict[str, Any]:
    plain = {"id": entry.id, "text": entry.text, "weight": entry.weight}
    return plain | ({"disabled": True} if entry.disabled else {})


def diff_banks(first: RubricBank, second: RubricBank) -> BankDiff:
    """Compare two banks; a rubric is reworded if a new one has its text as an alias, or if merging would join them."""
    old, new = ({entry.id: entry for entry in bank.rubrics} for bank in (first, second))
    kept = [Change(old[key], new[key], 1.0) for key in old.keys() & new.keys()]
    lost, gained = [old[key] for key in old.keys() - new.keys()], [new[key] for key in new.keys() - old.keys()]
    reworded = _paired(sorted(lost, key=_by_weight), sorted(gained, key=_by_weight))
    moved = {change.first.id for change in reworded} | {change.second.id for change in reworded}
    settings = [_settings(bank) for bank in (first, second)]
    names = [name for name in sorted({*settings[0], *settings[1]}) if settings[0].get(name) != settings[1].get(name)]
    edits = [bank.history.edits if bank.history else () for bank in (first, second)]
    return BankDiff(
        gained=sorted((entry for entry in gained if entry.id not in moved), key=_by_weight),
        lost=sorted((entry for entry in lost if entry.id not in moved), key=_by_weight),
        reworded=sorted(reworded, key=lambda change: _by_weight(change.second)),
        kept=sorted(kept, key=lambda change: (-abs(change.by), change.first.id)),
        settings={name: (settings[0].get(name), settings[1].get(name)) for name in names},
        edits=[edit for edit in edits[1] if edit not in edits[0]],
    )


def _by_weight(entry: BankRubric) -> tuple[float, str]:
    return -entry.weight, entry.id


def _paired(lost: Sequence[BankRubric], gained: Sequence[BankRubric]) -> list[Change]:
    """Pair the rubrics that only one bank has: by alias, then the most similar first, each once."""
    entries = [*lost, *gained]
    by_alias = {rubric_id(alias): place for place, entry in enumerate(gained, len(lost)) for alias in entry.aliases}
    pairs = [(place, by_alias[entry.id]) for place, entry in enumerate(lost) if entry.id in by_alias]
    near = sorted(near_duplicates([entry.rubric for entry in entries]), key=lambda row: -row[2])
    pairs += [(one, other) for one, other, _ in near if one < len(lost) <= other]
    taken: set[int] = set()
    found: list[Change] = []
    for pair in pairs:
        if taken.isdisjoint(pair):
            taken.update(pair)
            one, other = (entries[place] for place in pair)
            found.append(Change(one, other, similarity(one.text, other.text)))
    return found


def _settings(bank: RubricBank) -> dict[str, Any]:
    groups = {
        "inference": bank.inference.as_json(),
        "fit": bank.fit_settings,
        "dev": bank.dev_metrics,
        "data": bank.data_digests,
    }
    words = {"judge": bank.judge, "selector": bank.selector_kind, "prompts": bank.prompts_digest}
    return in_one_level(groups) | words


def diff_sheet(found: BankDiff) -> Parts:
    """Yield what changed from one bank to another."""
    counts = (("gained", found.gained), ("lost", found.lost), ("reworded", found.reworded), ("kept", found.kept))
    yield Line(label="rubrics", text=", ".join(f"{len(entries)} {name}" for name, entries in counts))
    edits = [
        (one.date, one.author, one.what, one.rubric, " → ".join(filter(None, (one.was, one.now))), one.reason)
        for one in found.edits
    ]
    yield from _table("edits by hand", ("date", "by", "what", "rubric", "change", "reason"), edits, texts=6)
    settings = [(name, plain_word(one), plain_word(other)) for name, (one, other) in found.settings.items()]
    yield from _table("settings and metrics", ("what", "first", "second"), settings, texts=2)
    for title, entries in counts[:2]:
        rows = [(entry.id, f"{entry.weight:.3f}", entry.text) for entry in entries]
        yield from _table(title, ("id", "weight", "rubric"), rows, most=SHOWN)
    for title, changes in (("reworded", found.reworded), ("reweighed", [one for one in found.kept if one.by])):
        changed = [
            (one.second.id, f"{one.first.weight:.3f}", f"{one.second.weight:.3f}", f"{one.by:+.3f}", _wording(one))
            for one in changes
        ]
        yield from _table(title, ("id", "first", "second", "by", "rubric"), changed, most=SHOWN)
    switched = [(c.second.id, "disabled" if c.second.disabled else "enabled", c.second.text) for c in found.switched]
    yield from _table("disabled or enabled", ("id", "now", "rubric"), switched, texts=2)


def _table(
    caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, texts: int = 1, most: int | None = None
) -> Parts:
    if rows:
        yield Table(caption=caption)
        yield Table(heads, rows[:most], texts=texts)
    if most is not None and len(rows) > most:
        yield Line(f"and {len(rows) - most} more: --json lists them")


def _wording(change: Change) -> str:
    same = change.first.id == change.second.id
    return change.second.text if same else f"{change.first.text} → {change.second.text}"
