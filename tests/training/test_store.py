"""The feature store: what was written comes back, whole or not at all; rounds of a training, and imported data."""

import pickle
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy.sparse import csc_matrix, save_npz
from stand_ins import UnaskedAuthor, UnaskedJudge

from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.core.rubric import Check, Rubric
from svr_async.errors import ArtefactError, DataError, UsageError
from svr_async.scoring.bank import BankRubric
from svr_async.training.imported import facts_in_words, import_store, store_facts
from svr_async.training.rounds.config import TrainConfig, config_of
from svr_async.training.rounds.session import HardNegative, JudgedRound, Session, prepare
from svr_async.training.rounds.stages import Stages, TrainingJudges
from svr_async.training.rounds.store import (
    FeatureStore,
    Header,
    load_store,
    round_store,
    stored_round,
    write_store,
)

PAIRS = [PreferencePair(id=f"p{n}", prompt=user_prompt(f"bread {n // 2}"), chosen="a", rejected="b") for n in range(8)]
TEXTS = ("Names at most 50 words of it", "Names at most 100 words of it", "Is brief")
BANK = tuple(
    BankRubric(rubric=Rubric(text=text, check=check), source_pair_ids=sources, observed_count=len(sources))
    for text, sources, check in zip(
        TEXTS, (("p0",), ("p0", "p2", "p6"), ("p3",)), (Check.of("max_words", n=50), None, None), strict=True
    )
)
GROUPED = tuple(replace(one, criterion=BANK[0].rubric.id) if n != 1 else one for n, one in enumerate(BANK))
NEGATIVES = (HardNegative(pair=replace(PAIRS[0], id="p0~probe1", rejected="c"), of="p0"),)
HEADER = Header(judge="made", config=config_of("paper", seed=7, top_k=3, ablate=("diversity",)), round=2, last=False)


def judged_round(
    bank: tuple[BankRubric, ...] = BANK, negatives: tuple[HardNegative, ...] = NEGATIVES, named: bool = False
) -> tuple[Session, JudgedRound]:
    """Return a session and its round: six training pairs, two dev pairs, one entry for measuring alone."""
    pairs = [replace(pair, source=f"set {n % 3}") for n, pair in enumerate(PAIRS)] if named else PAIRS
    ids = [candidate.rubric.id for candidate in bank]
    judges = TrainingJudges(judge=UnaskedJudge(), author=UnaskedAuthor())
    material = prepare(pairs[:6], pairs[6:], digest="d")
    run = Session(judges=judges, config=TrainConfig(), stages=Stages(Path()), material=material)
    run.ledger.note("p0", ids, [1.25, np.nan, 0.25])
    run.ledger.note("p3", ids, [np.nan, np.nan, -0.75])
    run.ledger.note("p6", ids[:2], [np.nan, 0.75])
    run.ledger.note("p0~probe1", ids, [np.nan, -0.25, np.nan])
    indexed = run.indexed(bank)
    train, dev = run.arrays(indexed, material.train, negatives), run.arrays(indexed, material.dev)
    run.ledger.note("p6", ids[2:], [1.25])
    return run, JudgedRound(
        number=2,
        bank=(bank[0], replace(bank[1], support_count=2), *bank[2:]),
        train=train,
        dev=dev,
        measured=run.arrays(indexed, material.dev),
        negatives=negatives,
        last=False,
    )


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# ── rounds ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("bank", [BANK, GROUPED])
@pytest.mark.parametrize("negatives", [NEGATIVES, ()])
@pytest.mark.parametrize("named", [False, True])
def test_a_rounds_store_gives_back_what_the_round_was_fitted_on(
    tmp_path: Path, bank: tuple[BankRubric, ...], negatives: tuple[HardNegative, ...], named: bool
) -> None:
    """Arrays, byte by byte; bank, criteria, support, terms, and what only measuring judged."""
    session, judged = judged_round(bank, negatives, named)
    write_store(tmp_path / "store", round_store(session, judged, HEADER))
    store = load_store(tmp_path / "store")
    stored = stored_round(store)
    assert stored.train.digest() == judged.train.digest()
    assert stored.dev.digest() == judged.dev.digest()
    assert stored.measured.digest() == judged.measured.digest()
    assert stored.measured.n_entries == stored.dev.n_entries + 1
    assert (stored.number, stored.bank, stored.last) == (2, judged.bank, False)
    assert store.header.config == HEADER.config
    facts = store_facts(store, tmp_path / "store")
    assert (facts["entries"], facts["measured_only"]) == (5 + len(negatives), 1)
    assert facts["pairs"] == {"train": 6, "dev": 2, "hard_negatives": len(negatives)}
    assert dict(facts_in_words(facts))["judge"] == "made"


def test_judged_pools_are_written_once(tmp_path: Path) -> None:
    """The same store again is left, another one refused unless it replaces it; own rubrics are marked."""
    session, judged = judged_round()
    place, pools = tmp_path / "store", round_store(session, session.judged(session.indexed(BANK)), HEADER)
    write_store(place, pools)
    before, inode = files_of(place), (place / "meta.json").stat().st_ino
    write_store(place, round_store(session, session.judged(session.indexed(BANK)), HEADER))
    assert (place / "meta.json").stat().st_ino == inode
    own = load_store(place).arrays.z_own
    assert own is not None
    assert own.tolist() == [True, False, True, True, False]
    with pytest.raises(UsageError, match="exists already"):
        write_store(place, round_store(session, session.judged(session.indexed(BANK[:2])), HEADER))
    assert files_of(place) == before
    write_store(place, round_store(session, judged, HEADER), replace_other=True)
    assert files_of(place) != before
    write_store(place, pools, replace_other=True)
    assert files_of(place) == before
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


# ── damage ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give the store of a round."""
    session, judged = judged_round()
    write_store(tmp_path / "store", round_store(session, judged, HEADER))
    return tmp_path / "store"


def refused(folder: Path) -> str:
    """Return the one-line error that loading gives."""
    with pytest.raises(ArtefactError) as caught:
        load_store(folder)
    assert caught.value.exit_code == 7
    return caught.value.one_line()


def test_any_file_that_was_cut_or_is_missing_is_named(folder: Path) -> None:
    """Each file of the store has its digest in meta.json."""
    for name, data in files_of(folder).items():
        (folder / name).write_bytes(data[: len(data) // 2])
        assert name in refused(folder)
        if name != "meta.json":
            (folder / name).unlink()
            assert "it is missing" in refused(folder)
        (folder / name).write_bytes(data)
    assert load_store(folder).arrays.n_pairs == 9


@pytest.mark.parametrize(
    ("name", "values", "problem"),
    [
        ("z_delta", np.array([9] * 6, np.float32), "z_delta must be finite and lie in -1.25..1.25"),
        ("z_delta", np.array([np.nan] * 6, np.float32), "z_delta must be finite"),
        ("z_delta", np.zeros(6), "z_delta must be float32"),
        ("z_rubric", np.array([0, 7, 2, 1, 2, 1], np.int32), "z column must lie in 0..2"),
        ("z_indptr", np.zeros(3, np.int64), "z_indptr ends at 0"),
        ("z_weight", np.array([-1] * 6, np.float32), "z_weight must be finite"),
        ("idf", [print], "allow_pickle"),
    ],
)
def test_values_that_no_store_has_are_refused(folder: Path, name: str, values: Any, problem: str) -> None:
    """Even with the right digest: shapes, types, ranges; a pickle is never loaded."""
    file = folder / f"{name}.npy"
    if name == "idf":
        file.write_bytes(pickle.dumps(values))
    else:
        np.save(file, values, allow_pickle=False)
    meta = orjson.loads((folder / "meta.json").read_bytes())
    meta["files"][file.name] = sha256(file.read_bytes()).hexdigest()
    (folder / "meta.json").write_bytes(orjson.dumps(meta))
    assert problem in refused(folder)


def test_a_folder_without_a_store_names_the_stores_of_its_rounds(tmp_path: Path) -> None:
    """`svr-fit` on a training's folder says which store it means; on nothing, where one is found."""
    with pytest.raises(UsageError, match="OUT/stores/round-N"):
        load_store(tmp_path)
    for number in (2, 10):
        (tmp_path / "stores" / f"round-{number}").mkdir(parents=True)
    with pytest.raises(UsageError, match="stores/round-10"):
        load_store(tmp_path)


# ── imported data ───────────────────────────────────────────────────────────────────────────────────────────────────

LINES = [
    {"text": text, "id": f"name {n}", "source_pair_ids": list(BANK[n].source_pair_ids)} for n, text in enumerate(TEXTS)
]
Z = [(0, 0, 1.25), (0, 2, 0.25), (3, 2, -0.75), (6, 1, 0.75), (7, 0, 0.0)]


def imported(folder: Path, z: Path, pairs: Sequence[PreferencePair] = PAIRS) -> FeatureStore:
    """Import entries between the pairs and the rubrics."""
    (folder / "rubrics.jsonl").write_bytes(b"\n".join(map(orjson.dumps, LINES)))
    import_store(pairs, "d", folder / "rubrics.jsonl", z, folder / "store", config=TrainConfig(dev_share=0.3))
    return load_store(folder / "store")


def entries_of(store: FeatureStore) -> list[tuple[str, str, float]]:
    """Return (pair id, rubric text, z) of a store, sorted."""
    ids, arrays = store.pairs["pair_id"].to_pylist(), store.arrays
    rows = np.repeat(np.arange(arrays.n_pairs), np.diff(arrays.z_indptr)).tolist()
    places = zip(rows, arrays.z_rubric.tolist(), arrays.z_delta.tolist(), strict=True)
    return sorted((ids[row], store.rubrics[place].rubric.text, z) for row, place, z in places)


EXPECTED = sorted((f"p{pair}", TEXTS[rubric], z) for pair, rubric, z in Z)


@pytest.mark.parametrize("form", ["places", "ids", "shuffled", "sparse", "parquet"])
def test_every_form_of_entries_gives_the_same_store(tmp_path: Path, form: str) -> None:
    """Lists of places or ids in any order, a sparse matrix, a Parquet file; hard to load orders included."""
    rows = Z[::-1] if form == "shuffled" else Z
    pair, rubric, z = (np.array(column) for column in zip(*rows, strict=True))
    path = tmp_path / ("z.parquet" if form == "parquet" else "z.npz")
    if form == "sparse":
        save_npz(path, csc_matrix((z, (pair, rubric)), shape=(8, 3)))
    elif form == "parquet":
        names = {"pair_id": [f"p{n}" for n in pair], "rubric_id": [f"name {n}" for n in rubric], "z": z}
        parquet.write_table(pa.table({**names, "weight": [1.0, 2.0, 0.0, 1.0, 1.0]}), path)
    elif form == "ids":
        np.savez(path, pair=[f"p{n}" for n in pair], rubric=[f"name {n}" for n in rubric], z=z)
    else:
        np.savez(path, pair=pair, rubric=rubric, z=z)
    store = imported(tmp_path, path)
    assert entries_of(store) == EXPECTED
    assert 0 < store.is_dev.sum() < len(PAIRS)
    assert (store.arrays.z_weight is not None) == (form == "parquet")
    stored = stored_round(store)
    assert stored.train.n_entries + stored.dev.n_entries == 5 - (form == "parquet")


def test_pairs_without_a_preference_are_left_out_with_their_entries(tmp_path: Path) -> None:
    """Equal responses say nothing."""
    np.savez(tmp_path / "z.npz", pair=[0, 3], rubric=[0, 2], z=[1.25, -0.75])
    pairs = [replace(PAIRS[0], rejected="a"), *PAIRS[1:]]
    assert entries_of(imported(tmp_path, tmp_path / "z.npz", pairs)) == [("p3", "Is brief", -0.75)]


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ({"pair": [0, 8], "rubric": [0, 0], "z": [0, 0]}, "index 8 exceeds matrix dimension 8"),
        ({"pair": [0, -1], "rubric": [0, 0], "z": [0, 0]}, "negative axis 0 index: -1"),
        ({"pair": ["x"], "rubric": [0], "z": [0]}, "names the pair 'x'"),
        ({"pair": [0.5], "rubric": [0], "z": [0]}, "names the pair '0.5'"),
        ({"pair": [0], "rubric": [0], "z": [1.5]}, "z = 1.5 at entry 0 lies outside -1.25..1.25"),
        ({"pair": [0], "rubric": [0], "z": [np.nan]}, "z = nan at entry 0"),
        ({"pair": [0, 0], "rubric": [1, 1], "z": [0, 0]}, "1 of 2 entries repeat a pair and rubric"),
        ({"pair": [0], "rubric": [0, 1], "z": [0]}, "z.npz"),
        ({"pair": [0], "rubric": [0], "z": ["a"]}, "z must be a vector of numbers"),
        ({"pair": [0], "rubric": [0], "z": [0], "weight": [-1.0]}, "weight = -1 at entry 0"),
        ({"pair": [0], "z": [0]}, "rubric is missing (found pair, z)"),
        ({"indptr": [0, 1], "indices": [0], "data": [0]}, "pair is missing"),
        ({"format": "csr", "shape": [8, 2], "indptr": [0] * 9, "indices": [], "data": []}, "its shape is (8, 2)"),
        ({"pair": np.array([[]], object), "rubric": [0], "z": [0]}, "allow_pickle"),
    ],
)
def test_wrong_entries_are_one_line_and_nothing_is_written(
    tmp_path: Path, arrays: dict[str, Any], problem: str
) -> None:
    """The file, the entry and the value are named; objects are never read."""
    np.savez(tmp_path / "z.npz", **arrays)
    with pytest.raises(DataError) as caught:
        imported(tmp_path, tmp_path / "z.npz")
    assert problem in caught.value.one_line()
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("line", "problem"),
    [(b"{", "line 1 is not a rubric"), (b'{"id": "x"}', "missing required field `text`"), (b"", "holds 0 rubrics"),
     (b'{"text": "a", "observed_count": -1}', "observed_count"), (b'{"text": "a b"}\n{"text": "A b"}', "occurs twice")],
)  # fmt: skip
def test_wrong_rubrics_are_one_line(tmp_path: Path, line: bytes, problem: str) -> None:
    """The line is named."""
    (tmp_path / "r.jsonl").write_bytes(line)
    np.savez(tmp_path / "z.npz", pair=[0], rubric=[0], z=[0])
    with pytest.raises(DataError) as caught:
        import_store(PAIRS, "d", tmp_path / "r.jsonl", tmp_path / "z.npz", tmp_path / "s")
    assert problem in caught.value.one_line()
