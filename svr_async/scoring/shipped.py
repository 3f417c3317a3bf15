"""The bank that ships with the package, trained offline by the `rules` judge; its card names its data and licences."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

NAME = "default"  # what stands in the place of a folder wherever a bank is named
FOLDER = "default_bank"

# Whether `svr eval --judge rules` uses it where no bank, rubrics or method is named. `benchmarks/make_default_bank.py`
# compares it with the general checks on sets that neither was trained on and on the sample, and says which it must be.
STANDS_IN = False


def shipped_folder() -> Path:
    """Return where the shipped bank lies."""
    return Path(str(files("svr_async.scoring") / FOLDER))
