"""Shares: which part of a run falls to one process, or one machine, of several. The parts of all are the whole."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator

from svr_async.errors import UsageError

Share = tuple[int, int]
"""Which one of how many, counted from 0: (0, 1) does all by itself."""

WHOLE: Share = (0, 1)
MOST_SHARES = 10_000
_WRITTEN = re.compile(r"(\d{1,5})/(\d{1,5})")


def read_share(text: str) -> Share:
    """Read I/N, counted from 1 as people do; UsageError for anything else."""
    found = _WRITTEN.fullmatch(text)
    number, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= count <= MOST_SHARES:
        hint = f"write I/N, as 2/4 for the second of four machines; N is at most {MOST_SHARES:,}"
        raise UsageError(f"--shard {text[:40]} is no shard of a run", hint=hint)
    return number - 1, count


def share_in_words(share: Share) -> str:
    """Return a share as it is written: I/N, counted from 1."""
    return f"{share[0] + 1}/{share[1]}"


def part_of(total: int, share: Share) -> int:
    """Return the part of a whole number that falls to a share; all parts add up to it."""
    number, count = share
    return total // count + (number < total % count)


def places_of(prompts: Iterable[Hashable], share: Share) -> list[int]:
    """Return the places of a share. What has one prompt stays together: it asks about the same rubrics."""
    number, count = share
    return [place for place, group in enumerate(_groups_of(prompts)) if group % count == number]


def all_places(prompts: Iterable[Hashable], count: int) -> list[list[int]]:
    """Return the places of each of so many shares, in one look; of those that there are none for, none."""
    places: list[list[int]] = [[] for _ in range(count)]
    for place, group in enumerate(_groups_of(prompts)):
        places[group % count].append(place)
    return places


def _groups_of(prompts: Iterable[Hashable]) -> Iterator[int]:
    groups: dict[Hashable, int] = {}
    return (groups.setdefault(prompt, len(groups)) for prompt in prompts)


def share_of_share(share: Share, part: Share) -> Share:
    """Return the share of the whole that a part of a share is: `places_of` divides alike in one step and in two."""
    return share[0] + share[1] * part[0], share[1] * part[1]
