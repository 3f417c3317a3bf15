"""What a reproduction is made of: which data, judges, banks and limits, and where it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from svr_async.errors import UsageError
from svr_async.judges.limits import JudgeLimits

BENCHMARKS = ("rubricbench", "rewardbench", "rewardbench2", "rmbench")
OWN = "pairs"  # pairs of any origin, for recipes of one's own
TRAIN = "train"
ENDINGS = (".jsonl", ".json", ".csv", ".tsv", ".parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproSettings:
    """A reproduction. `data` are files by benchmark, and by `train`; what is not named is fetched by its adapter.

    `judges` are judges by the role that recipes name, `judge` is one in the place of all others. `banks` are trained
    banks by name, which are then not trained. `adapter` reads the training pairs; `decontaminate` leaves those out that
    overlap with the benchmarks of `data`. `limit` is of the pairs of each benchmark, `train_limit` of the training's.
    Figures are drawn into the folder `figures`.
    """

    out: Path
    data: Mapping[str, Path] = field(default_factory=dict)
    adapter: str = "pairs"
    judge: str = ""
    judges: Mapping[str, str] = field(default_factory=dict)
    banks: Mapping[str, str] = field(default_factory=dict)
    base_url: str = ""
    limits: JudgeLimits = field(default_factory=JudgeLimits)
    preset: str = "default"
    rounds: int = 3
    decontaminate: bool = False
    limit: str | None = None
    train_limit: str | None = None
    recipes: Path | None = None
    figures: Path | None = None


def data_files(named: Sequence[str]) -> dict[str, Path]:
    """Return files by benchmark and `train`, from NAME=PATH and folders that hold files of such names.

    UsageError for a name that is no benchmark, and for a folder that holds none of them.
    """
    known, found = (*BENCHMARKS, OWN, TRAIN), dict[str, Path]()
    for text in named:
        name, mark, path = text.partition("=")
        if mark and name in known:
            found[name] = Path(path)
            continue
        inside = {name: one for name in known for one in [_inside(Path(text), name)] if one is not None}
        if not inside:
            hint = f"name files as rubricbench=PATH, or a folder with {', '.join(known)} (.jsonl, .json, .parquet …)"
            raise UsageError(f"--data {text} holds no benchmark", hint=hint)
        found |= inside
    return found


def _inside(folder: Path, name: str) -> Path | None:
    names = [folder / f"{name}{ending}{packed}" for ending in ENDINGS for packed in ("", ".gz")]
    return next((path for path in [folder / name, *names] if path.exists()), None)


def by_name(named: Sequence[str], flag: str, known: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the value that stands alone ("" where none does) and those of NAME=VALUE; UsageError for an odd name.

    What is before the first = is a name where it is one of `known`; an address with = in it stands alone.
    """
    alone, found = "", dict[str, str]()
    for text in named:
        name, mark, value = text.partition("=")
        if mark and value and name in known:
            found[name] = value
        elif mark and name.replace("-", "").replace(".", "").replace("_", "").isalnum():
            raise UsageError(f"--{flag} {text} names nobody", hint=f"there are {', '.join(known)}")
        elif alone:
            raise UsageError(f"--{flag} {alone} and --{flag} {text} both stand for all", hint="write NAME=… for one")
        else:
            alone = text
    return alone, found
