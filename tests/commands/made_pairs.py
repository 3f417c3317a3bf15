"""What tests of training commands need: files of pairs, the files of a folder, and the one line of an error."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import orjson
import pytest

from svr_async.simulation.world import World, train_row

N = 60
PATIENCE_S = 240  # for a process that trains, on a machine that does much else; it takes ten seconds
TRAIN = ("train", "pairs.jsonl", "--judge", "sim", "--out", "out", "--rounds", "2", "--pool-size", "9", "-q")


def write_planted(path: Path, count: int = N) -> Path:
    """Write planted training pairs, each line a pair."""
    rows = [orjson.dumps(train_row(item)) for item in World().pairs(count, "train")]
    path.write_bytes(b"\n".join(rows) + b"\n")
    return path


def write_made(path: Path, count: int = 120) -> Path:
    """Write pairs that checks can tell apart: lists, lengths and figures were asked for; prompts repeat."""
    rows = []
    for number, (fruit, place) in zip(range(count), product(FRUITS, PLACES), strict=False):
        listed = "\n".join(f"- {fruit} from {place}, kind {n}" for n in range(1, 4 + number % 3))
        plain = f"There are some kinds of {fruit}. They come from {place}. " * (1 + number % 4)
        rows.append(
            {
                "id": f"made-{number}",
                "prompt": f"List three or more kinds of {fruit} that grow near {place}, as bullets.",
                "chosen": f"**{fruit}**\n\n{listed}",
                "rejected": plain.strip(),
            }
        )
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


FRUITS = ("apples", "pears", "plums", "cherries", "quinces", "medlars", "figs", "grapes", "limes", "dates")
PLACES = ("the river", "the coast", "a hill", "the old mill", "our village", "a lake", "the moor", "a wood", "the dyke",
          "the pass", "a canal", "the fen")  # fmt: skip


def write_candidates(path: Path, *texts: str, checks: int = 2) -> Path:
    """Write candidate rubrics as `svr stages induce` does; without texts, some that checks decide."""
    named = [{"name": name, "args": {}} for name in ("bullet_list", "bold")[:checks]]
    rubrics: list[dict[str, Any]] = [{"text": text} for text in texts] or [
        {"text": f"Check {n}.", "check": c} for n, c in enumerate(named)
    ]
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rubrics))
    return path


def files_of(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder, by relative path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def last_line(capsys: pytest.CaptureFixture[str]) -> str:
    """Return stderr, which must be one line and no traceback."""
    said = capsys.readouterr().err.strip()
    assert "Traceback" not in said
    assert len(said.splitlines()) == 1, said
    return said
