"""Preference pairs of ranked responses (rejection sampling): the best against the worst, where a margin parts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from svr_async.adapters.fields import Fields, RowError
from svr_async.adapters.records import content_id
from svr_async.adapters.tables import Row
from svr_async.core.verdict import is_finite
from svr_async.errors import UsageError

NO_VERDICT = "no verdict on two of its responses"
ALIKE = "nothing tells its responses apart"
CLOSE = "the margin is below the floor"
KEPT = "pairs"
PROVENANCE = ("judge", "marks", "bank", "method")


def preference_rows(
    rows: Iterable[Row], *, min_margin: float = 0.0, every: bool = False
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Make pairs of the rows that `svr rank FILE` writes, and count them and the prompts that gave none, by reason.

    Of each prompt the best is chosen and the worst rejected, or, with `every`, each better against each worse, where
    their scores differ by `min_margin` or more, and never by 0. A pair has prompt, chosen, rejected, `margin`, the ids
    and places that it is from, and `labelled_by`: judge, its marks, bank with digest, and method. UsageError where no
    pair is left or a row was not ranked.
    """
    made: list[dict[str, Any]] = []
    counts: Counter[str] = Counter()
    for row in rows:
        pairs = list(_pairs(Fields(row), min_margin, every=every))
        made += pairs
        counts[KEPT if pairs else _reason(Fields(row))] += len(pairs) or 1
    if not made:
        why = ", ".join(f"{reason}: {count}" for reason, count in counts.items()) or "no rows"
        raise UsageError(f"no pair has a margin ({why})", hint="rank more responses, or lower --min-margin")
    return made, dict(counts)


def _pairs(fields: Fields, floor: float, *, every: bool) -> Iterator[dict[str, Any]]:
    scores, texts = _scores(fields), fields.texts("responses")
    if len(scores) != len(texts):
        raise RowError(fields.row, f"{len(scores)} scores for {len(texts)} responses", hint="rank the file anew")
    known = [place for place in _order(scores) if scores[place] is not None]
    ends = combinations(known, 2) if every else [(known[0], known[-1])] if len(known) > 1 else []
    for better, worse in ends:
        margin = float(scores[better] or 0.0) - float(scores[worse] or 0.0)
        if margin > 0 and margin >= floor and texts[better] != texts[worse]:
            yield _row(fields, texts, (better, worse), margin)


def _scores(fields: Fields) -> list[float | None]:
    if "scores" not in fields.row.values or not fields.has("judge"):
        raise RowError(fields.row, "it has no scores of a judge", hint="svr rank FILE --out RANKED.jsonl first")
    scores = fields.value("scores")
    if not isinstance(scores, list) or not all(one is None or is_finite(one) for one in scores):
        raise fields.unfit("scores", "a list of numbers", scores)
    return scores


def _order(scores: Sequence[float | None]) -> list[int]:
    return sorted(range(len(scores)), key=lambda place: -(scores[place] or 0.0))


def _row(fields: Fields, texts: Sequence[str], places: tuple[int, int], margin: float) -> dict[str, Any]:
    chosen, rejected = (texts[place] for place in places)
    prompt = fields.prompt("prompt")
    return {
        "id": content_id(prompt, chosen, rejected),
        "prompt": [{"role": turn.role, "content": turn.content} for turn in prompt],
        "chosen": chosen,
        "rejected": rejected,
        "margin": round(margin, 9),
        "from": {"id": fields.identifier(("id",)), "chosen": places[0], "rejected": places[1], "of": len(texts)},
        "labelled_by": {name: _told(fields, name) for name in PROVENANCE},
    }


def _told(fields: Fields, name: str) -> Any:
    """Return what a row says of who judged it: a text, texts, or texts by name, which is all that is written on."""
    value = fields.row.values.get(name)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else (value,)
    if value is not None and not all(isinstance(part, str) for part in parts):
        raise fields.unfit(name, "texts, as svr rank writes them", value)
    return value


def _reason(fields: Fields) -> str:
    known: Mapping[float, int] = Counter(score for score in _scores(fields) if score is not None)
    if sum(known.values()) < 2:
        return NO_VERDICT
    return CLOSE if len(known) > 1 else ALIKE
