"""The items of a page: an index that it sorts and filters by, and compressed blocks of texts that it opens."""

from __future__ import annotations

import base64
import gzip
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson

from svr_async.core.safetext import one_line
from svr_async.errors import UsageError
from svr_async.evaluation.items import Exchange, Exchanges, Item, RubricRow, numbered
from svr_async.evaluation.run_folder import Run, Texts
from svr_async.evaluation.summary import RunSummary
from svr_async.reports.explain import by_size, reason_of, verdict_reasons

MOST_RUNS = 2
MOST_RUBRICS = 2_000  # that a page offers a filter for
MOST_NAME_CHARS = 300  # of a rubric in the list of that filter
START_CHARS = 100  # of a prompt in the list
BLOCK_ITEMS = 200
ROW = ("shown", "a", "b", "better", "contribution", "alpha", "weight", "filler", "judge", "chances")
SCRIPTS = ("words", "markdown", "differences", "data", "filters", "table", "opened", "labels", "files", "page")
Couple = tuple[Item, ...]  # one pair as each run judged it: one item, or two


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemPart:
    """All items of a page: packed index and blocks."""

    index: str
    blocks: tuple[str, ...]
    n_items: int
    n_runs: int


def item_part(
    runs: Sequence[Run],
    summaries: Sequence[RunSummary],
    texts: Mapping[str, Texts],
    prompts: Mapping[str, str],
    exchanges: Sequence[Exchanges],
    notes: Sequence[str],
) -> ItemPart:
    """Pack the items of a run, or those that two runs share, with the texts that are known, by id.

    `prompts` are prompts of items whose texts are left out.
    UsageError for two runs that share no item.
    """
    couples = couples_of(runs)
    packs = list(_blocks(couples, texts, exchanges))
    first = [couple[0] for couple in couples]
    asked = [texts[one.id].prompt if one.id in texts else prompts.get(one.id, "") for one in first]
    index = {
        "notes": list(notes),
        "id": [item.id for item in first],
        "prompt": [one_line(prompt[: 2 * START_CHARS].strip(), START_CHARS) for prompt in asked],
        "domain": _coded(item.domain for item in first),
        "subset": _coded(item.subset for item in first),
        "gold": _coded(item.gold or "" for item in first),
        "runs": [_run(summaries[n], [couple[n] for couple in couples]) for n in range(len(runs))],
        "block": BLOCK_ITEMS,
        "starts": [start for start, _ in packs],
    }
    blocks = tuple(block for _, block in packs)
    return ItemPart(index=packed(index), blocks=blocks, n_items=len(couples), n_runs=len(runs))


def couples_of(runs: Sequence[Run]) -> list[Couple]:
    """Return the items of one run, or those that two share, in the first's order; UsageError without any.

    Items of the same id are paired in the order in which they occur.
    """
    first, *known = (dict(numbered(run.items)) for run in runs)
    found = [
        (item, *(other[key] for other in known)) for key, item in first.items() if all(key in other for other in known)
    ]
    if not found and len(runs) > 1:
        hint = "view runs over the same data side by side"
        raise UsageError(f"{runs[0].path} and {runs[1].path} share no item", hint=hint)
    return found


def _run(summary: RunSummary, items: Sequence[Item]) -> dict[str, Any]:
    """Return the columns of a run: names once, and a number into them for each item."""
    close = summary.close
    return {
        "title": summary.title,
        "folder": summary.folder,
        "digest": str(summary.manifest.get("digest") or summary.name),
        "result": _coded(result_of(item) for item in items),
        "outcome": _coded(item.outcome for item in items),
        "predicted": _coded(item.predicted or "" for item in items),
        "order": _coded(item.order for item in items),
        "margin": [item.margin for item in items],
        "close": [int(close is not None and item.margin is not None and abs(item.margin) <= close) for item in items],
        "swapped": [int(item.flips) for item in items],
        "flags": _coded_lists(item.flags for item in items),
        "rubrics": _rubrics(items),
    }


def result_of(item: Item) -> str:
    """Return in a word how an item ended: right, wrong, tie, no right answer, or why the verdict is missing."""
    if item.outcome != "scored":
        return item.outcome.replace("_", " ")
    return {True: "right", False: "wrong", None: "no right answer"}[item.correct]


def _coded(values: Iterable[str]) -> dict[str, list[Any]]:
    """Return each different value once, and a number into them for each value."""
    found = _coded_lists((value,) for value in values)
    return {**found, "codes": [code for (code,) in found["codes"]]}


def _coded_lists(rows: Iterable[Sequence[str]]) -> dict[str, list[Any]]:
    names: dict[str, int] = {}
    codes = [[names.setdefault(value, len(names)) for value in row] for row in rows]
    return {"names": list(names), "codes": codes}


def _rubrics(items: Sequence[Item]) -> dict[str, list[Any]]:
    """Return the rubrics that several items have, the most frequent first; those of one item alone are no filter."""
    texts = [list(dict.fromkeys(row.text for row in item.rubrics)) for item in items]
    counts = Counter(text for row in texts for text in row)
    kept = [text for text, n in counts.most_common(MOST_RUBRICS) if n > 1 or len(items) < MOST_RUBRICS]
    numbers: Mapping[str, int] = {text: place for place, text in enumerate(kept)}
    names = [text if len(text) <= MOST_NAME_CHARS else f"{text[:MOST_NAME_CHARS]}…" for text in kept]
    return {"names": names, "codes": [[numbers[text] for text in row if text in numbers] for row in texts]}


@dataclass(slots=True)
class _Numbered:
    """Texts by number, each once; `new` are those of the current block."""

    numbers: dict[str, int] = field(default_factory=dict)
    new: list[str] = field(default_factory=list)

    def place(self, text: str) -> int:
        """Return the number of a text."""
        if text not in self.numbers:
            self.numbers[text] = len(self.numbers)
            self.new.append(text.encode("utf-8", "replace").decode("utf-8"))
        return self.numbers[text]


def _blocks(
    couples: Sequence[Couple], texts: Mapping[str, Texts], exchanges: Sequence[Exchanges]
) -> Iterator[tuple[int, str]]:
    """Yield of each block the number of its first text, and the block: JSON, gzipped, in base64.

    A block holds `items`, up to 200 in the order of the index, and `texts`, those that first occur in them. Items name
    texts by their number over all blocks; an item's texts are in its own block or in an earlier one.
    """
    numbered = _Numbered()
    for at in range(0, len(couples), BLOCK_ITEMS):
        numbered.new = []
        rows = [
            _detail(numbered, couple, texts.get(couple[0].id), exchanges) for couple in couples[at : at + BLOCK_ITEMS]
        ]
        yield len(numbered.numbers) - len(numbered.new), packed({"items": rows, "texts": numbered.new})


def packed(value: Mapping[str, Any]) -> str:
    """Return JSON, gzipped, in base64: letters that mean nothing in HTML, whatever the texts say."""
    return base64.b64encode(gzip.compress(orjson.dumps(value), compresslevel=6, mtime=0)).decode()


def _detail(numbered: _Numbered, couple: Couple, texts: Texts | None, exchanges: Sequence[Exchanges]) -> dict[str, Any]:
    """Return the parts of an opened item, with texts as numbers."""
    shown = {} if texts is None else {name: numbered.place(text) for name, text in asdict(texts).items()}
    sides = [_side(numbered, item) for item in couple]
    for side, calls in zip(sides, exchanges, strict=False):
        if found := calls.get(couple[0].id):
            side["calls"] = [_call(numbered, one, texts) for one in found]
    return {**shown, "runs": sides}


def _side(numbered: _Numbered, item: Item) -> dict[str, Any]:
    """Return how one run judged an item; empty parts are left out."""
    parts = {
        "margins": item.margins,
        "rows": [_row(numbered, item, row) for row in by_size(item.rubrics)],
        "verdict": [
            {"shown": one.shown, "judge": one.judge, "text": numbered.place(one.text)} for one in verdict_reasons(item)
        ],
        "votes": [{**asdict(vote), "contributions": None} for vote in item.votes],
        "detail": numbered.place(item.detail) if item.detail else None,
        "keys": [key[:12] for key in item.requests],
    }
    return {name: value for name, value in parts.items() if value}


def _row(numbered: _Numbered, item: Item, row: RubricRow) -> dict[str, Any]:
    reason = reason_of(item, row)
    parts = {name: getattr(row, name) for name in ROW}
    parts["text"] = numbered.place(row.text)
    parts["rephrased"] = numbered.place(row.rephrased) if row.rephrased else None
    parts["reason"] = numbered.place(reason.text) if reason else None
    return {name: value for name, value in parts.items() if value not in {None, "", False}}


def _call(numbered: _Numbered, one: Exchange, texts: Texts | None) -> dict[str, Any]:
    """Return a call; parts of its request that are the item's own texts are stored once."""
    own = () if texts is None else tuple(filter(None, asdict(texts).values()))
    asked = [[role, [numbered.place(part) for part in _parts(text, own)]] for role, text in one.asked]
    return {"key": one.key, "asked": asked, "reply": numbered.place(one.reply)}


def _parts(text: str, own: Sequence[str]) -> Iterator[str]:
    """Yield a text cut before and behind each occurrence of the texts of an item."""
    known = frozenset(own)
    pattern = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
    yield from filter(None, re.split(f"({pattern})", text) if known else [text])
