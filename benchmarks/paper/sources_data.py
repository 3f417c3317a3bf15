"""What `sources.py` keeps in its work folder, and the judged sources as arrays."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from sources_read import Source, read_pairs

from svr_async.core.pair import prompt_text

LISTED = "sources.json"
ARRAYS = ("z", "longer", "general", "prompt")


def listed(work: Path) -> list[Source]:
    """Return the sources that `prepare` wrote; SystemExit if it did not run."""
    if not (work / LISTED).exists():
        raise SystemExit(f"{work} has no {LISTED}: run `sources.py prepare --data DATA --out {work}` first")
    return [Source(**row) for row in json.loads((work / LISTED).read_text("utf-8"))]


def pairs_path(work: Path, name: str) -> Path:
    """Return where the pairs of a source are."""
    return work / "pairs" / f"{name}.jsonl"


def general_path(work: Path, name: str) -> Path:
    """Return where the margins of the general checks are."""
    return work / "general" / f"{name}.npy"


@dataclass(frozen=True, kw_only=True, eq=False)
class Judged:
    """A source with its judgements; pairs along the first axis of everything.

    `z` (pair, check) is chosen minus rejected, 0 where the judge abstained. `longer` is how many characters the chosen
    response has more, `general` the margin of the general checks. `prompt` numbers prompts across all sources.
    """

    source: Source
    z: np.ndarray
    longer: np.ndarray
    general: np.ndarray
    prompt: np.ndarray
    texts: tuple[str, ...]

    def rows(self, kept: np.ndarray) -> Judged:
        """Return the pairs that a mask or list of places keeps."""
        parts = {name: getattr(self, name)[kept] for name in ARRAYS}
        texts = tuple(np.array(self.texts, object)[kept])
        return replace(self, texts=texts, **parts)


def load(work: Path) -> list[Judged]:
    """Return every source with what `judge` kept of it."""
    numbers: dict[str, int] = {}
    return [_loaded(work, source, numbers) for source in listed(work)]


def _loaded(work: Path, source: Source, numbers: dict[str, int]) -> Judged:
    pairs = read_pairs(pairs_path(work, source.name))
    texts = tuple(prompt_text(pair.prompt) for pair in pairs)
    with np.load(work / "judged" / f"{source.name}.npz") as held:
        z = np.nan_to_num(held["z"])
    return Judged(
        source=source,
        z=z,
        longer=np.array([float(len(pair.chosen) - len(pair.rejected)) for pair in pairs]),
        general=np.load(general_path(work, source.name)),
        prompt=np.array([numbers.setdefault(text, len(numbers)) for text in texts]),
        texts=texts,
    )


def joined(sources: Sequence[Judged]) -> Judged:
    """Return several sources as one, by the name of their first."""
    parts = {name: np.concatenate([getattr(one, name) for one in sources]) for name in ARRAYS}
    return replace(sources[0], texts=tuple(text for one in sources for text in one.texts), **parts)


@lru_cache(maxsize=512)
def without_prompts_of(judged: Judged, *others: Judged) -> Judged:
    """Return a source without the pairs whose prompt others have too; itself, where there are none."""
    shared = np.isin(judged.prompt, np.concatenate([other.prompt for other in others]))
    return judged.rows(~shared) if shared.any() else judged
