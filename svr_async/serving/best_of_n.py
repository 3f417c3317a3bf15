"""Best of N over a file: ranked groups, a summary with baselines, and preference pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from svr_async.adapters.records import content_id
from svr_async.core.pair import Prompt
from svr_async.core.statistics import share_interval
from svr_async.core.table import Line, Parts, Table
from svr_async.errors import UsageError
from svr_async.scoring.bank import RubricBank
from svr_async.serving.engine import EngineLike, opened
from svr_async.serving.pairs import all_of, judge_of
from svr_async.serving.ranking import Ranking, arank

Places = frozenset[int]
NO_VERDICT = "fewer than two verdicts"
ALIKE = "all scores are equal"
CLOSE = "the margin is below the floor"
KEPT = "pairs"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseGroup:
    """A prompt with N responses in the order of the data; `best` are the places of the best ones, if known.

    `id` is the row's own, else a hash of its texts, and unique in a file.
    """

    id: str
    prompt: Prompt
    responses: tuple[str, ...]
    best: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class RankedGroup:
    """A group of responses and their ranking, with the judge's `marks` and the bank's name and digest."""

    group: ResponseGroup
    ranking: Ranking
    marks: tuple[str, ...] = ()
    bank: tuple[str, str] | None = None

    @property
    def top(self) -> Places:
        """The places of the responses with the highest score; several if they tie."""
        known = {place: score for place, score in enumerate(self.ranking.scores) if score is not None}
        return frozenset(place for place, score in known.items() if score == max(known.values()))

    def row(self) -> dict[str, Any]:
        """Return plain JSON values: a row of the output file."""
        row = {
            "id": self.group.id,
            "prompt": [{"role": turn.role, "content": turn.content} for turn in self.group.prompt],
            "responses": self.group.responses,
            **self.ranking.to_json(),
            "marks": self.marks,
            "bank": None if self.bank is None else dict(zip(("name", "digest"), self.bank, strict=True)),
        }
        return row | ({"labelled_best": sorted(self.group.best)} if self.group.best else {})


async def rank_groups(
    groups: Sequence[ResponseGroup], *, bank: RubricBank | None = None, engine: EngineLike, **how: Any
) -> list[RankedGroup]:
    """Rank each group as `rank` does with the arguments `how`, as many at once as the engine allows."""
    named = None if bank is None else (bank.name, bank.digest)
    async with opened(engine) as asked:

        async def ranked(group: ResponseGroup) -> RankedGroup:
            ranking = await arank(group.prompt, group.responses, bank=bank, engine=asked, **how)
            marks = judge_of(asked).marks  # known only after a reply, for simulated endpoints
            return RankedGroup(group, ranking, tuple(sorted(marks)), named)

        return await all_of(ranked, groups, asked)


def summary(ranked: Sequence[RankedGroup]) -> dict[str, Any]:
    """Return counts and, if responses are labelled, accuracy compared with the longest and the first response.

    Accuracy is the share of labelled groups with the best on top, with its 95 % interval over prompts, as fractions of
    1; k on top count 1 / k, no verdict counts as wrong.
    """
    counts = {
        "prompts": len(ranked),
        "responses": sum(len(item.group.responses) for item in ranked),
        "decided": sum(bool(item.top) and not item.ranking.undecided for item in ranked),
        "without_verdict": sum(not item.top for item in ranked),
        "questions": sum(item.ranking.questions for item in ranked),
        "judge": ranked[0].ranking.judge if ranked else "",
        "bank": ranked[0].bank[0] if ranked and ranked[0].bank else "",
    }
    if not (labelled := [item for item in ranked if item.group.best]):
        return counts
    tops: dict[str, list[Places]] = {
        "judge": [item.top for item in labelled],
        "longest": [_longest(item.group.responses) for item in labelled],
        "first": [frozenset({0})] * len(labelled),
        "chance": [frozenset(range(len(item.group.responses))) for item in labelled],
    }
    accuracy = {name: _accuracy(labelled, places) for name, places in tops.items()}
    return counts | {"labelled": len(labelled), "accuracy": accuracy}


def _longest(responses: Sequence[str]) -> Places:
    most = max(map(len, responses))
    return frozenset(place for place, text in enumerate(responses) if len(text) == most)


def _accuracy(labelled: Sequence[RankedGroup], tops: Sequence[Places]) -> dict[str, float]:
    shares = [len(item.group.best & top) / len(top) if top else 0.0 for item, top in zip(labelled, tops, strict=True)]
    low, high = share_interval(shares, [item.group.prompt for item in labelled])
    return {"value": sum(shares) / len(shares), "low": low, "high": high}


def summary_sheet(facts: dict[str, Any]) -> Parts:
    """Yield a summary as lines and a table."""
    yield Line(facts["judge"] + (f" · bank {facts['bank']}" if facts["bank"] else ""))
    counts = f"{facts['prompts']:,} prompts, {facts['responses']:,} responses, {facts['questions']:,} questions"
    yield Line(f"{counts}; decided {facts['decided']:,}, without any verdict {facts['without_verdict']:,}")
    if "accuracy" in facts:
        rows = ((name, *(f"{100 * share[key]:.1f} %" for key in share)) for name, share in facts["accuracy"].items())
        yield Table((f"best on top, of {facts['labelled']:,}", "accuracy", "from", "to"), tuple(rows), texts=0)


def preference_rows(
    ranked: Iterable[RankedGroup], *, min_margin: float = 0.0
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Return a pair of best and worst for each ranked group, and counts of pairs and of groups without one, by reason.

    The scores of a pair differ by `min_margin` or more, never by 0. A pair has prompt, chosen, rejected, `margin`,
    `from` (id and places) and `labelled_by` (judge, marks, bank, method). UsageError without any pair.
    """
    pairs: list[dict[str, Any]] = []
    counts: Counter[str] = Counter()
    for item in ranked:
        known = [score for score in item.ranking.scores if score is not None]
        margin = max(known) - min(known) if len(known) > 1 else 0.0
        reason = NO_VERDICT if len(known) < 2 else ALIKE if margin == 0 else CLOSE if margin < min_margin else KEPT
        counts[reason] += 1
        if reason == KEPT:
            best, worst = item.ranking.order[0], item.ranking.order[len(known) - 1]  # those without a score stand last
            pairs.append(_pair(item, best, worst, margin))
    if not pairs:
        why = ", ".join(f"{reason}: {count}" for reason, count in counts.items()) or "no rows"
        raise UsageError(f"no pair has a margin ({why})", hint="rank more responses, or lower --min-margin")
    return pairs, dict(counts)


def _pair(item: RankedGroup, best: int, worst: int, margin: float) -> dict[str, Any]:
    row, texts = item.row(), item.group.responses
    return {
        "id": content_id(item.group.prompt, texts[best], texts[worst]),
        "prompt": row["prompt"],
        "chosen": texts[best],
        "rejected": texts[worst],
        "margin": round(margin, 9),
        "from": {"id": row["id"], "chosen": best, "rejected": worst, "of": len(texts)},
        "labelled_by": {name: row[name] for name in ("judge", "marks", "bank", "method")},
    }
