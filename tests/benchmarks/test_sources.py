"""One source left out: what is learned comes from the others alone, and a setting is chosen inside them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

SCRIPTS = Path(__file__).parents[2] / "benchmarks/paper"

Module = Callable[[str], ModuleType]


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Module:
    """Return a function that imports a script by name."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    monkeypatch.setattr(sys, "path", [*sys.path])
    return importlib.import_module


def made(
    module: Module, name: str, effect: list[float], *, pairs: int = 200, seed: int = 0, counted: bool = True
) -> Any:
    """Return a judged source whose checks are right for the chosen response more often by `effect`."""
    rng = np.random.default_rng([seed, *name.encode()])
    z = np.where(rng.random((pairs, len(effect))) < 0.5 + np.array(effect) / 2, 1.25, -1.25).astype(np.float32)
    return module("sources_data").Judged(
        source=module("sources_read").Source(name=name, family=name, counted=counted),
        z=z,
        longer=rng.normal(size=pairs),
        general=rng.normal(size=pairs),
        prompt=np.arange(pairs) + 1000 * int.from_bytes(name.encode()),
        texts=tuple(f"{name} {number}" for number in range(pairs)),
    )


def test_a_source_has_no_say_in_what_it_is_asked_by(module: Module) -> None:
    """Turning the labels of a source round turns its points round: nothing was learned from it."""
    score, learners = module("sources_score"), module("sources_learners")
    sources = [made(module, name, [0.4, 0.1, 0.0]) for name in "abcd"]
    turned = [*sources[:3], made(module, "d", [0.4, 0.1, 0.0])]
    np.negative(turned[3].z, out=turned[3].z)
    learner = learners.weighing(learners.cautious([learners.ridge(0.1, doubt=1.0), learners.ridge(3.0, doubt=1.0)]))
    first, second = (score.left_out(learner, part, score.APART["source"]) for part in (sources, turned))
    assert first["d"].mean() > 0.6
    np.testing.assert_allclose(first["d"], 1 - second["d"])


def test_learns_nothing_from_a_prompt_that_is_asked(module: Module) -> None:
    """A pair whose prompt the left-out source has too is not learned from."""
    data = module("sources_data")
    one, other = made(module, "a", [0.0]), made(module, "b", [0.0])
    other.prompt[:50] = one.prompt[:50]
    assert len(data.without_prompts_of(other, one).z) == 150


def test_solves_the_penalised_least_squares(module: Module) -> None:
    """Where no weight is at 0, the solution is that of the normal equations."""
    moments = module("sources_moments")
    source = made(module, "a", [0.5, 0.4, 0.6], pairs=2000)
    part = moments.moments(source)
    expected = np.linalg.solve(part.gram + np.diag([0.5, 1.0, 2.0]), part.mean)
    np.testing.assert_allclose(moments.solve(part.mean, part.gram, np.array([0.5, 1.0, 2.0])), expected, rtol=1e-3)
