"""Shards: which part of a run each of N machines judges. The parts of all machines are the whole run."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable

from svr_async.errors import UsageError

Share = tuple[int, int]
"""(index, count), counted from 0: (0, 1) is the whole run."""

WHOLE: Share = (0, 1)
MOST_SHARES = 10_000
_WRITTEN = re.compile(r"(\d{1,5})/(\d{1,5})")


def read_share(text: str) -> Share:
    """Read I/N, counted from 1; UsageError for anything else."""
    found = _WRITTEN.fullmatch(text)
    number, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= count <= MOST_SHARES:
        hint = f"write I/N, for example 2/4 for the second of four machines; N is at most {MOST_SHARES:,}"
        raise UsageError(f"--shard {text[:40]} is not a shard", hint=hint)
    return number - 1, count


def share_in_words(share: Share) -> str:
    """Return a share as users write it: I/N, counted from 1."""
    return f"{share[0] + 1}/{share[1]}"


def part_of(total: int, share: Share) -> int:
    """Return a share's part of a whole number; the parts of all shares add up to it."""
    number, count = share
    return total // count + (number < total % count)


def places_of(prompts: Iterable[Hashable], share: Share) -> list[int]:
    """Return the positions of a share. Equal prompts stay together, because they use the same rubrics."""
    number, count = share
    groups: dict[Hashable, int] = {}
    return [place for place, prompt in enumerate(prompts) if groups.setdefault(prompt, len(groups)) % count == number]
