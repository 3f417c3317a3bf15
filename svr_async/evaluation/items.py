"""Items of a run: the decision on one pair, in the data set's order of A and B, as a line of items.jsonl."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib import import_module
from typing import Annotated, Any

import msgspec
import orjson

from svr_async.core.pair import PreferencePair, Side
from svr_async.core.verdict import Contribution, Outcome
from svr_async.engine.reply import clean_text
from svr_async.errors import UsageError
from svr_async.evaluation.plan import PairDecision, Rows, Vote
from svr_async.judges.protocol import Reasked
from svr_async.scoring.decision import rounded

SideName = Annotated[str, msgspec.Meta(pattern="^[AB]$")]
VerdictName = Annotated[str, msgspec.Meta(pattern="^(pass|fail)$")]
OrderName = Annotated[str, msgspec.Meta(pattern="^(ab|ba)$")]
MAX_REASON_CHARS = 20_000
MISTAKES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricRow:
    """One rubric of one item. `a`, `b`, `better`, `delta` are None where the judge gave no verdict.

    `text` is the rubric's original text, `rephrased` its text rewritten for the prompt, if any. `judge` is set in runs
    with more than one judge. `chances` are a decision judge's probabilities that A passes, that B passes and that A is
    better; `a`, `b` and `better` are then the likelier outcomes.
    """

    id: str
    text: str
    alpha: float
    weight: float
    importance: float
    filler: bool
    a: VerdictName | None
    b: VerdictName | None
    better: SideName | None
    delta: float | None
    contribution: float
    shown: OrderName
    rephrased: str | None = None
    judge: str = ""
    chances: tuple[float, float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """A judge's reason for one rubric, or with `rubric` "" for its verdict as a whole.

    A and B are as the judge saw them: with `shown` ba, its A is the data set's B. `judge` is set in runs with more than
    one judge.
    """

    rubric: str
    shown: str
    judge: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One judged pair. `order` is `ab`, `ba`, `both` or `mixed`; `margin` > 0 favours response A of the data set.

    `item` is the benchmark's item that the pair belongs to, by default its id. `gold` is None for pairs without a right
    answer; then `correct` is None and the pair is in no accuracy. `margins` holds the margin of each order shown (`ab`,
    `ba`), both in data order. `scores` are those of A and B if each response is scored separately. In runs with more
    than one judge, `judge` decided and `votes` holds the vote of each.
    """

    id: str
    item: str
    domain: str
    subset: str
    order: str
    outcome: str
    predicted: SideName | None
    gold: SideName | None
    correct: bool | None
    margin: float | None
    margins: Mapping[OrderName, float]
    rubrics: tuple[RubricRow, ...]
    flags: tuple[str, ...]
    detail: str
    requests: tuple[str, ...]
    judge: str = ""
    votes: tuple[Vote, ...] = ()
    reasons: tuple[Reason, ...] = ()
    scores: tuple[float, float] | None = None

    @property
    def flips(self) -> bool:
        """Whether the two orders shown name different sides."""
        ends = self.margins.values()
        return len(ends) > 1 and min(ends) < 0 < max(ends)

    def to_line(self) -> bytes:
        """Return the item as one JSON line, keys in the order of the fields.

        Fields of juries, of decision judges, scores and reasons are absent without a value.
        """
        absent = (*(() if self.votes else ("judge", "votes")), *(("scores",) if self.scores is None else ()))
        value = _fields_of(self, absent if self.reasons else (*absent, "reasons"))
        alone = () if self.votes else ("judge",)
        value["margins"] = dict(self.margins)
        value["rubrics"] = [_fields_of(row, alone if row.chances else (*alone, "chances")) for row in self.rubrics]
        return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)


class Items(tuple[Item, ...]):  # noqa: SLOT001  (a tuple has no slots)
    """The items of a run; also as a table, one row an item, with columns named as the fields of `Item`."""

    def to_arrow(self) -> Any:
        """Return a pyarrow.Table; `rubrics`, `votes` and `reasons` are lists of structs."""
        import pyarrow as pa

        return pa.Table.from_pylist(self._rows())

    def to_pandas(self) -> Any:
        """Return a pandas.DataFrame; UsageError if pandas is not installed."""
        try:
            return import_module("pandas").DataFrame(self._rows())
        except ImportError as error:
            raise UsageError("to_pandas needs pandas", hint="pip install pandas, or use to_arrow()") from error

    def _rows(self) -> list[dict[str, Any]]:
        return [dict.fromkeys(ITEM_NAMES) | orjson.loads(item.to_line()) for item in self]


ROW_NAMES, ITEM_NAMES = (tuple(field.name for field in fields(kind)) for kind in (RubricRow, Item))


def _fields_of(record: RubricRow | Item, absent: tuple[str, ...]) -> dict[str, Any]:
    """Return the other fields of a record, in their order."""
    names = ITEM_NAMES if isinstance(record, Item) else ROW_NAMES
    return {name: getattr(record, name) for name in names if name not in absent}


read_item: Callable[[bytes], Item] = msgspec.json.Decoder(Item).decode
"""Read one line of items.jsonl; ValueError names the first field of another type."""


def item_from(pair: PreferencePair, judged: PairDecision, *, alone: bool = True) -> Item:
    """Join a pair and its decision to an item; with one judge `alone` its votes and name are left out."""
    decision = judged.decision
    preferred = decision.preferred
    scored = decision.outcome in {Outcome.SCORED, Outcome.TIE}
    gold = pair.gold
    return Item(
        id=pair.id,
        item=pair.item or pair.id,
        domain=pair.domain,
        subset=pair.subset,
        order=judged.order,
        outcome=decision.outcome.value,
        predicted=None if preferred is None else preferred.value,
        gold=None if gold is None else gold.value,
        correct=None if gold is None else (scored and preferred is gold),
        margin=_rounded(decision.margin),
        margins={order: rounded(margin) for order, margin in judged.margins.items()},
        rubrics=tuple(_row(entry, rows, alone) for rows in judged.rows for entry in rows.decision.contributions),
        flags=decision.flags,
        detail=decision.detail,
        requests=tuple(key for key in decision.requests if not isinstance(key, Reasked)),
        judge="" if alone else judged.judge,
        votes=() if alone else tuple(_rounded_vote(vote) for vote in judged.votes),
        reasons=tuple(reason for rows in judged.rows for reason in _reasons(rows, alone)),
        scores=decision.scores,
    )


def _reasons(rows: Rows, alone: bool) -> Iterator[Reason]:
    """Yield the judge's reasons: that of the verdict, then those of rubrics."""
    decision = rows.decision
    parts = [(part.rubric.id, part.comparison.reason) for part in decision.contributions if part.comparison is not None]
    for rubric, written in [("", decision.reason), *parts]:
        text = clean_text(written).strip() if written else ""
        if (over := len(text) - MAX_REASON_CHARS) > 0:
            text = f"{text[:MAX_REASON_CHARS]}… {over} more characters, in the cache"
        if text:
            yield Reason(rubric=rubric, shown=decision.shown.value, judge="" if alone else rows.judge, text=text)


def _rounded_vote(vote: Vote) -> Vote:
    sums = {name: rounded(value) for name, value in vote.contributions.items()}
    return replace(vote, margin=_rounded(vote.margin), contributions=sums)


def _row(entry: Contribution, rows: Rows, alone: bool) -> RubricRow:
    made = entry.comparison
    chances = None if made is None else made.chances
    return RubricRow(
        id=entry.rubric.id,
        text=entry.rubric.text,
        alpha=rounded(entry.alpha),
        weight=rounded(entry.weight),
        importance=rounded(entry.importance),
        filler=entry.filler,
        a=None if made is None else made.a.value,
        b=None if made is None else made.b.value,
        better=None if made is None or made.better is None else Side(made.better).value,
        delta=_rounded(entry.delta),
        contribution=rounded(entry.value),
        shown=rows.decision.shown.value,
        rephrased=entry.rephrased,
        judge="" if alone else rows.judge,
        chances=None if chances is None else (rounded(chances.a), rounded(chances.b), rounded(chances.better)),
    )


def _rounded(value: float | None) -> float | None:
    """Round to nine digits, so that the last bits of a sum do not differ between machines; never −0."""
    return None if value is None else rounded(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request and its reply, by the beginning of its cache key. `asked` are the (role, text) that were sent."""

    key: str
    asked: tuple[tuple[str, str], ...]
    reply: str


Exchanges = Mapping[str, Sequence[Exchange]]
"""The calls of a run by the id of their item."""


def numbered(items: Iterable[Item]) -> Iterator[tuple[tuple[str, int], Item]]:
    """Yield each item with its key: its id, and the number of earlier items with that id."""
    seen: Counter[str] = Counter()
    for item in items:
        yield (item.id, seen[item.id]), item
        seen[item.id] += 1


def grouped(items: Iterable[Item], field: str) -> dict[str, list[Item]]:
    """Return items by the value of a field, in alphabetical order."""
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(getattr(item, field), []).append(item)
    return dict(sorted(groups.items()))


def confident_mistakes(items: Sequence[Item], limit: int = MISTAKES) -> tuple[Item, ...]:
    """Return the items decided for the wrong side, largest |margin| first; equal ones in data order."""
    wrong = [item for item in items if item.correct is False and item.predicted is not None and item.margin]
    return tuple(sorted(wrong, key=lambda item: -abs(item.margin or 0.0))[:limit])
