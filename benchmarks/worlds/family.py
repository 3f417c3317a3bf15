"""What the method is worth on drawn worlds: one training per draw, decided on unseen pairs, one table by property.

    family.py run --draws 0-39 --pairs 3000 --out RUNS       development draws: for choosing defaults
    family.py run --draws 100-139 --pairs 3000 --out RUNS    the same with all properties
    family.py run --draws 200-239 --pairs 3000 --out RUNS    and with many wordings of each criterion
    family.py run --draws 8000-8039 --pairs 3000 --out RUNS  report draws: run once, at the end (also 8200-8239)
    family.py table --draws 0-39 --pairs 3000 --out RUNS     the table of existing results

Judge and author run in process, with the answers of the endpoint. The same command resumes an interrupted run.
All results are SIMULATED.
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import orjson
from drawn import DrawnConfig, DrawnWorld, drawn
from local import Trial

from svr_async.core.files import write_atomic
from svr_async.training.rounds.config import Ablation

WAYS = ("direct", "human", "uniform", "svr", "truth", "all")
Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Which draws are run, with how many pairs, without which part, and where results are kept."""

    draws: Sequence[int]
    pairs: int | None
    test: int
    out: Path
    part: str = ""
    same_criterion: str = ""

    def path(self, draw: int) -> Path:
        """Return the file of one draw's result."""
        size = self.pairs or drawn(draw).pairs
        without = f"-no-{self.part}" if self.part else ""
        asked = f"-{self.same_criterion}" if self.same_criterion else ""
        return self.out / f"{size}{without}{asked}" / f"{draw}.json"

    def settings(self) -> dict[str, Any]:
        """Return the settings of training that differ from its defaults."""
        ablate = {"ablate": (self.part,)} if self.part else {}
        return ablate | ({"same_criterion": self.same_criterion} if self.same_criterion else {})


def run_draw(plan: Plan, draw: int) -> Row:
    """Train on a draw's world and decide unseen pairs in every way, or read the earlier result."""
    path = plan.path(draw)
    if not path.exists():
        _train(plan, draw, path)
    return dict(orjson.loads(path.read_bytes()))


def _train(plan: Plan, draw: int, path: Path) -> None:
    config, folder = drawn(draw), path.with_suffix("")
    n_train = plan.pairs or config.pairs
    trial = Trial(world=DrawnWorld(config), folder=folder, n_train=n_train, n_test=plan.test, settings=plan.settings())
    row = {"draw": draw, "pairs": n_train, "test": plan.test, **trial.known(), **trial.trained()}
    shutil.rmtree(folder)
    write_atomic(path, orjson.dumps(row, option=orjson.OPT_INDENT_2))


def table(plan: Plan) -> str:
    """Return the tables of the draws with results, in Markdown."""
    rows = [orjson.loads(plan.path(draw).read_bytes()) for draw in plan.draws if plan.path(draw).exists()]
    if not rows:
        return f"no result under {plan.out}"
    head = f"SIMULATED: {len(rows)} drawn worlds, {_pairs(plan)} training pairs, {plan.test:,} unseen pairs each, %"
    lines = [head, "", "| draws | worlds | " + " | ".join(WAYS) + " | of the way | worst tenth |", "|---" * 10 + "|"]
    for label, chosen in _groups(rows):
        lines.append(_line(label, chosen))
    return "\n".join([*lines, "", *_verdicts(rows), "", *_each(rows)])


def _pairs(plan: Plan) -> str:
    return "their own numbers of" if plan.pairs is None else f"{plan.pairs:,}"


def way(row: Row) -> float:
    """Return (svr − direct) / (truth with one wording − direct)."""
    return float((row["svr"] - row["direct"]) / (row["truth"] - row["direct"]))


def _line(label: str, rows: Sequence[Row]) -> str:
    shares = [way(row) for row in rows]
    worst = np.sort(shares)[: max(1, len(rows) // 10)].mean()
    cells = [f"{100 * np.mean([row[name] for row in rows]):.1f}" for name in WAYS]
    return f"| {label} | {len(rows)} | {' | '.join(cells)} | {np.mean(shares):.2f} | {worst:.2f} |"


def _groups(rows: Sequence[Row]) -> Iterator[tuple[str, Sequence[Row]]]:
    yield "all", rows
    for name, label_of in PROPERTIES.items():
        labels = sorted({label_of(drawn(row["draw"])) for row in rows})
        for label in labels:
            yield f"{name}: {label}", [row for row in rows if label_of(drawn(row["draw"])) == label]


def _band(value: float, borders: Sequence[float], names: Sequence[str]) -> str:
    return names[sum(value >= border for border in borders)]


PROPERTIES: Mapping[str, Callable[[DrawnConfig], str]] = {
    "types": lambda one: _band(one.types, (2, 10), ("1", "2–8", "more than 8")),
    "type words": lambda one: _band(one.type_words, (0.35, 0.7), ("0–20 %", "35–50 %", "75–100 %")),
    "in common": lambda one: _band(one.common_share, (0.01, 0.5, 1), ("nothing", "some", "most", "all")),
    "weights": lambda one: _band(one.weight_ratio, (0.75,), ("steep", "flat")),
    "faults": lambda one: "some" if one.faults else "none",
    "relevant differences": lambda one: _band(one.relevant, (0.4, 0.7), ("10–40 %", "40–70 %", "70–100 %")),
    "rubric texts": lambda one: one.texts,
    "wordings": lambda one: _band(one.wordings, (2, 8), ("1", "2–5", "8–40")),
    "judge noise": lambda one: _band(one.noise, (0.09, 0.17), ("under 9 %", "9–17 %", "17 % and more")),
    "type frequencies": lambda one: "Zipf" if one.zipf else "equal",
    "absences": lambda one: "some" if one.absences else "none",
    "two at once": lambda one: "some" if one.doubles else "none",
    "errors of wordings": lambda one: _band(one.shared_errors, (0.1, 1), ("separate", "half shared", "shared")),
    "label noise": lambda one: _band(one.label_noise, (0.1,), ("under 10 %", "10 % and more")),
    "style in training": lambda one: "leans" if one.style else "does not",
}


def _verdicts(rows: Sequence[Row]) -> list[str]:
    """Report in how many worlds the bank is below human rubrics, and below the direct judge, by more than an error."""
    below = [row["draw"] for row in rows if _clearly_below(row, "human")]
    under = [row["draw"] for row in rows if row["svr"] < row["direct"]]
    clearly = [row["draw"] for row in rows if _clearly_below(row, "direct")]
    gained, possible = (np.mean([row[name] - row["direct"] for row in rows]) for name in ("svr", "truth"))
    return [
        f"Mean share of the way {np.mean([way(row) for row in rows]):.3f}; of the means {gained / possible:.3f}.",
        f"Below human rubrics by more than a standard error: {_listed(below)}",
        f"Below the direct judge: {_listed(under)}, by more than a standard error: {_listed(clearly)}",
    ]


def _clearly_below(row: Row, name: str) -> bool:
    """Whether the bank is below another way by more than a standard error of the difference."""
    shares = (row["svr"], row[name])
    error = np.sqrt(sum(share * (1 - share) for share in shares) / row["test"])
    return bool(row["svr"] < row[name] - error)


def _listed(draws: Sequence[int]) -> str:
    return f"{len(draws)} (draws {', '.join(map(str, draws))})" if draws else "0"


def _each(rows: Sequence[Row]) -> list[str]:
    """Return a line a world."""
    lines = ["| draw | properties | " + " | ".join(WAYS) + " | of the way | structure |", "|---" * 10 + "|"]
    for row in rows:
        one = drawn(row["draw"])
        what = f"{one.types} types, words {one.type_words:.0%}, common {one.common_share:.0%}"
        what += f", {one.texts} {one.wordings}, noise {one.noise:.0%}"
        cells = " | ".join(f"{100 * row[name]:.1f}" for name in WAYS)
        held = row["rounds"][-1].get("structure", {}).get("structure", {})
        form = f"{held.get('groups')} groups, {held.get('sparsity')}/{held.get('common')}, top {held.get('top_k')}"
        lines.append(f"| {row['draw']} | {what} | {cells} | {way(row):.2f} | {form} |")
    return lines


def draws_of(text: str) -> list[int]:
    """Read `0-39,1000`."""
    parts = (part.partition("-") for part in text.split(","))
    return [draw for first, _, last in parts for draw in range(int(first), int(last or first) + 1)]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("--draws", type=draws_of, default=draws_of("0-39"))
    parser.add_argument("--pairs", type=int, help="training pairs; default: each draw's own number")
    parser.add_argument("--test", type=int, default=1000, help="unseen pairs")
    parser.add_argument("--ablate", choices=get_args(Ablation), default="", help="leave a part of the method out")
    parser.add_argument("--same-criterion", choices=["author", "text", "off"], default="", help="default: text")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    flags = parser.parse_args()
    plan = Plan(
        draws=flags.draws,
        pairs=flags.pairs,
        test=flags.test,
        out=flags.out,
        part=flags.ablate,
        same_criterion=flags.same_criterion,
    )
    if flags.what == "run":
        with ProcessPoolExecutor(flags.processes) as pool:
            for row in pool.map(partial(run_draw, plan), plan.draws):
                print(f"draw {row['draw']}: {way(row):.2f} of the way", flush=True)
    print(table(plan))


if __name__ == "__main__":
    main()
