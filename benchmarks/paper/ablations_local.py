"""The ablation runs without HTTP: the simulated judge and author are called in process."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import orjson
from sim_judge import SimJudge, comparer

from svr_async.core.pair import (
    Order,
    PreferencePair,
    Presentation,
    Side,
    hashed_order,
    present,
    prompt_text,
    split_by_prompt,
)
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import RubricComparison
from svr_async.fit.forward import alpha_numpy
from svr_async.fit.tfidf import Vocabulary, transform
from svr_async.judges.protocol import Answer, Judge
from svr_async.judges.questions import MAX_INDUCED
from svr_async.judges.same_criterion import CriteriaQuestion
from svr_async.scoring.selection import TextSimilarities, select
from svr_async.simulation.author import Author
from svr_async.simulation.judge import PlantedJudge
from svr_async.simulation.models import MODELS
from svr_async.simulation.planted import PlantedPair, PlantedWorld
from svr_async.training.rounds.algorithm import run_rounds
from svr_async.training.rounds.config import SameCriterion, TrainConfig
from svr_async.training.rounds.dev_choice import chosen_round
from svr_async.training.rounds.judge_calls import TrainingJudges
from svr_async.training.rounds.session import FittedRound, Session, prepare
from svr_async.training.rounds.stages import Stages, digest_of
from svr_async.training.running.run import OFFLINE_WORKERS

FULL = "svr"  # the run with every part
SPLIT_SEED = 0  # of training: the split, and the fit
Weighed = Sequence[tuple[str, float]]  # rubrics and what each counts


@dataclass(slots=True)
class LocalAuthor:
    """The planted author: induction of both kinds, and probes."""

    author: Author
    name: str = "sim"

    async def induce(self, pair: PreferencePair, *, contrastive: bool = True) -> Answer[tuple[Rubric, ...]]:
        """Propose rubrics for a pair, or for its chosen response alone."""
        rows = self.author.induce(prompt_text(pair.prompt), pair.chosen, pair.rejected if contrastive else None)
        names = {"text": "rubric", "facet": "facet", "importance": "importance", "grounding": "grounding"}
        rubrics = [Rubric(**{name: row[key] for name, key in names.items()}) for row in rows]
        return Answer(value=tuple({rubric.id: rubric for rubric in rubrics}.values())[:MAX_INDUCED])

    async def probe(self, pair: PreferencePair) -> Answer[str]:
        """Write a response close to the chosen one that is worse."""
        return Answer(value=self.author.probe(prompt_text(pair.prompt), pair.chosen))

    async def same_criterion(self, asked: CriteriaQuestion) -> Answer[Mapping[str, str | None]]:
        """Say which criteria repeat listed ones."""
        known, new = ({f"{letter}{n}": text for n, text in enumerate(texts, 1)}
                      for letter, texts in (("K", asked.known), ("N", asked.new)))  # fmt: skip
        return Answer(value=self.author.same_criterion(known, new))


@dataclass(slots=True)
class Local:
    """One planted world with its judge, its pairs, and the folder that the runs go to.

    With `expected` the judge answers with probabilities, whose expected Δ is trained and decided on.
    """

    world: PlantedWorld
    folder: Path
    train: list[PreferencePair]
    test: list[PlantedPair]
    judge: PlantedJudge
    asker: str = ""
    expected: bool = False
    same_criterion: SameCriterion = "text"

    @classmethod
    def of(cls, world: PlantedWorld, folder: Path, train: int, test: Sequence[PlantedPair], model: str) -> Local:
        """Plant `train` training pairs; `test` are the pairs to decide."""
        judge = PlantedJudge(world, world.model(MODELS[model]))
        return cls(world, folder, [item.pair for item in world.pairs(train, "train")], list(test), judge)

    def yardsticks(self) -> None:
        """Decide the test pairs directly, and by the human rubrics."""
        self._keep("direct", [self._prefer(item) for item in self.test])
        self._keep("oracle", [self._overall(item) for item in self.test])

    def bank(self, name: str, part: str) -> None:
        """Train a bank without a part, and decide the test pairs with it; the full one with uniform weights too."""
        fitted, vocabulary = asyncio.run(self._trained(name, part))
        chosen = self._chosen(fitted, vocabulary)
        self._by_rubrics(name, lambda item: chosen[item.pair.id])
        if not part:
            self._by_rubrics("uniform", lambda item: [(text, 1.0) for text, _ in chosen[item.pair.id]])

    async def _trained(self, name: str, part: str) -> tuple[FittedRound, Vocabulary]:
        stages, held = self.folder / "banks" / name / "stages", self.folder / "banks" / FULL / "stages"
        if part and held.exists() and not stages.exists():
            shutil.copytree(held, stages)  # what a part does not change has the same digest, and is read back
        config = TrainConfig(
            split_seed=SPLIT_SEED, ablate=frozenset([part] if part else []), same_criterion=self.same_criterion
        )
        train, dev = split_by_prompt(self.train, config.dev_share, salt=str(config.split_seed))
        author = LocalAuthor(Author(self.world, self.judge.model))
        judge = cast(
            "Judge", SimJudge(self.world, self.judge.model, expected=self.expected)
        )  # training asks it nothing but to compare
        session = Session(
            judges=TrainingJudges(judge=judge, author=author, workers=OFFLINE_WORKERS),
            config=config,
            stages=Stages(stages),
            material=prepare(train, dev, digest=self._digest(), pairs_of_words=config.fit.pairs_of_words),
            asker=self.asker,
        )
        rounds = await run_rounds(session)
        records = [dict(one.record) for one in rounds]
        (self.folder / "banks" / name / "record.json").write_bytes(orjson.dumps({"rounds": records}))
        return chosen_round(rounds, len(dev), config.publish), session.material.vocabulary

    def _digest(self) -> str:
        return digest_of([[pair.id, pair.chosen] for pair in self.train])

    def _chosen(self, fitted: FittedRound, vocabulary: Vocabulary) -> Mapping[str, Weighed]:
        """Return the rubrics for each test prompt with their importance, by pair id."""
        texts = [candidate.rubric.text for candidate in fitted.bank]
        similarities = TextSimilarities(texts)
        borders, index, value = transform(vocabulary, [prompt_text(item.pair.prompt) for item in self.test])
        chosen = {}
        for row, item in enumerate(self.test):
            part = slice(borders[row], borders[row + 1])
            alpha = alpha_numpy(fitted.selector, index[part], value[part])
            active = select(alpha, fitted.selector.weight, similarities, fitted.settings)
            chosen[item.pair.id] = [(texts[entry.index], entry.importance) for entry in active]
        return chosen

    def _by_rubrics(self, name: str, rubrics_of: Callable[[PlantedPair], Weighed]) -> None:
        self._keep(name, [self._margin(item, rubrics_of(item)) > 0 for item in self.test])

    def _margin(self, item: PlantedPair, rubrics: Weighed) -> float:
        """Return the margin in favour of the better response."""
        rows, gold = self._compared(item, [text for text, _ in rubrics])
        margin = sum(weight * (row.delta or 0.0) for row, (_, weight) in zip(rows, rubrics, strict=True))
        return margin if gold is Side.A else -margin

    def _prefer(self, item: PlantedPair) -> bool:
        order, language = hashed_order(item.pair.id), self.world.language
        prompt = language.read_prompt(prompt_text(item.pair.prompt))
        shown = map(language.read_response, _both(present(item.pair, order)))
        return self.judge.prefer(prompt, *shown) is _gold(item, order)

    def _overall(self, item: PlantedPair) -> bool:
        """Tell whether the judge's overall preference by the human rubrics is right."""
        rows, gold = self._compared(item, self.world.human_rubrics(item))
        return self.judge.overall(rows) is gold

    def _compared(self, item: PlantedPair, rubrics: Sequence[str]) -> tuple[list[RubricComparison], Side]:
        """Judge a pair on rubrics in the order that the judge is shown, and return which side is right there."""
        order, language = hashed_order(item.pair.id), self.world.language
        shown = present(item.pair, order)
        prompt, a, b = language.read_prompt(prompt_text(item.pair.prompt)), *map(language.read_response, _both(shown))
        judge = comparer(self.judge, expected=self.expected)
        return [judge.compare(prompt, a, b, language.read_rubric(t)) for t in rubrics], _gold(item, order)

    def _keep(self, name: str, marks: Sequence[bool]) -> None:
        rows = [{"id": item.pair.id, "correct": mark} for item, mark in zip(self.test, marks, strict=True)]
        path = self.folder / "runs" / name / "items.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows))


def _both(shown: Presentation) -> tuple[str, str]:
    return shown.response_a, shown.response_b


def _gold(item: PlantedPair, order: Order) -> Side:
    gold = item.pair.gold or Side.A
    return gold if order is Order.AB else gold.other()
