"""Fences: candidate text is untrusted, so it stands between lines that it cannot forge.

The nonce in those lines is a hash of the texts themselves: the same pair gives the same bytes (so the cache works), and
no candidate can contain it, since it would have to contain a hash of itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

NONCE_SALT = "svr-fence-1"


def clean(text: str) -> str:
    """Return text that can be sent as UTF-8: lone surrogates and NUL become U+FFFD."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "\ufffd")


def nonce_of(texts: Sequence[str]) -> str:
    """Return 16 hex digits derived from the texts that occur in none of them."""
    for counter in range(64):
        digest = hashlib.blake2b(f"{NONCE_SALT}:{counter}".encode(), digest_size=8)
        for text in texts:
            data = text.encode("utf-8", "replace")
            digest.update(len(data).to_bytes(8, "big") + data)
        nonce = digest.hexdigest()
        if not any(nonce in text for text in texts):
            return nonce
    raise AssertionError("a text contains 64 hashes of itself")


def fence(nonce: str, name: str, text: str) -> str:
    """Return the text between its opening and closing lines."""
    return f"<<svr:{nonce}:{name}>>\n{text}\n<<svr:{nonce}:END>>"
