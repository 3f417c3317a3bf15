"""What people should label next, written with the texts of the run's data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svr_async.errors import UsageError
from svr_async.evaluation.label_files import write_sheet
from svr_async.evaluation.people import Label, worth_labelling
from svr_async.evaluation.run_folder import Run
from svr_async.evaluation.setup import texts_of_run


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """What people were given to label: the file, how many items, chosen `by` what, and whether with their texts."""

    out: Path
    items: int
    by: Mapping[str, int]
    with_texts: bool

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"out": str(self.out), "items": self.items, "by": dict(self.by), "with_texts": self.with_texts}

    def in_words(self) -> str:
        """Say in a line what was written, and what is to be done with it."""
        why = ", ".join(f"{n} by {name}" for name, n in sorted(self.by.items()))
        lacking = "" if self.with_texts else "; without texts, which --data PATH adds"
        return f"{self.items} items to label in {self.out} ({why}){lacking}; fill in label: a, b or tie"


def write_next(
    run: Run,
    count: int,
    out: Path,
    *,
    labels: Sequence[Label] = (),
    random: bool = False,
    data: Path | None = None,
    seed: int = 0,
) -> Handed:
    """Write up to `count` items to label to `out`, and return which; those in `labels` are left out.

    A random draw leaves out only what chance chose before, so that it stands for all items. Texts are those of `data`,
    or of the run's own data where that is still there. UsageError where nothing is left to label.
    """
    done = frozenset(one.id for one in labels if one.by_chance or not random)
    picks = worth_labelling(run.items, count, done=done, random=random, salt=f"svr-labels-{seed}")
    if not picks:
        raise UsageError(f"{run.path} has no item left to label", hint="every one with a verdict is labelled")
    texts = texts_of_run(run, [pick.item.id for pick in picks], data or _own_data(run))
    write_sheet(out, picks, texts)
    return Handed(out=out, items=len(picks), by=Counter(pick.why for pick in picks), with_texts=bool(texts))


def _own_data(run: Run) -> Path | None:
    """Return the file that the run was made of, where its settings name one that is there."""
    config: Mapping[str, Any] = run.manifest.get("config") or {}
    named = config.get("data")
    return Path(named) if isinstance(named, str) and named != "-" and Path(named).exists() else None
