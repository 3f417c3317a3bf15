"""One source left out: what is learned comes from the others alone, and a setting is chosen inside them."""

from __future__ import annotations

import gzip
import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

SCRIPTS = Path(__file__).parents[2] / "benchmarks/paper"
REQUEST = "###The instruction to evaluate:\n{}\n\n###Response to evaluate:\n{}\n\n###Score Rubrics:\n[Is it good?]"

Module = Callable[[str], ModuleType]


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Module:
    """Return a function that imports a script by name."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    monkeypatch.setattr(sys, "path", [*sys.path])
    return importlib.import_module


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write a gzipped JSON array."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps(rows).encode()))


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


def test_reads_alpaca_eval_without_ties(module: Module, tmp_path: Path) -> None:
    """A preference above 1.5 chooses the second output, below it the first, and 1.5 gives no pair."""
    rows = [{"instruction": "Say hi.", "output_1": "one", "output_2": "two", "preference": p} for p in (1.0, 1.5, 1.9)]
    write_rows(tmp_path / "alpaca_eval/model/annotations.json.gz", rows)
    assert [pair.chosen for _, pair in module("sources_read").alpaca(tmp_path)] == ["one", "two"]


def test_pairs_answers_to_one_request_by_their_mean_score(module: Module, tmp_path: Path) -> None:
    """Two answers under one number are a pair where their mean scores differ; the prompt has the user's turns alone."""
    dialogue = "Here is a dialogue.\nUser: First?\n\nAssistant: Reply.\n\nUser: Second?\n\nAssistant:"
    scores = {"good": [5, 5, 4], "same": [5, 4, 5], "bad": [1, 2, 1]}
    rows = [
        {"idx": 7, "instruction": REQUEST.format(dialogue, answer), "gpt4_score": score}
        for answer, score in scores.items()
    ]
    write_rows(tmp_path / "prometheus_eval/mt_bench_eval.json.gz", rows)
    found = [pair for _, pair in module("sources_read").mt_bench(tmp_path)]
    assert sorted((pair.chosen, pair.rejected) for pair in found) == [("good", "bad"), ("same", "bad")]
    assert [turn.content for turn in found[0].prompt] == ["First?", "Second?"]


def test_takes_the_most_careful_within_a_standard_error(module: Module) -> None:
    """The last choice within a standard error of the best is taken, not the best itself, and no worse one."""
    gained = np.array([[0.70, 0.69, 0.60], [0.60, 0.62, 0.50], [0.80, 0.78, 0.71]])
    assert module("sources_learners").within_one_error(gained) == 1


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


def test_trusts_a_check_less_where_sources_disagree(module: Module) -> None:
    """Of two checks with the same mean effect, the one that differs between sources gets the smaller weight."""
    learners = module("sources_learners")
    effects = {"a": [0.3, 0.8], "b": [0.3, -0.2], "c": [0.3, 0.7], "d": [0.3, -0.1]}
    sources = [made(module, name, effect, pairs=4000) for name, effect in effects.items()]
    plain, doubting = (learners.ridge(1.0, doubt=doubt)(sources) for doubt in (0.0, 1.0))
    assert plain[1] / plain[0] > 1.5 * doubting[1] / doubting[0]
    assert (doubting >= 0).all()


def test_solves_the_penalised_least_squares(module: Module) -> None:
    """Where no weight is at 0, the solution is that of the normal equations."""
    moments = module("sources_moments")
    source = made(module, "a", [0.5, 0.4, 0.6], pairs=2000)
    part = moments.moments(source)
    expected = np.linalg.solve(part.gram + np.diag([0.5, 1.0, 2.0]), part.mean)
    np.testing.assert_allclose(moments.solve(part.mean, part.gram, np.array([0.5, 1.0, 2.0])), expected, rtol=1e-3)
