"""The flags of `svr train`, `svr induce` and `svr judge` as the settings of a training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from svr_async.commands.options import known_of, with_limits
from svr_async.training.running.settings import TrainSettings
from svr_async.training.running.stage import stages_beside


def train_settings(flags: Mapping[str, Any]) -> TrainSettings:
    """Return what `svr train` is to do."""
    return TrainSettings(**known_of(TrainSettings, with_limits({**flags, "dry_run": False})))


def stage_settings(flags: Mapping[str, Any]) -> TrainSettings:
    """Return what `svr induce` or `svr judge` is to do: a training of one round that keeps its stages beside --out."""
    whole = train_settings(flags)
    ablate = ("induction",) if flags.get("descriptive") else ()
    return replace(whole, out=stages_beside(Path(flags["out"])), rounds=1, ablate=ablate)
