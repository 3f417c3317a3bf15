"""Pairs of a data set are put away as they are read: each comes back as it was, and next to nothing is held of it."""

from __future__ import annotations

import gc
import pickle
import tracemalloc
from pathlib import Path

import orjson
import pytest

from svr_async.adapters import get_adapter
from svr_async.adapters.pair_shelf import PairShelf, pairs_at, pairs_named
from svr_async.vocabulary import shelf
from svr_async.vocabulary.pair import Message, PreferencePair, user_prompt

PAIRS = [
    PreferencePair(id="plain", prompt=user_prompt("q\u2028\n"), chosen="a\x01", rejected=""),
    PreferencePair(
        id='odd "one", é', prompt=(Message("system", "s"), Message("user", "u")), chosen="c", rejected="r", domain="d",
        subset="s", chosen_first=False, has_preference=False, strength=3, rubrics=("x", "y"), item="i", slot=(1, 2),
        source="from",
    ),
    *(PreferencePair(id=f"p{n}", prompt=user_prompt("q"), chosen="c" * n, rejected="r") for n in range(9)),
]  # fmt: skip


@pytest.fixture(params=[0, 1 << 20], ids=["in a file", "in memory"])
def put_away(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> PairShelf:
    """Return all pairs on a shelf."""
    monkeypatch.setattr(shelf, "HELD", request.param)
    made = PairShelf()
    for pair in PAIRS:
        made.append(pair)
    return made


def test_pairs_come_back_as_they_were(put_away: PairShelf) -> None:
    """Each one, every field of it, in the order of the data, by place, in slices, and among places that are chosen."""
    assert list(put_away) == PAIRS
    assert put_away == PAIRS
    assert (len(put_away), put_away[1], put_away[-1]) == (len(PAIRS), PAIRS[1], PAIRS[-1])
    assert put_away[2:6][1:][::-1] == PAIRS[3:6][::-1]
    assert pairs_at(put_away[1:], [3, 0]) == pairs_at(PAIRS[1:], [3, 0]) == [PAIRS[4], PAIRS[1]]
    assert pickle.loads(pickle.dumps(put_away)) == tuple(PAIRS)
    with pytest.raises(IndexError):
        put_away[len(PAIRS)]


def test_few_pairs_are_found_by_their_ids(put_away: PairShelf) -> None:
    """Those and no other, whatever stands in an id; the same of pairs that are in memory."""
    for ids in ({"p1", 'odd "one", é', "p", 'p2","'}, set[str]()):
        found = list(pairs_named(put_away, ids))
        assert found == list(pairs_named(PAIRS, ids)) == [pair for pair in PAIRS if pair.id in ids]


def test_little_is_held_of_a_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 2,000 pairs with 3 kB of text 40 bytes each are held once they are read, and 0.5 kB while they are."""
    monkeypatch.setattr(shelf, "HELD", 1 << 14)
    rows = (
        orjson.dumps({"prompt": f"q{n}", "chosen": f"{n} a " * 300, "rejected": f"{n} b " * 300}) for n in range(2000)
    )
    (tmp_path / "pairs.jsonl").write_bytes(b"\n".join(rows))
    get_adapter("pairs").load(tmp_path / "pairs.jsonl")
    gc.collect()
    tracemalloc.start()
    try:
        pairs = get_adapter("pairs").load(tmp_path / "pairs.jsonl").pairs
        gc.collect()
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(pairs) == 2000
    assert held < 40 * 2000 + shelf.HELD
    assert most < 500 * 2000 + (2 << 20)  # the buffer of the file that is read
