"""Training and judging on a drawn world in process: the judge and author of the endpoint, without HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from drawn import TEST, DrawnWorld

from svr_async.core.integrity import Integrity, Marks
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
from svr_async.judges.protocol import Answer, Comparisons, Judge
from svr_async.judges.questions import MAX_INDUCED
from svr_async.scoring.selection import select
from svr_async.simulation.judge import PlantedJudge
from svr_async.simulation.world import PlantedPair
from svr_async.training.rounds.algorithm import chosen_round, run_rounds
from svr_async.training.rounds.config import TrainConfig
from svr_async.training.rounds.session import FittedRound, Session, prepare
from svr_async.training.rounds.stages import Stages, TrainingJudges, digest_of
from svr_async.training.train import OFFLINE_WORKERS

MODEL = "gpt-oss-120b"


@dataclass(slots=True)
class LocalJudge:
    """A planted judge that compares two responses on rubrics."""

    planted: PlantedJudge
    name: str = "sim"
    label: str = "SIMULATED, in process"
    marks: Marks = frozenset({Integrity.SIMULATED})

    def rows(self, shown: Presentation, texts: Iterable[str]) -> list[RubricComparison]:
        """Judge rubrics on both responses."""
        world = self.planted.world
        prompt = world.read_prompt(prompt_text(shown.prompt))
        a, b = world.read_response(shown.response_a), world.read_response(shown.response_b)
        return [self.planted.compare(prompt, a, b, world.read_rubric(text)) for text in texts]

    async def compare(
        self, shown: Presentation, rubrics: Sequence[Rubric], *, overall: bool, note: str = ""
    ) -> Answer[Comparisons]:
        """Judge rubrics on both responses, without an overall verdict."""
        assert not overall, note
        rows = self.rows(shown, [rubric.text for rubric in rubrics])
        named = zip(rubrics, rows, strict=True)
        return Answer(value=Comparisons(rows=tuple(replace(row, rubric_id=rubric.id) for rubric, row in named)))


@dataclass(slots=True)
class LocalAuthor:
    """The planted author: induction of both kinds, probes, and the same criterion in other words."""

    author: PlantedJudge
    name: str = "sim"

    async def induce(self, pair: PreferencePair, *, contrastive: bool = True) -> Answer[tuple[Rubric, ...]]:
        """Propose rubrics for a pair, or only for its chosen response."""
        rows = self.author.induce(prompt_text(pair.prompt), pair.chosen, pair.rejected if contrastive else "")
        rubrics = [Rubric(text=row.pop("rubric"), **row) for row in rows]
        return Answer(value=tuple({rubric.id: rubric for rubric in rubrics}.values())[:MAX_INDUCED])

    async def probe(self, pair: PreferencePair) -> Answer[str]:
        """Write a worse response close to the chosen one."""
        return Answer(value=self.author.probe(prompt_text(pair.prompt), pair.chosen))

    async def same_criterion(self, asked: Any) -> Answer[Mapping[str, str | None]]:
        """Say which new criteria (`asked.new`) repeat listed ones (`asked.known`)."""
        known, new = (
            {f"{letter}{number}": text for number, text in enumerate(texts, 1)}
            for letter, texts in (("K", asked.known), ("N", asked.new))
        )
        return Answer(value=self.author.same_criterion(known, new))


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A drawn world with `n_train` training pairs and `n_test` unseen ones; `settings` are those of TrainConfig."""

    world: DrawnWorld
    folder: Path
    n_train: int
    n_test: int
    settings: Mapping[str, Any]

    @cached_property
    def test(self) -> list[PlantedPair]:
        """The unseen pairs."""
        return list(self.world.pairs(self.n_test, TEST))

    @cached_property
    def judge(self) -> LocalJudge:
        """The judge with the noise and bias of the world."""
        return LocalJudge(self.world.judges()[MODEL])

    def known(self) -> dict[str, float]:
        """Return the accuracies of ways without training; `truth` and `all` use the true criteria and weights."""
        shown = [(item, *presented(item)) for item in self.test]
        return {
            "direct": share(self._prefers(seen) is gold for _, seen, gold in shown),
            "human": share(self._overall(item, seen) is gold for item, seen, gold in shown),
            "truth": share(self._by_truth(item, seen, 1) is gold for item, seen, gold in shown),
            "all": share(self._by_truth(item, seen, None) is gold for item, seen, gold in shown),
            "longest": share((len(s.response_a) > len(s.response_b)) is (gold is Side.A) for _, s, gold in shown),
        }

    def _prefers(self, shown: Presentation) -> Side:
        read = self.world.read_response
        prompt = self.world.read_prompt(prompt_text(shown.prompt))
        return self.judge.planted.prefer(prompt, read(shown.response_a), read(shown.response_b))

    def _overall(self, item: PlantedPair, shown: Presentation) -> Side:
        return self.judge.planted.overall(self.judge.rows(shown, self.world.human_rubrics(item)))

    def _by_truth(self, item: PlantedPair, shown: Presentation, wordings: int | None) -> Side:
        """Decide by the true criteria and weights; a verdict is the mean over the first wordings, None: over all."""
        kind, total = self.world.kinds[item.kind], 0.0
        for number, weight in zip(kind.cares, kind.weights, strict=True):
            texts = [f"The response {text}." for text in self.world.criteria[number].predicates[:wordings]]
            rows = self.judge.rows(shown, texts)
            total += weight * sum(row.delta or 0.0 for row in rows) / len(rows)
        return Side.A if total > 0 else Side.B

    def trained(self) -> dict[str, Any]:
        """Train a bank; return its accuracy, that of its rubrics with equal weights, and the rounds' records."""
        rounds, fitted, vocabulary = asyncio.run(self._train())
        chosen = self._chosen(fitted, vocabulary)
        equal = {key: [(text, 1.0) for text, _ in rubrics] for key, rubrics in chosen.items()}
        return {"svr": self._accuracy(chosen), "uniform": self._accuracy(equal), "rounds": rounds}

    async def _train(self) -> tuple[list[dict[str, Any]], FittedRound, Vocabulary]:
        config = TrainConfig(split_seed=0, **self.settings)
        pairs = [item.pair for item in self.world.pairs(self.n_train)]
        train, dev = split_by_prompt(pairs, config.dev_share, salt=str(config.split_seed))
        author = LocalAuthor(self.judge.planted)
        digest = digest_of([[pair.id, pair.chosen] for pair in pairs])
        session = Session(  # training only asks the judge to compare
            judges=TrainingJudges(judge=cast("Judge", self.judge), author=author, workers=OFFLINE_WORKERS),
            config=config,
            stages=Stages(self.folder / "stages"),
            material=prepare(train, dev, digest=digest, pairs_of_words=config.fit.pairs_of_words),
            asker=repr(self.world.config),
        )
        rounds = await run_rounds(session)
        records = [dict(one.record) for one in rounds]
        return records, chosen_round(rounds, len(dev), config.publish), session.material.vocabulary

    def _chosen(self, fitted: FittedRound, vocabulary: Vocabulary) -> dict[str, list[tuple[str, float]]]:
        """Return the rubrics and weights for each unseen prompt, by pair id."""
        texts = [candidate.rubric.text for candidate in fitted.bank]
        borders, index, value = transform(vocabulary, [prompt_text(item.pair.prompt) for item in self.test])
        chosen = {}
        for row, item in enumerate(self.test):
            part = slice(borders[row], borders[row + 1])
            alpha = alpha_numpy(fitted.selector, index[part], value[part])
            active = select(alpha, fitted.selector.weight, texts, fitted.settings)
            chosen[item.pair.id] = [(texts[entry.index], entry.importance) for entry in active]
        return chosen

    def _accuracy(self, chosen: Mapping[str, Sequence[tuple[str, float]]]) -> float:
        return share(self._margin(item, chosen[item.pair.id]) > 0 for item in self.test)

    def _margin(self, item: PlantedPair, rubrics: Sequence[tuple[str, float]]) -> float:
        """Return the margin in favour of the better response."""
        shown, gold = presented(item)
        rows = self.judge.rows(shown, [text for text, _ in rubrics])
        margin = sum(weight * (row.delta or 0.0) for row, (_, weight) in zip(rows, rubrics, strict=True))
        return margin if gold is Side.A else -margin


def presented(item: PlantedPair) -> tuple[Presentation, Side]:
    """Return a pair in the order that the judge sees, and the better side in it."""
    order, gold = hashed_order(item.pair.id), item.pair.gold or Side.A
    return present(item.pair, order), gold if order is Order.AB else gold.other()


def share(hits: Iterable[bool]) -> float:
    """Return the share of hits."""
    marks = list(hits)
    return sum(marks) / max(1, len(marks))
