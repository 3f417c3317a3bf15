"""Which pairs can teach anything, and how a bank names those that it was trained on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import orjson

from svr_async.core.pair import PreferencePair


def usable(pair: PreferencePair) -> bool:
    """Whether a pair can teach anything: a preference between two different responses."""
    return pair.has_preference and pair.chosen != pair.rejected


def taught_digest(data: str, ids: Iterable[str]) -> str:
    """Return how a bank names what it was trained on: a digest of its data set's digest and the ids of its pairs."""
    sha = hashlib.sha256()
    for part in map(orjson.dumps, (data, [*ids])):
        sha.update(len(part).to_bytes(8, "big") + part)
    return sha.hexdigest()[:32]
