"""A training run in memory: its material, its settings, who is asked, and what a round hands on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svr_async.core.pair import PreferencePair, prompt_text
from svr_async.fit.arrays import FitArrays
from svr_async.fit.forward import Selector
from svr_async.fit.history import FitResult
from svr_async.fit.tfidf import Vocabulary, learn
from svr_async.scoring.bank import InferenceSettings
from svr_async.training.bank.merge import Candidate
from svr_async.training.rounds.config import TrainConfig
from svr_async.training.rounds.judge_calls import Crew
from svr_async.training.rounds.ledger import Ledger
from svr_async.training.rounds.problem import HardNegative, Prompts
from svr_async.training.rounds.round_data import RoundData
from svr_async.training.rounds.stages import Stages, digest_of

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """What training starts from: the split pairs, and the features of their prompts."""

    train: tuple[PreferencePair, ...]
    dev: tuple[PreferencePair, ...]
    vocabulary: Vocabulary
    prompts: Prompts
    digest: str

    @property
    def pairs(self) -> tuple[PreferencePair, ...]:
        """Train pairs, then dev pairs."""
        return self.train + self.dev


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FittedRound:
    """One round's outcome: the kept rubrics with their selector, how it does on dev, and what to record."""

    number: int
    bank: tuple[Candidate, ...]
    selector: Selector
    settings: InferenceSettings
    dev_accuracy: float
    support_counts: Mapping[str, int]
    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What a round leaves for the next: more candidates, the pruned, the hard negatives."""

    candidates: tuple[Candidate, ...]
    pruned: tuple[Candidate, ...] = ()
    negatives: tuple[HardNegative, ...] = ()
    support: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JudgedRound:
    """All that a round fitted on and was measured on; `measured` is `data.dev` with what only measuring judged."""

    number: int
    data: RoundData
    measured: FitArrays
    negatives: tuple[HardNegative, ...]


@dataclass(slots=True, kw_only=True)
class Session:
    """A training run: who is asked, the settings, the stages on disk, and the ledger of judged entries.

    `asker` is a digest of all that the replies depend on besides the questions: model, settings, prompt templates.
    `boundary` holds what was judged only to compare the candidates of support pairs. Support pairs are chosen for their
    low margin, so fitting on more of their entries than on others' would teach that the best rubrics fail.
    `keep_round` is given each round when it has been measured; `svr train` keeps it as a feature store.
    """

    crew: Crew
    config: TrainConfig
    stages: Stages
    material: Material
    fit_round: Callable[[Session, int, FitArrays, FitArrays], FitResult]
    calibrate: Callable[[Session, int, Selector, FitArrays, FitArrays], Selector]
    margins: Callable[[Selector, FitArrays], NDArray[np.float32]]
    keep_round: Callable[[Session, JudgedRound], None] = lambda *_: None
    say: Say = lambda _: None
    asker: str = ""
    ledger: Ledger = field(default_factory=Ledger)
    boundary: Ledger = field(default_factory=Ledger)

    def digest(self, *parts: Any) -> str:
        """Return the digest of a stage that is computed from `parts`, from the pairs and from who is asked."""
        return digest_of(self.material.digest, self.asker, *parts)


def prepare(
    train: Sequence[PreferencePair], dev: Sequence[PreferencePair], *, digest: str, pairs_of_words: bool = True
) -> Material:
    """Learn the features from the training prompts."""
    texts = list(dict.fromkeys(prompt_text(pair.prompt) for pair in train))
    vocabulary = learn(texts, pairs_of_words=pairs_of_words)
    pairs = (*train, *dev)
    prompts = Prompts.of(pairs, vocabulary)
    return Material(
        train=tuple(train),
        dev=tuple(dev),
        vocabulary=vocabulary,
        prompts=prompts,
        digest=digest,
    )
