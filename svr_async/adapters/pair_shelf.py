"""Pairs that are put away as they are read: a data set holds eight bytes of each, and a pair is read at each look."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from sys import intern
from typing import Any, overload

import orjson

from svr_async.vocabulary.pair import Message, PreferencePair
from svr_async.vocabulary.shelf import Shelf


class PairShelf(Sequence[PreferencePair]):
    """Pairs by their places in the data; `places` are those on the shelf, all of them unless given."""

    def __init__(self, shelf: Shelf | None = None, places: Sequence[int] | None = None) -> None:
        self._shelf = Shelf() if shelf is None else shelf
        self._places = places

    def append(self, pair: PreferencePair) -> None:
        """Put a pair away behind all others."""
        self._shelf.put(orjson.dumps(_canonical(pair), option=orjson.OPT_APPEND_NEWLINE))

    def __len__(self) -> int:
        return len(self._shelf if self._places is None else self._places)

    def __iter__(self) -> Iterator[PreferencePair]:
        return map(_pair, self.lines())

    @overload
    def __getitem__(self, place: int) -> PreferencePair: ...
    @overload
    def __getitem__(self, place: slice) -> PairShelf: ...
    def __getitem__(self, place: int | slice) -> PreferencePair | PairShelf:
        if isinstance(place, slice):
            return PairShelf(self._shelf, self._numbers()[place])
        return _pair(self._shelf.get(self._numbers()[place]))

    def at(self, places: Sequence[int]) -> PairShelf:
        """Return the pairs at these places, in this order."""
        numbers = self._numbers()
        return PairShelf(self._shelf, [numbers[place] for place in places])

    def lines(self) -> Iterator[bytes]:
        """Yield the pairs' contents, one canonical JSON line a pair."""
        return map(self._shelf.get, self._numbers())

    def _numbers(self) -> Sequence[int]:
        return range(len(self._shelf)) if self._places is None else self._places

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)


def pairs_at(pairs: Sequence[PreferencePair], places: Sequence[int]) -> Sequence[PreferencePair]:
    """Return the pairs at these places; those that were put away stay there."""
    return pairs.at(places) if isinstance(pairs, PairShelf) else [pairs[place] for place in places]


def pairs_named(pairs: Sequence[PreferencePair], ids: Collection[str]) -> Iterator[PreferencePair]:
    """Yield the pairs with these ids, of which there are few; of those that were put away no other is made out."""
    if not isinstance(pairs, PairShelf):
        return (pair for pair in pairs if pair.id in ids)
    heads = tuple(orjson.dumps([name])[:-1] + b"," for name in ids)
    return (_pair(line) for line in pairs.lines() if line.startswith(heads))


def pairs_digest(pairs: PairShelf) -> str:
    """Return the SHA-256 over the pairs' contents, one canonical JSON line a pair."""
    digest = hashlib.sha256()
    for line in pairs.lines():
        digest.update(line)
    return digest.hexdigest()


def _canonical(p: PreferencePair) -> list[object]:
    turns = [[turn.role, turn.content] for turn in p.prompt]
    kind = [p.domain, p.subset, p.chosen_first, p.has_preference, p.strength]
    named = [p.source] if p.source else []  # pairs without a source keep the digest that they always had
    return [p.id, turns, p.chosen, p.rejected, *kind, p.rubrics, p.item, p.slot, *named]


def _pair(line: bytes) -> PreferencePair:
    name, turns, chosen, rejected, domain, subset, *more = orjson.loads(line)
    first, known, strength, rubrics, item, slot, *named = more
    return PreferencePair(
        id=name,
        prompt=tuple(Message(intern(role), content) for role, content in turns),
        chosen=chosen,
        rejected=rejected,
        domain=intern(domain),
        subset=intern(subset),
        chosen_first=first,
        has_preference=known,
        strength=strength,
        rubrics=tuple(rubrics),
        item=item,
        slot=tuple(slot),
        source=named[0] if named else "",
    )
