"""How often `svr gate` fails: shares of verdicts over simulated pairs of runs, with and without a real loss.

    python benchmarks/paper/gate_power.py [--runs 1000]

Nothing is judged: outcomes of pairs are drawn, seeds fixed. `discordance` is the share of pairs that exactly one of the
two runs has right, 27 % in the paper's tab:error_overlap (152 + 155 of 1,147); two banks with one judge differ less.
A row with `noise` draws runs that are the same but for verdicts that flip by chance, so often between two askings.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from svr_async.evaluation.compare import PairedTest, paired_test
from svr_async.evaluation.gate import Verdict, decide

ACCURACY = 0.83
MARGINS = (0.0, 0.01, 0.03)


@dataclass(frozen=True, kw_only=True)
class World:
    """Pairs of runs to draw: a true loss, a fraction of 1; `prompt` pairs share a prompt and half of their luck."""

    n: int
    loss: float
    discordance: float = 0.0
    noise: float = 0.0
    prompt: int = 1


WORLDS = (
    World(n=1147, loss=0.0, discordance=0.27),
    World(n=1147, loss=0.0, discordance=0.12),
    World(n=1147, loss=0.0, noise=0.1),
    World(n=1147, loss=0.0, noise=0.27),
    World(n=1147, loss=0.01, discordance=0.27),
    World(n=1147, loss=0.03, discordance=0.27),
    World(n=1147, loss=0.05, discordance=0.27),
    World(n=1147, loss=0.05, discordance=0.12),
    World(n=1147, loss=0.05, discordance=0.35),
    World(n=1147, loss=0.08, discordance=0.27),
    World(n=200, loss=0.0, discordance=0.2),
    World(n=50, loss=0.0, discordance=0.1),
    World(n=2985, loss=0.0, discordance=0.2),
    World(n=1800, loss=0.0, discordance=0.2, prompt=9),
    World(n=1800, loss=0.05, discordance=0.2, prompt=9),
)


def drawn(world: World, seed: int) -> PairedTest:
    """Draw one pair of runs and test them as `svr gate` does."""
    rng = np.random.default_rng([seed, world.n, round(1000 * world.loss), round(1000 * world.discordance)])
    first, second = (_flipping if world.noise else _differing)(world, rng)
    clusters = [str(place // world.prompt) for place in range(world.n)]
    return paired_test(first.tolist(), second.tolist(), clusters=clusters, seed=seed)


def _differing(world: World, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw pairs that only the first, or only the second, has right, as often as discordance and loss say."""
    only_first, only_second = (world.discordance + world.loss) / 2, (world.discordance - world.loss) / 2
    cells = [ACCURACY - only_first, only_first, only_second, 1 - ACCURACY - only_second]
    cell = rng.choice(4, size=world.n, p=cells)
    if world.prompt > 1:
        prompts = rng.choice(4, size=-(-world.n // world.prompt), p=cells)[np.arange(world.n) // world.prompt]
        cell = np.where(rng.random(world.n) < 0.5, prompts, cell)
    return np.isin(cell, (0, 1)), np.isin(cell, (0, 2))


def _flipping(world: World, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw two askings of one judge: a verdict is turned with chance q, where 2q(1 − q) is the noise."""
    q = (1 - math.sqrt(1 - 2 * world.noise)) / 2
    right = rng.random(world.n) < ACCURACY
    return right ^ (rng.random(world.n) < q), right ^ (rng.random(world.n) < q)


def main() -> None:
    """Print a Markdown table: a row a world, for each margin the shares that failed, were undecided, passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="pairs of runs in each world")
    runs = parser.parse_args().runs
    heads = "".join(f" margin {100 * margin:g}: failed / undecided / passed |" for margin in MARGINS)
    print(f"| pairs | loss | discordance |{heads}\n|---:|---:|---:|{'---:|' * len(MARGINS)}")
    for world in WORLDS:
        tests = [drawn(world, seed) for seed in range(runs)]
        print(
            f"| {world.n:,}{_kind(world)} | {100 * world.loss:g} | {_discordance(world)} |{_shares(tests)}", flush=True
        )


def _kind(world: World) -> str:
    return f", {world.prompt} a prompt" if world.prompt > 1 else ""


def _discordance(world: World) -> str:
    return f"noise {100 * world.noise:g} %" if world.noise else f"{100 * world.discordance:g} %"


def _shares(tests: list[PairedTest]) -> str:
    cells = []
    for margin in MARGINS:
        counts = Counter(decide(test, margin) for test in tests)
        found = [100 * counts[one] / len(tests) for one in (Verdict.FAILED, Verdict.UNDECIDED, Verdict.PASSED)]
        cells.append(" / ".join(f"{share:.1f}" for share in found))
    return f" {' % | '.join(cells)} % |"


if __name__ == "__main__":
    main()
