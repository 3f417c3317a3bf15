"""A judge beside a few labels of people: how they agree, the rate that people would give, what to label next."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from svr_async.core.agreement import NOTHING, Estimate, cohen_kappa, krippendorff_alpha
from svr_async.core.pair import hashed_fraction
from svr_async.core.statistics import Interval, wilson_interval
from svr_async.errors import DataError
from svr_async.evaluation.items import Item

LABELS = ("A", "B", "tie")
RANDOM = "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What one person said of one item: A, B (as the data set lists them) or tie; `where` is its place in the file.

    `picked` is why the item was given to people; empty or "random" where chance chose it.
    """

    id: str
    label: str
    labeller: str = ""
    note: str = ""
    picked: str = ""
    where: str = ""

    @property
    def by_chance(self) -> bool:
        """Whether the item stands for the others."""
        return self.picked in {"", RANDOM}


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How two raters agree on `n` items: the share with its Wilson interval, Cohen's κ and Krippendorff's α."""

    first: str
    second: str
    n: int
    share: float
    share_ci95: Interval
    kappa: Estimate
    alpha: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The share of items for which `of` is true, by the judge and by the labels.

    A tie, and an item without a verdict, count as not. `n` labels of items that chance chose were used, `left_out` are
    of items that were picked; the judge's rate is over all `of_all` items.
    """

    of: str
    n: int
    left_out: int
    of_all: int
    judge: float
    people: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleFound:
    """What labels say of a run: `labels` of `labellers`, among whom α is `among` where several labelled an item.

    `judge` is the judge against what most people said (None where no item has both), `unjudged` the labelled items
    without a verdict. `table` counts items by people's label and the judge's. `apart` are the ids on which the judge
    and people name different sides, the judge's surest first.
    """

    labels: int
    items: int
    labellers: Mapping[str, int]
    shared: int
    among: Estimate
    between: tuple[Agreement, ...]
    judge: Agreement | None
    unjudged: int
    table: Mapping[str, Mapping[str, int]]
    rate: Rate
    apart: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {name: _plain(value) for name, value in asdict(self).items()}


def _plain(value: Any) -> Any:
    """Return estimates as objects, and other tuples as lists."""
    if isinstance(value, Estimate):
        return {"value": value.value, "ci95": None if value.ci95 is None else list(value.ci95)}
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def judge_and_people(items: Sequence[Item], labels: Sequence[Label], *, seed: int = 0) -> PeopleFound:
    """Compare a run's items with labels; DataError for a label of no item, and for two different ones of a labeller."""
    by_id = {item.id: item for item in items}
    held = _by_item(labels, by_id)
    said = {key: consensus([one.label for one in given.values()]) for key, given in held.items()}
    both = [key for key in said if verdict_of(by_id[key]) is not None]
    pairs = [(said[key], str(verdict_of(by_id[key]))) for key in both]
    counts = Counter(pairs)
    apart = [key for key, (people, judge) in zip(both, pairs, strict=True) if {people, judge} == {"A", "B"}]
    units = [[one.label for one in given.values()] for given in held.values()]
    return PeopleFound(
        labels=sum(map(len, units)),
        items=len(held),
        labellers=dict(sorted(Counter(name for given in held.values() for name in given).items())),
        shared=sum(len(unit) > 1 for unit in units),
        among=_alpha(units, seed),
        between=tuple(_between(held, seed)),
        judge=_agreement("people", "judge", pairs, seed) if pairs else None,
        unjudged=len(said) - len(both),
        table={one: {other: counts[one, other] for other in LABELS} for one in LABELS},
        rate=_rate(items, said, {key for key, given in held.items() if any(one.by_chance for one in given.values())}),
        apart=tuple(sorted(apart, key=lambda key: (-abs(by_id[key].margin or 0.0), key))),
    )


def verdict_of(item: Item) -> str | None:
    """Return what the judge said as a label: A, B or tie; None where it gave no verdict."""
    return None if item.margin is None else item.predicted or "tie"


def consensus(labels: Sequence[str]) -> str:
    """Return the label that most people gave; a tie where no label has more than the others."""
    ranked = Counter(labels).most_common(2)
    return "tie" if len(ranked) > 1 and ranked[0][1] == ranked[1][1] else ranked[0][0]


def _by_item(labels: Sequence[Label], known: Mapping[str, Item]) -> dict[str, dict[str, Label]]:
    held: dict[str, dict[str, Label]] = defaultdict(dict)
    for one in labels:
        if one.id not in known:
            raise DataError(f"{one.where}: the run has no pair {one.id!r}", hint="give the run that was labelled")
        before = held[one.id].setdefault(one.labeller, one)
        if before.label != one.label:
            who = one.labeller or "somebody without a name"
            raise DataError(
                f"{one.where}: {who} labelled {one.id!r} {one.label} here and {before.label} in {before.where}",
                hint="keep one of the two, or name the labellers",
            )
        if one.by_chance:
            held[one.id][one.labeller] = one
    return dict(held)


def _between(held: Mapping[str, Mapping[str, Label]], seed: int) -> Iterator[Agreement]:
    names = sorted({name for given in held.values() for name in given})
    for first, second in combinations(names, 2):
        both = [given for given in held.values() if {first, second} <= given.keys()]
        if shared := [(given[first].label, given[second].label) for given in both]:
            yield _agreement(first, second, shared, seed)


def _agreement(first: str, second: str, pairs: Sequence[tuple[str, str]], seed: int) -> Agreement:
    same = sum(one == other for one, other in pairs)
    return Agreement(
        first=first,
        second=second,
        n=len(pairs),
        share=same / len(pairs),
        share_ci95=wilson_interval(same, len(pairs)),
        kappa=cohen_kappa([one for one, _ in pairs], [other for _, other in pairs], seed=seed),
        alpha=_alpha(pairs, seed),
    )


def _alpha(units: Sequence[Sequence[str]], seed: int) -> Estimate:
    found = krippendorff_alpha([[LABELS.index(label) for label in unit] for unit in units], seed=seed)
    return Estimate(found.alpha, found.ci95)


def _rate(items: Sequence[Item], said: Mapping[str, str], by_chance: set[str]) -> Rate:
    """Return the rate of the side that the data prefers; of response A where the data prefers none."""
    told = any(item.gold for item in items)
    asked = [item for item in items if item.gold or not told]
    wins = {item.id: (item.margin is not None and item.predicted == (item.gold or "A")) for item in asked}
    labelled = [said[item.id] == (item.gold or "A") for item in asked if item.id in by_chance]
    yes = sum(labelled)
    return Rate(
        of="the response that the data prefers wins" if told else "response A wins",
        n=len(labelled),
        left_out=len(said.keys() & wins.keys()) - len(labelled),
        of_all=len(asked),
        judge=sum(wins.values()) / len(asked) if asked else 0.0,
        people=Estimate(yes / len(labelled), wilson_interval(yes, len(labelled))) if labelled else NOTHING,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """An item that is worth a person's time, and why: `order`, `margin` or `random`."""

    item: Item
    why: str


def worth_labelling(
    items: Sequence[Item], count: int, *, done: frozenset[str] = frozenset(), random: bool = False, salt: str = "svr"
) -> tuple[Pick, ...]:
    """Return `count` items that nobody labelled, from each domain its share; domain by domain, the most telling first.

    First those whose two orders name different sides, then those of the smallest |margin|. With `random` they are drawn
    by a hash of `salt` and their id, so that they stand for all items.
    """
    domains: dict[str, list[Pick]] = defaultdict(list)
    for item in items:
        if item.id not in done and (random or item.margin is not None):
            why = RANDOM if random else "order" if _turns(item) else "margin"
            domains[item.domain].append(Pick(item=item, why=why))
    for held in domains.values():
        held.sort(key=lambda pick: _telling(pick, salt))
    sizes = _shares({name: len(held) for name, held in sorted(domains.items())}, count)
    return tuple(pick for name, size in sizes.items() for pick in domains[name][:size])


def _turns(item: Item) -> bool:
    """Whether the orders that were shown name different sides."""
    values = list(item.margins.values())
    return len(values) > 1 and min(values) < 0 < max(values)


def _telling(pick: Pick, salt: str) -> tuple[bool, float, str]:
    item = pick.item
    rank = hashed_fraction(salt, item.id) if pick.why == RANDOM else abs(item.margin or 0.0)
    return pick.why != "order", rank, item.id


def _shares(sizes: Mapping[str, int], count: int) -> dict[str, int]:
    """Divide a count by size, the largest remainders rounded up; ties in the order of the names."""
    total = sum(sizes.values())
    if count >= total:
        return dict(sizes)
    exact = {name: count * size / total for name, size in sizes.items()}
    found = {name: int(value) for name, value in exact.items()}
    by_rest = sorted(exact, key=lambda name: (found[name] - exact[name], name))
    for name in by_rest[: count - sum(found.values())]:
        found[name] += 1
    return found
