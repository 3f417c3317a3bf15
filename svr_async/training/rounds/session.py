"""A training run in memory: its pairs and prompts, who is asked, the judged entries, and what a round leaves."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from svr_async.core.pair import PreferencePair, prompt_text
from svr_async.core.similarity import REDUNDANCY_CUTOFF
from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import Choice
from svr_async.fit.forward import Selector
from svr_async.fit.history import FitCurve, FitResult, FitWatch
from svr_async.fit.ragged import indptr_of
from svr_async.fit.tfidf import Vocabulary, learn, transform
from svr_async.fit.training import pair_margins
from svr_async.scoring.bank import BankRubric, InferenceSettings
from svr_async.training.bank.criteria import rubric_words
from svr_async.training.bank.merge import criterion_numbers, redundancy_edges
from svr_async.training.rounds.config import TrainConfig
from svr_async.training.rounds.stages import Stages, TrainingJudges, digest_of

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]
Say = Callable[[str], None]
Hits = NDArray[np.float64]  # for each dev pair 1 if it is decided as people did, 0.5 for a tie, else 0
T = TypeVar("T")
NOTHING = np.zeros(0, dtype=np.int32)
NO_ENTRIES = NOTHING, np.zeros(0, dtype=np.float32)
MOST_RATED, SAMPLE = 100_000, 5_000  # prompts: of more than that many, rates are counted on a sample
VOTE, ONE_WEIGHT = "the unweighted vote", "one weight per rubric for all prompts"


# ── pairs, prompts, judged entries ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class HardNegative:
    """A triple (x, chosen, hard negative) made from the pair `of` (paper `sec:adv`)."""

    pair: PreferencePair
    of: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Material:
    """What training starts from: the split pairs, and their distinct prompts in order of first appearance.

    `row_of` has the row of each prompt by its text, `features` what `FitArrays` holds of the prompts.
    """

    train: tuple[PreferencePair, ...]
    dev: tuple[PreferencePair, ...]
    vocabulary: Vocabulary
    row_of: Mapping[str, int]
    features: Mapping[str, Any]
    digest: str

    @property
    def pairs(self) -> tuple[PreferencePair, ...]:
        """Train pairs, then dev pairs."""
        return self.train + self.dev

    def row(self, pair: PreferencePair) -> int:
        """Return the row of a pair's prompt."""
        return self.row_of[prompt_text(pair.prompt)]

    def features_of(self, row: int) -> tuple[Ints, Floats]:
        """Return feature numbers and values of one prompt."""
        borders = self.features["feature_indptr"]
        span = slice(int(borders[row]), int(borders[row + 1]))
        return self.features["feature_index"][span], self.features["feature_value"][span]

    def indexed(self, bank: Sequence[BankRubric], redundancy_cutoff: float = REDUNDANCY_CUTOFF) -> IndexedBank:
        """Return a bank with what judging and fitting look up."""
        rows = ({pair.id: self.row(pair) for pair in side} for side in (self.train, self.dev))
        return IndexedBank.of(bank, *rows, redundancy_cutoff=redundancy_cutoff)


def prepare(
    train: Sequence[PreferencePair], dev: Sequence[PreferencePair], *, digest: str, pairs_of_words: bool = True
) -> Material:
    """Learn the features of prompts from those of the training pairs."""
    texts = list(dict.fromkeys(prompt_text(pair.prompt) for pair in train))
    vocabulary = learn(texts, pairs_of_words=pairs_of_words)
    every = tuple(dict.fromkeys([*texts, *(prompt_text(pair.prompt) for pair in dev)]))
    names = "feature_indptr", "feature_index", "feature_value"
    return Material(
        train=tuple(train),
        dev=tuple(dev),
        vocabulary=vocabulary,
        row_of={text: row for row, text in enumerate(every)},
        features={
            "n_features": max(1, len(vocabulary.terms)),
            **dict(zip(names, transform(vocabulary, every), strict=True)),
        },
        digest=digest,
    )


class Ledger:
    """Every z that was asked for, by pair and rubric id; NaN where the judge abstained.

    A pair's entries lie in arrays, 8 bytes each: a free judge judges all pairs on a whole bank.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._rows: dict[str, tuple[Ints, Floats]] = {}
        self._table: tuple[Mapping[str, int], int, NDArray[np.int64]] | None = None

    def note(self, pair_id: str, rubric_ids: Iterable[str], z: Iterable[float]) -> None:
        """Keep the z of one pair on some rubrics, NaN for an abstention; the last z of a rubric counts."""
        row = dict(zip(*(part.tolist() for part in self._rows.get(pair_id, NO_ENTRIES)), strict=True))
        numbers = (self._numbers.setdefault(rubric_id, len(self._numbers)) for rubric_id in rubric_ids)
        row |= dict(zip(numbers, z, strict=True))
        self._rows[pair_id] = np.array([*row], dtype=np.int32), np.array([*row.values()], dtype=np.float32)

    def entries(self, pair_id: str, index: Mapping[str, int]) -> tuple[Ints, Floats]:
        """Return (bank place, z) of one pair for the judged rubrics in `index`, in rising order of the place."""
        places, z = self._row(pair_id, index)
        known = ~np.isnan(z)
        return places[known], z[known]

    def asked(self, pair_id: str, index: Mapping[str, int]) -> Ints:
        """Return the bank places of the rubrics that the judge was asked about for one pair."""
        return self._row(pair_id, index)[0]

    def _row(self, pair_id: str, index: Mapping[str, int]) -> tuple[Ints, Floats]:
        numbers, z = self._rows.get(pair_id, NO_ENTRIES)
        places = self._places(index)[numbers]
        order = np.argsort(places)[np.count_nonzero(places < 0) :]
        return places[order].astype(np.int32), z[order]

    def _places(self, index: Mapping[str, int]) -> NDArray[np.int64]:
        """Return the place of each rubric number in `index`, −1 if it is not there; the last table is kept."""
        if self._table is None or self._table[0] is not index or self._table[1] != len(self._numbers):
            table = np.array([index.get(rubric_id, -1) for rubric_id in self._numbers], dtype=np.int64)
            self._table = index, len(self._numbers), table
        return self._table[2]


# ── a bank and what was judged on it ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndexedBank:
    """A bank with places by rubric id, the prompts that its rubrics came from, and what `FitArrays` holds of it.

    `rows_of` are the training prompt rows of each rubric, `rubrics_of` the rubrics of each prompt row. `held_out` are
    the rubrics of each dev prompt that gave any: those of a bank that was induced with another split.
    """

    rubrics: tuple[BankRubric, ...]
    place: Mapping[str, int]
    rows_of: tuple[tuple[int, ...], ...]
    rubrics_of: Mapping[int, Sequence[int]]
    held_out: Mapping[int, Sequence[int]]
    arrays: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        bank: Sequence[BankRubric],
        train: Mapping[str, int],
        dev: Mapping[str, int],
        *,
        redundancy_cutoff: float = REDUNDANCY_CUTOFF,
    ) -> IndexedBank:
        """Index a bank by the prompt rows of training and dev pairs, which are given by pair id."""
        rows_of, dev_rows = (
            tuple(tuple(sorted({rows[pair] for pair in one.source_pair_ids if pair in rows})) for one in bank)
            for rows in (train, dev)
        )
        texts = [candidate.text for candidate in bank]
        edges = zip(("i", "j", "value"), redundancy_edges(texts, redundancy_cutoff), strict=True)
        arrays = {
            "source_indptr": indptr_of(np.array([len(rows) for rows in rows_of], dtype=np.int64)),
            "source_prompt": np.array([row for rows in rows_of for row in rows], dtype=np.int32),
            **dict(zip(("word_indptr", "word_number"), rubric_words(texts), strict=True)),
            **{f"redundancy_{name}": values for name, values in edges},
            "criterion": criterion_numbers(bank),
        }
        return cls(
            rubrics=tuple(bank),
            place={candidate.id: place for place, candidate in enumerate(bank)},
            rows_of=rows_of,
            rubrics_of=_by_row(rows_of),
            held_out=_by_row(dev_rows),
            arrays=arrays,
        )

    def own(self, row: int) -> Ints:
        """Return the rubrics that were mined from this prompt and from no other; of a dev prompt, all of its rubrics.

        They would not be in the bank without this prompt, so its verdicts on them are not evidence. If a rubric of
        several prompts was left out exactly where it was mined, only the evidence against it would be kept.
        """
        if row in self.held_out:
            return np.array(self.held_out[row], dtype=np.int32)
        return np.array([n for n in self.rubrics_of.get(row, ()) if self.rows_of[n] == (row,)], dtype=np.int32)


def _by_row(rows_of: Sequence[Iterable[int]]) -> dict[int, list[int]]:
    found = defaultdict(list)
    for number, rows in enumerate(rows_of):
        for row in rows:
            found[row].append(number)
    return dict(found)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JudgedRound:
    """What a round is fitted on and measured on: a bank, and what was judged on it.

    Hard `negatives` are the last rows of `train`. `measured` is `dev` with entries that were judged to measure only.
    `last` is whether no further round would judge more.
    """

    number: int
    bank: tuple[BankRubric, ...]
    train: FitArrays
    dev: FitArrays
    measured: FitArrays
    negatives: tuple[HardNegative, ...] = ()
    last: bool

    def fitted(self, kept: NDArray[np.int64], selector: Selector, **fields: Any) -> FittedRound:
        """Return a fit of the rubrics at these places."""
        bank, dev = tuple(self.bank[place] for place in kept), self.measured.restrict_rubrics(kept)
        return FittedRound(number=self.number, kept=kept, bank=bank, selector=selector, dev=dev, **fields)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FittedRound:
    """A fit after pruning and calibration: the rubrics at the `kept` places of the round's bank, and their selector.

    `result` is that of the fit before pruning; None if nothing was fitted. `curves` are those of the fit and the
    calibration, `baselines` the hits of simpler ways on the dev pairs, by name. `algorithm.in_use` sets the `settings`
    for use and `dev_hits` with them, the round its `record`.
    """

    number: int
    kept: NDArray[np.int64]
    bank: tuple[BankRubric, ...]
    selector: Selector
    dev: FitArrays
    result: FitResult | None = None
    curves: tuple[FitCurve, ...] = ()
    baselines: Mapping[str, Hits] = field(default_factory=dict)
    settings: InferenceSettings = field(default_factory=InferenceSettings)
    dev_hits: Hits = field(default_factory=lambda: np.zeros(0))
    record: Mapping[str, Any] = field(default_factory=dict)

    @property
    def choice(self) -> Choice | None:
        """The structure that cross-validation chose; None for the paper's preset."""
        return None if self.result is None else self.result.choice

    @property
    def dev_accuracy(self) -> float:
        """The share of the dev pairs that are decided as people did."""
        return round(float(self.dev_hits.sum()) / max(1, len(self.dev_hits)), 6)

    @property
    def accuracies(self) -> dict[str, Any]:
        """The accuracies of the vote and of one weight per rubric, under the names of a bank's history."""
        hits = self.baselines
        vote, linear = (round(float(hits[name].mean()), 6) if hits else None for name in (VOTE, ONE_WEIGHT))
        return {"vote_accuracy": vote, "linear_accuracy": linear}


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundCarryover:
    """What a round leaves for the next: candidates, the pruned, hard negatives, ids of support pairs.

    `criteria` is the criterion of every text that was asked about so far, by rubric id.
    """

    candidates: tuple[BankRubric, ...]
    pruned: tuple[BankRubric, ...] = ()
    negatives: tuple[HardNegative, ...] = ()
    support: tuple[str, ...] = ()
    criteria: Mapping[str, str] = field(default_factory=dict)


NOTHING_BEFORE = RoundCarryover(candidates=())


def support_counts(carryover: RoundCarryover, ledger: Ledger, index: Mapping[str, int]) -> dict[str, int]:
    """Count, for each rubric, the support pairs and hard negatives on which it clearly favours the chosen response.

    The pairs are those that the round was fitted with, found at the end of the one before. The paper's "support-pair
    coverage" has neither a definition nor a threshold: here one such pair is enough.
    """
    counts: Counter[int] = Counter()
    for pair_id in (*carryover.support, *(negative.pair.id for negative in carryover.negatives)):
        rubric, z = ledger.entries(pair_id, index)
        counts.update(int(place) for place in rubric[z > 0.5])
    ids = list(index)
    return {ids[place]: count for place, count in counts.items()}


@dataclass(slots=True, kw_only=True)
class Session:
    """A training run: who is asked, the settings, the stages on disk, and the ledger of judged entries.

    `asker` is a digest of all that replies depend on apart from the questions: model, settings, prompt templates.
    `boundary` holds what was judged only to compare the candidates of support pairs. Support pairs are chosen for their
    low margin, so fitting on more of their entries than on others' would teach that the best rubrics fail.
    `keep_round` is called with each round after it is measured; `svr train` writes it as a feature store. `margins`
    gives F of every pair as the fit sees it, shape (n_pairs,). `watch` is called while a fit runs.
    """

    judges: TrainingJudges
    config: TrainConfig
    stages: Stages
    material: Material
    keep_round: Callable[[JudgedRound], None] = lambda _: None
    say: Say = lambda _: None
    asker: str = ""
    margins: Callable[[Selector, FitArrays], Floats] = pair_margins
    watch: FitWatch | None = None
    ledger: Ledger = field(default_factory=Ledger)
    boundary: Ledger = field(default_factory=Ledger)

    async def kept(
        self, stage: str, kind: type[T], inputs: Sequence[Any], ask: Callable[[], Awaitable[tuple[T, Counter[str]]]]
    ) -> T:
        """Return what the questions of a stage gave: read back if the stage has the same inputs, else asked and kept.

        The pairs and who is asked count as inputs too.
        """
        digest = digest_of(self.material.digest, self.asker, *inputs)
        value = self.stages.load(stage, digest, kind)
        if value is None:
            value, outcomes = await ask()
            self.stages.save(stage, digest, value, outcomes)
        return value

    def indexed(self, bank: Sequence[BankRubric]) -> IndexedBank:
        """Return a bank with what judging and fitting look up."""
        return self.material.indexed(bank, self.config.redundancy_cutoff)

    def judged(
        self, bank: IndexedBank, before: RoundCarryover = NOTHING_BEFORE, *, number: int = 0, last: bool = True
    ) -> JudgedRound:
        """Return all that was judged so far of the pairs and of the hard negatives of earlier rounds on a bank."""
        support, dev = support_counts(before, self.ledger, bank.place), self.arrays(bank, self.material.dev)
        return JudgedRound(
            number=number,
            bank=tuple(replace(one, support_count=support.get(one.id, 0)) for one in bank.rubrics),
            train=self.arrays(bank, self.material.train, before.negatives),
            dev=dev,
            measured=dev,
            negatives=before.negatives,
            last=last,
        )

    def arrays(
        self, bank: IndexedBank, pairs: Sequence[PreferencePair], negatives: Sequence[HardNegative] = ()
    ) -> FitArrays:
        """Return all that was judged so far of pairs and their hard negatives on a bank."""
        rows = [*pairs, *(negative.pair for negative in negatives)]
        place = {pair.id: number for number, pair in enumerate(pairs)}
        entries = [self.ledger.entries(pair.id, bank.place) for pair in rows]
        pair_prompt = [self.material.row(pair) for pair in rows]
        own = [np.isin(rubric, bank.own(row)) for (rubric, _), row in zip(entries, pair_prompt, strict=True)]
        of = [-1] * len(pairs) + [place[negative.of] for negative in negatives]
        return FitArrays(
            n_rubrics=len(bank.rubrics),
            pair_prompt=np.array(pair_prompt, dtype=np.int32),
            z_indptr=indptr_of(np.array([len(rubric) for rubric, _ in entries], dtype=np.int64)),
            z_rubric=np.concatenate([NOTHING, *(rubric for rubric, _ in entries)]),
            z_delta=np.concatenate([NO_ENTRIES[1], *(z for _, z in entries)]),
            z_own=np.concatenate([NOTHING, *own]).astype(np.bool_),
            negative_of=np.array(of, dtype=np.int32) if negatives else None,
            pair_source=source_numbers(source_names(pairs, negatives)),
            **self.material.features,
            **bank.arrays,
        )


def source_numbers(names: Sequence[str]) -> Ints | None:
    """Return the number of each pair's source, in the order of their names; None if all have the same."""
    number = {name: place for place, name in enumerate(sorted(set(names)))}
    return np.array([number[name] for name in names], dtype=np.int32) if len(number) > 1 else None


def source_names(pairs: Sequence[PreferencePair], negatives: Sequence[HardNegative]) -> list[str]:
    """Return the source of each pair and then of each hard negative, which is that of its original."""
    source = {pair.id: pair.source for pair in pairs}
    return [*(pair.source for pair in pairs), *(source[negative.of] for negative in negatives)]


def rated(count: int) -> NDArray[np.int64]:
    """Return the places of the training prompts on which rates are counted: all, or `SAMPLE` at even distances."""
    return np.arange(count) if count <= MOST_RATED else np.arange(SAMPLE) * count // SAMPLE
