"""What part of a data set is used: domains, then the first N pairs or A to B of them."""

from __future__ import annotations

from collections.abc import Sequence

from svr_async.core.pair import PreferencePair
from svr_async.errors import UsageError


def select_pairs(
    pairs: Sequence[PreferencePair], limit: str | None, domains: Sequence[str]
) -> Sequence[PreferencePair]:
    """Return the pairs of these domains, then the first N or A to B of them; UsageError when nothing is left."""
    if domains:
        wanted = {name.casefold() for name in domains}
        known = sorted({pair.domain for pair in pairs})
        unknown = wanted - {name.casefold() for name in known}
        if unknown:
            raise UsageError(f"there is no domain {min(unknown)!r}", hint=f"there are {', '.join(known)}")
        pairs = [pair for pair in pairs if pair.domain.casefold() in wanted]
    if limit:
        start, end = _parse_limit(limit)
        pairs = pairs[start:end]
    if not pairs:
        raise UsageError(f"0 usable pairs are left after --limit {limit}", hint="widen --limit")
    return pairs


def _parse_limit(limit: str) -> tuple[int, int]:
    first, dash, last = limit.partition("-")
    try:
        start, end = (int(first) - 1, int(last)) if dash else (0, int(first))
    except ValueError:
        start, end = -1, -1
    if start < 0 or end <= start:
        raise UsageError(f"--limit {limit} is no range", hint="write 100, or 101-200")
    return start, end
