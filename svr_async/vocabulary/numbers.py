"""Which values from outside are numbers: true and false are none, although Python counts them among the whole ones."""

from __future__ import annotations

import sys
from typing import TypeGuard


def is_whole(value: object, least: int = 0) -> TypeGuard[int]:
    """Tell whether a value is a whole number of at least `least`."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_number(value: object) -> TypeGuard[float]:
    """Tell whether a value is a whole number or a float, infinite and NaN included."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_finite(value: object) -> TypeGuard[float]:
    """Tell whether a value is a number that a float can hold: JSON has whole numbers of any length."""
    return is_number(value) and abs(value) <= sys.float_info.max
