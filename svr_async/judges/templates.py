"""Prompt templates: plain text files beside the code, replaceable by a folder of the user's own, known by digest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from svr_async.errors import ConfigError

JUDGING = ("direct", "compare", "compare_overall", "self_rubrics", "pointwise")
AUTHORING = ("contrastive", "descriptive", "probe", "rephrase")
NAMES = JUDGING + AUTHORING
DECIDING = ("decide",)  # what decision judges are shown, who have no use for the others
EVERY = NAMES + DECIDING
DIVIDER = "=== closing ==="


@dataclass(frozen=True, slots=True)
class Template:
    """The instructions that open a request and the closing lines that follow the material."""

    instructions: str
    closing: str

    def close(self, nonce: str) -> str:
        """Return the closing lines with the request's nonce."""
        return self.closing.replace("{nonce}", nonce)


@dataclass(frozen=True, slots=True)
class Templates:
    """All templates by name, with the digest of each text."""

    by_name: Mapping[str, Template]
    digests: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Template:
        return self.by_name[name]


def load_templates(folder: Path | None = None, names: Sequence[str] = NAMES) -> Templates:
    """Load the shipped templates, each replaced by `folder/NAME.txt` where there is one; ConfigError on a bad one."""
    texts = {name: _shipped(name) for name in names}
    if folder is not None:
        texts |= {name: text for name, text in _replacements(folder).items() if name in names}
    digests = {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in texts.items()}
    return Templates({name: _parse(name, text) for name, text in texts.items()}, digests)


def _shipped(name: str) -> str:
    return resources.files("svr_async.judges").joinpath(f"prompts/{name}.txt").read_text("utf-8")


def _replacements(folder: Path) -> dict[str, str]:
    if not folder.is_dir():
        raise ConfigError(f"--prompts {folder} is not a folder", hint=f"put any of {', '.join(EVERY)}.txt into one")
    found = {path.stem: _text_of(path) for path in sorted(folder.glob("*.txt"))}
    unknown = sorted(set(found) - set(EVERY))
    if unknown or not found:
        what = f"{unknown[0]}.txt, which no role uses" if unknown else "no prompt"
        raise ConfigError(f"--prompts {folder} holds {what}", hint=f"the names are {', '.join(EVERY)}")
    return found


def _text_of(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the prompt {path}: {error}") from error


def _parse(name: str, text: str) -> Template:
    instructions, divider, closing = text.partition(DIVIDER)
    if not divider or not instructions.strip() or not closing.strip():
        raise ConfigError(
            f"the prompt {name} needs instructions, a line '{DIVIDER}' and closing lines",
            hint="see the shipped prompts",
        )
    return Template(instructions.strip(), closing.strip())
