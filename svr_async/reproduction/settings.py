"""Settings of a reproduction, and the reading of its command's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from svr_async.adapters import ADAPTERS
from svr_async.errors import UsageError
from svr_async.judges.limits import JudgeLimits

BENCHMARKS = ("rubricbench", "rewardbench", "rewardbench2", "rmbench")
TRAIN = "train"
ENDINGS = (".jsonl", ".json", ".csv", ".tsv", ".parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproSettings:
    """A reproduction.

    `data` maps benchmarks to files; others are found in the cache of `svr data fetch`. `train` are the pairs of the
    banks, read by `adapter`. `judge` takes every role that has a default, `judges` are by role. `banks` are trained
    banks by name. `limit` applies to the pairs of each benchmark.
    """

    out: Path
    data: Mapping[str, Path] = field(default_factory=dict)
    train: Path | None = None
    adapter: str = "pairs"
    judge: str = ""
    judges: Mapping[str, str] = field(default_factory=dict)
    banks: Mapping[str, str] = field(default_factory=dict)
    base_url: str = ""
    limits: JudgeLimits = field(default_factory=JudgeLimits)
    preset: str = "default"
    decontaminate: bool = False
    limit: str | None = None
    figures: Path | None = None


def data_files(named: Sequence[str]) -> dict[str, Path]:
    """Return files by benchmark and `train`, from NAME=PATH and from folders with files of these names."""
    known, found = (*BENCHMARKS, TRAIN), dict[str, Path]()
    for text in named:
        name, mark, path = text.partition("=")
        if mark and name in known:
            found[name] = Path(path)
            continue
        inside = {name: one for name in known if (one := _inside(Path(text), name)) is not None}
        if not inside:
            hint = f"name files as rubricbench=PATH, or a folder with {', '.join(known)} (.jsonl, .json, .parquet …)"
            raise UsageError(f"--data {text} holds no benchmark", hint=hint)
        found |= inside
    return found


def _inside(folder: Path, name: str) -> Path | None:
    names = [folder / f"{name}{ending}{packed}" for ending in ENDINGS for packed in ("", ".gz")]
    return next((path for path in [folder / name, *names] if path.exists()), None)


def training_source(text: str, data: Mapping[str, Path]) -> tuple[str, Path | None]:
    """Return the adapter and the file of `--train`: a path, NAME of a training set, or NAME=PATH.

    A NAME alone is a set that `svr data fetch` downloads; without --train `data` may have a file `train`.
    """
    name, mark, path = text.partition("=")
    if name in ADAPTERS and ADAPTERS[name].training:
        return name, Path(path) if mark else None
    return "pairs", Path(text) if text else data.get(TRAIN)


def by_name(named: Sequence[str], flag: str, known: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the value without a name ("" if missing) and those of NAME=VALUE; UsageError for an unknown name.

    The text before the first = is a name if it is one of `known`; an address may contain = as well.
    """
    alone, found = "", dict[str, str]()
    for text in named:
        name, mark, value = text.partition("=")
        if mark and value and name in known:
            found[name] = value
        elif mark and name.replace("-", "").replace(".", "").replace("_", "").isalnum():
            raise UsageError(f"--{flag} {text}: unknown name {name!r}", hint=f"there are {', '.join(known)}")
        elif alone:
            raise UsageError(f"--{flag} {alone} and --{flag} {text} have no name", hint="write NAME=… for one of them")
        else:
            alone = text
    return alone, found
