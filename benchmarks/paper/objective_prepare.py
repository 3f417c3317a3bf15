"""Make the worlds that objectives are compared on: planted ones judged in process, and real pairs with free checks.

Each goes through the package's own functions, one round of `svr train`: split, induce, merge, judge pools, store. The
dev and test pairs are then judged on the whole bank, so that any choice of rubrics can be scored without a judge.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from objective_data import RECORD, Held
from objective_sim import SimAuthor, SimJudge, true_weights

from svr_async.adapters import get_adapter
from svr_async.commands.train.run import OFFLINE_WORKERS, RUBRICS_PER_FREE_CALL, usable
from svr_async.judges.protocol import Answer, Author
from svr_async.judges.rules.author import RulesAuthor
from svr_async.judges.rules.judge import RulesJudge
from svr_async.judges.rules.registry import grid_rubrics
from svr_async.simulation.files import test_domains
from svr_async.simulation.models import MODELS
from svr_async.simulation.world import World, WorldConfig
from svr_async.training import asking
from svr_async.training.asking import Crew, PoolTask
from svr_async.training.config import TrainConfig
from svr_async.training.fitting import calibrate_round, fit_round
from svr_async.training.inducing import induced
from svr_async.training.judging import judge_pools, sources_of
from svr_async.training.merge import Candidate, merge
from svr_async.training.pools import PoolConfig, PoolPolicy
from svr_async.training.session import Growth, Session, prepare
from svr_async.training.stages import Stages, digest_of
from svr_async.training.storing import write_store
from svr_async.vocabulary.pair import PreferencePair, hashed_fraction, prompt_text
from svr_async.vocabulary.rubric import Rubric
from svr_async.vocabulary.splits import split_by_prompt

FOLDS = 5
FOLD_SALT = "held-out"  # the default of `svr data split`: fold 0 is what `--share 0.2` holds out
SIM_MODEL = "gpt-oss-120b"
SETS = {"llmbar": ("pairs", "llmbar/LLMBar"), "pandalm": ("pairs", "pandalm/testset-v1.json.gz")}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Where to write worlds, and the share of the training prompts that is held back as dev split."""

    out: Path
    dev_share: float = 0.1


@dataclass(slots=True)
class KeptAuthor:
    """An author whose proposals are kept by pair, since each pair trains in several folds."""

    author: Author
    kept: dict[str, Answer[tuple[Rubric, ...]]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The author's name."""
        return self.author.name

    async def induce(self, pair: PreferencePair, *, contrastive: bool = True) -> Answer[tuple[Rubric, ...]]:
        """Return the proposals for a pair; a fixed list is asked once."""
        if pair.id not in self.kept:
            self.kept[pair.id] = await self.author.induce(pair, contrastive=contrastive)
        return self.kept[pair.id]

    async def probe(self, pair: PreferencePair) -> Answer[str]:
        """Pass the question on."""
        return await self.author.probe(pair)


# ── real pairs ──────────────────────────────────────────────────────────────────────────────────────────────────────


def prepare_real(plan: Plan, data: Path, folds: Sequence[int], limit: int | None = None) -> None:
    """Prepare folds of RMB: train on four fifths of its prompts, test on the rest and on the other sets."""
    crew = Crew(
        judge=RulesJudge(),
        author=KeptAuthor(RulesAuthor()),
        workers=OFFLINE_WORKERS,
        rubrics_per_call=RUBRICS_PER_FREE_CALL,
    )
    sets = {"rmb": _pairs("rmb", data / "rmb", limit)}
    sets |= {name: _pairs(adapter, data / path, limit) for name, (adapter, path) in SETS.items()}
    judged = {name: judged_on_all(plan.out, name, pairs, crew) for name, pairs in sets.items()}
    for fold in folds:
        _prepare_fold(plan, crew, fold, sets, judged)


def fold_of(pair: PreferencePair) -> int:
    """Return the fold that a pair's prompt is tested in."""
    return int(FOLDS * hashed_fraction("split", FOLD_SALT, prompt_text(pair.prompt)))


def _pairs(adapter: str, path: Path, limit: int | None) -> list[PreferencePair]:
    return [pair for pair in get_adapter(adapter).load(path, lenient=True).pairs if usable(pair)][:limit]


def judged_on_all(out: Path, name: str, pairs: Sequence[PreferencePair], crew: Crew) -> np.ndarray:
    """Return z (pair, check) of all checks of the grid, from the file of an earlier run where it fits."""
    grid = grid_rubrics()
    digest = digest_of([[p.id, p.chosen, p.rejected] for p in pairs], [rubric.id for rubric in grid])
    path = out / "judged" / f"{name}.npz"
    if path.exists():
        with np.load(path) as held:
            if str(held["digest"]) == digest:
                return np.asarray(held["z"])
    say(f"judging {len(pairs)} pairs of {name} on {len(grid)} checks")
    z = asyncio.run(_table(crew, pairs, grid))
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, z=z, digest=digest)
    return z


def _prepare_fold(
    plan: Plan,
    crew: Crew,
    fold: int,
    sets: Mapping[str, Sequence[PreferencePair]],
    judged: Mapping[str, np.ndarray],
) -> None:
    folder = _fresh(plan.out / f"real-{fold}")
    grid = grid_rubrics()
    place = {rubric.id: number for number, rubric in enumerate(grid)}
    rmb, at = sets["rmb"], {pair.id: row for row, pair in enumerate(sets["rmb"])}
    config = TrainConfig(rounds=1, dev_share=plan.dev_share, split_seed=fold, pools=PoolConfig(policy=PoolPolicy.ALL))
    session = _session(folder, crew, config, [pair for pair in rmb if fold_of(pair) != fold])
    for pair in session.material.pairs:
        row = judged["rmb"][at[pair.id]]
        session.ledger.note(pair.id, place, {grid[n].id: float(row[n]) for n in np.flatnonzero(~np.isnan(row))})
    bank = asyncio.run(_first_round(session, folder / "store"))
    columns = [place[candidate.rubric.id] for candidate in bank]

    def held(pairs: Sequence[PreferencePair], z: np.ndarray) -> Held:
        return Held.of(pairs, session.material.vocabulary, z[:, columns], checks=z)

    test = [pair for pair in rmb if fold_of(pair) == fold]
    held(session.material.dev, judged["rmb"][[at[p.id] for p in session.material.dev]]).save(folder / "dev.npz")
    held(test, judged["rmb"][[at[pair.id] for pair in test]]).save(folder / "test-rmb.npz")
    for name in SETS:
        held(sets[name], judged[name]).save(folder / f"test-{name}.npz")
    train = np.array([at[pair.id] for pair in session.material.train])
    np.savez_compressed(folder / "checks.npz", z=judged["rmb"][train])
    _finish(folder, session, bank, group="real", seed=fold, tests=["rmb", *SETS], free=True)


# ── planted worlds ──────────────────────────────────────────────────────────────────────────────────────────────────


def prepare_sim(plan: Plan, noise: float, seed: int, n_train: int = 3000, n_test: int = 2000) -> None:
    """Prepare one planted world: a judge that is wrong on `noise` of its verdicts, and fresh pairs to test on."""
    folder = _fresh(plan.out / f"sim-{100 * noise:02.0f}-{seed}")
    world = World(WorldConfig(seed=seed))
    judge = SimJudge(world, replace(MODELS[SIM_MODEL], noise=noise))
    crew = Crew(judge=judge, author=SimAuthor(world, judge.model), workers=OFFLINE_WORKERS)
    config = TrainConfig(rounds=1, dev_share=plan.dev_share, split_seed=seed)
    session = _session(folder, crew, config, [item.pair for item in world.pairs(n_train, "train")])
    bank = asyncio.run(_first_round(session, folder / "store"))
    rubrics = [candidate.rubric for candidate in bank]
    kinds = [kind for _, kind in test_domains(world, n_test)]
    items = list(world.pairs(n_test, "test", kinds))
    for name, pairs in (("dev", session.material.dev), ("test-sim", [item.pair for item in items])):
        z = asyncio.run(_table(crew, pairs, rubrics))
        truth = true_weights(world, rubrics)[kinds] if name == "test-sim" else None
        Held.of(pairs, session.material.vocabulary, z, truth=truth).save(folder / f"{name}.npz")
    _finish(folder, session, bank, group=f"sim {noise:.0%}", seed=seed, tests=["sim"], free=False)


# ── both ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _session(folder: Path, crew: Crew, config: TrainConfig, pairs: Sequence[PreferencePair]) -> Session:
    """Return a training run in memory; nothing is fitted here."""
    train, dev = split_by_prompt(pairs, config.dev_share, salt=str(config.split_seed))
    return Session(
        crew=crew,
        config=config,
        stages=Stages(folder / "stages"),
        material=prepare(train, dev, digest=digest_of([pair.id for pair in pairs], crew.judge.name), pairs_of_words=config.fit.pairs_of_words),
        fit_round=fit_round,
        calibrate=calibrate_round,
        margins=lambda _selector, arrays: np.zeros(arrays.n_pairs, np.float32),
        say=say,
    )


async def _first_round(session: Session, store: Path) -> tuple[Candidate, ...]:
    """Induce, merge and judge as the first round of training does, and write the feature store."""
    candidates = await induced(session, "induce-1", session.material.train, {})
    bank = merge(candidates, cutoff=session.config.merge_cutoff, cap=session.config.bank_cap)
    index = {candidate.rubric.id: place for place, candidate in enumerate(bank)}
    sources = sources_of(session, bank)
    await judge_pools(session, "judge-1", 1, bank, index, sources, Growth(candidates=candidates), [])
    write_store(session, store, bank)
    return bank


async def _table(crew: Crew, pairs: Sequence[PreferencePair], rubrics: Sequence[Rubric]) -> np.ndarray:
    """Return z (pair, rubric) of pairs judged on all of these rubrics; NaN where the judge abstained."""
    crew = replace(crew, rubrics_per_call=max(1, len(rubrics)))
    found, _ = await asking.judge_pools(crew, [PoolTask(pair, rubrics) for pair in pairs])
    return np.array([[z.get(rubric.id, np.nan) for rubric in rubrics] for z in found], dtype=np.float32)


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _finish(folder: Path, session: Session, bank: Sequence[Candidate], **facts: Any) -> None:
    """Drop the stages, and write the record that says that a world is whole."""
    shutil.rmtree(folder / "stages", ignore_errors=True)
    sizes = {"train": len(session.material.train), "dev": len(session.material.dev), "rubrics": len(bank)}
    (folder / RECORD).write_text(json.dumps({**facts, **sizes}, indent=1), "utf-8")
    say(f"{folder.name}: {sizes}")


def say(text: str) -> None:
    """Report progress."""
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)
