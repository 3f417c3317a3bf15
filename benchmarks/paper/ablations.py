"""The ablation table on a simulated world, over real HTTP: train, leave each part out, judge unseen pairs, compare.

    ablations.py run --world varied --out RUNS           seeds 1 to 3: everything that is missing, then the table
    ablations.py run --world varied --out RUNS --local   the same judge without HTTP, in less time
    ablations.py table --world varied --out RUNS         the table of what is there

Every training and every evaluation is a command of the package against `svr sim`, as anyone would give it; with
`--local` the simulated judge is called in process: the same worlds and the same judge, but which of two responses it is
shown first is drawn anew in training, so figures differ by chance. A run that was stopped goes on with the
same command, and seeds may be run side by side. All of it is SIMULATED.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
from ablations_local import FULL, SPLIT_SEED, Local

from svr_async.core.statistics import mcnemar_exact
from svr_async.simulation.calibration import calibrate_items
from svr_async.simulation.files import test_domains
from svr_async.simulation.planted import PlantedPair
from svr_async.simulation.world import PRESETS, World, preset
from svr_async.training.rounds.config import ABLATIONS

SVR = str(Path(sys.executable).with_name("svr"))
JUDGE = "gpt-oss-120b"
NAMES = {
    "direct": "direct judge",
    "oracle": "human rubrics, unweighted",
    FULL: "trained bank, top 6",
    **{f"no-{part}": f"− {part}" for part in ABLATIONS},
    "uniform": "→ uniform weights",
}
TRUTH = "true criteria and weights (computed)"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Which world is run, with which seeds and sizes, and where the runs are kept."""

    world: str
    seeds: Sequence[int]
    out: Path
    n_train: int
    n_test: int

    def folder(self, seed: int) -> Path:
        """Return the folder of one seed."""
        return self.out / f"{self.world}-{seed}"


def run_seed(plan: Plan, seed: int) -> None:
    """Write the world of a seed, train with and without each part, and judge the test pairs in every way."""
    folder = plan.folder(seed)
    same = ["--seed", str(seed), "--world", plan.world]
    sizes = ["--train", str(plan.n_train), "--test", str(plan.n_test)]
    _svr("sim", *same, *sizes, "--write", str(folder / "data"))
    with _served(same) as url:
        for method in ("direct", "oracle"):
            _evaluate(folder, url, method, ["--method", method])
        for part in ("", *ABLATIONS):
            name = f"no-{part}" if part else FULL
            _train(folder, url, name, ["--ablate", part] if part else [])
            _evaluate(folder, url, name, ["--bank", str(folder / "banks" / name / "bank")])
        _evaluate(folder, url, "uniform", ["--bank", str(folder / "banks" / FULL / "bank"), "--method", "uniform"])


def run_seed_locally(plan: Plan, seed: int) -> None:
    """Do what `run_seed` does without a server."""
    world = World(preset(plan.world, seed))
    local = Local.of(world, plan.folder(seed), plan.n_train, _test_pairs(plan, world), JUDGE)
    local.asker = repr((world.config, world.config.variety))
    local.yardsticks()
    for part in ("", *ABLATIONS):
        name = f"no-{part}" if part else FULL
        if not _marks(plan, seed, name):
            local.bank(name, part)


@contextmanager
def _served(same: Sequence[str]) -> Iterator[str]:
    """Serve the simulated judge on a free port, and yield its base URL."""
    with subprocess.Popen([SVR, "sim", "--port", "0", *same], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield next(word for word in server.stdout.readline().split() if word.startswith("http://"))
        finally:
            server.terminate()


def _train(folder: Path, url: str, name: str, flags: Sequence[str]) -> None:
    out, seed = folder / "banks" / name, ["--seed", str(SPLIT_SEED)]
    if not (out / "record.json").exists():
        _svr("train", str(folder / "data" / "train.jsonl"), *_endpoint(folder, url), *seed, "--out", str(out), *flags)


def _evaluate(folder: Path, url: str, name: str, flags: Sequence[str]) -> None:
    out = folder / "runs" / name
    if not (out / "metrics.json").exists():
        data = ["--data", str(folder / "data" / "rubricbench.jsonl")]
        _svr("eval", "rubricbench", *data, *_endpoint(folder, url), "-q", "--out", str(out), *flags)


def _endpoint(folder: Path, url: str) -> list[str]:
    return ["--judge", JUDGE, "--base-url", url, "--cache", str(folder / "cache")]


def _svr(*args: str) -> None:
    subprocess.run([SVR, *args], check=True, stdout=subprocess.DEVNULL)


def table(plan: Plan) -> str:
    """Return the table of all seeds in Markdown; p is McNemar's against the full bank, over the pairs of all seeds."""
    seeds = [seed for seed in plan.seeds if _marks(plan, seed, FULL)]
    if not seeds:
        return f"no trained bank of {plan.world} under {plan.out}"
    lines = [
        f"SIMULATED, {plan.world} world: strict accuracy on {plan.n_test:,} unseen planted pairs, %",
        "",
        f"| | {' | '.join(f'seed {seed}' for seed in seeds)} | mean | p against the bank |",
        "|---|" + "---|" * (len(seeds) + 2),
    ]
    for name, label in NAMES.items():
        found = [_marks(plan, seed, name) for seed in seeds]
        if all(found):
            lines.append(_row(label, [_share(marks) for marks in found], _p(plan, seeds, name)))
        if name == FULL:
            lines.append(_row(TRUTH, [_true_weights(plan, seed) for seed in seeds], ""))
    return "\n".join([*lines, "", _gap(plan, seeds)])


def _row(label: str, shares: Sequence[float], p: str) -> str:
    cells = [f"{100 * share:.1f}" for share in (*shares, sum(shares) / len(shares))]
    return f"| {label} | {' | '.join(cells)} | {p} |"


def _p(plan: Plan, seeds: Sequence[int], name: str) -> str:
    if name == FULL:
        return ""
    lost = won = 0
    for seed in seeds:
        full, other = _marks(plan, seed, FULL), _marks(plan, seed, name)
        lost += sum(full[item] and not other[item] for item in full)
        won += sum(other[item] and not full[item] for item in full)
    p = mcnemar_exact(lost, won)
    return f"{'< 0.0001' if p < 1e-4 else f'{p:.4f}'} (−{lost} +{won})"


def _gap(plan: Plan, seeds: Sequence[int]) -> str:
    """Say how far the bank comes from the direct judge to the true weights: of the means, and by seed."""
    ends = [(_share(_marks(plan, seed, "direct")), _true_weights(plan, seed)) for seed in seeds]
    ours = [_share(_marks(plan, seed, FULL)) for seed in seeds]
    by_seed = [(own - low) / (high - low) for own, (low, high) in zip(ours, ends, strict=True)]
    low, high = (sum(values) for values in zip(*ends, strict=True))
    whole, shares = (sum(ours) - low) / (high - low), ", ".join(f"{share:.0%}" for share in by_seed)
    return f"From the direct judge to the true weights the bank covers {whole:.1%} ({shares} by seed)."


def _marks(plan: Plan, seed: int, name: str) -> Mapping[str, bool]:
    """Return whether each test pair was decided rightly, by id; nothing where there is no such run."""
    path = plan.folder(seed) / "runs" / name / "items.jsonl"
    if not path.exists():
        return {}
    rows = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    return {row["id"]: bool(row["correct"]) for row in rows}


def _share(marks: Mapping[str, bool]) -> float:
    return sum(marks.values()) / len(marks)


def _true_weights(plan: Plan, seed: int) -> float:
    """Return what the same noisy judge scores on the test pairs with the planted criteria and weights."""
    world = World(preset(plan.world, seed))
    return calibrate_items(world, _test_pairs(plan, world), model=JUDGE).human_true_weights


def _test_pairs(plan: Plan, world: World) -> list[PlantedPair]:
    return list(world.pairs(plan.n_test, "test", [kind for _, kind in test_domains(world, plan.n_test)]))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("--world", choices=list(PRESETS), default="varied")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--out", type=Path, required=True, help="where worlds, banks and runs are kept")
    parser.add_argument("--train", type=int, default=3000, help="training pairs")
    parser.add_argument("--test", type=int, default=1147, help="test pairs")
    parser.add_argument("--local", action="store_true", help="without HTTP")
    flags = parser.parse_args()
    plan = Plan(world=flags.world, seeds=flags.seeds, out=flags.out, n_train=flags.train, n_test=flags.test)
    for seed in plan.seeds if flags.what == "run" else ():
        (run_seed_locally if flags.local else run_seed)(plan, seed)
    print(table(plan))


if __name__ == "__main__":
    main()
