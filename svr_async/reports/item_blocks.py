"""The texts of all items, each stored once, in compressed blocks that a page opens one by one."""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson

from svr_async.evaluation.explain import by_size, reason_of, verdict_reasons
from svr_async.evaluation.items import Exchange, Exchanges, Item, RubricRow
from svr_async.evaluation.run_folder import Texts
from svr_async.reports.item_index import Couple

BLOCK_ITEMS = 200
ROW = ("shown", "a", "b", "better", "contribution", "alpha", "weight", "filler", "judge", "chances")


@dataclass(slots=True)
class Shelf:
    """Texts by number, each once: `new` are those that came since it was emptied, the first of them number `first`."""

    numbers: dict[str, int] = field(default_factory=dict)
    new: list[str] = field(default_factory=list)

    @property
    def first(self) -> int:
        """The number of the first new text."""
        return len(self.numbers) - len(self.new)

    def place(self, text: str) -> int:
        """Return the number of a text."""
        if text not in self.numbers:
            self.numbers[text] = len(self.numbers)
            self.new.append(text.encode("utf-8", "replace").decode("utf-8"))
        return self.numbers[text]


def blocks_of(
    couples: Sequence[Couple], texts: Mapping[str, Texts], exchanges: Sequence[Exchanges] = ()
) -> Iterator[tuple[int, str]]:
    """Yield of each block the number of its first text, and the block: JSON, gzipped, in base64.

    A block holds `items`, up to 200 in the order of the index, and `texts`, those that first occur in them. Items name
    texts by their number over all blocks; what an item names lies in its own block or in an earlier one.
    """
    shelf = Shelf()
    for at in range(0, len(couples), BLOCK_ITEMS):
        shelf.new = []
        some = couples[at : at + BLOCK_ITEMS]
        rows = [_detail(shelf, couple, texts.get(couple[0].id), exchanges) for couple in some]
        yield shelf.first, packed({"items": rows, "texts": shelf.new})


def packed(value: Mapping[str, Any]) -> str:
    """Return JSON, gzipped, in base64: letters that mean nothing in HTML, whatever the texts say."""
    return base64.b64encode(gzip.compress(orjson.dumps(value), compresslevel=6, mtime=0)).decode()


def _detail(shelf: Shelf, couple: Couple, texts: Texts | None, exchanges: Sequence[Exchanges]) -> dict[str, Any]:
    """Return what is shown of an opened item, with texts as numbers."""
    shown = {} if texts is None else {name: shelf.place(text) for name, text in asdict(texts).items()}
    sides = [_side(shelf, item) for item in couple]
    for side, held in zip(sides, exchanges, strict=False):
        if calls := held.get(couple[0].id):
            side["calls"] = [_call(shelf, one, texts) for one in calls]
    return {**shown, "runs": sides}


def _side(shelf: Shelf, item: Item) -> dict[str, Any]:
    """Return what one run made of an item; parts that it does not have are left out."""
    verdict = [{"shown": one.shown, "judge": one.judge, "text": shelf.place(one.text)} for one in verdict_reasons(item)]
    votes = [{**asdict(vote), "contributions": None} for vote in item.votes]
    parts = {
        "margins": item.margins,
        "rows": [_row(shelf, item, row) for row in by_size(item.rubrics)],
        "verdict": verdict,
        "votes": votes,
        "detail": shelf.place(item.detail) if item.detail else None,
        "keys": [key[:12] for key in item.requests],
    }
    return {name: value for name, value in parts.items() if value}


def _row(shelf: Shelf, item: Item, row: RubricRow) -> dict[str, Any]:
    reason = reason_of(item, row)
    parts = {name: getattr(row, name) for name in ROW}
    parts["text"] = shelf.place(row.text)
    parts["rephrased"] = shelf.place(row.rephrased) if row.rephrased else None
    parts["reason"] = shelf.place(reason.text) if reason else None
    return {name: value for name, value in parts.items() if value not in {None, "", False}}


def _call(shelf: Shelf, one: Exchange, texts: Texts | None) -> dict[str, Any]:
    """Return a call, its request in parts: those that are the item's own texts are on the shelf already."""
    own = () if texts is None else tuple(filter(None, asdict(texts).values()))
    asked = [[role, [shelf.place(part) for part in _parts(text, own)]] for role, text in one.asked]
    return {"key": one.key, "asked": asked, "reply": shelf.place(one.reply)}


def _parts(text: str, own: Sequence[str]) -> Iterator[str]:
    """Yield a text cut before and behind each occurrence of the texts of an item; joined they are the text."""
    known = frozenset(own)
    pattern = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
    yield from filter(None, re.split(f"({pattern})", text) if known else [text])
