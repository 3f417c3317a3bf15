"""Human labels: reads and writes label files, measures agreement with a run, chooses items to label next."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from svr_async.adapters.pair_files import write_rows
from svr_async.adapters.tables import Row, read_rows
from svr_async.core.files import write_atomic
from svr_async.core.pair import hashed_fraction
from svr_async.core.statistics import Interval, drawn_counts, wilson_interval
from svr_async.errors import DataError, UsageError
from svr_async.evaluation.details import known_texts
from svr_async.evaluation.items import Item
from svr_async.evaluation.run_folder import Run, Texts

LABELS = ("A", "B", "tie")
FIELDS = ("id", "domain", "picked", "prompt", "response_a", "response_b", "label", "labeller", "note")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would calculate these
RANDOM = "random"
_SPELLINGS = {one.casefold(): one for one in LABELS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """One person's label of one item: A, B (in the data set's order) or tie; `where` is its row in the file.

    `picked` is why the item was chosen for labelling; empty or "random" for a random sample.
    """

    id: str
    label: str
    labeller: str = ""
    note: str = ""
    picked: str = ""
    where: str = ""


def read_labels(path: Path) -> tuple[tuple[Label, ...], int]:
    """Read rows of id, label (a, b or tie), labeller, note and picked; return the labels and the number of empty rows.

    Any layout of `read_rows`; only id and label are required. DataError names an invalid row; UsageError if no row has
    a label.
    """
    rows = [_label(row) for row in read_rows(path)]
    found = tuple(one for one in rows if one is not None)
    if not found:
        raise UsageError(f"{path} has no labels", hint="fill in a, b or tie in its column label")
    return found, len(rows) - len(found)


def _label(row: Row) -> Label | None:
    if row.problem:
        raise DataError(f"{row.where}: {row.problem}", hint="a row has an id and a label")
    for name in ("id", "label"):
        if name not in row.values or row.values["id"] is None:
            raise DataError(f"{row.where} has no {name}", hint="a row has an id and a label: a, b or tie")
    texts = {name: str(row.values.get(name) or "").strip() for name in ("label", "labeller", "note", "picked")}
    label = texts.pop("label")
    if not label:
        return None
    if label.casefold() not in _SPELLINGS:
        raise DataError(f"{row.where}: the label {label[:40]!r} is unknown", hint="write a, b or tie")
    return Label(id=str(row.values["id"]), label=_SPELLINGS[label.casefold()], where=row.where, **texts)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its 95 % interval; None if the data do not determine it."""

    value: float | None
    ci95: Interval | None


def cohen_kappa(
    first: Sequence[Hashable], second: Sequence[Hashable], *, resamples: int = 2_000, seed: int = 0
) -> Estimate:
    """Return Cohen's kappa of two raters of the same items, with the percentile bootstrap interval over items.

    κ = (p_o − p_e)/(1 − p_e): p_o is the share of items with the same label, p_e = Σ_c p_c q_c the share expected by
    chance. None if both raters use one label throughout. Source: Cohen 1960, Educ. Psychol. Meas. 20:37-46.
    """
    places = {label: place for place, label in enumerate(sorted({*first, *second}, key=str))}
    n, size = len(first), len(places)
    counts = np.zeros(size * size, dtype=np.int64)
    for one, other in zip(first, second, strict=True):
        counts[places[one] * size + places[other]] += 1

    def kappas(cells: NDArray[Any]) -> NDArray[np.float64]:
        tables = cells.reshape(-1, size, size)
        same = np.trace(tables, axis1=1, axis2=2) / n
        chance = (tables.sum(axis=1) * tables.sum(axis=2)).sum(axis=1) / n**2
        with np.errstate(invalid="ignore"):
            return np.asarray((same - chance) / (1 - chance), dtype=np.float64)

    value = float(kappas(counts)[0]) if n else math.nan
    if math.isnan(value):
        return Estimate(None, None)
    drawn = kappas(np.concatenate(list(drawn_counts(counts, resamples, seed))))
    # equal draws, or draws that are mostly undefined, do not show how certain the value is
    if n < 2 or np.isnan(drawn).mean() > 0.5 or np.nanmin(drawn) == np.nanmax(drawn):
        return Estimate(value, None)
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    return Estimate(value, Interval(float(low), float(high)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RaterAgreement:
    """Two raters on `n` items: the share of equal labels with its Wilson interval, and Cohen's κ."""

    first: str
    second: str
    n: int
    share: float
    share_ci95: Interval
    kappa: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanAgreement:
    """A run compared with `labels` on `items`, by `labellers`; `picked` counts items chosen because they are hard.

    `between` compares each two people on the items that both labelled. `judge`
    compares the judge with the label most people gave (None without such an item); `unjudged` items have no
    verdict. `table` counts items by people's and the judge's label. `conflicts` are the ids where people and judge
    prefer different responses, the largest margin first.
    """

    labels: int
    items: int
    picked: int
    labellers: Mapping[str, int]
    between: tuple[RaterAgreement, ...]
    judge: RaterAgreement | None
    unjudged: int
    table: Mapping[str, Mapping[str, int]]
    conflicts: tuple[str, ...]


def measure_agreement(items: Sequence[Item], labels: Sequence[Label]) -> HumanAgreement:
    """Compare a run's items with labels; DataError for an unknown item and for two labels of one person."""
    by_id = {item.id: item for item in items}
    given = _by_item(labels, by_id)
    people = {key: majority([one.label for one in found.values()]) for key, found in given.items()}
    both = [key for key in people if verdict_of(by_id[key]) is not None]
    pairs = [(people[key], str(verdict_of(by_id[key]))) for key in both]
    counts = Counter(pairs)
    conflicts = [key for key, pair in zip(both, pairs, strict=True) if set(pair) == {"A", "B"}]
    chosen = [all(one.picked not in {"", RANDOM} for one in found.values()) for found in given.values()]
    return HumanAgreement(
        labels=sum(map(len, given.values())),
        items=len(given),
        picked=sum(chosen),
        labellers=dict(sorted(Counter(name for found in given.values() for name in found).items())),
        between=tuple(_between(given)),
        judge=_rater_agreement("people", "judge", pairs) if pairs else None,
        unjudged=len(people) - len(both),
        table={one: {other: counts[one, other] for other in LABELS} for one in LABELS},
        conflicts=tuple(sorted(conflicts, key=lambda key: (-abs(by_id[key].margin or 0.0), key))),
    )


def verdict_of(item: Item) -> str | None:
    """Return the judge's verdict as a label: A, B or tie; None without a verdict."""
    return None if item.margin is None else item.predicted or "tie"


def majority(labels: Sequence[str]) -> str:
    """Return the most frequent label; a tie if two are equally frequent."""
    ranked = Counter(labels).most_common(2)
    return "tie" if len(ranked) > 1 and ranked[0][1] == ranked[1][1] else ranked[0][0]


def _by_item(labels: Sequence[Label], known: Mapping[str, Item]) -> dict[str, dict[str, Label]]:
    given: dict[str, dict[str, Label]] = defaultdict(dict)
    for one in labels:
        if one.id not in known:
            raise DataError(f"{one.where}: the run has no pair {one.id!r}", hint="give the run that was labelled")
        before = given[one.id].setdefault(one.labeller, one)
        if before.label != one.label:
            raise DataError(
                f"{one.where}: {one.id!r} is {one.label} here and {before.label} in {before.where}",
                hint="keep one of the two, or fill in labeller",
            )
        if one.picked in {"", RANDOM}:
            given[one.id][one.labeller] = one
    return dict(given)


def _between(given: Mapping[str, Mapping[str, Label]]) -> Iterator[RaterAgreement]:
    for first, second in combinations(sorted({name for found in given.values() for name in found}), 2):
        both = (found for found in given.values() if {first, second} <= found.keys())
        if shared := [(found[first].label, found[second].label) for found in both]:
            yield _rater_agreement(first, second, shared)


def _rater_agreement(first: str, second: str, pairs: Sequence[tuple[str, str]]) -> RaterAgreement:
    same = sum(one == other for one, other in pairs)
    return RaterAgreement(
        first=first,
        second=second,
        n=len(pairs),
        share=same / len(pairs),
        share_ci95=wilson_interval(same, len(pairs)),
        kappa=cohen_kappa([one for one, _ in pairs], [other for _, other in pairs]),
    )


class Pick(NamedTuple):
    """An item worth labelling, and why: `order`, `margin` or `random`."""

    item: Item
    why: str


def worth_labelling(
    items: Sequence[Item], count: int, *, done: frozenset[str] = frozenset(), random: bool = False, seed: int = 0
) -> tuple[Pick, ...]:
    """Return `count` unlabelled items: those whose two orders disagree, then those with the smallest |margin|.

    With `random`, the order is a hash of seed and id, so that the items represent all.
    """
    ranked = []
    for item in items:
        if item.id not in done and (random or item.margin is not None):
            why = RANDOM if random else "order" if item.flips else "margin"
            rank = hashed_fraction(f"svr-labels-{seed}", item.id) if random else abs(item.margin or 0.0)
            ranked.append(((why != "order", rank, item.id), Pick(item=item, why=why)))
    return tuple(pick for _, pick in sorted(ranked, key=lambda entry: entry[0])[:count])


def write_next(
    run: Run,
    count: int,
    out: Path,
    *,
    done: frozenset[str] = frozenset(),
    random: bool = False,
    data: Path | None = None,
) -> tuple[dict[str, Any], str]:
    """Write up to `count` items to label to `out`, .jsonl or .csv; return what was written, as values and in words.

    Texts are from `data`, else from the run's own data if it is still there. The verdicts are not written. UsageError
    if no item is left to label.
    """
    picks = worth_labelling(run.items, count, done=done, random=random)
    if not picks:
        raise UsageError(f"{run.path} has no item left to label", hint="every item with a verdict has a label")
    texts, _ = known_texts(run, data)
    _write_sheet(out, picks, texts)
    reasons = Counter(pick.why for pick in picks)
    why = ", ".join(f"{n} by {name}" for name, n in sorted(reasons.items()))
    lacking = "" if texts else "; without texts, which --data PATH adds"
    values = {"out": str(out), "items": len(picks), "by": dict(reasons), "with_texts": bool(texts)}
    return values, f"{len(picks)} items to label in {out} ({why}){lacking}; fill in label: a, b or tie"


def _write_sheet(path: Path, picks: Sequence[Pick], texts: Mapping[str, Texts]) -> None:
    """Write items to label; a CSV cell that a spreadsheet would calculate gets an apostrophe."""
    kind = path.suffix.lower()
    if kind not in {".jsonl", ".csv"}:
        raise UsageError(f"--out {path} is neither .jsonl nor .csv", hint="name a .jsonl or .csv file")
    if path.exists():
        raise UsageError(f"{path} exists and may hold labels", hint="name another file with --out")
    rows = []
    for pick in picks:
        shown = asdict(texts[pick.item.id]) if pick.item.id in texts else {}
        row = {"id": pick.item.id, "domain": pick.item.domain, "picked": pick.why, **shown}
        rows.append({name: row.get(name, "") for name in FIELDS})
    if kind == ".jsonl":
        write_rows(path, rows)
        return
    out = io.StringIO()
    writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        shown = {n: "'" + text if text.startswith(_FORMULA) else text for n, text in row.items()}
        writer.writerow(shown | {"id": row["id"]})  # an id must match the run
    write_atomic(path, out.getvalue().encode("utf-8", "replace"))
