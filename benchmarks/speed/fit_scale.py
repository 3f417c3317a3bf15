"""Fit a feature store of any size, made here with a planted truth, as a user does: memory, seconds, accuracy.

    python benchmarks/speed/fit_scale.py --pairs 100000 --rubrics 16384
    python benchmarks/speed/fit_scale.py --pairs 1000000 --rubrics 16384 --keep /path/to/folder     keep store and bank
    python benchmarks/speed/fit_scale.py --dense                     20,000 pairs, each judged on all of 512 rubrics

The store is made in one process, fitted by `svr fit STORE --out DIR` with no other flag in a second one, and what came
of it is measured in a third. Prompts are of 40 kinds that their words tell. In each kind 8 rubrics decide, with weights
that are drawn; 400 others of the kind decide nothing. A pair is judged on 18 rubrics of its kind, 6 of them such as
decide, as in pools that induction fills; two rubrics a pair name it as what they were mined from.
Peak memory is the most that the fit's process held resident, mapped files included (VmHWM).

Held out are fresh pairs of fresh prompts, whose z is known for every rubric: the bank picks and weighs as it does in
use. `truth` weighs the rubrics that decide as planted, `vote` counts all rubrics of the kind alike. `linear` is
scikit-learn's LinearSVC on the training pairs' z, half of them mirrored, in a separate process. With `--dense` there
is one kind of prompts, every pair is judged on every rubric, and a quarter of the rubrics decide, by one weight vector.
Everything here is SIMULATED: it says what a fit costs and whether it finds what is there, nothing of a judge.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

KINDS, DECIDE, POOL, OF_THOSE, MINED = 40, 8, 18, 6, 2
WORDS, VOCABULARY, KIND_WORDS, OWN_SHARE = 30, 4096, 40, 0.25
NOISE, DENSE_NOISE = 1.0, 2.5  # of the planted margin, whose own spread is some 2.7, or 9.6 with --dense
DEV_SHARE, HELD_OUT = 0.05, 2000
STEPS = np.array([-1.25, -0.75, -0.25, 0.25, 0.75, 1.25], np.float32)


def main() -> None:
    """Make a store, fit it, measure the bank, and print one line of figures."""
    args = _parser().parse_args()
    if args.child:
        {"make": _make, "measure": _measure, "linear": _linear}[args.child](args)
        return
    if args.dense:
        args.pairs, args.rubrics = args.pairs or 20_000, args.rubrics or 512
    args.pairs, args.rubrics = args.pairs or 100_000, args.rubrics or 16_384
    with tempfile.TemporaryDirectory() as folder:
        args.keep = args.keep or Path(folder)
        if not (args.keep / "store" / "meta.json").is_file():
            _child("make", args)
        fitted = _fit(args)
        print(json.dumps({**_sizes(args), **fitted, **_child("measure", args), **_child("linear", args)}))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, help="default: 100,000")
    parser.add_argument("--rubrics", type=int, help="default: 16,384")
    parser.add_argument("--dense", action="store_true", help="every pair is judged on every rubric; 20,000 x 512")
    parser.add_argument("--keep", type=Path, help="a folder for store and bank, which stay there")
    parser.add_argument("--child", choices=["make", "measure", "linear"], help=argparse.SUPPRESS)
    return parser


def _child(what: str, args: argparse.Namespace) -> dict:
    command = [sys.executable, __file__, "--child", what, "--keep", str(args.keep)]
    sizes = ["--pairs", str(args.pairs), "--rubrics", str(args.rubrics), *(["--dense"] if args.dense else [])]
    done = subprocess.run([*command, *sizes], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def _sizes(args: argparse.Namespace) -> dict:
    return {"dense": args.dense, "pairs": args.pairs, "rubrics": args.rubrics}


def _fit(args: argparse.Namespace) -> dict:
    """Run the command and return its wall and CPU seconds, its peak of resident memory, and what it reports."""
    began = time.perf_counter()
    bank = args.keep / "fitted"
    command = [sys.executable, "-m", "svr_async", "fit", str(args.keep / "store"), "--out", str(bank), "--json"]
    with (args.keep / "fit.json").open("wb") as out:
        process = subprocess.Popen(command, stdout=out)
        _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"the fit ended with {os.waitstatus_to_exitcode(status)}")
    record = json.loads((args.keep / "fit.json").read_bytes())
    return {
        "store_mib": round(sum(path.stat().st_size for path in (args.keep / "store").iterdir()) / 2**20),
        "peak_mib": round(used.ru_maxrss / 1024),
        "wall_s": round(time.perf_counter() - began, 1),
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "kept": record["rubrics"],
        "top_k": record["top_k"],
        "fit_accuracy": record["fit_accuracy"],
    }


# ── the world ───────────────────────────────────────────────────────────────────────────────────────────────────────


class World:
    """Which words tell a kind, which rubrics are of it, and what the first `DECIDE` of them weigh."""

    def __init__(self, rubrics: int, *, dense: bool = False) -> None:
        rng = np.random.default_rng(7)
        self.kinds, self.decide, self.noise = (1, rubrics // 4, DENSE_NOISE) if dense else (KINDS, DECIDE, NOISE)
        self.own_words = np.stack([rng.choice(VOCABULARY, KIND_WORDS, replace=False) for _ in range(self.kinds)])
        self.of_kind = rng.permutation(rubrics)[: rubrics // self.kinds * self.kinds].reshape(self.kinds, -1)
        self.weight = rng.exponential(0.7, (1, self.decide)) if dense else rng.uniform(0.5, 2.0, (KINDS, DECIDE))
        frequency = 1 / np.arange(1, VOCABULARY + 1) ** 0.9
        self.usual = frequency / frequency.sum()

    def words(self, kind: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the words of a prompt of each kind (prompt, word)."""
        words = rng.choice(VOCABULARY, (len(kind), WORDS), p=self.usual)
        own = self.own_words[kind[:, None], rng.integers(0, KIND_WORDS, words.shape)]
        return np.where(rng.random(words.shape) < OWN_SHARE, own, words)

    def preferred(self, kind: np.ndarray, deltas: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return 1 or −1 (pair,): which response is preferred, by the `deltas` of what decides (pair, rubric)."""
        margin = (self.weight[kind] * deltas).sum(axis=1) + self.noise * rng.standard_normal(len(kind))
        return np.where(margin < 0, -1, 1)


def _features(words: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the words of prompts as CSR: each once, rising, in rows of length 1."""
    words = np.sort(words, axis=1)
    first = np.ones(words.shape, bool)
    first[:, 1:] = words[:, 1:] != words[:, :-1]
    indptr = np.concatenate([[0], np.cumsum(first.sum(axis=1))])
    value = np.repeat(1 / np.sqrt(np.diff(indptr)), np.diff(indptr)).astype(np.float32)
    return indptr.astype(np.int64), words[first].astype(np.int32), value


# ── a store of it ───────────────────────────────────────────────────────────────────────────────────────────────────


def _make(args: argparse.Namespace) -> None:
    import pyarrow as pa
    from scipy.sparse import csr_matrix, save_npz

    from svr_async.fit.arrays import FitArrays
    from svr_async.fit.tfidf import Vocabulary
    from svr_async.training.rounds.config import config_of
    from svr_async.training.rounds.store import FeatureStore, Header, write_store

    args.keep.mkdir(parents=True, exist_ok=True)
    world, rng, count = World(args.rubrics, dense=args.dense), np.random.default_rng(1), args.pairs
    kind = rng.integers(0, world.kinds, count)
    names = [f"pair-{number:08d}" for number in range(count)]
    dev = count - int(DEV_SHARE * count)
    pairs = {
        "pair_id": names,
        "prompt": [f"p{number}" for number in range(count)],
        "domain": [""] * count,
        "source": [""] * count,
        "dev": np.arange(count) >= dev,
    }
    terms = {f"w{number}": number for number in range(VOCABULARY)}
    indptr, index, value = _features(world.words(kind, rng))
    rubrics = _rubrics(world, kind[:dev], names, args.rubrics, rng)
    z = (_all_judged if args.dense else _judged)(world, kind, rng)
    matrix = csr_matrix((z["z_delta"], z["z_rubric"], z["z_indptr"]), shape=(count, args.rubrics))
    save_npz(args.keep / "z.npz", matrix[:dev])
    arrays = FitArrays(
        n_rubrics=args.rubrics,
        n_features=VOCABULARY,
        feature_indptr=indptr,
        feature_index=index,
        feature_value=value,
        pair_prompt=np.arange(count, dtype=np.int32),
        z_own=np.zeros(matrix.nnz, bool),
        **z,
    )
    store = FeatureStore(
        header=Header(judge="SIMULATED planted judgements", config=config_of("default")),
        vocabulary=Vocabulary(terms=terms, idf=np.ones(VOCABULARY, np.float32)),
        rubrics=tuple(rubrics),
        pairs=pa.table(pairs),
        arrays=arrays,
    )
    write_store(args.keep / "store", store)
    print(json.dumps({"peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))


def _judged(world: World, kind: np.ndarray, rng: np.random.Generator):
    """Return what each pair was judged on: some of what decides, the rest of its kind."""
    deltas = rng.choice(STEPS, (len(kind), DECIDE))
    sign = world.preferred(kind, deltas, rng)[:, None]
    asked = np.argsort(rng.random((len(kind), DECIDE)), axis=1)[:, :OF_THOSE]
    others = DECIDE + _distinct(world.of_kind.shape[1] - DECIDE, (len(kind), POOL - OF_THOSE), rng)
    places = np.concatenate([asked, others], axis=1)
    z = np.concatenate([np.take_along_axis(deltas, asked, axis=1), rng.choice(STEPS, others.shape)], axis=1) * sign
    rubric = world.of_kind[kind[:, None], places]
    order = np.argsort(rubric, axis=1)
    return {
        "z_indptr": np.arange(len(kind) + 1, dtype=np.int64) * POOL,
        "z_rubric": np.take_along_axis(rubric, order, axis=1).ravel().astype(np.int32),
        "z_delta": np.take_along_axis(z, order, axis=1).ravel().astype(np.float32),
    }


def _all_judged(world: World, kind: np.ndarray, rng: np.random.Generator):
    """Return z of every pair on every rubric."""
    deltas = rng.choice(STEPS, (len(kind), world.of_kind.shape[1]))
    z = np.empty_like(deltas)
    z[:, world.of_kind[0]] = deltas * world.preferred(kind, deltas[:, : world.decide], rng)[:, None]
    return {
        "z_indptr": np.arange(len(kind) + 1, dtype=np.int64) * z.shape[1],
        "z_rubric": np.tile(np.arange(z.shape[1], dtype=np.int32), len(kind)),
        "z_delta": z.ravel(),
    }


def _distinct(below: int, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Return rows of different numbers below a number: one of each of as many equal parts of them."""
    part = below // shape[1]
    return np.arange(shape[1]) * part + rng.integers(0, part, shape)


def _rubrics(world: World, kind: np.ndarray, names: list[str], count: int, rng: np.random.Generator):
    """Return the rubrics, each with the pairs that it was mined from: of its kind, what decides more often."""
    from svr_async.core.rubric import Rubric
    from svr_async.scoring.bank import BankRubric

    place = rng.integers(0, world.of_kind.shape[1], (len(kind), MINED))
    place = np.where(rng.random(place.shape) < 0.5, rng.integers(0, world.decide, place.shape), place)
    rubric = world.of_kind[kind[:, None], place].ravel()
    order = np.argsort(rubric, kind="stable")
    borders = np.searchsorted(rubric[order], np.arange(count + 1))
    texts = _texts(count, rng)
    out = []
    for number, text in enumerate(texts):
        pairs = np.unique(order[borders[number] : borders[number + 1]] // MINED)
        mined = tuple(names[pair] for pair in pairs.tolist())
        out.append(BankRubric(rubric=Rubric(text=text), source_pair_ids=mined, observed_count=max(1, len(mined))))
    return out


def _texts(count: int, rng: np.random.Generator) -> list[str]:
    """Return texts of eight made-up words each."""
    syllables = [a + b for a in "bcdfgklmnprstvz" for b in "aeiou"]
    words = ["".join(rng.choice(syllables, 3)) for _ in range(6000)]
    return [f"The response {' '.join(words[place] for place in rng.integers(0, len(words), 8))}." for _ in range(count)]


# ── what the bank knows ─────────────────────────────────────────────────────────────────────────────────────────────


def _measure(args: argparse.Namespace) -> None:
    """Print how often the bank, the planted weights and an even vote decide fresh pairs as planted, in percent."""
    from svr_async.fit.forward import alpha_numpy, selector_of
    from svr_async.scoring.bank import RubricBank
    from svr_async.training.rounds.store import load_store

    world, kind, z, rng = _held_out(args)
    rubrics = load_store(args.keep / "store").rubrics
    place = {one.rubric.id: number for number, one in enumerate(rubrics)}
    bank = RubricBank.load(args.keep / "fitted" / "bank")
    numbers = np.array([place[rubric.id] for rubric in bank.rubrics])
    said = np.zeros((HELD_OUT, len(place)), np.float32)
    np.put_along_axis(said, world.of_kind[kind], z, axis=1)
    selector, top_k = selector_of(bank.selector_kind, bank.selector), bank.inference.top_k
    margins = np.zeros(HELD_OUT)
    indptr, index, value = _features(world.words(kind, rng))
    for pair in range(HELD_OUT):
        row = slice(indptr[pair], indptr[pair + 1])
        score = alpha_numpy(selector, index[row], value[row]) * selector.weight
        best = np.argsort(-score, kind="stable")[:top_k]
        margins[pair] = score[best] @ said[pair, numbers[best]]
    held = {"bank": margins, "truth": (world.weight[kind] * z[:, : world.decide]).sum(axis=1), "vote": z.sum(axis=1)}
    print(json.dumps({name: _accuracy(each) for name, each in held.items()}))


def _held_out(args: argparse.Namespace):
    """Return the world, kinds of fresh prompts, z of their pairs on every rubric of the kind, and the generator."""
    world, rng = World(args.rubrics, dense=args.dense), np.random.default_rng(2)
    kind = rng.integers(0, world.kinds, HELD_OUT)
    z = rng.choice(STEPS, (HELD_OUT, world.of_kind.shape[1]))
    z *= world.preferred(kind, z[:, : world.decide], rng)[:, None]
    return world, kind, z, rng


def _accuracy(margins: np.ndarray) -> float:
    return round(100 * float((0.5 + 0.5 * np.sign(margins)).mean()), 1)


def _linear(args: argparse.Namespace) -> None:
    """Print CPU seconds and held-out accuracy of LinearSVC on the same z; every other row is mirrored."""
    from scipy.sparse import diags, load_npz
    from sklearn.svm import LinearSVC

    world, kind, held, _ = _held_out(args)
    z = load_npz(args.keep / "z.npz")
    side = np.where(np.arange(len(z.indptr) - 1) % 2, 1.0, -1.0)
    mirrored = diags(side) @ z
    rows = mirrored.toarray() if args.dense else mirrored.tocsr()
    began = time.process_time()
    model = LinearSVC(fit_intercept=False).fit(rows, side)
    used = time.process_time() - began
    margins = (model.coef_[0][world.of_kind[kind]] * held).sum(axis=1)
    print(
        json.dumps(
            {
                "linear_fit_cpu_s": round(used, 2),
                "linear_cpu_s": round(time.process_time(), 2),
                "linear": _accuracy(margins),
            }
        )
    )


if __name__ == "__main__":
    main()
