"""Time the fit at the paper's scale next to dense forms of the same objective, each in its own process.

    python benchmarks/speed/fit.py --torch-python /path/to/venv/bin/python
    python benchmarks/speed/fit.py --torch-python /path/to/venv/bin/python --dense-epochs 33    dense forms whole, too
    python benchmarks/speed/fit.py --quick                                                      half a minute
    python benchmarks/speed/fit.py --contenders ours-default ours-paper --rounds 1 --pairs 10000 100000 1000000
    python benchmarks/speed/fit.py --contenders ours-default ours-paper --rounds 1 --rubrics 256 1024 4096 16384
    python benchmarks/speed/fit.py --contenders ours-default ours-paper --platform cuda                on a GPU
    python benchmarks/speed/fit.py --platform cuda --torch-python python3 --dense-epochs 33       PyTorch there, too

Contenders: `ours-default` and `ours-paper` (the library's presets); `torch-paper` and `torch-pooled` (dense PyTorch,
alpha over the bank or over the judged pool: dense feature and z batches, sparsemax by sort, AdamW), the same with
AdamW's fused kernel (`-fused`), and `jax-sort` (the dense paper form in JAX, sparsemax by sort).

A whole fit is 3 rounds of 8 epochs and 3 of calibration, timed from arrays in memory to the last result: what the
library does on the way is in it, compilation, solving and dev measurement too; only the import of NumPy, JAX or
PyTorch is not. "Compiled" is the fastest round after the first, which finds its programs compiled; "compiling" the
seconds that XLA worked at them, some at the same time in several threads. The library always runs whole; its default
preset is solved and takes no steps.
Dense forms run `--dense-epochs` and are projected from their quietest 40 steps, without start-up or dev measurement;
where that is all the epochs of the fit, their time is measured. "No steps" is everything but epochs. CPU seconds are
projected in the same way.

On a busy machine wall times compare nothing: OpenMP's waiting threads can slow PyTorch tenfold there, which is no
merit of ours. There `--one-core` gives each contender one thread on one core and CPU seconds are what to compare;
`--repeat` takes the fastest of several runs in turn.
PyTorch is not a dependency: without `--torch-python` its rows are skipped.
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
from typing import Any

import numpy as np

ROUNDS, EPOCHS, CALIBRATION = 3, 8, 3
POOL, FEATURES, WORDS, BATCH, HIDDEN = 18, 4096, 40, 128, 256
KINDS, KIND_WORDS, MINED = 40, 0.2, 4
STRETCH = 40  # steps; the quietest stretch of a dense form stands for it, so that a busy machine does not flatter us
OURS = ("ours-default", "ours-paper")
DENSE = ("torch-paper", "torch-paper-fused", "torch-pooled", "torch-pooled-fused", "jax-sort")
QUICK = {"pairs": [6_000], "rubrics": [256], "rounds": 1, "repeat": 1}


def main() -> None:
    args = _parser().parse_args()
    if args.quick:
        vars(args).update(QUICK)
    if args.child:
        print(json.dumps(_child(args)))
        return
    rows = []
    for pairs in args.pairs:
        for rubrics in args.rubrics:
            with tempfile.TemporaryDirectory() as folder:
                data = Path(folder) / "arrays.npz"
                _write_arrays(data, pairs, rubrics)
                rows += _fastest(data, pairs, rubrics, args)
    print(table(rows))


def _fastest(data: Path, pairs: int, rubrics: int, args: argparse.Namespace) -> list[dict]:
    """Run all contenders in turn, as often as asked; return the fastest run of each."""
    runs: dict[str, list[dict]] = {name: [] for name in args.contenders}
    for _ in range(args.repeat):
        for name, found in runs.items():
            if row := _run(name, data, pairs, rubrics, args):
                found.append(row)
    return [min(found, key=lambda row: row["whole_s"]) for found in runs.values() if found]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, nargs="+", default=[36_591])
    parser.add_argument("--rubrics", type=int, nargs="+", default=[1_024])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--calibration", type=int, default=CALIBRATION)
    parser.add_argument("--dense-epochs", type=int, default=1, help="epochs that the dense forms really run")
    parser.add_argument("--contenders", nargs="+", choices=OURS + DENSE, default=list(OURS + DENSE))
    parser.add_argument("--torch-python", help="a Python that has torch and NumPy")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each contender, of which the fastest counts")
    parser.add_argument("--platform", help="JAX's platform: cpu, cuda …; default: what JAX finds")
    parser.add_argument("--one-core", action="store_true", help="one thread on one core each")
    parser.add_argument("--quick", action="store_true", help="a small fit of one round")
    parser.add_argument("--child", choices=OURS + DENSE, help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    return parser


def table(rows: list[dict]) -> str:
    """Return a Markdown table; the ratios are to the dense PyTorch forms of the same objective, plain and fused."""
    names = ("contender", "pairs", "rubrics", "ms a step", "CPU ms a step", "steps", "whole fit, s", "no steps, s")
    last = (
        "compiled, s a round",
        "compiling, s",
        "device",
        "whole fit, CPU s",
        "peak RSS, MiB",
        "× step",
        "× whole",
        "× CPU",
        "fused: × step",
        "× whole",
        "× CPU",
    )
    out = [f"| {' | '.join(names + last)} |", "|---" * len(names + last) + "|"]
    for row in rows:
        note = " (projected)" if row["projected"] else ""
        cells = (
            row["name"],
            *(f"{number:,}" for number in row["size"]),
            f"{row['step_ms']:.2f}",
            f"{row['step_cpu_ms']:.2f}",
            f"{row['steps']:,}",
            f"{row['whole_s']:.1f}{note}",
            f"{row['start_s']:.1f}",
            *(f"{row[name]:.2f}" if row.get(name) is not None else "–" for name in ("warm_s", "compile_s")),
            row.get("device", "–"),
            f"{row['cpu_s']:.0f}",
            f"{row['rss_mib']:.0f}",
            *_ratios(row, rows),
        )
        out.append(f"| {' | '.join(cells)} |")
    return "\n".join(out)


def _ratios(row: dict, rows: list[dict]) -> list[str]:
    """Return how many times faster than dense PyTorch, plain and fused: a step, the whole, and its CPU seconds."""
    objective = "pooled" if "pooled" in row["name"] or row["name"] == "ours-default" else "paper"
    out = []
    for name in (f"torch-{objective}", f"torch-{objective}-fused"):
        same = [other for other in rows if other["name"] == name and other["size"] == row["size"]]
        out += [
            f"{same[0][value] / row[value]:.1f}" if same and row[value] else "–"
            for value in ("step_ms", "whole_s", "cpu_s")
        ]
    return out


def _run(name: str, data: Path, pairs: int, rubrics: int, args: argparse.Namespace) -> dict | None:
    python = args.torch_python if name.startswith("torch") else sys.executable
    if python is None:
        print(f"{name}: skipped, no --torch-python", file=sys.stderr)
        return None
    numbers = [f"--{flag}={getattr(args, flag.replace('-', '_'))}" for flag in ("rounds", "epochs", "calibration")]
    command = [python, __file__, f"--child={name}", f"--data={data}", *numbers, f"--dense-epochs={args.dense_epochs}"]
    command += [f"--platform={args.platform}"] if args.platform else []
    if args.one_core:
        command = ["taskset", "--cpu-list", "0", *command]
    known = {**os.environ, **({"JAX_PLATFORMS": args.platform} if args.platform else {})}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=known)
    if done.returncode:
        print(f"{name}: failed\n{done.stderr[-2000:]}", file=sys.stderr)
        return None
    row = json.loads(done.stdout.splitlines()[-1]) | {"name": name, "size": (pairs, rubrics)}
    print(f"{name} {pairs} × {rubrics}: {row}", file=sys.stderr)
    return row


def _write_arrays(path: Path, pairs: int, rubrics: int) -> None:
    """Write synthetic arrays: Zipf words, 18 judged entries a pair of which a third carry a signal.

    A fifth of a prompt's words are of its kind, of which there are 40, and so are the four rubrics mined from it.
    """
    rng = np.random.default_rng(0)
    prior = 1 / np.arange(1, FEATURES + 1) ** 0.9
    counts = np.clip(rng.lognormal(np.log(WORDS), 0.6, pairs).astype(np.int64), 3, 400)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    index = rng.choice(FEATURES, indptr[-1], p=prior / prior.sum()).astype(np.int32)
    kind = rng.integers(0, KINDS, pairs)
    own = rng.random(len(index)) < KIND_WORDS
    index[own] = (100 + 40 * np.repeat(kind, counts) + rng.integers(0, 40, len(index)))[own]
    each = max(1, rubrics // KINDS)
    mined = (kind[:, None] * each + rng.integers(0, each, (pairs, MINED))) % rubrics
    value = (rng.random(indptr[-1]) + 0.1).astype(np.float32)
    value /= np.sqrt(np.repeat(np.add.reduceat(value**2, indptr[:-1]), counts))
    shift = rng.integers(0, rubrics, pairs)[:, None]
    rubric = np.sort((shift + rng.integers(1, max(2, rubrics // POOL), (pairs, POOL)).cumsum(axis=1)) % rubrics, axis=1)
    z = rng.choice(np.array([-1.25, -0.75, -0.25, 0.25, 0.75, 1.25], np.float32), (pairs, POOL))
    z = np.where((rubric % 3 == 0) & (rng.random(z.shape) < 0.5), np.abs(z), z)
    np.savez(
        path, indptr=indptr, index=index, value=value, rubric=rubric.astype(np.int32), z=z, mined=mined, rubrics=rubrics
    )


def _child(args: argparse.Namespace) -> dict:
    data = dict(np.load(args.data))
    run = _ours if args.child in OURS else _dense_torch if args.child.startswith("torch") else _dense_jax
    out = run(data, args)
    return out | {"rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def _ours(data: dict, args: argparse.Namespace) -> dict:
    """Run every round through the public functions, dev measurement and compilation included."""
    import jax
    import sklearn.cluster  # noqa: F401

    from svr_async.fit.training import calibrate, devices_in_words, fit

    compiling: list[float] = []
    listen = jax.monitoring.register_event_duration_secs_listener
    listen(lambda name, seconds, **_: compiling.append(seconds) if name.endswith("backend_compile_duration") else None)
    began, began_cpu = time.perf_counter(), time.process_time()
    train, dev = _fit_arrays(data)
    config = _config_of(args)
    stamps: list[np.ndarray] = []
    epochs: list[np.ndarray] = []  # wall and CPU seconds

    def note(record) -> None:
        now = _stamp()
        if record.epoch:  # record 0 is the start: no step has run
            epochs.append(now - stamps[-1])
        stamps.append(now)

    took: list[float] = []  # of each round
    for _ in range(args.rounds):
        stamps.append(_stamp())
        first = time.perf_counter()
        done = fit(train, dev, config, on_epoch=note)
        if args.calibration:
            stamps.append(_stamp())
            calibrate(done.selector, train, dev, config, on_epoch=note)
        took.append(time.perf_counter() - first)
    whole = time.perf_counter() - began
    cpu = time.process_time() - began_cpu
    return _steps_taken(epochs, -(-train.n_pairs // config.batch)) | {
        "whole_s": whole,
        "start_s": whole - sum(epoch[0] for epoch in epochs),
        "warm_s": min(took[1:], default=None),
        "compile_s": sum(compiling),
        "device": devices_in_words(),
        "cpu_s": cpu,
        "projected": False,
    }


def _config_of(args: argparse.Namespace) -> Any:
    from dataclasses import replace

    from svr_async.fit.config import DEFAULT, PAPER

    if args.child == "ours-default":
        return DEFAULT
    paper = PAPER
    return replace(paper, epochs=args.epochs, calibration_epochs=args.calibration)


def _steps_taken(epochs: list[np.ndarray], steps: int) -> dict:
    """Return the figures of steps, of which an epoch has several; the quickest epoch counts."""
    quickest = [min((epoch[kind] for epoch in epochs), default=0.0) for kind in (0, 1)]  # wall and CPU seconds
    return {
        "step_ms": 1e3 * quickest[0] / steps,
        "step_cpu_ms": 1e3 * quickest[1] / steps,
        "steps": steps * len(epochs),
    }


def _fit_arrays(data: dict) -> tuple:
    from svr_async.fit.arrays import FitArrays

    pairs = len(data["rubric"])
    given = np.unique(np.stack([data["mined"].ravel(), np.repeat(np.arange(pairs), MINED)], axis=1), axis=0)
    whole = FitArrays(
        n_rubrics=int(data["rubrics"]),
        n_features=FEATURES,
        feature_indptr=data["indptr"],
        feature_index=data["index"],
        feature_value=data["value"],
        pair_prompt=np.arange(pairs, dtype=np.int32),
        z_indptr=np.arange(pairs + 1, dtype=np.int64) * POOL,
        z_rubric=data["rubric"].ravel(),
        z_delta=data["z"].ravel(),
        source_indptr=np.searchsorted(given[:, 0], np.arange(int(data["rubrics"]) + 1)),
        source_prompt=given[:, 1].astype(np.int32),
    )
    cut = pairs - min(pairs // 20, 2000)
    return whole.take_pairs(np.arange(cut)), whole.take_pairs(np.arange(cut, pairs))


def _dense_batches(data: dict, epochs: int):
    """Yield dense (features, z, judged) batches in shuffled order; made per batch, since all at once fills memory."""
    pairs, rubrics = len(data["rubric"]), int(data["rubrics"])
    cut = pairs - min(pairs // 20, 2000)
    indptr, counts = data["indptr"], np.diff(data["indptr"])
    for epoch in range(epochs):
        order = np.random.default_rng(epoch).permutation(cut)
        for first in range(0, cut - BATCH + 1, BATCH):
            row = order[first : first + BATCH]
            features = np.zeros((BATCH, FEATURES), np.float32)
            z = np.zeros((BATCH, rubrics), np.float32)
            judged = np.zeros((BATCH, rubrics), bool)
            at = np.repeat(indptr[row] - np.concatenate([[0], np.cumsum(counts[row])[:-1]]), counts[row])
            at += np.arange(len(at))
            features[np.repeat(np.arange(BATCH), counts[row]), data["index"][at]] = data["value"][at]
            z[np.arange(BATCH)[:, None], data["rubric"][row]] = data["z"][row]
            judged[np.arange(BATCH)[:, None], data["rubric"][row]] = True
            yield features, z, judged


def _dense_row(stamps: list[np.ndarray], start_s: float, args: argparse.Namespace, data: dict) -> dict:
    """Return the time of a whole fit: measured where all its steps ran, else projected from the quietest stretch.

    `stamps` (step + 1, 2) are wall and CPU seconds before the first step and after each.
    """
    pairs, ran = len(data["rubric"]), len(stamps) - 1
    steps = args.rounds * (args.epochs + args.calibration) * ((pairs - min(pairs // 20, 2000)) // BATCH)
    took = np.diff(np.asarray(stamps), axis=0)
    stretches = [took[at : at + STRETCH].mean(axis=0) for at in range(1, max(2, ran - STRETCH), STRETCH // 2)]
    step_s, step_cpu = np.min(stretches, axis=0)
    projected = ran < steps
    whole, cpu = (steps * step_s, steps * step_cpu) if projected else (start_s + took[:, 0].sum(), took[:, 1].sum())
    times = {"step_ms": 1e3 * step_s, "step_cpu_ms": 1e3 * step_cpu, "whole_s": whole, "start_s": start_s, "cpu_s": cpu}
    return {name: float(value) for name, value in times.items()} | {"steps": ran, "projected": projected}


def _stamp() -> np.ndarray:
    """Return wall and CPU seconds (2,)."""
    return np.array([time.perf_counter(), time.process_time()])


def _dense_torch(data: dict, args: argparse.Namespace) -> dict:
    import torch
    from torch import nn

    began = time.perf_counter()
    torch.manual_seed(0)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    rubrics, pooled = int(data["rubrics"]), "pooled" in args.child
    device = torch.device("cuda" if args.platform == "cuda" else "cpu")
    net = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, rubrics)).to(device)
    raw = nn.Parameter(torch.full((rubrics,), 0.54, device=device))
    fused = {"fused": True} if args.child.endswith("fused") else {}
    descent = torch.optim.AdamW([*net.parameters(), raw], lr=2e-3, weight_decay=1e-4, **fused)

    def sparsemax(v):
        v = v - v.max(dim=1, keepdim=True).values
        ordered = v.sort(dim=1, descending=True).values
        rank = torch.arange(1, v.shape[1] + 1, dtype=v.dtype, device=device)
        threshold = (ordered.cumsum(1) - 1) / rank
        size = (ordered > threshold).sum(1, keepdim=True)
        return torch.relu(v - threshold.gather(1, size - 1))

    start_s, stamps = time.perf_counter() - began, [_stamp()]
    for batch in _dense_batches(data, args.dense_epochs):
        features, z, judged = (torch.from_numpy(array).to(device) for array in batch)
        logits = net(features)
        if pooled:
            logits = logits.masked_fill(~judged, -1e9)
        margin = (sparsemax(logits) * nn.functional.softplus(raw) * z).sum(1)
        loss = nn.functional.softplus(-margin).mean()
        descent.zero_grad()
        loss.backward()
        descent.step()
        if args.platform == "cuda":
            torch.cuda.synchronize()
        stamps.append(_stamp())
    return _dense_row(stamps, start_s, args, data)


def _dense_jax(data: dict, args: argparse.Namespace) -> dict:
    import jax
    import jax.numpy as jnp
    import optax

    began = time.perf_counter()
    rng, rubrics = np.random.default_rng(0), int(data["rubrics"])
    shapes = ((FEATURES, HIDDEN), (HIDDEN,), (HIDDEN, rubrics), (rubrics,), (rubrics,))
    params = [jnp.asarray(rng.uniform(-0.02, 0.02, shape), jnp.float32) for shape in shapes]
    descent = optax.adamw(2e-3, weight_decay=1e-4)
    state = descent.init(params)

    def sparsemax(v):
        ordered = -jnp.sort(-v, axis=1)
        threshold = (jnp.cumsum(ordered, axis=1) - 1) / jnp.arange(1, v.shape[1] + 1)
        size = jnp.sum(ordered > threshold, axis=1, keepdims=True)
        return jax.nn.relu(v - jnp.take_along_axis(threshold, size - 1, axis=1))

    def objective(params, features, z):
        first, first_bias, second, second_bias, raw = params
        logits = jax.nn.relu(features @ first + first_bias) @ second + second_bias
        margin = jnp.sum(sparsemax(logits) * jax.nn.softplus(raw) * z, axis=1)
        return jnp.mean(jax.nn.softplus(-margin))

    @jax.jit
    def step(params, state, features, z):
        gradient = jax.grad(objective)(params, features, z)
        move, state = descent.update(gradient, state, params)
        return optax.apply_updates(params, move), state

    start_s, stamps = time.perf_counter() - began, [_stamp()]
    for features, z, _judged in _dense_batches(data, args.dense_epochs):
        params, state = jax.block_until_ready(step(params, state, features, z))
        stamps.append(_stamp())
    return _dense_row(stamps, start_s, args, data)


if __name__ == "__main__":
    main()
