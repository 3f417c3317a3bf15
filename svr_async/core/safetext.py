"""Untrusted text made safe to look at: control and bidi characters shown or stripped, long texts capped."""

from __future__ import annotations

import json
import re

# C0 and C1 controls, invisible marks, bidi embeddings and isolates, invisible operators, tags, lone surrogates.
# Zero-width joiners stay: scripts and emoji need them. Tab and newline stay as well.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
# A sequence's text ends at any other control, so that unfinished ones cost linear time.
_ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, erase
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)"  # OSC: titles, links (OSC 8), clipboard
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x80-\x9f]*(?:\x1b\\|\x9c)"  # DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]"  # two-character escapes
)


def unix_newlines(text: str) -> str:
    """Return the text with CRLF, lone CR and the Unicode line separators as newlines."""
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\u2028", "\n").replace("\u2029", "\n\n")


def visible(text: str) -> str:
    """Return the text with every hidden character replaced by its code point in brackets, as ⟨U+202E⟩."""
    return _HIDDEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", unix_newlines(text))


def for_terminal(text: str) -> str:
    """Return the text without ANSI sequences and hidden characters, so that it cannot steer a terminal."""
    return _HIDDEN.sub("", unix_newlines(_ANSI.sub("", text)))


def json_for_terminal(document: bytes) -> str:
    """Return a JSON document of the same value that cannot steer a terminal: hidden characters are escaped."""
    return _HIDDEN.sub(lambda found: json.dumps(found[0])[1:-1], document.decode())


def one_line(text: str, limit: int = 80) -> str:
    """Return the text for one line of a terminal: stripped of controls, blanks joined, cut at `limit`."""
    joined = " ".join(for_terminal(text).split())
    return joined if len(joined) <= limit else joined[: limit - 1].rstrip() + "…"


def capped(text: str, limit: int) -> tuple[str, int]:
    """Return the first `limit` characters and how many are left out; a tail shorter than a tenth is kept."""
    if len(text) <= limit * 1.1:
        return text, 0
    return text[:limit], len(text) - limit
