"""Rows come out of every accepted kind of file, and broken files end in one line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from svr_async.adapters.tables import SUFFIXES, Encoding, read_rows

Write = Callable[..., Path]
ROWS = [{"prompt": "p, 1", "chosen": 'a "quoted"\nline', "n": "1"}, {"prompt": "ü\u2028x", "chosen": "", "n": "2"}]


def values(path: Path, encoding: Encoding | None = None) -> list[dict[str, Any]]:
    """Return the columns of every row of a file."""
    return [dict(row.values) for row in read_rows(path, encoding)]


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_kind_of_file_gives_the_same_rows(write: Write, suffix: str, packed: str) -> None:
    """The same rows come out of json, jsonl, csv, tsv and parquet, plain or gzipped."""
    assert values(write(f"data{suffix}{packed}", ROWS)) == ROWS


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("object.json", b'{"version": 1, "data": [{"n": 1}, {"n": 2}]}', [{"n": 1}, {"n": 2}]),
        ("lines.json", b'{"n": "1"}\n{"n": "2"}\n', [{"n": "1"}, {"n": "2"}]),
        ("one.json", b'{"n": "1"}\n', [{"n": "1"}]),
        ("bom.json", b'\xef\xbb\xbf[{"n": "1"}]', [{"n": "1"}]),
        ("bom.jsonl", b'\xef\xbb\xbf{"n": "1"}\n', [{"n": "1"}]),
        ("bom.csv", b"\xef\xbb\xbfn\n1\n", [{"n": "1"}]),
        ("crlf.jsonl", b'{"n": "1"}\r\n\r\n{"n": "2"}\r\n', [{"n": "1"}, {"n": "2"}]),
        ("crlf.csv", b'n,t\r\n1,"x\r\ny"\r\n', [{"n": "1", "t": "x\r\ny"}]),
        ("twice.jsonl", b'{"n": 1, "n": 2}', [{"n": 2}]),
        ("wide.jsonl", '{"n": "ü"}\n'.encode("utf-16"), [{"n": "ü"}]),
        ("short.csv", b"a,b\n4\n", [{"a": "4", "b": None}]),
        ("semicolons.csv", b"a;b\n1,5;2\n", [{"a": "1,5", "b": "2"}]),
    ],
)
def test_files_as_people_have_them(write: Write, name: str, data: bytes, expected: list[dict[str, Any]]) -> None:
    """Wrapped lists, lines under .json, byte order marks, Windows line ends, UTF-16, semicolons."""
    assert values(write(name, data)) == expected


@pytest.mark.parametrize(
    ("name", "data", "expected", "replaced", "legacy"),
    [
        ("nul.jsonl", rb'{"t": "a\u0000b"}', "a\ufffdb", 1, 0),
        ("lone.jsonl", rb'{"t": "a\ud800b\udc00\ud800"}', "a\ufffdb\ufffd\ufffd", 3, 0),
        ("pair.jsonl", rb'{"t": "\ud83d\ude00"}', "\U0001f600", 0, 0),
        ("lone.json", rb'[{"t": "\udfff"}]', "\ufffd", 1, 0),
        ("nul.csv", b"t\na\x00b\n", "a\ufffdb", 1, 0),
        ("cp1252.csv", b"t\n\xe9t\xe9 \x93x\x94\n", "été “x”", 0, 4),
        ("mixed.jsonl", '{"t": "ü'.encode() + b'\xfc"}', "üü", 0, 1),
    ],
)
def test_characters_and_encodings(
    write: Write, name: str, data: bytes, expected: str, replaced: int, legacy: int
) -> None:
    """NUL and lone surrogates become U+FFFD; bytes that are not UTF-8 are read as Windows-1252; both are counted."""
    encoding = Encoding()
    assert values(write(name, data), encoding) == [{"t": expected}]
    assert (encoding.replaced, encoding.legacy) == (replaced, legacy)
    assert str(encoding) == "UTF-8" + (f"; {legacy} bytes read as Windows-1252" if legacy else "")
