"""A sweep over settings of a fit: what may be said, what each candidate comes to, and what chooses among them."""

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.errors import UsageError
from svr_async.training.rounds.config import FitTerms
from svr_async.training.running.refit import (
    FitSettings,
    combinations,
    fit_store,
    name_of,
    read_sweep,
    sweep_lines,
    sweep_store,
)
from svr_async.training.store.imported import import_store

N, RUBRICS = 160, 12
WORDS = (("bread", "oven", "salt"), ("code", "loop", "bug"))


def test_values_are_lists_ranges_and_files(tmp_path: Path) -> None:
    """A range has its ends, a file says the same, and a value that is given twice counts once."""
    assert read_sweep(["seed=0..3,2", "sparsity=0.03,0.1"]) == {"seed": [0, 1, 2, 3], "sparsity": [0.03, 0.1]}
    (tmp_path / "s.toml").write_text('seed = "0..1"\nsparsity = [0.03, "0.1"]\n')
    (tmp_path / "s.json").write_text('{"seed": [0, 1], "sparsity": "0.03,0.1"}')
    named = read_sweep([str(tmp_path / "s.toml")])
    assert named == read_sweep([str(tmp_path / "s.json")]) == {"seed": [0, 1], "sparsity": [0.03, 0.1]}
    assert [name_of(values) for values in combinations(named, "default")] == [
        "seed=0,sparsity=0.03", "seed=0,sparsity=0.1", "seed=1,sparsity=0.03", "seed=1,sparsity=0.1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["seed"], "neither NAME=VALUES nor"),
        (["sed=1"], "knows no setting 'sed'"),
        (["seed=1", "seed=2"], "seed is given twice"),
        (["seed=3..1"], "must rise"),
        (["seed=0..9999999"], "must rise"),
        (["groups=0"], "must rise from 1"),
        (["seed=x"], "whole number or a range"),
        (["sparsity=nan"], "a number >= 0"),
        (["sparsity=-1"], "a number >= 0"),
        (["missing.toml"], "cannot read missing.toml"),
        (["seed=0..99", "sparsity=0,1,2"], "1 to 256 combinations (got 300)"),
        (["learning_rate=0.1"], "--preset default has no setting learning_rate"),
        ([], "1 to 256 combinations (got 0)"),
    ],
)
def test_what_says_nothing_is_one_line(texts: list[str], words: str) -> None:
    """Before anything is fitted."""
    with pytest.raises(UsageError) as caught:
        combinations(read_sweep(texts), "default")
    assert words in caught.value.one_line()


@pytest.mark.parametrize(("name", "text"), [("a.toml", "seed = "), ("a.json", "{"), ("b.json", "[1]")])
def test_a_file_that_is_no_table_is_one_line(name: str, text: str, tmp_path: Path) -> None:
    """Whatever it holds."""
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=name):
        read_sweep([str(tmp_path / name)])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a store of two kinds of prompts, in each of which three rubrics decide."""
    folder, rng = tmp_path_factory.mktemp("swept"), np.random.default_rng(0)
    said = [" ".join([*rng.choice(WORDS[n % 2], 2, replace=False), f"thing{n % 9}"]) for n in range(N)]
    pairs = [
        PreferencePair(id=f"p{n}", prompt=user_prompt(f"{said[n]} {n}"), chosen="a", rejected="b") for n in range(N)
    ]
    mined: list[dict[str, Any]] = [
        {"text": f"Says {name} {n}", "sources": [f"p{2 * n + n % 2}"]} for n, name in enumerate(["thing"] * RUBRICS)
    ]
    (folder / "rubrics.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in mined))
    pair, rubric = (part.ravel() for part in np.mgrid[:N, :RUBRICS])
    z = rng.choice([-1.25, -0.25, 0.75], N * RUBRICS)
    np.savez(folder / "z.npz", pair=pair, rubric=rubric, z=np.where(rubric // 3 == pair % 2, np.abs(z), z))
    out, terms = folder / "store", FitTerms(seed=3)
    import_store(pairs, "d", folder / "rubrics.jsonl", folder / "z.npz", out, dev_share=0.3, terms=terms)
    return out


def files_of(bank: Path) -> dict[str, bytes]:
    """Return a bank's files."""
    return {path.name: path.read_bytes() for path in bank.iterdir()}


def test_each_candidate_comes_to_what_it_comes_to_alone(store: Path, tmp_path: Path) -> None:
    """Structures in one batch and seeds by themselves give the banks of single fits; dev accuracy takes the best."""
    sweep = ["sparsity=0.1,0.3", "groups=1,2"]
    swept = sweep_store(FitSettings(store=store, out=tmp_path / "all"), sweep)
    table = swept.record["sweep"]
    (best,) = (row for row in table["candidates"] if row["best"])
    assert (best["name"], best["dev_accuracy"]) == (table["best"], max(r["dev_accuracy"] for r in table["candidates"]))
    one = FitSettings(store=store, out=tmp_path / "one")
    sweep_store(one, table["best"].split(","))
    assert files_of(tmp_path / "all" / "bank") == files_of(tmp_path / "one" / "bank")
    assert orjson.loads((tmp_path / "all" / "sweep.json").read_bytes()) == table
    assert "no other data chose" in sweep_lines(table)[-1]


def test_seeds_are_those_of_single_fits(store: Path, tmp_path: Path) -> None:
    """Where the structure is chosen, too; and what does not go with a sweep is refused before it begins."""
    sweep_store(FitSettings(store=store, out=tmp_path / "all"), ["seed=4"])
    fit_store(FitSettings(store=store, out=tmp_path / "one", seed=4))
    assert files_of(tmp_path / "all" / "bank") == files_of(tmp_path / "one" / "bank")
    with pytest.raises(UsageError, match="--seeds does not go with --sweep"):
        sweep_store(FitSettings(store=store, out=tmp_path / "no", seeds=2), ["seed=3"])
    with pytest.raises(UsageError, match="another command made"):
        sweep_store(FitSettings(store=store, out=tmp_path / "one"), ["seed=3"])
