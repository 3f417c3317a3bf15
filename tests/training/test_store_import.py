"""Importing a store: the same entries in any form give the same store, and every wrong input is one line."""

import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy.sparse import csr_matrix, save_npz

from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.core.rubric import Check, rubric_id
from svr_async.errors import DataError, SvrError, UsageError
from svr_async.fit.arrays import LARGEST_Z
from svr_async.training.store.facts import store_facts
from svr_async.training.store.files import OWN, FeatureStore
from svr_async.training.store.imported import ImportOptions, import_store

PAIRS = [
    PreferencePair(id=f"p{n}", prompt=user_prompt(f"bread and rain {n}"), chosen="a", rejected="b") for n in range(6)
]
RUBRICS = [{"id": "r0", "text": "Is brief"}, {"text": "Names salt", "sources": ["p1"], "facet": "format"}]
PAIR = np.array(["p4", "p0", "p1", "p0"])
RUBRIC = np.array(["r0", rubric_id("Names salt"), rubric_id("Names salt"), "r0"])
Z = np.array([0.3, -0.25, 1.25, 0.0])
WEIGHT = np.array([2, 1, 0.5, 0])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with a file of rubrics."""
    monkeypatch.chdir(tmp_path)
    write_rubrics(RUBRICS)
    return tmp_path


def write_rubrics(lines: Sequence[object], name: str = "rubrics.jsonl") -> None:
    """Write rubrics, a line each."""
    Path(name).write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))


def write_npz(name: str = "z.npz", **arrays: Any) -> Path:
    """Write arrays, the lists of above unless said otherwise; None leaves one out."""
    held = {"pair": PAIR, "rubric": RUBRIC, "z": Z, **arrays}
    np.savez(name, **{key: value for key, value in held.items() if value is not None})
    return Path(name)


def write_table(name: str = "z.parquet", **columns: Any) -> Path:
    """Write a Parquet file likewise."""
    held = {"pair_id": PAIR.tolist(), "rubric_id": RUBRIC.tolist(), "z": Z.tolist(), **columns}
    parquet.write_table(pa.table({key: value for key, value in held.items() if value is not None}), name)
    return Path(name)


def imported(z: Path | str, out: str = "store", **options: Any) -> FeatureStore:
    """Import, everything on the training side."""
    chosen: dict[str, Any] = {"dev_share": 0.0, **options}
    return import_store(PAIRS, "d", Path("rubrics.jsonl"), Path(z), Path(out), ImportOptions(**chosen))


def files_of(folder: str) -> dict[str, bytes]:
    """Return a folder's files."""
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def refusal(z: Path | str, **options: Any) -> str:
    """Return the one line of an import that is refused, after which there is no store."""
    with pytest.raises(SvrError) as caught:
        imported(z, **options)
    assert isinstance(caught.value, UsageError)
    assert not Path("store").exists()
    return caught.value.one_line()


# ── what comes in comes back ────────────────────────────────────────────────────────────────────────────────────────


def test_what_was_brought_comes_back_with_weights_and_own_entries(home: Path) -> None:
    """Z in order, soft values and zeros as they are, weights, rubrics under both of their names, and the sources."""
    store = imported(write_npz(weight=WEIGHT))
    assert store.pair_ids == [pair.id for pair in PAIRS]
    assert store.z.indptr.tolist() == [0, 2, 3, 3, 3, 4, 4]
    assert store.z.index.tolist() == [0, 1, 1, 0]
    assert store.z.value.tolist() == [0.0, -0.25, 1.25, np.float32(0.3)]
    assert store.z.weight is not None
    assert store.z.weight.tolist() == [0.0, 1.0, 0.5, 2.0]
    assert store.z.flags.tolist() == [0, 0, OWN, 0]
    assert [entry.candidate.rubric.text for entry in store.rubrics] == ["Is brief", "Names salt"]
    assert store.rubrics[1].candidate.source_pair_ids == ("p1",)
    assert store.header.judge == "imported"


def test_all_forms_of_the_same_entries_give_the_same_store(home: Path) -> None:
    """Lists by ids and by places, CSR, what SciPy saves, packed or not, and Parquet with plain and coded texts."""
    places = np.array([4, 0, 1, 0]), np.array([0, 1, 1, 0])
    matrix = csr_matrix((Z, places), shape=(6, 2))
    matrix.sort_indices()
    save_npz("scipy.npz", matrix)
    np.savez_compressed("packed.npz", pair=PAIR, rubric=RUBRIC, z=Z)
    csr = {"indptr": np.array([0, 2, 3, 3, 3, 4, 4]), "indices": np.array([1, 0, 1, 0]), "data": Z[[1, 3, 2, 0]]}
    coded = pa.array(PAIR.tolist()).dictionary_encode()
    files = [
        write_npz("ids.npz"),
        write_npz("places.npz", pair=places[0], rubric=places[1].astype(np.uint8)),
        write_npz("csr.npz", pair=None, rubric=None, z=None, **csr),
        Path("scipy.npz"),
        Path("packed.npz"),
        write_table("plain.parquet"),
        write_table("coded.parquet", pair_id=coded, z=pa.array(Z.tolist(), pa.float32())),
    ]
    stores = [imported(path, out=path.stem) and files_of(path.stem) for path in files]
    assert all(store == stores[0] for store in stores)


def test_candidates_of_svr_induce_are_rubrics_and_their_checks_come_along(home: Path) -> None:
    """A line as `svr stages induce` writes it, with a check, counts and other wordings."""
    check = {"name": "max_words", "args": {"n": 50}}
    line = {"rubric": {"text": "Is brief", "check": check}, "sources": ["p2"], "count": 3, "aliases": ["Is short"]}
    write_rubrics([line, RUBRICS[1]])
    candidate = imported(write_npz(rubric=np.array([0, 1, 1, 0]))).rubrics[0].candidate
    assert candidate.rubric.check == Check.of("max_words", n=50)
    assert (candidate.observed_count, candidate.aliases) == (3, ("Is short",))


def test_pairs_that_teach_nothing_are_left_out_with_their_entries(home: Path) -> None:
    """Equal responses: neither the pair nor what was judged of it is in the store."""
    pairs = [*PAIRS[:4], PreferencePair(id="p4", prompt=PAIRS[4].prompt, chosen="a", rejected="a"), PAIRS[5]]
    store = import_store(pairs, "d", Path("rubrics.jsonl"), write_npz(), Path("store"), ImportOptions(dev_share=0.0))
    assert "p4" not in store.pair_ids
    assert len(store.z.value) == 3


def test_some_prompts_are_held_out_as_training_holds_them_out(home: Path) -> None:
    """Entries follow their pairs to the dev side, and the split is that of the seed."""
    store = imported(write_npz(), dev_share=0.5)
    held_out = [pair for pair, dev in zip(store.pair_ids, store.is_dev.tolist(), strict=True) if dev]
    assert 0 < len(held_out) < 6
    row = store.pair_ids.index("p4")
    assert store.z.value[store.z.indptr[row] : store.z.indptr[row + 1]].tolist() == [np.float32(0.3)]


def test_the_same_import_again_is_left_and_another_is_refused(home: Path) -> None:
    """A store is not written over."""
    imported(write_npz())
    before = files_of("store")
    imported(write_npz())
    with pytest.raises(UsageError, match="store exists already"):
        imported(write_npz(z=-Z))
    assert files_of("store") == before
    assert not Path(".store.part").exists()


def test_the_figures_of_a_store_are_those_that_were_brought(home: Path) -> None:
    """Counts, entries a pair, ties, weights and the plan."""
    facts = store_facts(imported(write_npz(weight=WEIGHT)))
    assert facts["pairs"] == {"train": 6, "dev": 0, "hard_negatives": 0}
    assert facts["rubrics"] == {"all": 2, "with_support": 0}
    assert facts["entries"]["a_pair"] == {"least": 0.0, "median": 0.5, "mean": 0.666667, "most": 2.0}
    assert (facts["entries"]["all"], facts["entries"]["own"], facts["entries"]["pairs_without"]) == (4, 1, 3)
    shares = {"share_zero": 0.25, "share_same_verdict": 0.5, "share_for_chosen": 0.5, "share_soft": 0.25}
    assert facts["z"] == {"mean": 0.325, **shares}
    assert facts["weight"]["most"] == 2.0
    assert facts["bytes"] == sum(len(data) for data in files_of("store").values())


def test_a_store_without_entries_has_figures_too(home: Path) -> None:
    """None where there is nothing to take a mean of."""
    empty = np.array([], dtype=np.int64)
    facts = store_facts(imported(write_npz(pair=empty, rubric=empty, z=np.array([]))))
    assert facts["z"]["mean"] is None
    assert facts["weight"] is None


# ── what is refused, in one line ────────────────────────────────────────────────────────────────────────────────────

CSR = {"pair": None, "rubric": None, "z": None, "indices": np.array([0]), "data": np.array([0.5])}


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ({"pair": np.array(["p4", "p0", "p9", "p0"])}, "entry 2 names the pair 'p9': no pair has that id"),
        ({"rubric": np.array(["r0", "r1", "r0", "r0"])}, "entry 1 names the rubric 'r1': no rubric has that id"),
        ({"pair": np.array([0, 1, 6, 2])}, "entry 2 is of pair 6: there are 6, counted from 0"),
        ({"rubric": np.array([0, -1, 0, 0])}, "entry 1 is of rubric -1: there are 2"),
        ({"z": np.array([0.3, 1.3, 0, 0])}, f"z = 1.3 at entry 1 lies outside ±{LARGEST_Z}"),
        ({"z": np.array([0.3, 1e300, 0, 0])}, "z = inf at entry 1 lies outside"),
        ({"z": np.array([0.3, 0, np.nan, 0])}, "z = nan at entry 2 is no number; leave out what was not judged"),
        ({"z": Z[:3]}, "4 pairs, 4 rubrics and 3 values of z differ in length"),
        ({"weight": WEIGHT[:2]}, "2 weights for 4 entries"),
        ({"weight": -WEIGHT}, "weight = -2 at entry 0 is not finite and >= 0"),
        ({"weight": WEIGHT + np.inf}, "weight = inf at entry 0"),
        ({"z": Z.astype(str)}, "z must be a vector of numbers"),
        ({"z": Z[None]}, "z must be a vector of numbers (got float64, 2 axes)"),
        ({"pair": Z}, "pair must be a vector of texts or whole numbers (got float64"),
        ({"z": None}, "it must hold either pair, rubric, z or indptr, indices, data (found pair, rubric)"),
        ({"indptr": Z, "indices": Z, "data": Z}, "it must hold either"),
        ({"pair": np.array(["p0"] * 4)}, "entries 0 and 3 are of the same pair and rubric"),
        ({"pair": np.array(["p0", None, 3, "p1"], dtype=object)}, "it is no npz of plain arrays"),
        ({**CSR, "indptr": np.array([0, 1])}, "indptr must have 7 whole numbers from 0 to 1"),
        ({**CSR, "indptr": np.array([0, 2, 1, 1, 1, 1, 1])}, "indptr falls after row 1"),
        ({**CSR, "indptr": np.array([0, 1, 1, 1, 1, 1, 1.0])}, "indptr must have 7 whole numbers"),
        ({**CSR, "indptr": np.array([0, 1, 1, 1, 1, 1, 1]), "indices": np.array([2])}, "entry 0 is of rubric 2"),
        ({**CSR, "indptr": np.array([0, 1, 1, 1, 1, 1, 1]), "shape": np.array([6, 3])}, "its shape is [6, 3]"),
        ({**CSR, "indptr": np.array([0, 1, 1, 1, 1, 1, 1]), "format": np.array(b"coo")}, "not in CSR form"),
    ],
)
def test_wrong_npz_files_are_refused_by_name_and_value(home: Path, arrays: dict[str, Any], problem: str) -> None:
    """Unknown ids, places, ranges, NaN, lengths, types, forms, duplicates and objects."""
    line = refusal(write_npz(**arrays))
    assert line.startswith("z.npz: ")
    assert problem in line


def test_a_cut_npz_is_refused_and_left_closed(home: Path) -> None:
    """A file that begins as an archive and is none: one line, and no warning of a file left open (an error here)."""
    Path("z.npz").write_bytes(b"PK\x03\x04 and no more")
    assert "it is no npz of plain arrays" in refusal("z.npz")
    gc.collect()


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"z": None}, "the column z is missing (found pair_id, rubric_id)"),
        ({"pair_id": None}, "the column pair_id is missing"),
        ({"pair_id": [1, 2, 3, 4]}, "the column pair_id must hold texts (got int64)"),
        ({"z": ["1", "2", "3", "4"]}, "the column z must hold numbers (got string)"),
        ({"z": [0.5, None, 0, 0]}, "the column z has 1 empty cells"),
        ({"z": [0.5, float("nan"), 0, 0]}, "z = nan at entry 1"),
        ({"rubric_id": ["r0", "r0", "r0", "x"]}, "entry 3 names the rubric 'x'"),
        ({"weight": [1.0, 1, 1, -1]}, "weight = -1 at entry 3"),
    ],
)
def test_wrong_parquet_files_are_refused_by_name_and_value(home: Path, columns: dict[str, Any], problem: str) -> None:
    """Columns that are missing, of another type, with empty cells, or with values that cannot be."""
    line = refusal(write_table(**columns))
    assert line.startswith("z.parquet: ")
    assert problem in line


@pytest.mark.parametrize("name", ["z.npz", "z.parquet", "z.csv"])
def test_files_that_are_not_there_or_are_something_else_are_refused(home: Path, name: str) -> None:
    """A missing file, garbage under a good suffix, and a suffix that is not known."""
    line = refusal(name)
    assert "unknown suffix" in line if name == "z.csv" else f"no such file: {name}" in line
    Path(name).write_bytes(b"\x80\x04garbage")
    assert "z.csv: unknown suffix" in refusal(name) if name == "z.csv" else "it is no" in refusal(name)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([], "rubrics.jsonl holds 0 rubrics"),
        ([[]], "rubrics.jsonl line 1 is no rubric: expected an object"),
        ([RUBRICS[0], {"text": ""}], "line 2 is no rubric: text must be a text"),
        ([{"id": "r0"}], "text must be a text"),
        ([{"text": "x", "sources": "p1"}], "sources must be a list of texts"),
        ([{"text": "x", "count": 0}], "count must be a whole number >= 1"),
        ([{"text": "x", "id": 3}], "id must be a text (got int)"),
        ([{"text": "x" * 513}], "line 1 is no rubric"),
        ([{"text": "Is brief"}, {"text": "Is brief"}], "occurs twice"),
        ([{"id": "r", "text": "Is brief"}, {"id": "r", "text": "Is long"}], "two rubrics have the id 'r'"),
    ],
)
def test_wrong_rubrics_are_refused_by_line(home: Path, lines: list[object], problem: str) -> None:
    """What is no rubric, or no other one."""
    write_rubrics(lines)
    assert problem in refusal(write_npz())


def test_rubrics_that_are_not_there_and_pairs_without_any_to_train_on(home: Path) -> None:
    """Both are named."""
    with pytest.raises(DataError, match=r"cannot read none\.jsonl"):
        import_store(PAIRS, "d", Path("none.jsonl"), write_npz(), Path("store"), ImportOptions())
    with pytest.raises(UsageError, match="0 of 0 pairs are left to train on"):
        import_store(
            [],
            "d",
            Path("rubrics.jsonl"),
            write_npz(pair=PAIR[:0], rubric=RUBRIC[:0], z=Z[:0]),
            Path("s"),
            ImportOptions(),
        )
