"""Arrays of float32 as safetensors files: equal arrays give equal bytes; nothing is ever unpickled."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def pack(arrays: Mapping[str, Floats]) -> bytes:
    """Return a safetensors file of the arrays."""
    from safetensors.numpy import save

    return save({name: np.asarray(arrays[name], dtype="<f4", order="C") for name in sorted(arrays)})


def unpack(data: bytes) -> dict[str, Floats]:
    """Return the arrays of a safetensors file; ValueError if it is damaged or holds other types than float32."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(data)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        if data[:2] in {b"PK", b"\x93N"} or data[:1] == b"\x80":
            raise ValueError("it is a pickle or NumPy archive, which this package never opens") from error
        raise ValueError(f"it is not a valid safetensors file ({error})") from error
    for name, values in arrays.items():
        if values.dtype != np.float32:
            raise ValueError(f"the array {name!r} must be float32 (got {values.dtype})")
    return arrays
