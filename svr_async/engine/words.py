"""What an engine tells a person while it asks: tries that are repeated, long waits, and what is said once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class About(StrEnum):
    """What a word is about."""

    RETRY = "retry"  # a try is going to be repeated
    WAIT = "wait"  # no call leaves for long
    NOTE = "note"  # said once in a run


@dataclass(frozen=True, slots=True)
class Word:
    """One line for a person, and what it is about."""

    about: About
    text: str


Hear: TypeAlias = Callable[[Word], None]
