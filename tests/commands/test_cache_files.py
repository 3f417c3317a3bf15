"""`svr cache export`, `import`, `repair` and `gc`: replies leave a cache and come into another, whole or not at all."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from pyarrow import parquet
from rig import name_judge, serving, steady_metrics, write_bench

from svr_async.engine import cache_export
from svr_async.engine.cache import Cache
from svr_async.engine.cache_lines import line_of
from svr_async.engine.cache_parquet import COLUMNS, read_replies, write_replies
from svr_async.engine.reply import Reply

Cli = Callable[..., tuple[int, str, str]]
EVAL = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--audit", "0", "-q")


@pytest.fixture
def paid(cli: Cli, tmp_path: Path) -> Path:
    """Judge 8 pairs, so that a cache holds their replies; return the run's folder."""
    write_bench(tmp_path / "bench.jsonl", 8)
    with serving() as sim:
        name_judge(tmp_path, sim.base_url)
        assert cli(*EVAL, "--cache", "one", "--out", "first")[0] == 0
    return tmp_path / "first"


@pytest.mark.parametrize("name", ["replies.jsonl", "replies.jsonl.gz"])
def test_a_run_replays_from_an_imported_cache(cli: Cli, paid: Path, name: str) -> None:
    """Export, import, and the same run without an endpoint: the same numbers, no call; a second import adds nothing."""
    code, out, _ = cli("cache", "export", name, "--cache", "one")
    assert (code, "8 replies of one in" in out) == (0, True)
    code, out, _ = cli("cache", "import", name, "--cache", "two", "--json")
    assert (code, orjson.loads(out)) == (0, {"rows": 8, "known": 0})
    assert cli(*EVAL, "--cache", "two", "--out", "second", "--offline")[0] == 0
    assert steady_metrics(Path("second")) == steady_metrics(paid)
    assert (Path("second") / "items.jsonl").read_bytes() == (paid / "items.jsonl").read_bytes()
    code, out, _ = cli("cache", "import", name, "--cache", "two")
    assert (code, out.strip()) == (0, "0 replies added to two, 8 were there")


def test_equal_caches_give_equal_files(cli: Cli, paid: Path) -> None:
    """Rows are in the order of their keys, whatever order they came in; a packed file holds no time."""
    for name in ("a.jsonl.gz", "a.jsonl"):
        assert cli("cache", "export", name, "--cache", "one")[0] == 0
    assert cli("cache", "import", "a.jsonl", "--cache", "two")[0] == 0
    assert cli("cache", "export", "b.jsonl.gz", "--cache", "two")[0] == 0
    assert Path("a.jsonl.gz").read_bytes() == Path("b.jsonl.gz").read_bytes()
    assert gzip.decompress(Path("a.jsonl.gz").read_bytes()) == Path("a.jsonl").read_bytes()


def test_a_folder_of_traps_is_read_for_what_it_holds(cli: Cli, paid: Path) -> None:
    """A pipe that nobody writes to is no file of replies; a number of tries that is none makes a row that is none."""
    Path("traps").mkdir()
    assert cli("cache", "export", "traps/a.jsonl", "--cache", "one")[0] == 0
    os.mkfifo("traps/b.jsonl")
    assert cli("cache", "import", "traps", "--cache", "two")[:2] == (0, "8 replies added to two, 0 were there\n")
    whole = Path("traps/a.jsonl").read_bytes()
    for tries in (b'"x"', b"null", b"-1", b"18446744073709551615"):
        Path("c.jsonl").write_bytes(whole.replace(b'"tries":1', b'"tries":' + tries))
        code, _, said = cli("cache", "import", "c.jsonl", "--cache", "three")
        assert (code, "is no reply: a reply's number of tries" in said) == (7, True), said


def test_an_import_holds_few_large_replies_at_a_time(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A packed file of some megabytes may unfold to as many gigabytes: they are put as they come."""
    monkeypatch.setattr(cache_export, "AT_ONCE_CHARS", 1000)
    together: list[int] = []
    put = cache_export._put

    async def counted(cache: Cache, batch: dict[bytes, Reply]) -> int:
        together.append(len(batch))
        return await put(cache, batch)

    monkeypatch.setattr(cache_export, "_put", counted)
    rows = (line_of(bytes([number]) * 32, Reply(text="x" * 600)) for number in range(7))
    (tmp_path / "large.jsonl.gz").write_bytes(gzip.compress(b"".join(rows)))
    assert cli("cache", "import", "large.jsonl.gz", "--cache", "two")[0] == 0
    assert together == [2, 2, 2, 1]


def test_damaged_rows_stay_behind(cli: Cli, paid: Path) -> None:
    """A row that does not match its digest is left out and counted."""
    cache = Cache.open(Path("one"))
    cache._rows.write([(next(iter(cache.keys())), b"damaged")])
    cache.close()
    code, out, _ = cli("cache", "export", "out.jsonl", "--cache", "one")
    assert (code, "7 replies of one in out.jsonl; 1 damaged rows were left out" in out) == (0, True)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{", "line 1 is no reply"),
        (b"[]", "line 1 is no reply"),
        (b'{"reply": {}}', "the field 'key' is missing"),
        (b'{"key": "../../etc/passwd", "reply": {}}', "not 64 hex digits"),
        (b'{"key": "' + b"0" * 64 + b'", "reply": {"text": 7, "usage": {}}}', "have other types"),
        (b'{"key": "' + b"0" * 64 + b'", "reply": {"text": "x", "usage": {}, "more": 1}}', "unexpected keyword"),
        (b'{"key": "' + b"0" * 64 + b'", "reply": {"text": "x", "usage": {"prompt_tokens": -1}}}', "have other types"),
    ],
)
def test_a_line_that_is_no_reply_is_refused(cli: Cli, line: bytes, says: str) -> None:
    """Exit 7 with the line's number and what is wrong with it; nothing of it reaches the cache."""
    Path("bad.jsonl").write_bytes(line + b"\n")
    code, _, err = cli("cache", "import", "bad.jsonl", "--cache", "two")
    assert (code, says in err, err.count("\n")) == (7, True, 1), err
    cache = Cache.open(Path("two"))
    assert list(cache.keys()) == []
    cache.close()


@pytest.mark.parametrize("place", ["replies.parquet", "folder", "file://{here}/far"])
def test_replies_go_through_parquet_and_come_back(cli: Cli, paid: Path, tmp_path: Path, place: str) -> None:
    """A file, a folder and a URI: same rows in another cache, equal files for equal caches, a table for any tool."""
    place = place.format(here=tmp_path)
    Path("folder").mkdir()
    code, out, err = cli("cache", "export", place, "--parquet", "--cache", "one")
    assert (code, "8 replies of one in" in out) == (0, True), err
    for rows, known in ((8, 0), (0, 8)):
        code, out, err = cli("cache", "import", place, "--cache", "two", "--json")
        assert (code, orjson.loads(out)) == (0, {"rows": rows, "known": known}), err
    (file,) = tmp_path.rglob("*.parquet")
    for cache, name in (("one", "a.jsonl"), ("two", "b.jsonl"), ("two", "again.parquet")):
        assert cli("cache", "export", name, "--cache", cache)[0] == 0
    assert Path("a.jsonl").read_bytes() == Path("b.jsonl").read_bytes()
    assert Path("again.parquet").read_bytes() == file.read_bytes()
    table = parquet.read_table(file).to_pylist()
    assert [row["key"] for row in table] == [
        orjson.loads(line)["key"] for line in Path("a.jsonl").read_bytes().splitlines()
    ]
    assert {row["model"] for row in table} == {"gpt-oss-120b"}


def test_a_table_of_many_replies_has_row_groups_of_a_bounded_size(tmp_path: Path) -> None:
    """A group ends at 1,024 rows or 16 MiB of text, so that writing and reading hold no more than that."""
    for count, text, groups in ((2500, "x", 3), (5, "é" * 9 * 2**20, 3)):
        rows = ((bytes(30) + number.to_bytes(2, "big"), Reply(text=f"{number}{text}")) for number in range(count))
        with (tmp_path / "many.parquet").open("wb") as file:
            write_replies(file, rows)
        assert parquet.ParquetFile(tmp_path / "many.parquet").num_row_groups == groups
        with (tmp_path / "many.parquet").open("rb") as file:
            found = list(read_replies(file, 2**30, "many"))
        assert [reply.text[:4] for _, reply in found] == [f"{number}{text}"[:4] for number in range(count)]


KEY = "0" * 64
ROW: dict[str, object] = dict.fromkeys(COLUMNS, "") | {
    "key": KEY,
    "text": "x",
    "tries": 1,
    "prompt_tokens": 1,
    "cached_tokens": None,
    "completion_tokens": 2,
    "batch": False,
}


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([ROW | {"key": "../../etc/passwd"}], "row 1 is no reply: the key is '../../etc/passwd'"),
        ([ROW | {"key": None}], "not 64 hex digits"),
        ([ROW, ROW | {"text": None}], "row 2 is no reply"),
        ([ROW | {"prompt_tokens": -1}], "have other types"),
        ([ROW | {"more": 1}], "holds no replies: its columns are"),
        ([{name: value for name, value in ROW.items() if name != "id"}], "holds no replies: its columns are"),
        ([ROW | {"tries": "1"}], "holds no replies: its columns are"),
        ([ROW | {"text": "x" * 2**20}] * 300, "unfolds to more than"),
        ([ROW | {"text": str(n) * 2**20} for n in range(100, 200)], "says that it unfolds to"),
    ],
)
def test_a_table_that_holds_anything_else_is_refused(
    cli: Cli, tmp_path: Path, rows: list[dict[str, object]], says: str
) -> None:
    """Exit 7 and one line, for foreign columns, rows that are none, and bombs; nothing reaches the cache."""
    ours = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in COLUMNS.items()])
    table = pa.Table.from_pylist(rows, schema=None if "columns" in says else ours)
    parquet.write_table(table, tmp_path / "bad.parquet", compression="zstd")
    code, _, err = cli("cache", "import", "bad.parquet", "--cache", "two")
    assert (code, says in err, err.count("\n")) == (7, True, 1), err
    cache = Cache.open(Path("two"))
    assert list(cache.keys()) == []
    cache.close()


def test_a_table_that_did_not_arrive_whole_is_refused(cli: Cli, paid: Path) -> None:
    """Cut off, no Parquet at all, or rows that its name does not match: one line each, and no row is taken."""
    Path("folder").mkdir()
    assert cli("cache", "export", "folder", "--parquet", "--cache", "one")[0] == 0
    (file,) = Path("folder").iterdir()
    data, table = file.read_bytes(), parquet.read_table(file)
    parquet.write_table(table.slice(1), "fewer.parquet")
    for content in (data[:-40], data[: len(data) // 2], b"", b"no table", Path("fewer.parquet").read_bytes()):
        file.write_bytes(content)
        code, _, err = cli("cache", "import", "folder", "--cache", "two")
        assert (code, err.count("\n")) == (7, 1), err
    code, _, err = cli("cache", "export", "nowhere", "--parquet", "--cache", "one")
    assert (code, "is no folder" in err, err.count("\n")) == (2, True, 1), err
    for args in (("export", "nosuch://x/y", "--cache", "one"), ("import", "nosuch://x/y"), ("import", "none.parquet")):
        code, _, err = cli("cache", *args)
        assert (code, err.count("\n")) == (2, 1), err


def test_files_that_are_not_there_or_not_packed_are_one_line(cli: Cli, paid: Path) -> None:
    """Reading what is absent or no gzip is exit 2, writing where it cannot be is exit 5, no cache is exit 2."""
    Path("plain.gz").write_text("no gzip")
    for args, code in (
        (("import", "none.jsonl"), 2),
        (("import", "plain.gz"), 2),
        (("export", "out.jsonl", "--cache", "none"), 2),
        (("export", "/dev/null/x.jsonl", "--cache", "one"), 5),
    ):
        found, _, err = cli("cache", *args)
        assert (found, err.count("\n")) == (code, 1), err


def test_a_repair_says_what_is_saved_and_where_the_old_file_is(cli: Cli, paid: Path) -> None:
    """In words and as JSON; a whole cache is left alone; without a cache nothing is made."""
    code, out, _ = cli("cache", "repair", "--cache", "one")
    assert (code, out.strip()) == (0, "one: nothing is damaged, all 8 replies are whole")
    Path("one/cache.db").write_bytes(b"x" * 100 + Path("one/cache.db").read_bytes()[100:])
    code, _, err = cli(*EVAL, "--cache", "one", "--out", "second")
    assert (code, "svr cache repair" in err, err.count("\n")) == (5, True, 1)
    code, out, _ = cli("cache", "repair", "--cache", "one", "--json")
    assert (code, orjson.loads(out)) == (0, {"rows": 8, "lost": 0, "kept_as": "one/cache.db.corrupt"})
    assert cli(*EVAL, "--cache", "one", "--out", "second", "--offline")[0] == 0
    assert (Path("second") / "items.jsonl").read_bytes() == (paid / "items.jsonl").read_bytes()
    code, _, err = cli("cache", "repair", "--cache", "none")
    assert (code, "there is no cache in none" in err, Path("none").exists()) == (2, True, False)


def test_clearing_counts_first_and_removes_when_told(cli: Cli, paid: Path) -> None:
    """Without --yes nothing is removed; then only what age and model name; a run asks for it again."""
    for flags, removed in (((), 0), (("--older-than", "1"), 0), (("--model", "gpt-4o"), 0), (("--older-than", "0"), 8)):
        code, out, _ = cli("cache", "gc", "--cache", "one", *flags, "--json")
        found = orjson.loads(out)
        assert (code, found["removed"], found["rows"], found["done"]) == (0, removed, 8 - removed, False), flags
    code, out, _ = cli("cache", "gc", "--cache", "one", "--model", "gpt-oss-120b")
    assert (code, "8 replies" in out, "would be removed" in out, "--yes removes them" in out) == (0, True, True, True)
    assert cli("cache", "verify", "--cache", "one")[1].strip() == "one: all 8 replies are whole"
    code, out, _ = cli("cache", "gc", "--cache", "one", "--model", "gpt-oss-120b", "--yes")
    assert (code, "8 replies, 0 damaged rows, 0 leftover files removed, 0 replies stay" in out) == (0, True)
    assert cli("cache", "verify", "--cache", "one")[1].strip() == "one: all 0 replies are whole"
    assert cli("cache", "gc", "--cache", "none")[0] == 2
