"""Certificates made on the spot for tests of TLS: a small authority on the curve P-256 and what it signs, as PEM.

Only what OpenSSL needs to accept a certificate, or to refuse it for one reason, is written; the keys protect nothing.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path

P = 2**256 - 2**224 + 2**192 + 2**96 - 1
N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
G = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
Point = tuple[int, int] | None


def add(p: Point, q: Point) -> Point:
    """Add two points of the curve; None is the neutral one."""
    if p is None or q is None:
        return p or q
    (x1, y1), (x2, y2) = p, q
    if x1 == x2 and (y1 + y2) % P == 0:
        return None
    slope = (3 * x1 * x1 - 3) * pow(2 * y1, -1, P) if p == q else (y2 - y1) * pow(x2 - x1, -1, P)
    x = (slope * slope - x1 - x2) % P
    return x, (slope * (x1 - x) - y1) % P


def times(k: int, p: Point) -> Point:
    """Add a point to itself k times."""
    total: Point = None
    while k:
        total = add(total, p) if k & 1 else total
        p, k = add(p, p), k >> 1
    return total


def der(tag: int, *parts: bytes) -> bytes:
    """Return one element: tag, length, content."""
    content = b"".join(parts)
    size = len(content)
    long = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag]) + (bytes([size]) if size < 128 else bytes([0x80 + len(long)]) + long) + content


def number(value: int) -> bytes:
    """Return an INTEGER."""
    return der(2, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def oid(text: str) -> bytes:
    """Return an OBJECT IDENTIFIER."""
    first, second, *rest = map(int, text.split("."))
    data = bytes([40 * first + second])
    for part in rest:
        digits = [part & 127]
        while part := part >> 7:
            digits.append(128 | part & 127)
        data += bytes(reversed(digits))
    return der(6, data)


ECDSA = der(0x30, oid("1.2.840.10045.4.3.2"))  # with SHA-256
CURVE = oid("1.2.840.10045.3.1.7")


class Key:
    """A private key."""

    def __init__(self) -> None:
        self.secret = secrets.randbelow(N - 1) + 1
        x, y = times(self.secret, G) or (0, 0)
        self.public = b"\x04" + x.to_bytes(32, "big") + y.to_bytes(32, "big")
        self.id = hashlib.sha1(self.public).digest()  # what RFC 5280 names a key by

    def info(self) -> bytes:
        """Return the public key as a certificate holds it."""
        return der(0x30, der(0x30, oid("1.2.840.10045.2.1"), CURVE), der(3, b"\0", self.public))

    def sign(self, data: bytes) -> bytes:
        """Return the ECDSA signature of data."""
        digest = int.from_bytes(hashlib.sha256(data).digest(), "big")
        k = secrets.randbelow(N - 1) + 1
        x, _ = times(k, G) or (0, 0)
        r = x % N
        return der(0x30, number(r), number(pow(k, -1, N) * (digest + r * self.secret) % N))

    def pem(self) -> str:
        """Return the key as PEM."""
        secret, public = der(4, self.secret.to_bytes(32, "big")), der(0xA1, der(3, b"\0", self.public))
        return pem("EC PRIVATE KEY", der(0x30, number(1), secret, der(0xA0, CURVE), public))


def pem(name: str, data: bytes) -> str:
    """Return DER as PEM."""
    return f"-----BEGIN {name}-----\n{base64.encodebytes(data).decode()}-----END {name}-----\n"


def extension(name: str, value: bytes, *, critical: bool = False) -> bytes:
    """Return one extension of a certificate."""
    return der(0x30, oid(f"2.5.29.{name}"), der(1, b"\xff") if critical else b"", der(4, value))


def called(name: str) -> bytes:
    """Return a distinguished name."""
    return der(0x30, der(0x31, der(0x30, oid("2.5.4.3"), der(12, name.encode()))))


def certificate(name: str, key: Key, issuer: str, signer: Key, *, days: tuple[int, int], extras: bytes) -> str:
    """Return a certificate as PEM, valid between two days counted from today."""
    moments = [datetime.now(UTC) + timedelta(days=day) for day in days]
    valid = der(0x30, *(der(23, moment.strftime("%y%m%d%H%M%SZ").encode()) for moment in moments))
    ids = extension("14", der(4, key.id)) + extension("35", der(0x30, der(0x80, signer.id)))
    body = der(
        0x30, der(0xA0, number(2)), number(secrets.randbits(64)), ECDSA, called(issuer), valid, called(name),
        key.info(), der(0xA3, der(0x30, ids, extras)),
    )  # fmt: skip
    return pem("CERTIFICATE", der(0x30, body, ECDSA, der(3, b"\0", signer.sign(body))))


CA = extension("19", der(0x30, der(1, b"\xff")), critical=True) + extension("15", der(3, b"\x02\x04"), critical=True)
HERE = extension("17", der(0x30, der(0x87, bytes([127, 0, 0, 1]))))
ELSEWHERE = extension("17", der(0x30, der(0x82, b"elsewhere.test")))


class Authority:
    """Signs certificates for 127.0.0.1; `path` is the file with its own, for who is to trust it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._key = folder, Key()
        self.path = folder / "authority.pem"
        self.path.write_text(certificate("ours", self._key, "ours", self._key, days=(-1, 9), extras=CA))

    def issue(self, kind: str) -> Path:
        """Return a file with a certificate and its key: `good`, `expired`, of another host (`elsewhere`) or `self`."""
        key, path = Key(), self._folder / f"{kind}.pem"
        days = (-9, -2) if kind == "expired" else (-1, 9)
        signer, issuer = (key, "mine") if kind == "self" else (self._key, "ours")
        extras = ELSEWHERE if kind == "elsewhere" else HERE
        path.write_text(certificate("mine", key, issuer, signer, days=days, extras=extras) + key.pem())
        return path
