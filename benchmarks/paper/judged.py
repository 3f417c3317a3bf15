"""Pairs judged on every check of the rules judge's grid, once: what learns from them is scored without a judge."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from svr_async.core.pair import PreferencePair
from svr_async.core.rubric import Rubric
from svr_async.judges.rules.registry import grid_rubrics
from svr_async.training.rounds import judge_calls
from svr_async.training.rounds.judge_calls import PoolTask, TrainingJudges
from svr_async.training.rounds.stages import digest_of

FOLD_SALT = "held-out"  # the default of `svr data split`: fold 0 is what `--share 0.2` holds out


def judged_on_all(out: Path, name: str, pairs: Sequence[PreferencePair], crew: TrainingJudges) -> np.ndarray:
    """Return z (pair, check) of all checks of the grid, from the file of an earlier run where it fits."""
    grid = grid_rubrics()
    digest = digest_of([[p.id, p.chosen, p.rejected] for p in pairs], [rubric.id for rubric in grid])
    path = out / "judged" / f"{name}.npz"
    if path.exists():
        with np.load(path) as held:
            if str(held["digest"]) == digest:
                return np.asarray(held["z"])
    say(f"judging {len(pairs)} pairs of {name} on {len(grid)} checks")
    z = asyncio.run(_table(crew, pairs, grid))
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, z=z, digest=digest)
    return z


async def _table(crew: TrainingJudges, pairs: Sequence[PreferencePair], rubrics: Sequence[Rubric]) -> np.ndarray:
    """Return z (pair, rubric) of pairs judged on all of these rubrics; NaN where the judge abstained."""
    crew = replace(crew, rubrics_per_call=max(1, len(rubrics)))
    found, _ = await judge_calls.judge_pools(crew, [PoolTask(pair, rubrics) for pair in pairs])
    return np.array([[z.get(rubric.id, np.nan) for rubric in rubrics] for z in found], dtype=np.float32)


def say(text: str) -> None:
    """Report progress."""
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)
