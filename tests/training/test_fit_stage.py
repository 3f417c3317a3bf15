"""A fit as a stage: read back if finished; cut off, it begins again and gives the same bytes."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import FitConfig
from svr_async.fit.history import EpochRecord, FitResult
from svr_async.fit.training import fit
from svr_async.training.rounds.stages import Stages, kept_fit

CONFIG = FitConfig(hidden=4, epochs=3, batch=16)
INPUTS = ("fit", CONFIG.as_json())


class Cut(Exception):  # noqa: N818  (it stands for a kill)
    """The fit is cut off here."""


def made_arrays() -> FitArrays:
    """Return 24 pairs, each of a prompt with one of six words, judged on two of four rubrics."""
    rng = np.random.default_rng(3)
    return FitArrays(
        n_rubrics=4,
        n_features=6,
        feature_indptr=np.arange(25),
        feature_index=np.arange(24) % 6,
        feature_value=np.ones(24, np.float32),
        pair_prompt=np.arange(24),
        z_indptr=np.arange(25) * 2,
        z_rubric=np.tile([0, 1, 2, 3], 12),
        z_delta=rng.choice(np.array([-0.25, 0.75, 1.25], np.float32), 48),
    )


def run(
    stages: Stages, *, after: int = 99, inputs: tuple[str, str | dict[str, Any]] = INPUTS
) -> tuple[FitResult | None, list[Any]]:
    """Fit; return the result and the epochs that were descended, or only those where it is cut off after some."""
    told: list[int] = []

    def on_epoch(record: EpochRecord) -> None:
        if len(told) == after:
            raise Cut
        told.append(record.epoch)

    try:
        return kept_fit(stages, "fit-1", inputs, partial(fit, made_arrays(), None, CONFIG), on_epoch), told
    except Cut:
        return None, told


def same(first: FitResult | None, second: FitResult | None) -> bool:
    """Whether two results are equal to the last bit."""
    assert first is not None
    assert second is not None
    assert first is not None
    assert second is not None
    arrays = zip(first.selector.tensors().items(), second.selector.tensors().items(), strict=True)
    equal = all(a[0] == b[0] and a[1].tobytes() == b[1].tobytes() for a, b in arrays)
    return equal and first.history == second.history and first.best_epoch == second.best_epoch


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> FitResult | None:
    """Fit once without a stop."""
    return run(Stages(tmp_path_factory.mktemp("whole")))[0]


def test_a_finished_fit_is_read_back(tmp_path: Path, whole: FitResult | None) -> None:
    """The second time no epoch is descended, and the result is the same in all its parts."""
    stages = Stages(tmp_path)
    first, told = run(stages)
    again, silent = run(stages)
    assert (told, silent) == ([1, 2, 3], [])
    assert same(first, whole)
    assert same(again, whole)
    assert again is not None
    assert first is not None
    assert (again.device, again.warnings) == (first.device, first.warnings)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fit-1.json", "fit-1.npz"]


def test_a_fit_that_was_cut_off_begins_again_with_the_same_bytes(tmp_path: Path, whole: FitResult | None) -> None:
    """Cut off in its second epoch, also by a training with other inputs, the result is that of an unbroken fit."""
    stages = Stages(tmp_path)
    assert run(stages, after=1) == (None, [1])
    assert same(run(stages)[0], whole)
    assert same(run(stages, inputs=("fit", "others"))[0], whole)
