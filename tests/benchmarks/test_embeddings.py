"""Groups by embeddings: found where embeddings tell what was mined, scored on held-out prompts, refused for others."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from svr_async.fit.arrays import FitArrays

SCRIPTS = Path(__file__).parents[2] / "benchmarks/paper"
PROMPTS, RUBRICS = 160, 6


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script as a module."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("embeddings")


def planted() -> tuple[FitArrays, np.ndarray]:
    """Return pairs of two kinds of prompts, each with one rubric that decides there and misleads elsewhere.

    Four more rubrics were mined anywhere and tell nothing. The words say nothing of the kind, the vectors do.
    """
    rng = np.random.default_rng(0)
    kind = np.arange(PROMPTS) % 2
    vectors = rng.normal(size=(PROMPTS, 6)) + 3 * kind[:, None] * np.eye(6)[0]
    mined = rng.random((RUBRICS, PROMPTS)) < 0.3
    mined[:2] = kind == np.arange(2)[:, None]
    decides = np.where(np.arange(2) == np.repeat(kind, 2)[:, None], 0.75, -0.75)
    idle = rng.choice([-0.25, 0.25], (2 * PROMPTS, RUBRICS - 2))
    arrays = FitArrays(
        n_rubrics=RUBRICS,
        n_features=24,
        feature_indptr=2 * np.arange(PROMPTS + 1),
        feature_index=np.sort([rng.choice(24, 2, replace=False) for _ in range(PROMPTS)]).astype(np.int32).ravel(),
        feature_value=np.ones(2 * PROMPTS, np.float32),
        pair_prompt=np.repeat(np.arange(PROMPTS), 2),
        z_indptr=RUBRICS * np.arange(2 * PROMPTS + 1),
        z_rubric=np.tile(np.arange(RUBRICS, dtype=np.int32), 2 * PROMPTS),
        z_delta=np.hstack([decides, idle]).astype(np.float32).ravel(),
        source_indptr=np.concatenate([[0], np.cumsum(mined.sum(axis=1))]),
        source_prompt=np.nonzero(mined)[1].astype(np.int32),
    )
    return arrays, vectors


def test_vectors_that_tell_the_kind_of_a_prompt_are_worth_what_they_should(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held-out prompts are decided rightly by groups of vectors, and by chance without groups."""
    monkeypatch.setattr(script, "FOLDS", 2)
    monkeypatch.setattr(script, "PENALTIES", script.PENALTIES[:1])
    arrays, vectors = planted()
    found = script.compared(arrays, vectors, [1], 0)
    assert found.told[script.VECTORS].mean() > found.told[script.WORDS].mean() + 0.2
    assert found.points[script.VECTORS, 1].mean() > 0.85
    assert found.points[script.PLAIN, 1].mean() < 0.6
    assert all(form.startswith("2") for form in found.groups[script.VECTORS])
    assert set(found.groups[script.WORDS]) == {"1"}
    rows = script.table([found, found], arrays.pair_prompt, [1]).splitlines()
    assert [row.split(" | ")[0] for row in rows[2:]] == [f"| {name}" for name in script.NAMES]
