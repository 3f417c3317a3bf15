"""Arrays in safetensors files: floats written in one fixed way, all kinds read with every length checked first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Tensors = dict[str, NDArray[np.generic]]

MAX_HEADER_BYTES = 1 << 20
MAX_ARRAYS = 64
MAX_AXES = 4
TYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
}
_LENGTH_BYTES = 8
_ITEM_BYTES = 4
_METADATA = "__metadata__"


def pack(arrays: Mapping[str, Floats]) -> bytes:
    """Return a safetensors file of float32 arrays, in the order of their names; the same arrays give the same bytes."""
    header: dict[str, Any] = {}
    start = 0
    for name in sorted(arrays):
        stop = start + _ITEM_BYTES * arrays[name].size
        header[name] = {"dtype": "F32", "shape": list(arrays[name].shape), "data_offsets": [start, stop]}
        start = stop
    text = orjson.dumps(header)
    text += b" " * (-len(text) % _LENGTH_BYTES)
    data = (np.ascontiguousarray(arrays[name], dtype="<f4").tobytes() for name in sorted(arrays))
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text + b"".join(data)


def unpack(data: bytes) -> dict[str, Floats]:
    """Return the arrays of a safetensors file of float32 arrays; ValueError says what is wrong with it."""
    arrays, _ = read(data, ("F32",))
    return {name: values.astype(np.float32, copy=False) for name, values in arrays.items()}


def read(data: bytes, kinds: Sequence[str] = tuple(TYPES)) -> tuple[Tensors, dict[str, str]]:
    """Return the arrays, which are of these kinds, and the notes of a safetensors file; ValueError says what is wrong.

    The header's length, the number of arrays and every offset are checked against the file before anything is made of
    them, so a file cannot ask for more memory than its own size. Arrays must lie one behind the other without gaps.
    """
    header, body = _header(data)
    spans = sorted(_span(name, entry, kinds) for name, entry in header.items() if name != _METADATA)
    place = 0
    for span in spans:
        if span.start != place:
            raise ValueError(f"the array {span.name!r} begins at {span.start}, not at {place} where the last one ends")
        place = span.stop
    if place != len(body):
        raise ValueError(f"its arrays end at {place} of {len(body)} bytes")
    return {span.name: span.array(body) for span in spans}, _notes(header.get(_METADATA, {}))


def _notes(values: Any) -> dict[str, str]:
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        raise ValueError("its metadata must be texts")
    return values


def _header(data: bytes) -> tuple[dict[str, Any], memoryview]:
    size = int.from_bytes(data[:_LENGTH_BYTES], "little")
    if len(data) < _LENGTH_BYTES or not 2 <= size <= min(MAX_HEADER_BYTES, len(data) - _LENGTH_BYTES):
        if data[:2] in {b"PK", b"\x93N"} or data[:1] == b"\x80":
            raise ValueError("it is no safetensors file but a pickle or NumPy archive, which this package never opens")
        raise ValueError(f"its header claims {size} bytes; the file has {len(data)} and {MAX_HEADER_BYTES} are allowed")
    try:
        header = orjson.loads(data[_LENGTH_BYTES : _LENGTH_BYTES + size])
    except orjson.JSONDecodeError as error:
        raise ValueError(f"its header is not JSON: {error.msg}") from error
    if not isinstance(header, dict) or len(header) > MAX_ARRAYS:
        raise ValueError(f"its header must be an object of at most {MAX_ARRAYS} arrays")
    return header, memoryview(data)[_LENGTH_BYTES + size :]


class _Span(NamedTuple):
    """Where an array lies in the file's body, in bytes, and what it is."""

    start: int
    stop: int
    name: str
    kind: str
    shape: tuple[int, ...]

    def array(self, body: memoryview) -> NDArray[np.generic]:
        """Return the array in the machine's byte order, as a view of the file's bytes where that is possible."""
        values: NDArray[Any] = np.frombuffer(body[self.start : self.stop], dtype=TYPES[self.kind])
        return values.astype(values.dtype.newbyteorder("="), copy=False).reshape(self.shape)


def _span(name: str, entry: Any, kinds: Sequence[str]) -> _Span:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"the array {name!r} needs dtype, shape and data_offsets")
    kind = entry["dtype"]
    if kind not in kinds:
        raise ValueError(f"the array {name!r} must be {' or '.join(kinds)} (got {str(kind)[:20]!r})")
    shape, offsets = _naturals(name, entry["shape"]), _naturals(name, entry["data_offsets"])
    if len(shape) > MAX_AXES or len(offsets) != 2:
        raise ValueError(f"the array {name!r} has {len(shape)} axes and {len(offsets)} offsets")
    start, stop = offsets
    if stop - start != TYPES[kind].itemsize * math.prod(shape):
        raise ValueError(f"the array {name!r} has shape {shape} but {stop - start} bytes")
    return _Span(start, stop, name, kind, shape)


def _naturals(name: str, values: Any) -> tuple[int, ...]:
    if not isinstance(values, list) or any(isinstance(v, bool) or not isinstance(v, int) or v < 0 for v in values):
        raise ValueError(f"the array {name!r} has a length that is no whole number >= 0")
    return tuple(values)
