"""Pairs in two files, train.jsonl and test.jsonl, with each prompt on one side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import orjson

from svr_async.errors import UsageError
from svr_async.vocabulary.atomic import write_atomic
from svr_async.vocabulary.pair import PreferencePair
from svr_async.vocabulary.splits import split_by_prompt


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
        write_atomic(out / f"{name}.jsonl", b"".join(_line(pair) for pair in side))
    return {name: len(side) for name, side in sides.items()}


def _line(pair: PreferencePair) -> bytes:
    """Return a pair as a line in the format that `pairs` reads."""
    messages = [{"role": turn.role, "content": turn.content} for turn in pair.prompt]
    row = {
        "id": pair.id,
        "prompt": messages,
        "response_a": pair.response_a,
        "response_b": pair.response_b,
        "label": "A" if pair.chosen_first else "B",
        "domain": pair.domain,
        "subset": pair.subset,
    }
    return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
