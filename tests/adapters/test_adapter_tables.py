"""Rows come out of every accepted kind of file, and broken or hostile files end in one line."""

import json
import random
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rig import svr

from svr_async.adapters.tables import REPLACED, SUFFIXES, Caps, data_files, read_rows
from svr_async.errors import DataError

ROWS = [{"prompt": "p, 1", "chosen": 'a "quoted"\nline', "n": "1"}, {"prompt": "ü\u2028x", "chosen": "", "n": "2"}]
MIB = 1 << 20


def values(path: Path, **keywords: Any) -> list[dict[str, Any]]:
    """Return the columns of every row of a file."""
    return [dict(row.values) for row in read_rows(path, **keywords)]


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_kind_of_file_gives_the_same_rows(write: Callable[..., Path], suffix: str, packed: str) -> None:
    """The same rows come out of json, jsonl, csv, tsv and parquet, plain or gzipped."""
    assert values(write(f"data{suffix}{packed}", ROWS)) == ROWS


def test_a_folder_is_read_in_sorted_order(write: Callable[..., Path], tmp_path: Path) -> None:
    """All data files below a folder are read by sorted path; other files and hidden folders are passed over."""
    write("b/two.csv", [{"n": "2"}])
    write("a/one.jsonl.gz", [{"n": "1"}])
    write("README.md", b"no data")
    write(".cache/three.json", [{"n": "3"}])
    found = list(read_rows(tmp_path))
    assert [(row.file, row.values["n"], row.where) for row in found] == [
        ("a/one.jsonl.gz", "1", "a/one.jsonl.gz row 1"),
        ("b/two.csv", "2", "b/two.csv row 1"),
    ]


@pytest.mark.parametrize("name", ["data.txt", "data.json.gz.gz", "data.zip", "data.py", "data.pkl"])
def test_an_unknown_suffix_names_the_accepted_ones(write: Callable[..., Path], name: str) -> None:
    """A file of another kind, nested packing and loading scripts included, is refused with the list of kinds."""
    with pytest.raises(DataError) as caught:
        data_files(write(name, b"x"))
    accepted = "unknown suffix — accepted: .json, .jsonl, .ndjson, .csv, .tsv, .parquet (each also with .gz)"
    assert accepted in caught.value.one_line()


def test_a_missing_file_and_an_empty_folder_say_so(tmp_path: Path) -> None:
    """A path that is not there, and a folder without data, end in one line each."""
    with pytest.raises(DataError, match="no such file or folder"):
        values(tmp_path / "nowhere.json")
    with pytest.raises(DataError, match="no data files below"):
        values(tmp_path)


def test_rows_are_found_in_an_object_with_one_list(write: Callable[..., Path]) -> None:
    """A JSON object that holds one list of objects gives those; several or none are refused."""
    assert values(write("a.json", json.dumps({"version": 1, "data": [{"n": 1}, {"n": 2}]}).encode())) == [
        {"n": 1},
        {"n": 2},
    ]
    with pytest.raises(DataError, match="expected one list of records in the object, found 'x', 'y'"):
        values(write("b.json", json.dumps({"x": [{}], "y": [{}]}).encode()))
    with pytest.raises(DataError, match="expected a list of records, found int"):
        values(write("c.json", b"3"))


def test_lines_of_json_under_the_name_json_are_read(write: Callable[..., Path]) -> None:
    """A .json file that holds one object a line is read line by line, also with a single line."""
    assert values(write("a.json", b'{"n": "1"}\n{"n": "2"}\n')) == [{"n": "1"}, {"n": "2"}]
    assert values(write("b.json", b'{"n": "1"}\n')) == [{"n": "1"}]


def test_a_line_that_is_not_an_object_has_a_problem(write: Callable[..., Path]) -> None:
    """A broken line, or one with something other than an object, comes as a row that says so; the others are read."""
    rows = list(read_rows(write("a.jsonl", b'{"n": 1}\n\n{"n": \n[1]\n{"n": 2}')))
    assert [row.number for row in rows] == [1, 3, 4, 5]
    assert "not valid JSON" in rows[1].problem
    assert "found list" in rows[2].problem
    assert [row.problem for row in rows[::3]] == ["", ""]


def test_broken_json_arrays_and_deep_nesting_end_in_one_line(write: Callable[..., Path]) -> None:
    """A JSON array that breaks off, or nests a hundred thousand deep, is a DataError and not a crash."""
    with pytest.raises(DataError, match=r"a\.json: not valid JSON"):
        values(write("a.json", b'[{"n": 1}, {"n"'))
    with pytest.raises(DataError, match=r"b\.json: not valid JSON"):
        values(write("b.json", b"[" * 100_000))


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".csv"])
def test_a_byte_order_mark_is_dropped(write: Callable[..., Path], suffix: str) -> None:
    """A BOM at the start of a file is no part of its first column or value."""
    plain = write(f"plain{suffix}", [{"n": "1"}]).read_bytes()
    assert values(write(f"data{suffix}", b"\xef\xbb\xbf" + plain)) == [{"n": "1"}]


def test_line_endings_of_windows_are_read_and_kept_inside_texts(write: Callable[..., Path]) -> None:
    """CRLF ends lines and records; inside a quoted field it is text and stays."""
    assert values(write("a.jsonl", b'{"n": "1"}\r\n{"n": "2"}\r\n')) == [{"n": "1"}, {"n": "2"}]
    assert values(write("a.csv", b'n,t\r\n1,"x\r\ny"\r\n')) == [{"n": "1", "t": "x\r\ny"}]


@pytest.mark.parametrize(
    ("name", "data", "expected", "count"),
    [
        ("nul.jsonl", rb'{"t": "a\u0000b"}', "a\ufffdb", 1),
        ("lone.jsonl", rb'{"t": "a\ud800b\udc00\ud800"}', "a\ufffdb\ufffd\ufffd", 3),
        ("pair.jsonl", rb'{"t": "\ud83d\ude00"}', "\U0001f600", 0),
        ("bytes.jsonl", b'{"t": "a\xff\xfeb"}', "a\ufffd\ufffdb", 2),
        ("lone.json", rb'[{"t": "\udfff"}]', "\ufffd", 1),
        ("nul.csv", b"t\na\x00b\n", "a\ufffdb", 1),
        ("bytes.csv", b"t\n\xe9t\xe9\n", "\ufffdt\ufffd", 2),
    ],
)
def test_characters_that_cannot_be_sent_are_replaced_and_counted(
    write: Callable[..., Path], name: str, data: bytes, expected: str, count: int
) -> None:
    """NUL, lone surrogates and bytes that are not UTF-8 become U+FFFD, one each; real pairs stay."""
    repairs: Counter[str] = Counter()
    assert values(write(name, data), repairs=repairs) == [{"t": expected}]
    assert repairs[REPLACED] == count


def test_characters_are_replaced_in_parquet_and_inside_lists(write: Callable[..., Path]) -> None:
    """The same holds in parquet files and within lists and objects."""
    repairs: Counter[str] = Counter()
    assert values(write("a.parquet", [{"t": ["x\x00", "y"]}]), repairs=repairs) == [{"t": ["x\ufffd", "y"]}]
    nested = rb'{"t": [{"k\u0000": "\ud800"}]}'
    assert values(write("a.jsonl", nested), repairs=repairs) == [{"t": [{"k\ufffd": "\ufffd"}]}]
    assert repairs[REPLACED] == 3


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(codec=None, exclude_categories=()), max_size=40))
def test_any_text_survives_but_for_what_cannot_be_sent(write: Callable[..., Path], text: str) -> None:
    """Whatever is in a text, every other character comes back as it was, and the result can be sent as UTF-8."""
    expected = "".join("\ufffd" if c == "\x00" or "\ud800" <= c <= "\udfff" else c for c in text)
    (row,) = values(write("any.json", json.dumps([{"t": [text]}]).encode()))
    joined = json.loads(json.dumps(text))  # JSON joins two escaped halves into one character
    if joined == text:
        assert row == {"t": [expected]}
    row["t"][0].encode()


def test_the_last_of_two_equal_keys_counts(write: Callable[..., Path]) -> None:
    """A JSON object that repeats a key is legal, and the last value counts."""
    assert values(write("a.jsonl", b'{"n": 1, "n": 2}')) == [{"n": 2}]


def test_fields_of_ten_megabytes_are_read(write: Callable[..., Path]) -> None:
    """A response of 10 MB comes through csv and jsonl."""
    big = "x" * (10 * MIB)
    assert values(write("a.csv", [{"t": big}])) == [{"t": big}]
    assert values(write("a.jsonl", [{"t": big}])) == [{"t": big}]


def test_csv_records_with_too_many_cells_have_a_problem(write: Callable[..., Path]) -> None:
    """A csv record longer than its header is not guessed at; a shorter one has nulls."""
    rows = list(read_rows(write("a.csv", b"a,b\n1,2,3\n4\n")))
    assert rows[0].problem == "more cells than the header has columns"
    assert dict(rows[1].values) == {"a": "4", "b": None}


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".parquet"])
def test_a_gzip_bomb_stops_at_the_cap(write: Callable[..., Path], suffix: str) -> None:
    """A small file that unfolds a thousandfold is refused, and no more than the cap is ever held."""
    path = write(f"bomb{suffix}.gz", b"0" * (64 * MIB))
    assert path.stat().st_size < MIB
    caps = Caps(free_bytes=MIB, max_ratio=20, max_row_bytes=4 * MIB)
    tracemalloc.start()
    with pytest.raises(DataError, match=r"(unfolds to more than|longer than|not a readable csv)"):
        values(path, caps=caps)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 24 * MIB


@pytest.mark.parametrize("shared", [True, False], ids=["one value for many rows", "each row its own"])
def test_a_parquet_bomb_is_refused_before_it_unfolds(tmp_path: Path, *, shared: bool) -> None:
    """Whether a large value stands once for all rows or in each of them, the file is refused and little is held."""
    path, rows = tmp_path / "bomb.parquet", 32
    text = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["a" * 4 * MIB]))
    table = pa.table({"messages" if shared else "prompt": text if shared else text.dictionary_decode()})
    pq.write_table(table, path, compression="zstd", use_dictionary=shared, dictionary_pagesize_limit=64 * MIB)
    assert path.stat().st_size < MIB // 4
    before, held = pa.total_allocated_bytes(), [0]

    def read() -> None:
        rows_read = read_rows(path, caps=Caps(free_bytes=8 * MIB, max_ratio=20))
        held.extend(pa.total_allocated_bytes() - before for _ in rows_read)

    with pytest.raises(DataError, match="unfolds to"):
        read()
    assert max(held) < 24 * MIB


def test_little_is_held_of_a_parquet_file_of_texts_that_differ(tmp_path: Path) -> None:
    """What a group holds beyond its dictionary is read a batch at a time, and not once more with every batch."""
    path, drawn = tmp_path / "long.parquet", random.Random(0)
    texts = [f"{drawn.getrandbits(64):x}" * 256 for _ in range(6000)]
    pq.write_table(pa.table({"prompt": texts}), path, dictionary_pagesize_limit=MIB)
    assert pq.ParquetFile(path).metadata.num_row_groups == 1
    before, held = pa.total_allocated_bytes(), []
    for row, text in zip(read_rows(path), texts, strict=True):
        assert row.values["prompt"] == text
        held.append(pa.total_allocated_bytes() - before)
    assert sum(map(len, texts)) > 20 * MIB > 2 * max(held)


@pytest.mark.parametrize("kind", [0x00, 0x01, 0x04, 0x12])
def test_a_parquet_file_whose_columns_are_other_than_their_pages_is_one_line(tmp_path: Path, kind: int) -> None:
    """Arrow ends the process where such a file's groups are asked for their columns; nobody asks."""
    pq.write_table(
        pa.table({name: ["a", "b", "c"] for name in ("prompt", "chosen", "rejected")}), tmp_path / "p.parquet"
    )
    raw = bytearray((tmp_path / "p.parquet").read_bytes())
    place = raw.index(b"\x06prompt", len(raw) - 8 - int.from_bytes(raw[-8:-4], "little"))
    assert raw[place - 2] == 0x02  # may be null
    raw[place - 2] = kind
    (tmp_path / "p.parquet").write_bytes(raw)
    done = svr("data", "check", "p.parquet", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "damaged or not a parquet file" in done.stderr


def test_ordinary_packing_is_below_the_cap(write: Callable[..., Path]) -> None:
    """Repetitive but honest data passes the ratio that stops bombs."""
    rows = [{"prompt": f"question {n}", "chosen": "yes " * 50} for n in range(5000)]
    caps = Caps(free_bytes=1)
    assert len(values(write("data.jsonl.gz", rows), caps=caps)) == 5000


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_truncated_gzip_files_are_refused_in_one_line(write: Callable[..., Path], suffix: str) -> None:
    """A gzip file that breaks off, or was never one, is named in one line."""
    whole = write(f"a{suffix}.gz", ROWS * 50).read_bytes()
    for name, data in (
        ("cut", whole[: len(whole) // 2]),
        ("fake", b"not gzip at all"),
        ("bad", whole[:30] + b"\xff" * 20),
    ):
        path = write(f"{name}{suffix}", b"")
        path = path.rename(path.with_name(path.name + ".gz"))
        path.write_bytes(data)
        with pytest.raises(DataError, match=rf"{name}{suffix}\.gz: .*(gzip|parquet)"):
            values(path)


def test_truncated_and_false_parquet_files_are_refused(write: Callable[..., Path]) -> None:
    """A parquet file that breaks off, or is something else, is named in one line."""
    whole = write("a.parquet", ROWS * 50).read_bytes()
    for data in (whole[: len(whole) // 2], b"PAR1 no PAR1", b"", b"plain text"):
        with pytest.raises(DataError, match=r"b\.parquet: damaged or not a parquet file"):
            values(write("b.parquet", data))


def test_a_parquet_header_that_promises_too_much_is_refused(write: Callable[..., Path]) -> None:
    """Rows and bytes that a parquet file says it has are checked before any is read."""
    path = write("a.parquet", [{"n": "x" * 100}] * 1000)
    with pytest.raises(DataError, match="says that it has 1,000 rows, more than 10"):
        values(path, caps=Caps(max_rows=10))
    with pytest.raises(DataError, match="unfolds to"):
        values(path, caps=Caps(max_bytes=10_000))


def test_a_dictionary_that_unfolds_is_stopped(write: Callable[..., Path]) -> None:
    """A parquet column that repeats one long text a thousand times is stopped while it unfolds."""
    path = write("a.parquet", [{"t": "y" * 100_000}] * 2000)
    assert path.stat().st_size < MIB
    with pytest.raises(DataError, match="unfolds to more than 50 MiB"):
        values(path, caps=Caps(max_bytes=50 * MIB))


def test_too_many_lines_are_refused(write: Callable[..., Path]) -> None:
    """The cap on rows also holds for lines."""
    with pytest.raises(DataError, match="more than 3 rows"):
        values(write("a.jsonl", [{"n": 1}] * 4), caps=Caps(max_rows=3))


def test_rows_beyond_the_cap_are_refused(write: Callable[..., Path]) -> None:
    """A line, or a csv field, above the cap for one row is named instead of being held."""
    caps = Caps(max_row_bytes=1000)
    with pytest.raises(DataError, match=r"a\.jsonl row 2: longer than"):
        values(write("a.jsonl", [{"n": "1"}, {"n": "x" * 2000}]), caps=caps)
    with pytest.raises(DataError, match=r"a\.csv: not a readable csv file \(field larger than field limit"):
        values(write("a.csv", [{"n": "x" * 2000}]), caps=caps)


def test_a_parquet_file_that_is_too_large_by_its_own_account_is_refused(write: Callable[..., Path]) -> None:
    """The size that a parquet file states for its columns is checked before they are read."""
    path = write("a.parquet", [{"n": f"{n:0200}"} for n in range(1000)])
    with pytest.raises(DataError, match="says that it unfolds to"):
        values(path, caps=Caps(max_bytes=10_000))


def test_what_cannot_be_opened_is_named(tmp_path: Path) -> None:
    """A path that the system refuses, here for its length, ends in one line."""
    with pytest.raises(DataError, match="cannot be read"):
        values(tmp_path / ("x" * 300 + ".json"))


def test_files_of_lines_are_streamed(write: Callable[..., Path]) -> None:
    """The first rows of a long file come before the rest is read, even where the rest is damaged."""
    lines = [{"n": random.Random(n).randbytes(500).hex()} for n in range(8000)]
    whole = write("a.jsonl.gz", lines).read_bytes()
    path = write("b.jsonl", b"").rename(write("b.jsonl", b"").with_name("b.jsonl.gz"))
    path.write_bytes(whole[: len(whole) - 100])
    rows = read_rows(path)
    assert next(rows).values == lines[0]
    with pytest.raises(DataError, match="truncated"):
        list(rows)
