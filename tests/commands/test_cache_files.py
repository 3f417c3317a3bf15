"""`svr cache export` and `import`: replies leave a memo and come into another, whole or not at all."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from rig import name_judge, serving, steady_metrics, write_bench

from svr_async.engine.memo import Memo

Cli = Callable[..., tuple[int, str, str]]
EVAL = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--audit", "0", "-q")


@pytest.fixture
def paid(cli: Cli, tmp_path: Path) -> Path:
    """Judge 8 pairs, so that a memo holds their replies; return the run's folder."""
    write_bench(tmp_path / "bench.jsonl", 8)
    with serving() as sim:
        name_judge(tmp_path, sim.base_url)
        assert cli(*EVAL, "--memo", "one", "--out", "first")[0] == 0
    return tmp_path / "first"


@pytest.mark.parametrize("name", ["replies.jsonl", "replies.jsonl.gz"])
def test_a_run_replays_from_an_imported_memo(cli: Cli, paid: Path, name: str) -> None:
    """Export, import, and the same run without an endpoint: the same numbers, no call; a second import adds nothing."""
    code, out, _ = cli("cache", "export", name, "--memo", "one")
    assert (code, "8 replies of one in" in out) == (0, True)
    code, out, _ = cli("cache", "import", name, "--memo", "two", "--json")
    assert (code, orjson.loads(out)) == (0, {"rows": 8, "known": 0})
    assert cli(*EVAL, "--memo", "two", "--out", "second", "--offline")[0] == 0
    assert steady_metrics(Path("second")) == steady_metrics(paid)
    assert (Path("second") / "items.jsonl").read_bytes() == (paid / "items.jsonl").read_bytes()
    code, out, _ = cli("cache", "import", name, "--memo", "two")
    assert (code, out.strip()) == (0, "0 replies added to two, 8 were there")


def test_equal_memos_give_equal_files(cli: Cli, paid: Path) -> None:
    """Rows are in the order of their keys, whatever order they came in; a packed file holds no time."""
    for name in ("a.jsonl.gz", "a.jsonl"):
        assert cli("cache", "export", name, "--memo", "one")[0] == 0
    assert cli("cache", "import", "a.jsonl", "--memo", "two")[0] == 0
    assert cli("cache", "export", "b.jsonl.gz", "--memo", "two")[0] == 0
    assert Path("a.jsonl.gz").read_bytes() == Path("b.jsonl.gz").read_bytes()
    assert gzip.decompress(Path("a.jsonl.gz").read_bytes()) == Path("a.jsonl").read_bytes()


def test_damaged_rows_stay_behind(cli: Cli, paid: Path) -> None:
    """A row that does not match its digest is left out and counted."""
    memo = Memo.open(Path("one"))
    memo._rows.write([(next(iter(memo.keys())), b"damaged")])
    memo.close()
    code, out, _ = cli("cache", "export", "out.jsonl", "--memo", "one")
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
    """Exit 7 with the line's number and what is wrong with it; nothing of it reaches the memo."""
    Path("bad.jsonl").write_bytes(line + b"\n")
    code, _, err = cli("cache", "import", "bad.jsonl", "--memo", "two")
    assert (code, says in err, err.count("\n")) == (7, True, 1), err
    memo = Memo.open(Path("two"))
    assert list(memo.keys()) == []
    memo.close()


def test_files_that_are_not_there_or_not_packed_are_one_line(cli: Cli, paid: Path) -> None:
    """Reading what is absent or no gzip is exit 2, writing where it cannot be is exit 5, no memo is exit 2."""
    Path("plain.gz").write_text("no gzip")
    for args, code in (
        (("import", "none.jsonl"), 2),
        (("import", "plain.gz"), 2),
        (("export", "out.jsonl", "--memo", "none"), 2),
        (("export", "/dev/null/x.jsonl", "--memo", "one"), 5),
    ):
        found, _, err = cli("cache", *args)
        assert (found, err.count("\n")) == (code, 1), err
