"""Numbers drawn from the content of a request by hashing, so that nothing depends on time, order or state."""

from __future__ import annotations

import hashlib

SCALE = float(2**32)


def digest_of(text: str, size: int = 16) -> bytes:
    """Return BLAKE2b of a text; lone surrogates are kept apart, not refused."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()


def draw_bytes(*parts: bytes | str | int) -> bytes:
    """Return 16 bytes that depend on the parts alone, each part kept apart from the next."""
    encoded = [part if part.__class__ is bytes else str(part).encode("utf-8", "surrogatepass") for part in parts]
    sizes = ",".join([str(len(data)) for data in encoded]).encode()
    return hashlib.blake2b(b"".join([*encoded, b"|", sizes]), digest_size=16).digest()


def uniform(data: bytes, quarter: int = 0) -> float:
    """Return the number in [0, 1) held by the given four-byte quarter (0–3) of 16 drawn bytes."""
    return int.from_bytes(data[4 * quarter : 4 * quarter + 4], "big") / SCALE


def draw(*parts: bytes | str | int) -> float:
    """Return a number in [0, 1) that depends on the parts alone."""
    return uniform(draw_bytes(*parts))
