"""What a sweep goes over: settings and their values, from texts such as `seed=0..9` or from a TOML or JSON file."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import orjson

from svr_async.errors import UsageError
from svr_async.fit.choices import Structure
from svr_async.fit.config import FitConfig

MOST = 256  # candidates
HINT = "as --sweep seed=0..9 --sweep sparsity=0.03,0.1"
STRUCTURE = ("groups", "sparsity", "common")  # naming one of them names the structure, which is not chosen then
WHOLE = {"seed": 0, "groups": 1, "top_k": 1}  # and the least of each
FRACTIONS = ("sparsity", "common", "diversity", "learning_rate", "weight_decay")
NAMES_OF = {
    "default": ("seed", "top_k", *STRUCTURE, "diversity"),
    "paper": ("seed", "top_k", "diversity", "learning_rate", "weight_decay"),
}


def read_sweep(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Return the values of each setting: of `name=values` texts and of files; UsageError in one line for anything else.

    Values are numbers with commas between, or a range of whole numbers as `0..9`, ends included.
    """
    found: dict[str, list[Any]] = {}
    for text in texts:
        for name, values in _parts(text).items():
            if name in found:
                raise UsageError(f"--sweep {name} is given twice", hint=HINT)
            found[name] = list(dict.fromkeys(_values(name, values)))
    return found


def _parts(text: str) -> dict[str, Any]:
    if Path(text).suffix in READERS:
        return _of_file(Path(text))
    name, equals, values = text.partition("=")
    if not equals:
        raise UsageError(f"--sweep {text!r} is neither NAME=VALUES nor a .toml or .json file", hint=HINT)
    return {name.strip(): values}


READERS: dict[str, Callable[[str], Any]] = {".toml": tomllib.loads, ".json": orjson.loads}


def _of_file(path: Path) -> dict[str, Any]:
    try:
        value = READERS[path.suffix](path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}", hint="check the path") from error
    except ValueError as error:
        raise UsageError(f"{path} is no {path.suffix[1:].upper()}: {error}", hint='a line is seed = "0..9"') from error
    if not isinstance(value, dict):
        raise UsageError(f"{path} holds no table of settings", hint='as {"seed": "0..9", "sparsity": [0.03, 0.1]}')
    return value


def _values(name: str, given: Any) -> list[Any]:
    if name not in (*WHOLE, *FRACTIONS):
        raise UsageError(f"--sweep knows no setting {name[:40]!r}", hint=f"one of {', '.join((*WHOLE, *FRACTIONS))}")
    items = given if isinstance(given, list) else [given]
    return [value for item in items for value in _spelt(name, item)]


def _spelt(name: str, item: Any) -> list[Any]:
    """Return the numbers of a text with commas and ranges, or of one number."""
    texts = item.split(",") if isinstance(item, str) else [str(item)]
    return [value for text in texts for value in _numbers(name, text.strip())]


def _numbers(name: str, text: str) -> list[Any]:
    try:
        if name not in WHOLE:
            return [_fraction(text)]
        first, dots, last = text.partition("..")
        low, high = int(first), int(last if dots else first)
    except ValueError as error:
        kind = "a whole number or a range as 0..9" if name in WHOLE else "a number >= 0"
        raise UsageError(f"--sweep {name} must be {kind} (got {text[:40]!r})", hint=HINT) from error
    if not WHOLE[name] <= low <= high or high - low >= MOST:
        raise UsageError(f"--sweep {name} must rise from {WHOLE[name]} or more (got {text[:40]!r})", hint=HINT)
    return list(range(low, high + 1))


def _fraction(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError(text)
    return value


def candidates(named: Mapping[str, Sequence[Any]], allowed: Sequence[str], preset: str) -> list[dict[str, Any]]:
    """Return every combination, the last setting varying fastest; UsageError where there are too many or none."""
    if other := [name for name in named if name not in allowed]:
        raise UsageError(f"--sweep {other[0]} says nothing to --preset {preset}", hint=f"one of {', '.join(allowed)}")
    count = math.prod(len(values) for values in named.values())
    if not named or not 1 <= count <= MOST:
        raise UsageError(f"--sweep must name 1 to {MOST} combinations (got {count if named else 0})", hint=HINT)
    return [dict(zip(named, values, strict=True)) for values in product(*named.values())]


def name_of(values: Mapping[str, Any]) -> str:
    """Return a combination in words that can be a folder's name, e.g. "seed=3 sparsity=0.1" with a comma between."""
    return ",".join(f"{name}={value:g}" for name, value in values.items())


def with_structure(fit: FitConfig, values: Mapping[str, Any]) -> FitConfig:
    """Return the settings of a fit with those of a combination that no flag names by itself."""
    own: dict[str, Any] = {
        name: values[name] for name in ("diversity", "learning_rate", "weight_decay") if name in values
    }
    if form := {name: values[name] for name in STRUCTURE if name in values}:
        own["structure"] = Structure(**form, top_k=min(fit.top_ks))
    return replace(fit, **own)
