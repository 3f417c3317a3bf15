"""Which of N responses are judged side by side, so that the number of calls grows as N and not as its square.

    all       every two                                    N (N − 1) / 2 pairs
    circle    each with the next, the last with the first  N pairs
    anchor    each with one of them                        N − 1 pairs
    swiss     rounds of pairs of near scores               at most R · N / 2 pairs in R rounds

Each connects all responses, so that every one has a score where no judgement fails. In a circle no response depends on
one judgement alone; an anchor makes all scores depend on one response, and is right where that one is given; Swiss
rounds, as in chess, spend their calls on responses that are near each other. Nothing is drawn by chance.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Literal, get_args

from svr_async.errors import UsageError
from svr_async.serving.potentials import Margins, connected, standings

Schedule = Literal["all", "circle", "anchor", "swiss"]
Pair = tuple[int, int]
SCHEDULES: tuple[str, ...] = get_args(Schedule)


def pairs_at_once(schedule: Schedule, n: int, *, anchor: int = 0) -> list[Pair]:
    """Return the pairs (i, j), i < j, of a schedule of n responses that does not wait for margins: all but `swiss`.

    `anchor` is the place of the one that all others meet. UsageError for a place beyond the last.
    """
    if schedule == "circle":
        return sorted({_ordered(i, (i + 1) % n) for i in range(n) if n > 1})
    if schedule == "anchor":
        if not 0 <= anchor < max(n, 1):
            raise UsageError(f"anchor {anchor} is none of {n} responses", hint="places count from 0")
        return [_ordered(anchor, i) for i in range(n) if i != anchor]
    return list(combinations(range(n), 2))


def most_pairs(schedule: Schedule, n: int, *, rounds: int | None = None) -> int:
    """Return how many pairs of n responses a schedule judges at most."""
    if schedule == "swiss":
        return min(swiss_rounds(n, rounds) * (n // 2), n * (n - 1) // 2)
    return len(pairs_at_once(schedule, n))


def swiss_rounds(n: int, rounds: int | None) -> int:
    """Return the rounds for n responses: those asked for, but at least ⌈log2 n⌉, which it takes to connect them all."""
    return max(rounds or 0, (n - 1).bit_length() if n > 1 else 0)


def check_schedule(schedule: str, *, rounds: int | None, anchor: int | None) -> None:
    """Raise UsageError for a schedule that there is not, or for what does not belong to it."""
    if schedule not in SCHEDULES:
        raise UsageError(
            f"schedule must be one of {', '.join(SCHEDULES)} (got {schedule!r})", hint="all is the default"
        )
    if rounds is not None and (schedule != "swiss" or rounds < 1):
        raise UsageError(f"rounds={rounds} with schedule={schedule!r}", hint="schedule='swiss' takes 1 round or more")
    if anchor is not None and schedule != "anchor":
        raise UsageError(f"anchor={anchor} with schedule={schedule!r}", hint="schedule='anchor' takes a place")


async def scheduled(
    schedule: Schedule,
    n: int,
    judge: Callable[[Sequence[Pair]], Awaitable[Mapping[Pair, float]]],
    *,
    rounds: int | None = None,
    anchor: int = 0,
) -> Margins:
    """Return the margins F_ij (i < j) of the pairs that a schedule asks for; `judge` returns those that it could tell.

    All pairs that do not wait for others are asked for at once: Swiss rounds one after the other.
    """
    if schedule != "swiss":
        return dict(await judge(pairs_at_once(schedule, n, anchor=anchor)))
    margins: Margins = {}
    met: set[Pair] = set()
    for _ in range(swiss_rounds(n, rounds)):
        if not (now := swiss_round(n, margins, met)):
            break
        met.update(now)
        margins.update(await judge(now))
    return margins


def swiss_round(n: int, margins: Mapping[Pair, float], met: Iterable[Pair]) -> list[Pair]:
    """Return the pairs of the next round: no response twice, none that met before, near scores, ties in their order.

    What margins do not connect yet is connected first, by those of nearest score; with n odd one response rests, of
    those that met most the last.
    """
    scores, before = standings(n, margins), set(met)
    free = set(range(n))
    found = _bridges(connected(n, margins), scores, before, free)
    games = [sum(place in pair for pair in before) for place in range(n)]
    if len(free) % 2:
        free.discard(max(free, key=lambda place: (games[place], -scores[place], place)))
    ranked = sorted(free, key=lambda place: (-scores[place], place))
    while ranked:
        first = ranked.pop(0)
        other = next((place for place in ranked if _ordered(first, place) not in before), None)
        if other is not None:
            ranked.remove(other)
            found.append(_ordered(first, other))
    return sorted(found)


def _bridges(groups: list[list[int]], scores: Sequence[float], before: set[Pair], free: set[int]) -> list[Pair]:
    """Take from `free` a pair for each two groups that stand next to each other by their best scores."""
    found: list[Pair] = []
    ranked = sorted(groups, key=lambda group: (-max(scores[place] for place in group), group))
    for one, other in zip(ranked[::2], ranked[1::2], strict=False):
        pairs = [pair for i in one for j in other if (pair := _ordered(i, j)) not in before]
        if pairs:
            found.append(min(pairs, key=lambda pair: (abs(scores[pair[0]] - scores[pair[1]]), pair)))
            free.difference_update(found[-1])
    return found


def _ordered(i: int, j: int) -> Pair:
    return (i, j) if i < j else (j, i)
