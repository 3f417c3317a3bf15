"""All items of a run, or of two beside each other, by columns: what a page sorts and filters by, without any text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from svr_async.errors import UsageError
from svr_async.evaluation.items import Item
from svr_async.evaluation.labels import caption, mark_words, run_titles
from svr_async.evaluation.run_folder import Run

VERSION = 1
MOST_RUBRICS = 2_000  # of which a page offers a filter
MOST_NAME_CHARS = 300  # of a rubric in the list of that filter

Couple = tuple[Item, ...]
"""One pair as each run judged it: one item, or two."""


def couples_of(runs: Sequence[Run]) -> list[Couple]:
    """Return the items of one run, or those that two share, in the first's order; UsageError where they share none.

    Items of the same id are told apart by how many came before.
    """
    first, *others = ([(key, item) for key, item in _numbered(run.items)] for run in runs)
    known = [dict(other) for other in others]
    found = [(item, *(other[key] for other in known)) for key, item in first if all(key in other for other in known)]
    if not found and len(runs) > 1:
        raise UsageError(
            f"{runs[0].path} and {runs[1].path} share no item", hint="view runs over the same data side by side"
        )
    return found


def _numbered(items: Iterable[Item]) -> Iterable[tuple[tuple[str, int], Item]]:
    seen: Counter[str] = Counter()
    for item in items:
        yield (item.id, seen[item.id]), item
        seen[item.id] += 1


def index_of(runs: Sequence[Run], couples: Sequence[Couple], notes: Sequence[str] = ()) -> dict[str, Any]:
    """Return the columns as plain JSON values: names once, and a number into them for each item.

    `runs` has the columns of each run; id, domain, subset and right side are of the pair, and the same in both.
    """
    first = [couple[0] for couple in couples]
    titles = run_titles(runs)
    return {
        "version": VERSION,
        "notes": list(notes),
        "id": [item.id for item in first],
        "domain": _coded(item.domain for item in first),
        "subset": _coded(item.subset for item in first),
        "gold": _coded(item.gold or "" for item in first),
        "runs": [_run(run, titles[n], [couple[n] for couple in couples]) for n, run in enumerate(runs)],
    }


def _run(run: Run, title: str, items: Sequence[Item]) -> dict[str, Any]:
    return {
        "title": title,
        "caption": caption(run),
        "marks": list(mark_words(run)),
        "folder": str(run.path),
        "digest": str(run.manifest.get("digest") or run.name),
        "result": _coded(result_of(item) for item in items),
        "outcome": _coded(item.outcome for item in items),
        "predicted": _coded(item.predicted or "" for item in items),
        "order": _coded(item.order for item in items),
        "judge": _coded(item.judge for item in items),
        "margin": [item.margin for item in items],
        "swapped": [int(flips(item)) for item in items],
        "flags": _many(item.flags for item in items),
        "rubrics": _rubrics(items),
    }


def result_of(item: Item) -> str:
    """Return in a word how an item ended: right, wrong, tie, no right answer, or why there is no verdict."""
    if item.outcome != "scored":
        return item.outcome.replace("_", " ")
    return {True: "right", False: "wrong", None: "no right answer"}[item.correct]


def flips(item: Item) -> bool:
    """Whether the two orders shown name different sides."""
    ends = item.margins.values()
    return len(item.margins) > 1 and min(ends) < 0 < max(ends)


def _coded(values: Iterable[str]) -> dict[str, list[Any]]:
    names: dict[str, int] = {}
    codes = [names.setdefault(value, len(names)) for value in values]
    return {"names": list(names), "codes": codes}


def _many(rows: Iterable[Sequence[str]]) -> dict[str, list[Any]]:
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
