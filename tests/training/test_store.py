"""The feature store: what was written comes back, whole or not at all, and nothing damaged is read."""

import gzip
import os
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import orjson
import pyarrow as pa
import pytest
from pyarrow import parquet

from svr_async.core.rubric import Check, Rubric
from svr_async.errors import ArtefactError, StorageError, UsageError
from svr_async.training.bank.merge import Candidate
from svr_async.training.bank.near_duplicates import RedundancyEdges
from svr_async.training.store import files as store_files
from svr_async.training.store.files import (
    BOTH_ORDERS,
    MEASURED,
    OWN,
    Csr,
    Judged,
    PairRows,
    StoreContent,
    StoreHeader,
    StoreRubric,
    judged_problem,
    load_store,
    open_plain,
    read_prompts,
    write_store,
)
from svr_async.training.store.rounds import fit_arrays

HEADER = StoreHeader(
    vocabulary={"bread": 0, "how long": 1, "rain": 2},
    idf=np.array([1, 2, 3], np.float32),
    judge="a judge",
    prompts_digest="d",
    data_digests={"made": "e"},
)


def rubrics(*names: str) -> list[StoreRubric]:
    """Return rubrics with these texts, each mined from the pair p<place>."""
    return [
        StoreRubric(
            candidate=Candidate(
                rubric=Rubric(text=name, facet="format", check=Check.of("max_words", n=place + 1) if place else None),
                source_pair_ids=(f"p{place}",),
                observed_count=place + 1,
                aliases=(f"{name} too",),
            ),
        )
        for place, name in enumerate(names)
    ]


def pair_rows(*ids: str, rows: list[int] | None = None, prompts: list[str] | None = None, **columns: Any) -> PairRows:
    """Return pairs with these ids, one prompt each unless said otherwise."""
    rows = list(range(len(ids))) if rows is None else rows
    given_ = {
        "prompt": prompts or [f"prompt {row} – ≥ 5 °C" for row in rows],
        "prompt_row": rows,
        "domain": ["chat"] * len(ids),
        "split": ["train"] * len(ids),
        "strength": [1] * len(ids),
        "kind": ["pair"] * len(ids),
        "of": [""] * len(ids),
        "source": [""] * len(ids),
    }
    return PairRows(pair_id=list(ids), **{**given_, **columns})


Matrix = TypeVar("Matrix", Csr, Judged)


def csr(rows: list[dict[int, float]], kind: Callable[..., Matrix], **extra: Any) -> Matrix:
    """Return a matrix from rows of {column: value}."""
    return kind(
        indptr=np.cumsum([0, *map(len, rows)]).astype(np.int64),
        index=np.array([column for row in rows for column in sorted(row)], np.int32),
        value=np.array([row[column] for row in rows for column in sorted(row)], np.float32),
        **extra,
    )


def judged(rows: list[dict[int, float]], flags: list[int] | None = None) -> Judged:
    """Return judged entries from rows of {rubric: z}, without flags unless given."""
    count = sum(map(len, rows))
    return csr(rows, Judged, flags=np.array(flags if flags is not None else [0] * count, np.uint8))


def content(**changes: Any) -> StoreContent:
    """Return three pairs, a hard negative and one more, three prompts, three rubrics; p2 is in the dev split."""
    held = StoreContent(
        rubrics=rubrics("Names the river", "Cites a source", "Is short"),
        pairs=pair_rows(
            "p0", "p1", "p2", "h0", "p3",
            rows=[0, 1, 1, 0, 2],
            split=["train", "train", "dev", "train", "train"],
            strength=[1_000_000, None, -2, 1, 1],
            kind=["pair", "pair", "pair", "hard_negative", "pair"],
            of=["", "", "", "p0", ""],
        ),
        features=csr([{0: 0.5, 2: 0.5}, {1: 1.0}, {}], Csr),
        z=judged([{0: 1.25, 1: 0.75}, {2: 0.25}, {1: 0.75}, {0: 0.5, 2: 1.25}, {}], [OWN, 0, 0, 0, BOTH_ORDERS, 0]),
    )  # fmt: skip
    return replace(held, **changes)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a store."""
    write_store(tmp_path / "store", HEADER, content())
    return tmp_path / "store"


def test_large_arrays_are_mapped_and_files_of_before_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they lie in the file, at addresses that NumPy reads at once; files whose arrays lie anywhere are read, too."""
    held: dict[str, Any] = {
        "indptr": np.arange(9),
        "flags": np.arange(7, dtype=np.uint8),
        "value": np.arange(3, dtype=np.float32),
    }
    types = {name: values.dtype.type for name, values in held.items()}
    before = store_files.write_npz(tmp_path / "before.npz", **held)
    monkeypatch.setattr(store_files, "MAPPED_BYTES", 1)
    for entry in (before, store_files.write_npz(tmp_path / "now.npz", **held)):
        with store_files.open_verified(tmp_path, entry) as file:
            found = store_files.read_npz(file, tmp_path / entry["file"], types)
        for name, values in held.items():
            np.testing.assert_array_equal(found[name], values)
            assert (entry is before) or isinstance(found[name].base, np.memmap)
        with np.load(tmp_path / entry["file"]) as known:
            np.testing.assert_array_equal(known["value"], held["value"])
    with zipfile.ZipFile(tmp_path / "now.npz") as archive:
        assert archive.testzip() is None


def rows_of(matrix: Csr | Judged) -> list[dict[int, float]]:
    """Return a matrix as rows of {column: value}."""
    return [
        dict(zip(matrix.index[a:b].tolist(), matrix.value[a:b].tolist(), strict=True))
        for a, b in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)
    ]


def refused(folder: Path) -> str:
    """Return the one-line error that loading gives."""
    with pytest.raises(ArtefactError) as caught:
        load_store(folder)
    assert caught.value.exit_code == 7
    return caught.value.one_line()


# ── what was written comes back ─────────────────────────────────────────────────────────────────────────────────────


def test_what_was_written_comes_back(folder: Path) -> None:
    """Pairs, prompts, rubrics, features, judged entries and what the store says of itself."""
    store = load_store(folder)
    assert store.pair_ids == ["p0", "p1", "p2", "h0", "p3"]
    assert store.prompt_row.tolist() == [0, 1, 1, 0, 2]
    assert store.is_dev.tolist() == [False, False, True, False, False]
    assert store.negative_of.tolist() == [-1, -1, -1, 0, -1]
    assert store.pairs["strength"].to_pylist() == [1_000_000, None, -2, 1, 1]
    assert list(store.rubrics) == content().rubrics
    assert rows_of(store.features) == [{0: 0.5, 2: 0.5}, {1: 1.0}, {}]
    assert rows_of(store.z) == rows_of(content().z)
    assert store.z.flags.tolist() == [OWN, 0, 0, 0, BOTH_ORDERS, 0]
    assert read_prompts(store) == [f"prompt {row} – ≥ 5 °C" for row in range(3)]
    assert dict(store.header.vocabulary) == HEADER.vocabulary
    assert (store.header.judge, store.header.data_digests) == ("a judge", {"made": "e"})
    assert store.meta["counts"] == {"pairs": 5, "prompts": 3, "rubrics": 3, "entries": 6}


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's list of a process's threads")
def test_tables_are_read_by_this_thread_alone(folder: Path, tmp_path: Path) -> None:
    """A thread of Arrow's that still holds a Python file when the interpreter ends aborts the program, or hangs it."""
    packed = tmp_path / "pairs.parquet.gz"
    table = pa.table({"prompt": ["p"], "chosen": ["a"], "rejected": ["b"]})
    with gzip.open(packed, "wb") as file:
        parquet.write_table(table, file)
    program = """
import os, sys
from pathlib import Path
import pyarrow.parquet
from svr_async.adapters.tables import read_rows
from svr_async.training.store.files import load_store
before = len(os.listdir("/proc/self/task"))
store, rows = load_store(sys.argv[1]), list(read_rows(Path(sys.argv[2])))
print(len(store.pairs) > 0, len(rows), len(os.listdir("/proc/self/task")) - before)
"""
    told = subprocess.run([sys.executable, "-c", program, folder, packed], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["True", "1", "0"]


def test_an_empty_store_loads(tmp_path: Path) -> None:
    """A store of nothing has no pairs."""
    empty = StoreContent(rubrics=[], pairs=pair_rows(), features=csr([], Csr), z=judged([]))
    write_store(tmp_path, HEADER, empty)
    store = load_store(tmp_path)
    assert (len(store), store.rubrics, store.z.n_rows, read_prompts(store)) == (0, (), 0, [])


def test_the_same_content_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    """Two stores of the same content are byte-identical, file by file."""
    again = tmp_path / "again"
    write_store(again, HEADER, content())
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == {p.name: p.read_bytes() for p in again.iterdir()}


@pytest.mark.parametrize("stop", range(6))
def test_a_writer_that_stops_anywhere_leaves_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int
) -> None:
    """Whichever file it dies before, the folder is no store: meta.json comes last."""
    written: list[str] = []

    def dying(name: str) -> Callable[..., Any]:
        real = getattr(store_files, name)

        def write(path: Path, *args: Any, **kwargs: Any) -> Any:
            if len(written) == stop:
                raise KeyboardInterrupt
            written.append(path.name)
            return real(path, *args, **kwargs)

        return write

    with monkeypatch.context() as patch:
        for name in ("write_json", "write_npz", "write_parquet"):
            patch.setattr(store_files, name, dying(name))
        with pytest.raises(KeyboardInterrupt):
            write_store(tmp_path, HEADER, content())
    with pytest.raises(UsageError, match="there is no feature store"):
        load_store(tmp_path)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"rubrics": rubrics("Names the river", "Is short", "Is short")}, "occurs twice"),
        ({"rubrics": rubrics("Is short", "Cites a source", "x" * 513)}, "at most 512"),
        ({"features": csr([{3: 1.0}, {}, {}], Csr)}, "features: an index lies outside 0..2"),
        ({"features": csr([{0: np.nan}, {}, {}], Csr)}, "features: value 0 is not finite"),
        ({"z": judged([{}])}, "z: indptr must have 6 entries"),
        ({"z": judged([{3: 0.25}, {}, {}, {}, {}])}, "z: an index lies outside 0..2"),
        ({"z": judged([{0: 1.5}, {}, {}, {}, {}])}, "lies outside ±1.25"),
    ],
)
def test_what_no_reader_takes_is_not_written(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    """Rubrics, shapes and values are checked before the first file is written."""
    with pytest.raises(ValueError, match=problem):
        write_store(tmp_path / "store", HEADER, content(**changes))
    assert not (tmp_path / "store").exists()


# ── z, and how much it counts ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("value", [0.25, -0.75, 1.25, -1.25, 0.0, 0.5, 0.3, -1e-9])
def test_any_z_that_can_be_expected_is_allowed(value: float) -> None:
    """A judge's Δ, the mean of several, and the Δ expected of probabilities: any number in ±1.25."""
    assert judged_problem(judged([{0: value}]), 1, 1) == ""


@pytest.mark.parametrize("value", [1.5, -1.2500002, 1e30, np.nan, np.inf])
def test_a_z_that_no_judgement_has_is_refused(value: float) -> None:
    """Beyond ±1.25, and what is no number."""
    assert judged_problem(judged([{0: value}]), 1, 1)


@pytest.mark.parametrize("weights", [[1.0], [1.0, np.nan], [1.0, -0.5], [np.inf, 1.0]])
def test_weights_that_are_none_are_refused(weights: list[float]) -> None:
    """Too few, not a number, negative or infinite."""
    z = replace(judged([{0: 0.25, 1: 0.25}]), weight=np.array(weights, np.float32))
    assert "weight" in judged_problem(z, 1, 2)


def test_weights_come_back(folder: Path, tmp_path: Path) -> None:
    """Entries keep their weights; without any there is none."""
    weighed = replace(content().z, weight=np.array([2, 0.5, 0, 1, 1, 3], np.float32))
    write_store(tmp_path / "weighed", HEADER, content(z=weighed))
    kept = load_store(tmp_path / "weighed").z.weight
    assert kept is not None
    assert kept.tolist() == [2, 0.5, 0, 1, 1, 3]
    assert load_store(folder).z.weight is None


def test_what_measuring_alone_judged_and_what_weighs_nothing_is_not_fitted(tmp_path: Path) -> None:
    """The fit's arrays lack both; measuring sees what was judged for it."""
    z = judged([{0: 1.25, 1: -0.25}, {}, {0: 0.25, 1: 0.75}, {}, {}], [0, 0, 0, MEASURED])
    write_store(tmp_path, HEADER, content(z=replace(z, weight=np.array([1, 0, 1, 2], np.float32))))
    store = load_store(tmp_path)
    assert fit_arrays(store, "train").z_delta.tolist() == [1.25]
    assert fit_arrays(store, "dev").z_delta.tolist() == [0.25]
    measured = fit_arrays(store, "dev", measured=True)
    assert measured.z_delta.tolist() == [0.25, 0.75]
    assert measured.weighted.tolist() == [0.25, 1.5]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"flags": np.array([8, 0], np.uint8)}, "flags"),
        ({"flags": np.array([0], np.uint8)}, "flags"),
        ({"value": np.array([0.25, 0.75])}, "value must be a vector of float32"),
        ({"index": np.array([1, 0], np.int32)}, "do not rise"),
        ({"index": np.array([0, 0], np.int32)}, "do not rise"),
        ({"index": np.array([-1, 0], np.int32)}, "outside"),
        ({"indptr": np.array([0, 3, 2], np.int64)}, "falls"),
        ({"indptr": np.array([0, 1, 1], np.int64)}, "indptr must have"),
        ({"indptr": np.zeros(0, np.int64)}, "indptr must have"),
        ({"value": np.array([0.25], np.float32)}, "2 indices but 1 values"),
    ],
)
def test_matrices_that_are_none_are_refused(changes: dict[str, Any], problem: str) -> None:
    """Shapes, types, order and flags of the judged entries are checked."""
    good = judged([{0: 0.25, 1: 0.75}, {}])
    assert judged_problem(good, 2, 2) == ""
    assert problem in judged_problem(replace(good, **changes), 2, 2)


def test_a_new_row_may_begin_with_any_column() -> None:
    """Columns rise within a row only; empty rows at either end change nothing."""
    assert judged_problem(judged([{}, {0: 0.25, 1: 0.75}, {0: 0.25}, {}, {1: 0.25}, {}]), 6, 2) == ""


# ── damaged and hostile stores ──────────────────────────────────────────────────────────────────────────────────────


def replace_file(folder: Path, name: str, data: bytes) -> None:
    """Put other bytes into a file and their digest into meta.json, as someone with ill will would."""
    old = sha256((folder / name).read_bytes()).hexdigest()
    size = (folder / name).stat().st_size
    (folder / name).write_bytes(data)
    meta = (folder / "meta.json").read_text()
    entry = f'{{"bytes":{size},"file":"{name}","sha256":"{old}"}}'
    assert entry in meta
    fresh = f'{{"bytes":{len(data)},"file":"{name}","sha256":"{sha256(data).hexdigest()}"}}'
    (folder / "meta.json").write_text(meta.replace(entry, fresh))


def test_every_file_is_compared_with_its_digest(folder: Path) -> None:
    """A byte that is flipped, cut off or added in any file is noticed, and the file is named."""
    for path in sorted(folder.iterdir()):
        if path.name == "meta.json":
            continue
        data = path.read_bytes()
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        for bad in (data[:-1], data + b"x", flipped, b""):
            path.write_bytes(bad)
            assert str(path) in refused(folder)
        path.write_bytes(data)
    assert len(load_store(folder)) == 5


def test_a_missing_file_a_link_and_a_pipe_are_refused(folder: Path, tmp_path: Path) -> None:
    """Only plain files of the folder are read."""
    path = folder / "z-0001.npz"
    path.rename(tmp_path / "z")
    assert "is missing" in refused(folder)
    path.symlink_to(tmp_path / "z")
    assert "symbolic link" in refused(folder)
    path.unlink()
    os.mkfifo(path)
    assert "no plain file" in refused(folder)
    with pytest.raises(StorageError, match="too long"):  # as a damaged meta.json may name it
        open_plain(folder / ("A" * 300), 1)


def test_pickles_in_an_npz_are_not_opened(folder: Path, tmp_path: Path) -> None:
    """Arrays of objects are refused by their type; nothing in them runs."""

    class Canary:
        def __reduce__(self) -> tuple[Callable[..., None], tuple[str]]:
            return os.mkdir, (str(tmp_path / "mark"),)

    for name, data in (("objects", np.array([Canary()], dtype=object)), ("bytes", pickle.dumps(Canary()))):
        path = tmp_path / name
        if isinstance(data, bytes):
            path.write_bytes(data)
        else:
            with path.open("wb") as file:
                np.savez(file, idf=data)
        replace_file(folder, "idf.npz", path.read_bytes())
        assert str(folder / "idf.npz") in refused(folder)
    assert not (tmp_path / "mark").exists()


def npz(path: Path, *, compression: int = zipfile.ZIP_STORED, header: str | None = None, **arrays: Any) -> bytes:
    """Return the bytes of an npz; `header` replaces the first array's own."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w") as member:
                if header is None:
                    np.lib.format.write_array(member, values, allow_pickle=False)
                else:
                    text = header.encode().ljust(117) + b"\n"
                    member.write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + values.tobytes())
    return path.read_bytes()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"compression": zipfile.ZIP_DEFLATED, "idf": np.zeros(1_000_000, np.float32)}, "is compressed"),
        ({"header": "{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }"}, "claims"),
        ({"header": "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }"}, "shape|instead|claims|bytes"),
        ({"header": "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }"}, "must be a vector"),
        ({"header": "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }"}, "must be a vector"),
        ({"header": "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 1), }"}, "must be a vector"),
        ({"header": "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"}, "12 bytes instead of 8"),
        ({"header": "__import__('os').system('true')"}, "."),
        ({"other": np.zeros(3, np.float32)}, "must hold idf"),
        ({"idf": np.zeros(3, np.float32), "more": np.zeros(3, np.float32)}, "must hold idf"),
        ({"idf": np.array([1, np.nan, 1], np.float32)}, "finite"),
        ({"idf": np.zeros(4, np.float32)}, "3 terms"),
    ],
)
def test_hostile_npz_files_are_refused(folder: Path, tmp_path: Path, options: dict[str, Any], problem: str) -> None:
    """Zip bombs, absurd shapes, objects, other types and other arrays are refused by what the headers say."""
    import re

    arrays = {"idf": np.zeros(3, np.float32)} if "header" in options else {}
    replace_file(folder, "idf.npz", npz(tmp_path / "x.npz", **{**arrays, **options}))
    line = refused(folder)
    assert re.search(problem, line)


def test_hostile_parquet_files_are_refused(folder: Path, tmp_path: Path) -> None:
    """Other columns, other rows, garbage, unknown splits and missing ids are refused."""
    path = tmp_path / "x.parquet"
    good = parquet.read_table(folder / "pairs-0001.parquet")
    place = good.schema.get_field_index("split")
    wrong = good.set_column(
        place, good.schema.field("split"), pa.array(["train", "dev", "test", "dev", "dev"]).dictionary_encode()
    )
    double = good.set_column(0, good.schema.field("pair_id"), pa.array(["p0", "p0", "p2", "h0", "p3"]))
    absent = good.set_column(0, good.schema.field("pair_id"), pa.array(["p0", None, "p2", "h0", "p3"]))
    far = good.set_column(2, good.schema.field("prompt_row"), pa.array([0, 1, 99, 0, 2], pa.int32()))
    nobody = good.set_column(7, good.schema.field("of"), pa.array(["", "", "", "p9", ""]))
    cases = [
        (nobody, "stands for a pair that is not there"),
        (good.drop_columns(["of"]), "its columns are"),
        (good.slice(0, 2), "it has 2 rows"),
        (wrong, "the column split holds 'test'"),
        (double, "occurs twice"),
        (absent, "missing"),
        (far, "prompt_row lies outside"),
    ]
    saved = (folder / "pairs-0001.parquet").read_bytes()
    for table, problem in cases:
        parquet.write_table(table, path, compression="zstd")
        replace_file(folder, "pairs-0001.parquet", path.read_bytes())
        assert problem in refused(folder)
    replace_file(folder, "pairs-0001.parquet", b"PAR1" + os.urandom(200) + b"PAR1")
    assert "pairs-0001.parquet is refused" in refused(folder)
    replace_file(folder, "pairs-0001.parquet", saved)
    assert len(load_store(folder)) == 5


def test_what_no_bank_can_hold_is_refused_before_a_fit(folder: Path, tmp_path: Path) -> None:
    """A term or a rubric that is too long, on writing and on reading: a fit would end with a bank that is no bank."""
    long = replace(HEADER, vocabulary={"bread": 0, "r" * 257: 1, "rain": 2})
    with pytest.raises(ValueError, match="a text of 1 to 256"):
        write_store(tmp_path / "long", long, content())
    for term in ("r" * 257, ""):
        replace_file(folder, "vocabulary.json", orjson.dumps({"bread": 0, term: 1, "rain": 2}))
        assert "a text of 1 to 256" in refused(folder)


def test_hostile_rubrics_are_refused(folder: Path, tmp_path: Path) -> None:
    """A rubric with another's id, an empty cell, a check that is none, or one that is not active is refused."""
    name, path = "rubrics-0001.parquet", tmp_path / "x.parquet"
    good = parquet.read_table(folder / name)
    for column, values, problem in (
        ("rubric_id", ["a", "b", "c"], "not the hash"),
        ("text", ["Names the river", None, "Is short"], "empty cell"),
        ("check", ["", "[]", ""], "a check is an object"),
        ("check", ["", "{", ""], "refused"),
        ("active", [True, False, True], "is not active"),
    ):
        place = good.schema.get_field_index(column)
        parquet.write_table(good.set_column(place, good.schema.field(column), pa.array(values)), path)
        replace_file(folder, name, path.read_bytes())
        line = refused(folder)
        assert name in line
        assert problem in line


def counts(meta: dict[str, Any]) -> tuple[Any, Any]:
    """Return both places where the counts of a store stand."""
    return meta["counts"], meta["parts"][0]["counts"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda meta: meta.update(schema_version=1), "schema version is 1"),
        (lambda meta: meta.update(format="x"), "svr-feature-store"),
        (lambda meta: meta.update(parts={}), "stores are written once"),
        (lambda meta: meta["parts"].append(meta["parts"][0]), "stores are written once"),
        (lambda meta: meta.update(parts=[3]), "stores are written once"),
        (lambda meta: meta.update(judge=None), "must be texts"),
        (lambda meta: meta.update(made_of=3), "must be texts"),
        (lambda meta: meta.update(plan=None), "plan must be an object"),
        (lambda meta: meta.update(plan={"preset": "best"}), "preset must be one of"),
        (lambda meta: meta.update(plan={"seed": -1}), "seed must be a whole number"),
        (lambda meta: meta.update(plan={"top_k": True}), "top_k must be a whole number"),
        (lambda meta: meta.update(plan={"ablate": ["fit"]}), "ablate must name"),
        (lambda meta: meta.update(plan={"ablate": "fit"}), "must be a list of texts"),
        (lambda meta: meta.update(plan={"last": 1}), "true or false"),
        (lambda meta: meta.update(plan={"faster": 1}), "unknown setting 'faster'"),
        (lambda meta: meta["counts"].update(pairs=-1), "whole numbers"),
        (lambda meta: meta["counts"].update(pairs=6), "those of its part"),
        (lambda meta: [held.update(rubrics=2) for held in counts(meta)], "it has 3 rows"),
        (lambda meta: [held.update(prompts=2) for held in counts(meta)], "indptr must have"),
        (lambda meta: meta["parts"][0].pop("z"), "entry is missing"),
        (lambda meta: meta["parts"][0]["z"].update(file="../z-0001.npz"), "names a file"),
        (lambda meta: meta["parts"][0]["z"].update(file=5), "names a file"),
        (lambda meta: [held.update(pairs=2) for held in counts(meta)], "it has 5 rows"),
        (lambda meta: meta.update(vocabulary=None), "entry is missing"),
    ],
)
def test_hostile_meta_is_refused(
    folder: Path, change: Callable[..., Any] | Callable[..., list[Any]], problem: str
) -> None:
    """Versions, counts, parts and file names are checked before anything is opened by them."""
    meta = orjson.loads((folder / "meta.json").read_bytes())
    change(meta)
    (folder / "meta.json").write_bytes(orjson.dumps(meta))
    line = refused(folder)
    assert any(part in line for part in problem.split("|"))


def test_meta_that_is_no_object(folder: Path) -> None:
    """Garbage in place of meta.json is refused."""
    for data in (b"", b"[]", b"{", b"\x80\x04."):
        (folder / "meta.json").write_bytes(data)
        assert "meta.json is refused" in refused(folder)


# ── for the fit ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_arrays_hold_the_pairs_of_a_split(folder: Path) -> None:
    """The other split is left out; negatives and source prompts keep their meaning.

    What a rubric was mined from counts only where it is trained on.
    """
    store = load_store(folder)
    edges = RedundancyEdges(np.array([0], np.int32), np.array([1], np.int32), np.array([0.5], np.float32))
    arrays = fit_arrays(store, "train", redundancy=edges)
    assert (arrays.n_rubrics, arrays.n_pairs, arrays.n_prompts, arrays.n_features) == (3, 4, 3, 3)
    assert arrays.z_rubric.tolist() == [0, 1, 2, 0, 2]
    assert arrays.z_delta.tolist() == [1.25, 0.75, 0.25, 0.5, 1.25]
    assert arrays.negative_of is not None
    assert arrays.negative_of.tolist() == [-1, -1, 0, -1]
    assert arrays.source_indptr is not None
    assert arrays.source_indptr.tolist() == [0, 1, 2, 2]
    assert arrays.source_prompt is not None
    assert arrays.source_prompt.tolist() == [0, 1]
    assert arrays.redundancy_i is not None
    assert arrays.redundancy_j is not None
    assert (arrays.redundancy_i.tolist(), arrays.redundancy_j.tolist()) == ([0], [1])
    assert fit_arrays(store, "dev").z_delta.tolist() == [0.75]
    with pytest.raises(ValueError, match="split must be one of"):
        fit_arrays(store, "test")
