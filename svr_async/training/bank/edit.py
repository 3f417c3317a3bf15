"""Care of banks: edits by hand, the rubrics of several banks in one, and the difference between two banks."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import date
from math import fsum
from pathlib import Path
from typing import Any

import numpy as np

from svr_async.core.integrity import joined_marks
from svr_async.core.rubric import Rubric, rubric_id
from svr_async.core.table import Line, Parts, Table, plain_word
from svr_async.errors import StorageError, UsageError
from svr_async.scoring.bank import MAX_ALIASES, UNIFORM, BankHistory, BankRubric, Edit, InferenceSettings, RubricBank
from svr_async.scoring.bank_card import in_one_level
from svr_async.training.bank.criteria import differ, predicate
from svr_async.training.bank.merge import EXAMPLES, bank_rubric, merge, near_duplicates

NEVER = np.float32(-1e6)  # the logit of an added rubric: the fit shares attention among the others as before
OTHER_CHECK = {"numbers", "quoted words", "negation"}  # what a check cannot follow in a new text
EDITED = "Edited by hand after its fit: what the dev split says is of the bank before. history.json lists the edits."
MERGED = "Merged from several banks and not fitted since: the selector is the same for every prompt."
SHOWN = 20  # rows of a table


# ── edits by hand ───────────────────────────────────────────────────────────────────────────────────────────────────


def edit_bank(
    bank: RubricBank,
    *,
    author: str,
    reason: str,
    day: date,
    disabled: Iterable[str] = (),
    reworded: Iterable[tuple[str, str]] = (),
    reweighed: Iterable[tuple[str, float]] = (),
    added: Iterable[str] = (),
) -> RubricBank:
    """Return the bank with edits made in this order and noted in its history; rubrics are named by starts of their ids.

    A reworded rubric keeps its place, weight, counts and check, and its old text as an alias. A new weight enables a
    disabled rubric. An added rubric weighs what a chosen rubric counts in the mean. UsageError for an unknown rubric,
    an invalid text or weight, and a text that the bank has already (or that merging would join with another).
    """
    entries, edits = list(bank.rubrics), list[Edit]()
    stamp = Edit(what="", rubric="", author=author, date=day.isoformat(), reason=reason, bank=bank.digest)

    def change(place: int, what: str, was: str = "", now: str = "", **fields: Any) -> None:
        entries[place] = replace(entries[place], **fields)
        edits.append(replace(stamp, what=what, rubric=entries[place].id, was=was, now=now))

    try:
        for key in disabled:
            change(place_of(bank, key), "disabled", disabled=True)
        for key, text in reworded:
            place = place_of(bank, key)
            before = entries[place]
            rubric = _reworded(before.rubric, text, [entry for entry in entries if entry is not before])
            aliases = tuple(alias for alias in dict.fromkeys((before.text, *before.aliases)) if alias != rubric.text)
            change(place, "reworded", before.text, rubric.text, rubric=rubric, aliases=aliases[:MAX_ALIASES])
        for key, weight in reweighed:
            place, single = place_of(bank, key), _single(weight)
            was = "disabled" if entries[place].disabled else f"{entries[place].weight:g}"
            change(place, "reweighed", was, f"{single:g}", weight=single, disabled=False)
        for text in added:
            rubric, weight = _new(Rubric(text=" ".join(text.split())), entries), _single(_usual_weight(bank))
            entries.append(BankRubric(rubric=rubric, weight=weight, observed_count=0, added=True))
            change(len(entries) - 1, "added", now=f"{weight:g}")
        return _with_edits(bank, entries, edits)
    except ValueError as error:  # from the checks of Rubric, BankRubric and RubricBank
        raise UsageError(f"the bank cannot be edited so: {error}", hint="give another text or weight") from error


def _with_edits(bank: RubricBank, entries: Sequence[BankRubric], edits: Sequence[Edit]) -> RubricBank:
    """Return the bank with other rubrics: the selector gets the new weights, and a row for each added rubric."""
    if not edits:
        raise UsageError("nothing is to be edited", hint="give --disable, --reword, --weight or --add")
    more, arrays = len(entries) - len(bank), dict(bank.selector)
    if "weight" in arrays:
        arrays["weight"] = np.array([entry.weight for entry in entries], dtype=np.float32)
    if more and "output" in arrays:
        arrays["output"] = np.concatenate([arrays["output"], np.zeros((more, arrays["output"].shape[1]), np.float32)])
    if more and "output_bias" in arrays:
        arrays["output_bias"] = np.append(arrays["output_bias"], np.full(more, NEVER))
    history = bank.history or BankHistory()
    return replace(
        bank,
        rubrics=tuple(entries),
        selector=arrays,
        notes=tuple(dict.fromkeys((*bank.notes, EDITED))),
        history=replace(history, edits=(*history.edits, *edits)),
    )


def place_of(bank: RubricBank, key: str) -> int:
    """Return the place of the rubric with this id, or the only one whose id begins so; UsageError otherwise."""
    entry = bank.find(key)
    if entry is None:
        hint = "svr bank show BANK --top 0 lists them"
        raise UsageError(f"no single rubric has an id that begins {key!r}", hint=hint)
    return bank.rubrics.index(entry)


def _reworded(rubric: Rubric, text: str, others: Sequence[BankRubric]) -> Rubric:
    """Return a rubric with another text; UsageError if its check would decide something else than the text asks."""
    text = " ".join(text.split())
    why = differ(rubric.text, text)
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
    merged = merge(entries)
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


def _joined(candidate: BankRubric, members: Sequence[BankRubric]) -> BankRubric:
    counts = [max(1, entry.observed_count) for entry in members]
    prompts = dict.fromkeys(key for entry in members for key in entry.example_prompts)
    return bank_rubric(
        candidate,
        weight=fsum(n * entry.weight for n, entry in zip(counts, members, strict=True)) / sum(counts),
        domain=_common(entry.domain for entry in members),
        support_count=sum(entry.support_count for entry in members),
        example_prompts=tuple(prompts)[:EXAMPLES],
    )


def _common(values: Iterable[str]) -> str:
    """Return the value that all have; empty if they differ."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else ""


# ── the difference between two banks ────────────────────────────────────────────────────────────────────────────────


Change = tuple[BankRubric, BankRubric]  # a rubric of the first bank, and the same or a near-identical one of the second


def _plain(entry: BankRubric) -> dict[str, Any]:
    plain = {"id": entry.id, "text": entry.text, "weight": entry.weight}
    return plain | ({"disabled": True} if entry.disabled else {})


def _both(changes: Iterable[Change]) -> list[dict[str, Any]]:
    return [{"first": _plain(one), "second": _plain(other)} for one, other in changes]


def diff_banks(first: RubricBank, second: RubricBank) -> dict[str, Any]:
    """Compare two banks, as plain values: rubrics of one bank only, reworded, and of both; each list by weight.

    A rubric is reworded if a new one has its text as an alias, or if merging would join them. `switched` are those that
    only one bank has disabled, `edits` those by hand that only the second has; `settings` map a name to both values.
    """
    old, new = ({entry.id: entry for entry in sorted(bank.rubrics, key=_by_weight)} for bank in (first, second))
    kept = [(entry, new[key]) for key, entry in old.items() if key in new]
    kept.sort(key=lambda change: -abs(change[1].weight - change[0].weight))
    lost = [entry for key, entry in old.items() if key not in new]
    gained = [entry for key, entry in new.items() if key not in old]
    reworded = sorted(_paired(lost, gained), key=lambda change: _by_weight(change[1]))
    moved = {entry.id for change in reworded for entry in change}
    settings = [_settings(bank) for bank in (first, second)]
    values = {name: tuple(one.get(name) for one in settings) for name in sorted({*settings[0], *settings[1]})}
    edits = [bank.history.edits if bank.history else () for bank in (first, second)]
    return {
        "gained": [_plain(entry) for entry in gained if entry.id not in moved],
        "lost": [_plain(entry) for entry in lost if entry.id not in moved],
        "reworded": _both(reworded),
        "kept": _both(kept),
        "switched": _both((one, other) for one, other in (*kept, *reworded) if one.disabled is not other.disabled),
        "edits": [asdict(edit) for edit in edits[1] if edit not in edits[0]],
        "settings": {name: (one, other) for name, (one, other) in values.items() if one != other},
    }


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
    changes: list[Change] = []
    for one, other in pairs:
        if not {one, other} & taken:
            taken |= {one, other}
            changes.append((entries[one], entries[other]))
    return changes


def _settings(bank: RubricBank) -> dict[str, Any]:
    groups = {
        "inference": bank.inference.as_json(),
        "fit": bank.fit_settings,
        "dev": bank.dev_metrics,
        "data": bank.data_digests,
    }
    words = {"judge": bank.judge, "selector": bank.selector_kind, "prompts": bank.prompts_digest}
    return in_one_level(groups) | words


def diff_sheet(diff: Mapping[str, Any]) -> Parts:
    """Yield what changed from one bank to another."""
    counts = (f"{len(diff[name])} {name}" for name in ("gained", "lost", "reworded", "kept"))
    yield Line(label="rubrics", text=", ".join(counts))
    edits = [
        (*(one[name] for name in ("date", "author", "what", "rubric")), _arrow(one["was"], one["now"]), one["reason"])
        for one in diff["edits"]
    ]
    yield from _table("edits by hand", ("date", "by", "what", "rubric", "change", "reason"), edits, texts=6)
    settings = [(name, plain_word(one), plain_word(other)) for name, (one, other) in diff["settings"].items()]
    yield from _table("settings and metrics", ("what", "first", "second"), settings, texts=2)
    for title in ("gained", "lost"):
        rows = [(one["id"], f"{one['weight']:.3f}", one["text"]) for one in diff[title]]
        yield from _table(title, ("id", "weight", "rubric"), rows)
    reweighed = [both for both in diff["kept"] if both["first"]["weight"] != both["second"]["weight"]]
    for title, changes in (("reworded", diff["reworded"]), ("reweighed", reweighed)):
        changed = [_changed(**both) for both in changes]
        yield from _table(title, ("id", "first", "second", "by", "rubric"), changed)
    rubrics = [both["second"] for both in diff["switched"]]
    rows = [(one["id"], "disabled" if "disabled" in one else "enabled", one["text"]) for one in rubrics]
    yield from _table("disabled or enabled", ("id", "now", "rubric"), rows, texts=2)


def _changed(first: Mapping[str, Any], second: Mapping[str, Any]) -> tuple[str, ...]:
    was, now = first["weight"], second["weight"]
    return second["id"], f"{was:.3f}", f"{now:.3f}", f"{now - was:+.3f}", _arrow(first["text"], second["text"])


def _arrow(was: str, now: str) -> str:
    """Return both texts once, without an empty one."""
    return " → ".join(dict.fromkeys(filter(None, (was, now))))


def _table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1) -> Parts:
    if rows:
        yield Table(caption=caption)
        yield Table(heads, rows[:SHOWN], texts=texts)
    if len(rows) > SHOWN:
        yield Line(f"and {len(rows) - SHOWN} more: --json lists them")
