"""Files of every form, damaged at random: bytes, lines, cells, and the values of JSON, TOML, Parquet, SQLite, NumPy.

A mutation is a name and a seed, so that a case can be made again, and made again without one of its mutations.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import sqlite3
import warnings
import zipfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

CANARY = "svrcanary"
TEXTS = (
    "", " ", "\x1b[2J\x1b]0;svrcanary\x07", "\x9b31m\x85", "\u202egnp.exe\u2066", "\x00", "\ud800", "\ufeff\u200b",
    f"=cmd|'/c {CANARY}'!A1", "+1+1", "-2+3", "@SUM(1)", "\t=1", "\r\n=1", f"\\input{{/etc/{CANARY}}}",
    f"\\write18{{{CANARY}}}", f"$\\csname {CANARY}\\endcsname$ % & # _ ^ ~", f"<script>{CANARY}</script>",
    f"<img src=x onerror={CANARY}>", f"](javascript:{CANARY})", f"../../{CANARY}", f"/tmp/{CANARY}", f"~/{CANARY}",
    f"$(touch {CANARY})", f"`touch {CANARY}`", "{{7*7}}", "{nonce}", "{0.__class__}", "%s%n", "[bold]x[/]", "[/red]",
    "A" * 300, "x " * 50_000, "nan", "-inf", "1e999", "0x10", "٣", "²", "1_000", "\u2028a\u2029b", "a", "A", "tie",
    "true", "null", "2026-13-45", "1e5", "9" * 5000, "hf:x/y", "http://127.0.0.1:1/", "C:\\x", "con", ".", "..", "/",
)  # fmt: skip
OTHERS: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 0.5, -0.0, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**400, 1e308, 5e-324,
    float("nan"), float("inf"), float("-inf"), [], {}, [[]], [None], {"": None}, {"a": {"b": [1, {}]}}, [1, "a", None],
)  # fmt: skip
RAW = (b"NaN", b"1e999", b"{", b"}", b"[", b"]", b",", b":", b'"', b"'", b"\\u0000", b"\\ud800", b"\x00", b"\xff",
       b"\n", b"\r", b"\xef\xbb\xbf", b"//", b"=", b"\x1b[2J", b"\t", b";", b"#", b"[" * 3000, b"\xf0\x9f",
       b'{"a":' * 3000)  # fmt: skip
TOML = ("nan", "-inf", "true", "[]", "{}", "[[[]]]", "1979-05-27T07:32:00Z", "07:32:00", "0x7fffffffffffffffff", "-1",
        "0.5", "'''x'''", "[1, 'a']", "{a = 1, b = {c = 2}}", '""', "9" * 5000, "1e999",
        "[" * 500 + "]" * 500)  # fmt: skip
Tree = Any


def mutated(data: bytes, name: str, seed: int) -> bytes:
    """Return a file's content with one change that fits its form, or, now and then, any form."""
    rng = random.Random(seed)
    if name.endswith(".gz") and rng.random() < 0.8:
        with suppress(Exception):  # damaged before
            return gzip.compress(mutated(gzip.decompress(data), name.removesuffix(".gz"), seed + 1), 1)
    change = BY_SUFFIX.get(Path(name).suffix) if rng.random() < 0.75 else None
    if change is not None:
        with suppress(Exception):  # damaged before: then its bytes are changed
            return change(data, rng)
    return broken_bytes(data, rng)


def broken_bytes(data: bytes, rng: random.Random) -> bytes:
    """Flip a bit, cut, leave out, repeat, swap, or put something in."""
    at, length = rng.randrange(len(data) + 1), rng.choice((1, 2, 8, 64, 1000))
    match rng.randrange(8):
        case 0 if data:
            at = rng.randrange(len(data))
            return data[:at] + bytes((data[at] ^ (1 << rng.randrange(8)),)) + data[at + 1 :]
        case 1:
            return data[:at]
        case 2:
            return data[:at] + data[at + length :]
        case 3:
            return data[:at] + data[at : at + length] * rng.choice((2, 3, 50)) + data[at + length :]
        case 4:
            to = rng.randrange(len(data) + 1)
            low, high = sorted((at, to))
            return data[:low] + data[high : high + length] + data[low:high] + data[high + length :]
        case 5:
            return data[:at] + rng.randbytes(length) + data[at + length :]
        case 6:
            return rng.choice((b"", b"\n", b"\x00" * 100, data + data, data[::-1], b"\x80\x04N.", b"PK\x03\x04"))
        case _:
            return data[:at] + rng.choice(RAW) + data[at:]


def hostile(rng: random.Random) -> Tree:
    """Return a value that nobody expects."""
    if rng.random() < 0.55:
        return rng.choice(TEXTS)
    if rng.random() < 0.1:
        deep: Tree = rng.choice(TEXTS)
        for _ in range(rng.choice((5, 120, 900))):
            deep = [deep] if rng.random() < 0.5 else {"a": deep}
        return deep
    return rng.choice(OTHERS)


def _places(tree: Tree, found: list[tuple[Any, Any]] | None = None) -> list[tuple[Any, Any]]:
    """Return (container, key or index) of every value below a tree."""
    found = [] if found is None else found
    keys = tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in list(keys)[:400]:
        found.append((tree, key))
        if len(found) < 4000:
            _places(tree[key], found)
    return found


def broken_tree(tree: Tree, rng: random.Random) -> Tree:
    """Change one value of a tree: another value, another type, gone, renamed, repeated, or taken from elsewhere."""
    places = _places(tree)
    if not places or rng.random() < 0.02:
        return hostile(rng)
    holder, key = rng.choice(places)
    value = holder[key]
    match rng.randrange(8):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[rng.choice(TEXTS)] = holder.pop(key)
        case 2 if isinstance(holder, list):
            holder[key:key] = [value] * rng.choice((1, 3, 200))
        case 3:
            other, at = rng.choice(places)
            holder[key] = json.loads(json.dumps(other[at]))
        case 4:
            holder[key] = rng.choice((str(value), [value], {str(key): value}, not value, len(str(value)) + 0.5))
        case 5 if isinstance(value, str):
            at = rng.randrange(len(value) + 1)
            holder[key] = value[:at] + rng.choice(TEXTS) + value[at:]
        case 6 if isinstance(value, int | float) and abs(value) < 1e300:
            holder[key] = rng.choice((-value, value + 1, value * 1e6, str(value), value + 0.5))
        case _:
            holder[key] = hostile(rng)
    return tree


def _dumped(tree: Tree, rng: random.Random) -> bytes:
    text = json.dumps(tree, ensure_ascii=rng.random() < 0.8)
    if rng.random() < 0.1 and "{" in text:  # a key twice
        place = rng.choice([at for at, letter in enumerate(text) if letter == "{"][:200])
        key = text[place + 1 :].partition(":")[0]
        text = f"{text[: place + 1]}{key or chr(34) * 2}: {json.dumps(hostile(rng))}, {text[place + 1 :]}"
    return text.encode("utf-8", "surrogatepass")


def broken_json(data: bytes, rng: random.Random) -> bytes:
    """Change a value of a JSON file."""
    return _dumped(broken_tree(json.loads(data), rng), rng)


def broken_lines(data: bytes, rng: random.Random) -> bytes:
    """Change a line of JSON Lines, or the order and number of lines."""
    lines = data.splitlines()
    at = rng.randrange(len(lines))
    match rng.randrange(8):
        case 0:
            rng.shuffle(lines)
        case 1:
            lines[at:at] = [lines[at]] * rng.choice((1, 2, 100))
        case 2:
            lines[at] = json.dumps(hostile(rng)).encode()
        case 3:  # the same change of every line
            seed = rng.random()
            lines = [broken_json(line, random.Random(seed)) for line in lines]
        case _:
            lines[at] = broken_json(lines[at], rng)
    return b"\n".join(lines) + b"\n" * rng.randrange(2)


def broken_cells(data: bytes, rng: random.Random, mark: str = ",") -> bytes:
    """Change a cell of a table of text, quoted or as it is."""
    rows = [line.split(mark) for line in data.decode("utf-8", "surrogateescape").splitlines()]
    row = rng.choice(rows[:1] * 3 + rows)
    at = rng.randrange(len(row))
    text = str(hostile(rng))[:60_000]
    row[at] = rng.choice((text, '"' + text.replace('"', '""') + '"', f'{row[at]}"{text}', row[at] + mark * 3))
    return "\n".join(mark.join(cells) for cells in rows).encode("utf-8", "surrogatepass")


def broken_tsv(data: bytes, rng: random.Random) -> bytes:
    """Change a cell of a tab-separated table."""
    return broken_cells(data, rng, "\t")


def broken_toml(data: bytes, rng: random.Random) -> bytes:
    """Change a line of a TOML file: its value, its key, its table, or where it stands."""
    lines = data.decode().splitlines()
    at = rng.randrange(len(lines))
    key, _, value = lines[at].partition("=")
    texts = [json.dumps(text, ensure_ascii=rng.random() < 0.7) for text in TEXTS]
    match rng.randrange(6):
        case 0:
            lines.insert(rng.randrange(len(lines)), lines[at])
        case 1:
            lines.pop(at)
        case 2:
            lines[at] = f"{rng.choice(texts)} ={value}"
        case 3:
            lines.insert(at, f"[{rng.choice([*texts, 'a.b.c', '[a]', ''])}]")
        case _:
            lines[at] = f"{key.strip('[]') or 'x'} = {rng.choice(TOML) if rng.random() < 0.5 else rng.choice(texts)}"
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def broken_parquet(data: bytes, rng: random.Random) -> bytes:
    """Change a column of a Parquet file: its values, type or name."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(data))
    rows = table.to_pylist()
    column = rng.choice(table.column_names)
    match rng.randrange(4):
        case 0:
            for row in rows:
                row[column] = None
        case 1:
            value = rng.choice([[1, "a"][:1], {"a": 1}, b"\xff\x00", 2.5, True, [["a"]], [{"role": "x"}], 2**62])
            rows = [row | {column: value} for row in rows]
        case 2:
            rows = [{(rng.choice(TEXTS[2:7]) if name == column else name): row[name] for name in row} for row in rows]
        case _:
            kept = [text for text in TEXTS if text.isprintable() or "\x1b" in text or "\x00" in text]
            rows = [row | {column: rng.choice(kept)} for row in rows]
    out = io.BytesIO()
    try:
        pq.write_table(pa.Table.from_pylist(rows), out)
    except (pa.ArrowException, UnicodeEncodeError) as error:
        raise ValueError from error
    return out.getvalue()


def broken_tensors(data: bytes, rng: random.Random) -> bytes:
    """Change the header of a safetensors file, or numbers of its body."""
    size = int.from_bytes(data[:8], "little")
    header, body = data[8 : 8 + size], data[8 + size :]
    if rng.random() < 0.4 and body:
        at = rng.randrange(0, len(body), 4)
        number = rng.choice(
            (b"\x00\x00\xc0\x7f", b"\x00\x00\x80\x7f", b"\xff\xff\x7f\x7f", b"\x00\x00\x80\xff", b"\x01\0\0\0")
        )
        return data[: 8 + size] + body[:at] + number + body[at + 4 :]
    header = broken_json(header, rng)
    said = len(header) if rng.random() < 0.8 else rng.choice((0, 1, 2**31, 2**63, 2**64 - 1))
    return said.to_bytes(8, "little") + header + body


def broken_database(data: bytes, rng: random.Random) -> bytes:
    """Change a value of a SQLite database behind its back: any column, any type."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.deserialize(data)
        try:
            tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            table = rng.choice(tables)
            columns = [row[1] for row in db.execute(f'PRAGMA table_info("{table}")')]
            rowids = [row for (row,) in db.execute(f'SELECT rowid FROM "{table}"')]
            value = rng.choice([*TEXTS[:40], None, 0, -1, 2**62, 1.5, float("inf"), b"\x80\x04N.", b"", b"{" * 200])
            value = value.encode("utf-8", "surrogatepass") if isinstance(value, str) and rng.random() < 0.3 else value
            where = "" if rng.random() < 0.2 else f" WHERE rowid = {rng.choice(rowids)}"
            db.execute(f'UPDATE OR REPLACE "{table}" SET "{rng.choice(columns)}" = ?{where}', (value,))
            db.commit()
        except (sqlite3.Error, UnicodeEncodeError, OverflowError, IndexError) as error:
            raise ValueError from error
        return db.serialize()


def broken_archive(data: bytes, rng: random.Random) -> bytes:
    """Change an array of an .npz file: its header, its numbers, or what is called so."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as changed:
        chosen = rng.choice(archive.namelist())
        for name in archive.namelist():
            content = archive.read(name)
            if name == chosen:
                content = _broken_array(content, rng)
                name = rng.choice((name, name, name, "x.npy", f"../{CANARY}.npy"))  # noqa: PLW2901
            with warnings.catch_warnings(action="ignore"):  # one name twice is what is wanted
                changed.writestr(name, content)
    return out.getvalue()


def _broken_array(data: bytes, rng: random.Random) -> bytes:
    import numpy as np

    values = np.load(io.BytesIO(data), allow_pickle=False)
    match rng.randrange(6):
        case 0:
            return broken_bytes(data, rng)
        case 1:
            with np.errstate(all="ignore"):
                values = values.astype(rng.choice(("U5", "?", "f2", "c16", "i1", "u8", "S3", "M8[ns]")))
        case 2:
            values = values.reshape(1, -1) if rng.random() < 0.5 else values[: len(values) // 2]
        case 3:
            values = np.float64(3.5) * np.ones(())
        case _:
            values = values.copy()
            values[rng.randrange(len(values))] = rng.choice((-1, 2**31 - 1, 0, 100))
    out = io.BytesIO()
    np.save(out, values, allow_pickle=False)
    return out.getvalue()


def broken_text(data: bytes, rng: random.Random) -> bytes:
    """Change a line of a text file."""
    lines = data.decode("utf-8", "surrogateescape").splitlines() or [""]
    at = rng.randrange(len(lines))
    cut = rng.randrange(len(lines[at]) + 1)
    lines[at] = rng.choice((str(hostile(rng)), lines[at][:cut] + rng.choice(TEXTS) + lines[at][cut:]))
    return "\n".join(lines).encode("utf-8", "surrogatepass")


BY_SUFFIX: dict[str, Callable[[bytes, random.Random], bytes]] = {
    ".json": broken_json, ".jsonl": broken_lines, ".csv": broken_cells, ".tsv": broken_tsv, ".toml": broken_toml,
    ".parquet": broken_parquet, ".safetensors": broken_tensors, ".db": broken_database, ".npz": broken_archive,
    ".txt": broken_text, ".env": broken_text,
}  # fmt: skip
