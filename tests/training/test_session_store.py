"""Judged pools as a feature store: what was judged comes back, with its split and its own entries marked."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from svr_async.training.store.session_store import write_session_store

from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.core.rubric import Rubric
from svr_async.errors import ArtefactError, UsageError
from svr_async.training.bank.merge import Candidate
from svr_async.training.rounds.config import TrainConfig
from svr_async.training.rounds.session import HardNegative, Ledger, prepare
from svr_async.training.store.files import load_store
from svr_async.training.store.rounds import fit_arrays

PAIRS = [PreferencePair(id=f"p{n}", prompt=user_prompt(f"bread {n // 2}"), chosen="a", rejected="b") for n in range(6)]
BANK = [
    Candidate(rubric=Rubric(text="Is brief"), source_pair_ids=("p0",)),
    Candidate(rubric=Rubric(text="Names salt"), source_pair_ids=("p0", "p2")),
]
NEGATIVE = HardNegative(pair=PreferencePair(id="p0~probe1", prompt=PAIRS[0].prompt, chosen="a", rejected="c"), of="p0")


def session() -> Any:
    """Return what writing a store needs of a session: four training pairs, two dev pairs, some verdicts."""
    ledger = Ledger()
    ids = [candidate.rubric.id for candidate in BANK]
    ledger.note("p0", ids, {ids[0]: 1.25, ids[1]: 0.25})
    ledger.note("p4", ids, {ids[1]: -0.75})
    ledger.note("p0~probe1", ids, {ids[1]: -0.25})
    crew = SimpleNamespace(judge=SimpleNamespace(name="made", marks=frozenset({"simulated"})))
    material = prepare(PAIRS[:4], PAIRS[4:], digest="d")
    return SimpleNamespace(config=TrainConfig(), material=material, ledger=ledger, crew=crew)


def test_what_was_judged_comes_back_from_the_store(tmp_path: Path) -> None:
    """Entries, splits, hard negatives and own marks are those of the session."""
    write_session_store(session(), tmp_path / "store", BANK, [NEGATIVE])
    store = load_store(tmp_path / "store")
    assert list(store.pair_ids) == [*(pair.id for pair in PAIRS), "p0~probe1"]
    assert store.is_dev.tolist() == [False] * 4 + [True] * 2 + [False]
    assert (store.header.judge, store.header.marks) == ("made", frozenset({"simulated"}))
    assert [entry.candidate for entry in store.rubrics] == BANK
    train = fit_arrays(store, "train")
    assert train.z_delta.tolist() == [1.25, 0.25, -0.25]
    assert train.z_own is not None
    assert train.z_own.tolist() == [True, False, False]
    assert train.negative_of is not None
    assert train.negative_of.tolist() == [-1, -1, -1, -1, 0]
    dev = fit_arrays(store, "dev")
    assert dev.z_delta.tolist() == [-0.75]


def test_a_store_is_not_written_over(tmp_path: Path) -> None:
    """The same store again is left as it is; a folder that holds anything else is refused and left as it is."""
    write_session_store(session(), tmp_path / "store", BANK)
    before = {path.name: path.read_bytes() for path in (tmp_path / "store").iterdir()}
    write_session_store(session(), tmp_path / "store", BANK)
    with pytest.raises(UsageError, match="exists already"):
        write_session_store(session(), tmp_path / "store", BANK[:1])
    assert {path.name: path.read_bytes() for path in (tmp_path / "store").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.parametrize("marks", ["simulated", [1], ["x" * 41], {}])
def test_marks_that_are_none_are_refused(marks: str | list[int | str], tmp_path: Path) -> None:
    """A store whose marks are no list of short words is not read."""
    write_session_store(session(), tmp_path / "store", BANK)
    meta = tmp_path / "store" / "meta.json"
    meta.write_bytes(orjson.dumps(orjson.loads(meta.read_bytes()) | {"marks": marks}))
    with pytest.raises(ArtefactError, match="marks must be a list of simulated"):
        load_store(tmp_path / "store")
