"""`svr stages store`: a store of arrays that people bring, fitted, shown, and refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import orjson
import pytest
from made_pairs import write_made

from svr_async.adapters import get_adapter

IMPORT = ("stages", "store", "store", "--pairs", "pairs.jsonl", "--rubrics", "rubrics.jsonl")
TEXTS = ("Lists what was asked for as bullets", "Is warm in tone", "Names a place")

Cli = Callable[..., tuple[int, str, str]]


def prepare(*, dropped: bool = False, weighted: bool = False) -> None:
    """Write pairs, rubrics and soft z: the first rubric tells the responses apart, the others say nothing.

    Every tenth entry weighs nothing, or is left out where `dropped`.
    """
    pairs = get_adapter("pairs").load(write_made(Path("pairs.jsonl"), 80)).pairs
    Path("rubrics.jsonl").write_bytes(b"".join(orjson.dumps({"text": text}) + b"\n" for text in TEXTS))
    rng = np.random.default_rng(3)
    pair, rubric = np.repeat(np.arange(len(pairs)), 3), np.tile(np.arange(3), len(pairs))
    passes = np.where(rubric == 0, 0.9, 0.5) + rng.uniform(-0.1, 0.1, len(pair))
    better = np.where(rubric == 0, 0.95, rng.random(len(pair)))
    z = passes - rng.uniform(0.4, 0.6, len(pair)) + 0.25 * (2 * better - 1)
    keep = np.arange(len(z)) % 10 != 9 if dropped else np.ones(len(z), bool)
    weight = (np.arange(len(z)) % 10 != 9).astype(np.float32)
    lists = {"pair": pair, "rubric": rubric, "z": z, **({"weight": weight} if weighted else {})}
    np.savez("z.npz", **{name: values[keep] for name, values in lists.items()})


def test_soft_z_of_ones_own_become_a_store_and_a_bank(cli: Cli) -> None:
    """Expected Δ from probabilities: imported, shown, fitted by both presets; the rubric that decides weighs most."""
    prepare()
    code, out, _ = cli(*IMPORT, "--z", "z.npz", "--judge", "my probe")
    assert code == 0
    assert "my probe" in out
    code, shown, _ = cli("stages", "store", "store", "--json")
    facts = orjson.loads(shown)
    assert code == 0
    assert facts["entries"] == 240
    assert facts["pairs"]["train"] + facts["pairs"]["dev"] == 80
    assert facts["z"]["ties"] == 0
    for preset in ("default", "paper"):
        code, out, _ = cli("fit", "store", "--out", preset, "--preset", preset, "-q", "--json")
        assert code == 0
        record = orjson.loads(out)
        assert record["dev_unjudged"] == 0
        bank = orjson.loads(Path(preset, "bank", "bank.json").read_bytes())
        first = max(bank["rubrics"], key=lambda row: row["weight"] * row["activation_rate"])
        assert first["text"] == TEXTS[0]
        assert bank["judge"] == "my probe"


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("--z", "none.npz"), 2, "no such file: 'none.npz'"),
        (("--z", "z.npz", "--pairs", "none.jsonl"), 2, "none.jsonl"),
        (("--z", "z.npz", "--rubrics", "none.jsonl"), 2, "cannot read 'none.jsonl'"),
        (("--z", "pairs.jsonl"), 2, "unknown suffix"),
        (("--z", "z.npz", "--pairs", "rubricbench.jsonl"), 2, "RubricBench"),
        ((), 2, "a store is made of --pairs, --rubrics and --z"),
    ],
)
def test_what_cannot_be_imported_is_one_line(cli: Cli, args: tuple[str, ...], code: int, words: str) -> None:
    """A file that is not there or of another kind, a benchmark, a folder that holds something else."""
    prepare()
    found, _, said = cli(*IMPORT, *args)
    assert found == code
    assert words in said
    assert len(said.strip().splitlines()) == 1
    assert not Path("store").exists()
