"""Pairs in two files, train.jsonl and test.jsonl, with each prompt on one side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from svr_async.adapters.written import write_pairs
from svr_async.core.dev_pairs import split_by_prompt
from svr_async.core.pair import PreferencePair
from svr_async.errors import UsageError


def write_split(pairs: Sequence[PreferencePair], share: float, seed: str, out: Path) -> dict[str, int]:
    """Write a share of the prompts' pairs into `out`/test.jsonl, the rest into train.jsonl, and return the counts.

    UsageError where a side is empty.
    """
    train, test = split_by_prompt(pairs, share, salt=f"held-out{seed}")
    if not train or not test:
        raise UsageError(
            f"--share {share:g} puts {len(train)} pairs into train and {len(test)} into test",
            hint="give more pairs, of more prompts, or another share",
        )
    sides = {"train": train, "test": test}
    for name, side in sides.items():
        write_pairs(out / f"{name}.jsonl", side)
    return {name: len(side) for name, side in sides.items()}
