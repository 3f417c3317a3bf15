"""The tree of errors: each says what happened, with which value, and how to fix it.

`str(error)` says what happened; `error.hint` says how to fix it, and is a note of the exception, which tracebacks and
notebooks show; `error.one_line()` is both.

    SvrError                      anything this package raises on purpose
    ├── UsageError                a flag, a file or a config the user can correct        exit 2
    │   ├── DataError             a data set that cannot be read or breaks its schema    exit 2
    │   └── ConfigError           a config file, profile or rubric file that is wrong    exit 2
    ├── CoverageError             the run finished, but too few items were scored        exit 3
    ├── RefusedError              key, quota, model, budget: asking again will not help  exit 4
    │   ├── AuthError             the endpoint refused the key
    │   ├── QuotaError            the account has no credit left
    │   ├── ModelError            the endpoint does not serve this model or path
    │   └── BudgetError           --budget or --max-calls was reached
    ├── StorageError              the cache or the run folder cannot be read or written   exit 5
    ├── EndpointDownError         no success from the endpoint for too long              exit 6
    ├── ArtefactError             a bank, store or cache that fails its checks            exit 7
    ├── DegenerateFitError        nothing to learn from, or a fit that is not finite     exit 8
    └── GateError                 a run lost to its baseline by more than was tolerated  exit 9

A failed *item* is not an exception: it is an `Outcome` that is counted.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable


class SvrError(Exception):
    """Anything this package raises on purpose; `exit_code` is what the command line returns."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            self.add_note(f"To fix it: {hint}")

    def one_line(self) -> str:
        """Return message and hint as one line for a terminal."""
        text = f"{self.message} — {self.hint}" if self.hint else self.message
        return " ".join(text.split())


class UsageError(SvrError):
    """A flag, a file or a config that the user can correct."""

    exit_code = 2


class DataError(UsageError):
    """A data set that cannot be read or breaks its schema."""


class ConfigError(UsageError):
    """A config file, judge profile or rubric file that is wrong."""


class CoverageError(SvrError):
    """The run finished with fewer scored items than `--min-coverage` asks for."""

    exit_code = 3


class RefusedError(SvrError):
    """Key, quota, model or budget: sending the same request again will not help."""

    exit_code = 4


class AuthError(RefusedError):
    """The endpoint refused the key."""


class QuotaError(RefusedError):
    """The account behind the key has no credit left."""


class ModelError(RefusedError):
    """The endpoint does not serve this model, or nothing answers at this path."""


class BudgetError(RefusedError):
    """`--budget` or `--max-calls` was reached."""


class StorageError(SvrError):
    """The cache or the run folder cannot be read or written."""

    exit_code = 5


class EndpointDownError(SvrError):
    """The endpoint gave no success for longer than `--give-up-after`."""

    exit_code = 6


class ArtefactError(SvrError):
    """A bank, feature store or cache that fails its checks."""

    exit_code = 7


class DegenerateFitError(SvrError):
    """There is nothing to learn from, or the fit is not finite."""

    exit_code = 8


class GateError(SvrError):
    """A run is worse than its baseline by more than the margin that was tolerated."""

    exit_code = 9


def system_words(error: OSError) -> str:
    """Return the reason of a failed system call in a few words, as `Connection refused`."""
    known = os.strerror(error.errno) if error.errno and error.errno > 0 else ""
    return known if known and "Unknown error" not in known else str(error.strerror or error)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `did you mean NAME?` with the most similar known name; "" without a similar one."""
    found = difflib.get_close_matches(name, known, 1, cutoff=0.4)
    return f"did you mean {found[0]}?" if found else ""
