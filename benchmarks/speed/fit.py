"""Time the fit at the paper's scale beside dense forms of the same objective, each in its own process.

    python benchmarks/speed/fit.py --torch-python /path/to/venv/bin/python
    python benchmarks/speed/fit.py --contenders ours-default --pairs 10000 100000 1000000 --rubrics 1024

Contenders: `ours-default`, `ours-paper` and `ours-pooled` (the library: the default preset, the paper's objective, and
the paper's network with alpha over the judged pool); `torch-paper`, `torch-pooled` (dense PyTorch: dense feature and z
batches, sparsemax by sort, AdamW) and `jax-paper` (the same dense form in JAX). A whole fit is 3 rounds of 8 epochs and
3 of calibration. The library runs all of them (its default preset needs fewer epochs, and a closed-form start); the
dense forms run `--dense-epochs` and are projected to the whole from their quietest 40 steps, which the table says.
"No steps" is everything but epochs: start, compilation. CPU seconds are those really used, by one epoch or by all.
PyTorch is no dependency: without `--torch-python` its rows are skipped. On a busy machine only the quietest stretches
compare; OpenMP's waiting threads can slow PyTorch tenfold there, which is no merit of ours.
"""

# ruff: noqa: PLC0415  (each contender imports its own library in its own process)
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

ROUNDS, EPOCHS, CALIBRATION = 3, 8, 3
POOL, FEATURES, WORDS, BATCH, HIDDEN = 18, 4096, 40, 128, 256
STRETCH = 40  # steps; the quietest stretch of a dense form stands for it, so that a busy machine does not flatter us
OURS = ("ours-default", "ours-paper", "ours-pooled")
DENSE = ("torch-paper", "torch-pooled", "jax-paper")


def main() -> None:
    args = _parser().parse_args()
    if args.child:
        print(json.dumps(_child(args)))
        return
    rows = []
    for pairs in args.pairs:
        for rubrics in args.rubrics:
            with tempfile.TemporaryDirectory() as folder:
                data = Path(folder) / "arrays.npz"
                _write_arrays(data, pairs, rubrics)
                rows += [row for name in args.contenders if (row := _run(name, data, pairs, rubrics, args))]
    print(table(rows))


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
    parser.add_argument("--child", choices=OURS + DENSE, help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    return parser


def table(rows: list[dict]) -> str:
    """Return a Markdown table; the ratio is to the dense PyTorch form of the same objective, else the paper's."""
    names = ("contender", "pairs", "rubrics", "ms a step", "whole fit, s", "no steps, s", "CPU s", "peak RSS, MiB")
    out = [f"| {' | '.join(names)} | × step | × whole |", "|---" * (len(names) + 2) + "|"]
    for row in rows:
        objective = "pooled" if row["name"].endswith(("pooled", "default")) else "paper"
        same = [r for r in rows if r["name"] == f"torch-{objective}" and r["size"] == row["size"]]
        whole = f"{same[0]['whole_s'] / row['whole_s']:.1f}" if same else "–"
        step = f"{same[0]['step_ms'] / row['step_ms']:.1f}" if same else "–"
        note = " (projected)" if row["projected"] else ""
        out.append(
            f"| {row['name']} | {row['size'][0]:,} | {row['size'][1]:,} | {row['step_ms']:.2f} "
            f"| {row['whole_s']:.1f}{note} | {row['start_s']:.1f} | {row['cpu_s']:.0f} "
            f"| {row['rss_mib']:.0f} | {step} | {whole} |"
        )
    return "\n".join(out)


def _run(name: str, data: Path, pairs: int, rubrics: int, args: argparse.Namespace) -> dict | None:
    python = args.torch_python if name.startswith("torch") else sys.executable
    if python is None:
        print(f"{name}: skipped, no --torch-python", file=sys.stderr)
        return None
    numbers = [f"--{flag}={getattr(args, flag.replace('-', '_'))}" for flag in ("rounds", "epochs", "calibration")]
    command = [python, __file__, f"--child={name}", f"--data={data}", *numbers, f"--dense-epochs={args.dense_epochs}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    if done.returncode:
        print(f"{name}: failed\n{done.stderr[-2000:]}", file=sys.stderr)
        return None
    row = json.loads(done.stdout.splitlines()[-1]) | {"name": name, "size": (pairs, rubrics)}
    print(f"{name} {pairs} × {rubrics}: {row}", file=sys.stderr)
    return row


def _write_arrays(path: Path, pairs: int, rubrics: int) -> None:
    """Write synthetic arrays: Zipf words, 18 judged entries a pair of which a third carry a signal."""
    rng = np.random.default_rng(0)
    prior = 1 / np.arange(1, FEATURES + 1) ** 0.9
    counts = np.clip(rng.lognormal(np.log(WORDS), 0.6, pairs).astype(np.int64), 3, 400)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    index = rng.choice(FEATURES, indptr[-1], p=prior / prior.sum()).astype(np.int32)
    value = (rng.random(indptr[-1]) + 0.1).astype(np.float32)
    value /= np.sqrt(np.repeat(np.add.reduceat(value**2, indptr[:-1]), counts))
    shift = rng.integers(0, rubrics, pairs)[:, None]
    rubric = np.sort((shift + rng.integers(1, max(2, rubrics // POOL), (pairs, POOL)).cumsum(axis=1)) % rubrics, axis=1)
    z = rng.choice(np.array([-1.25, -0.75, -0.25, 0.25, 0.75, 1.25], np.float32), (pairs, POOL))
    z = np.where((rubric % 3 == 0) & (rng.random(z.shape) < 0.5), np.abs(z), z)
    np.savez(path, indptr=indptr, index=index, value=value, rubric=rubric.astype(np.int32), z=z, rubrics=rubrics)


def _child(args: argparse.Namespace) -> dict:
    data = dict(np.load(args.data))
    run = _ours if args.child in OURS else _dense_torch if args.child.startswith("torch") else _dense_jax
    out = run(data, args)
    used = resource.getrusage(resource.RUSAGE_SELF)
    return out | {"rss_mib": used.ru_maxrss / 1024, "cpu_s": used.ru_utime + used.ru_stime}


def _ours(data: dict, args: argparse.Namespace) -> dict:
    """Run every round through the public functions, dev measurement and compilation included."""
    from dataclasses import replace

    from svr_async.fit.config import DEFAULT, PAPER
    from svr_async.fit.training import calibrate, fit

    began = time.perf_counter()
    train, dev = _fit_arrays(data)
    config = {"ours-default": DEFAULT, "ours-paper": PAPER, "ours-pooled": replace(PAPER, pool="judged")}[args.child]
    if args.child != "ours-default":
        config = replace(config, epochs=args.epochs)
    config = replace(config, calibration_epochs=args.calibration)
    stamps: list[float] = []
    epochs: list[float] = []

    def note(record) -> None:
        now = time.perf_counter()
        if record.epoch:  # record 0 is the start: no step has run
            epochs.append(now - stamps[-1])
        stamps.append(now)

    for _ in range(args.rounds):
        stamps.append(time.perf_counter())
        done = fit(train, dev, config, on_epoch=note)
        if config.calibration_epochs:
            stamps.append(time.perf_counter())
            calibrate(done.selector, train, dev, config, on_epoch=note)
    whole = time.perf_counter() - began
    steps = -(-train.n_pairs // config.batch)
    others = whole - sum(epochs)
    return {"step_ms": 1e3 * min(epochs) / steps, "whole_s": whole, "start_s": others, "projected": False}


def _fit_arrays(data: dict) -> tuple:
    from svr_async.fit.arrays import FitArrays

    pairs = len(data["rubric"])
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


def _projected(step_s: list[float], start_s: float, args: argparse.Namespace, data: dict) -> dict:
    """Return the time of a whole fit of as many steps, from the quietest stretch: no start-up, no dev measurement."""
    pairs = len(data["rubric"])
    steps = (pairs - min(pairs // 20, 2000)) // BATCH
    stretches = [np.mean(step_s[at : at + STRETCH]) for at in range(1, max(2, len(step_s) - STRETCH), STRETCH // 2)]
    quietest = float(min(stretches))
    whole = args.rounds * (args.epochs + args.calibration) * steps * quietest
    return {"step_ms": 1e3 * quietest, "whole_s": whole, "start_s": start_s, "projected": True}


def _dense_torch(data: dict, args: argparse.Namespace) -> dict:
    import torch
    from torch import nn

    began = time.perf_counter()
    torch.manual_seed(0)
    torch.set_num_threads(os.cpu_count() or 1)
    rubrics, pooled = int(data["rubrics"]), args.child.endswith("pooled")
    net = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, rubrics))
    raw = nn.Parameter(torch.full((rubrics,), 0.54))
    descent = torch.optim.AdamW([*net.parameters(), raw], lr=2e-3, weight_decay=1e-4)

    def sparsemax(v):
        v = v - v.max(dim=1, keepdim=True).values
        ordered = v.sort(dim=1, descending=True).values
        rank = torch.arange(1, v.shape[1] + 1, dtype=v.dtype)
        threshold = (ordered.cumsum(1) - 1) / rank
        size = (ordered > threshold).sum(1, keepdim=True)
        return torch.relu(v - threshold.gather(1, size - 1))

    start_s, step_s = time.perf_counter() - began, []
    began = time.perf_counter()
    for features, z, judged in _dense_batches(data, args.dense_epochs):
        logits = net(torch.from_numpy(features))
        if pooled:
            logits = logits.masked_fill(~torch.from_numpy(judged), -1e9)
        margin = (sparsemax(logits) * nn.functional.softplus(raw) * torch.from_numpy(z)).sum(1)
        loss = nn.functional.softplus(-margin).mean()
        descent.zero_grad()
        loss.backward()
        descent.step()
        step_s.append(time.perf_counter() - began)
        began = time.perf_counter()
    return _projected(step_s, start_s, args, data)


def _dense_jax(data: dict, args: argparse.Namespace) -> dict:
    import jax
    import jax.numpy as jnp
    import optax

    from svr_async.fit.sparsemax import sparsemax

    began = time.perf_counter()
    rng, rubrics = np.random.default_rng(0), int(data["rubrics"])
    shapes = ((FEATURES, HIDDEN), (HIDDEN,), (HIDDEN, rubrics), (rubrics,), (rubrics,))
    params = [jnp.asarray(rng.uniform(-0.02, 0.02, shape), jnp.float32) for shape in shapes]
    descent = optax.adamw(2e-3, weight_decay=1e-4)
    state = descent.init(params)

    def objective(params, features, z):
        first, first_bias, second, second_bias, raw = params
        logits = jax.nn.relu(features @ first + first_bias) @ second + second_bias
        margin = jnp.sum(sparsemax(logits, method="sort") * jax.nn.softplus(raw) * z, axis=1)
        return jnp.mean(jax.nn.softplus(-margin))

    @jax.jit
    def step(params, state, features, z):
        gradient = jax.grad(objective)(params, features, z)
        move, state = descent.update(gradient, state, params)
        return optax.apply_updates(params, move), state

    start_s, step_s = time.perf_counter() - began, []
    began = time.perf_counter()
    for features, z, _judged in _dense_batches(data, args.dense_epochs):
        params, state = jax.block_until_ready(step(params, state, features, z))
        step_s.append(time.perf_counter() - began)
        began = time.perf_counter()
    return _projected(step_s, start_s, args, data)


if __name__ == "__main__":
    main()
