"""TOML of files that may hold anything: whatever is wrong with one is a ValueError in a line."""

from __future__ import annotations

import tomllib
from typing import Any


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text; ValueError says what is wrong, also of values and digits without end."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:
        raise ValueError("it holds a number of too many digits") from None
    except RecursionError:
        raise ValueError("its values are nested too deep") from None
