"""A sweep over settings of a fit: what may be said, what each candidate comes to, and what chooses among them."""

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.errors import UsageError
from svr_async.training.imported import import_store
from svr_async.training.refit import FitSettings, combinations, fit_store, name_of, sweep_lines
from svr_async.training.rounds.config import config_of

N, RUBRICS = 160, 12
WORDS = (("bread", "oven", "salt"), ("code", "loop", "bug"))


def test_values_are_lists_and_ranges() -> None:
    """A range has its ends, and a value that is given twice counts once; the last setting varies fastest."""
    found = combinations(["seed=0..2,1", "sparsity=0.03, 0.1"], "default")
    assert [name_of(values) for values in found] == [
        f"seed={seed},sparsity={sparsity}" for seed in range(3) for sparsity in (0.03, 0.1)
    ]


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["seed"], "--sweep 'seed' is not NAME=VALUES"),
        (["sed=1"], "--preset default has no setting 'sed'"),
        (["learning_rate=0.1"], "--preset default has no setting 'learning_rate'"),
        (["seed=1", "seed=2"], "--sweep seed is given twice"),
        (["seed=3..1"], "a whole number >= 0, or a rising range"),
        (["seed=0..9999999"], "rising range"),
        (["groups=0"], "--sweep groups must be a whole number >= 1"),
        (["seed=x"], "got 'x'"),
        (["sparsity=nan"], "a number >= 0"),
        (["sparsity=-1"], "a number >= 0"),
        (["seed=0..99", "sparsity=0,1,2"], "names 300 combinations, at most 256"),
    ],
)
def test_a_bad_sweep_is_one_line(texts: list[str], words: str) -> None:
    """Before anything is fitted."""
    with pytest.raises(UsageError) as caught:
        combinations(texts, "default")
    assert words in caught.value.one_line()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a store of two kinds of prompts, in each of which three rubrics decide."""
    folder, rng = tmp_path_factory.mktemp("swept"), np.random.default_rng(0)
    said = [" ".join([*rng.choice(WORDS[n % 2], 2, replace=False), f"thing{n % 9}"]) for n in range(N)]
    pairs = [
        PreferencePair(id=f"p{n}", prompt=user_prompt(f"{said[n]} {n}"), chosen="a", rejected="b") for n in range(N)
    ]
    mined: list[dict[str, Any]] = [
        {"text": f"Says {name} {n}", "source_pair_ids": [f"p{2 * n + n % 2}"]}
        for n, name in enumerate(["thing"] * RUBRICS)
    ]
    (folder / "rubrics.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in mined))
    pair, rubric = (part.ravel() for part in np.mgrid[:N, :RUBRICS])
    z = rng.choice([-1.25, -0.25, 0.75], N * RUBRICS)
    np.savez(folder / "z.npz", pair=pair, rubric=rubric, z=np.where(rubric // 3 == pair % 2, np.abs(z), z))
    out, config = folder / "store", config_of("default", seed=3, dev_share=0.3)
    import_store(pairs, "d", folder / "rubrics.jsonl", folder / "z.npz", out, config=config)
    return out


def files_of(bank: Path) -> dict[str, bytes]:
    """Return a bank's files."""
    return {path.name: path.read_bytes() for path in bank.iterdir()}


def test_each_combination_gives_the_bank_that_it_gives_alone(store: Path, tmp_path: Path) -> None:
    """Structures and seeds; dev accuracy chooses the best."""
    _, record = fit_store(FitSettings(store=store, out=tmp_path / "all", sweep=("sparsity=0.1,0.3", "groups=1,2")))
    rows = record["sweep"]
    (best,) = (row for row in rows if row["best"])
    assert (len(rows), best["dev_accuracy"]) == (4, max(row["dev_accuracy"] for row in rows))
    fit_store(FitSettings(store=store, out=tmp_path / "one", sweep=tuple(best["name"].split(","))))
    assert files_of(tmp_path / "all" / "bank") == files_of(tmp_path / "one" / "bank")
    assert orjson.loads((tmp_path / "all" / "fit.json").read_bytes())["sweep"] == rows
    assert len(sweep_lines(rows)) == 5
    fit_store(FitSettings(store=store, out=tmp_path / "swept", sweep=("seed=4",)))
    fit_store(FitSettings(store=store, out=tmp_path / "seed", seed=4))
    assert files_of(tmp_path / "swept" / "bank") == files_of(tmp_path / "seed" / "bank")
