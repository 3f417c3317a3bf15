"""Best of N over a file: groups of responses ranked, rows that say how, and a summary with its baselines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svr_async.adapters.groups import ResponseGroup
from svr_async.adapters.pair_files import write_rows
from svr_async.core.statistics import share_interval
from svr_async.core.table import Line, Parts, Table
from svr_async.judges.protocol import Judge
from svr_async.scoring.bank import RubricBank
from svr_async.serving.engine import Engine, opened
from svr_async.serving.many import all_of
from svr_async.serving.pairs import judge_of
from svr_async.serving.ranking import Ranking, rank

Places = frozenset[int]


@dataclass(frozen=True, slots=True)
class RankedGroup:
    """A group of responses and their ranking, with what judged them: its `marks`, and the bank's `name` and digest."""

    group: ResponseGroup
    ranking: Ranking
    marks: tuple[str, ...] = ()
    bank: tuple[str, str] | None = None

    @property
    def top(self) -> Places:
        """The places of the responses with the highest score: several where they tie, none without a verdict."""
        known = {place: score for place, score in enumerate(self.ranking.scores) if score is not None}
        return frozenset(place for place, score in known.items() if score == max(known.values()))

    def row(self) -> dict[str, Any]:
        """Return it as plain JSON values, which `svr rank --pairs-out` reads."""
        told = {
            "id": self.group.id,
            "prompt": [{"role": turn.role, "content": turn.content} for turn in self.group.prompt],
            "responses": self.group.responses,
            **self.ranking.to_json(),
            "marks": self.marks,
            "bank": None if self.bank is None else dict(zip(("name", "digest"), self.bank, strict=True)),
        }
        return told | ({"labelled_best": sorted(self.group.best)} if self.group.best else {})


async def rank_groups(
    groups: Sequence[ResponseGroup], *, bank: RubricBank | None = None, engine: Engine | Judge | str, **how: Any
) -> list[RankedGroup]:
    """Rank each group as `rank` does, which takes `how`, as many at a time as the engine has room for.

    What was asked before is in the cache and costs nothing: a call that was ended goes on where it was. What stops an
    engine is raised, once what was under way has ended.
    """
    named = None if bank is None else (bank.name, bank.digest)
    async with opened(engine) as asked:

        async def ranked(group: ResponseGroup) -> RankedGroup:
            ranking = await rank(group.prompt, group.responses, bank=bank, engine=asked, **how)
            marks = judge_of(asked).marks  # a simulated endpoint is known by its replies
            return RankedGroup(group, ranking, tuple(sorted(marks)), named)

        return await all_of(ranked, groups, asked)


def write_ranked(path: Path, found: Iterable[RankedGroup]) -> None:
    """Write ranked groups as jsonl, whole or not at all; packed where the name ends in .gz."""
    write_rows(path, (one.row() for one in found))


def summary(found: Sequence[RankedGroup]) -> dict[str, Any]:
    """Return counts, and where data say which response is best, accuracy beside the longest and the first response.

    Accuracy is the share of labelled groups whose best is on top, with its 95 % interval over prompts; k on top count
    as 1 / k, and no verdict as wrong. Fractions of 1.
    """
    labelled = [one for one in found if one.group.best]
    counts = {
        "prompts": len(found),
        "responses": sum(len(one.group.responses) for one in found),
        "decided": sum(bool(one.top) and not one.ranking.undecided for one in found),
        "without_verdict": sum(not one.top for one in found),
        "questions": sum(one.ranking.questions for one in found),
        "judge": found[0].ranking.judge if found else "",
        "bank": found[0].bank[0] if found and found[0].bank else "",
    }
    return counts | ({"labelled": len(labelled), "accuracy": _beside_baselines(labelled)} if labelled else {})


def summary_sheet(told: dict[str, Any]) -> Parts:
    """Yield a summary for people."""
    yield Line(told["judge"] + (f" · bank {told['bank']}" if told["bank"] else ""))
    counts = f"{told['prompts']:,} prompts, {told['responses']:,} responses, {told['questions']:,} questions"
    yield Line(f"{counts}; decided {told['decided']:,}, without any verdict {told['without_verdict']:,}")
    if "accuracy" in told:
        rows = ((name, *(f"{100 * one[key]:.1f} %" for key in one)) for name, one in told["accuracy"].items())
        yield Table((f"best on top, of {told['labelled']:,}", "accuracy", "from", "to"), tuple(rows), texts=0)


def _beside_baselines(labelled: Sequence[RankedGroup]) -> dict[str, dict[str, float]]:
    return {
        "judge": _accuracy(labelled, [one.top for one in labelled]),
        "longest": _accuracy(labelled, [longest(one.group.responses) for one in labelled]),
        "first": _accuracy(labelled, [frozenset({0})] * len(labelled)),
        "chance": _accuracy(labelled, [frozenset(range(len(one.group.responses))) for one in labelled]),
    }


def longest(responses: Sequence[str]) -> Places:
    """Return the places of the responses with most characters."""
    most = max(map(len, responses))
    return frozenset(place for place, text in enumerate(responses) if len(text) == most)


def credit(best: Places, top: Places) -> float:
    """Return the chance that a response drawn from the top is one that the data call best; 0 where there is no top."""
    return len(best & top) / len(top) if top else 0.0


def _accuracy(labelled: Sequence[RankedGroup], tops: Sequence[Places]) -> dict[str, float]:
    shares = [credit(one.group.best, top) for one, top in zip(labelled, tops, strict=True)]
    low, high = share_interval(shares, [one.group.prompt for one in labelled])
    return {"value": sum(shares) / len(shares), "low": low, "high": high}
