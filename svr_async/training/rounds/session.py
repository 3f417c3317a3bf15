"""A training run in memory: its pairs and prompts, who is asked, the judged entries, and what a round leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from svr_async.core.pair import PreferencePair, prompt_text
from svr_async.fit.arrays import FitArrays
from svr_async.fit.forward import Selector
from svr_async.fit.ragged import indptr_of
from svr_async.fit.tfidf import Vocabulary, learn, transform
from svr_async.fit.training import pair_margins
from svr_async.scoring.bank import InferenceSettings
from svr_async.training.bank.criteria import rubric_words
from svr_async.training.bank.merge import Candidate, RedundancyEdges, criterion_numbers, redundancy_edges
from svr_async.training.rounds.config import TrainConfig
from svr_async.training.rounds.judge_calls import TrainingJudges
from svr_async.training.rounds.stages import Stages, digest_of

Ints = NDArray[np.int32]
Say = Callable[[str], None]
NOTHING = np.zeros(0, dtype=np.int32)


# ── pairs, prompts, judged entries ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class HardNegative:
    """A triple (x, chosen, hard negative) made from the pair `of` (paper `sec:adv`)."""

    pair: PreferencePair
    of: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prompts:
    """The distinct prompts of some pairs: features as CSR rows, and the row of each prompt by its text."""

    indptr: NDArray[np.int64]
    index: Ints
    value: NDArray[np.float32]
    n_features: int
    row_of: Mapping[str, int]

    @classmethod
    def of(cls, pairs: Sequence[PreferencePair], vocabulary: Vocabulary) -> Prompts:
        """Collect the prompts of the pairs, in order of first appearance."""
        row_of = {text: row for row, text in enumerate(dict.fromkeys(prompt_text(pair.prompt) for pair in pairs))}
        indptr, index, value = transform(vocabulary, tuple(row_of))
        n_features = max(1, len(vocabulary.terms))
        return cls(indptr=indptr, index=index, value=value, n_features=n_features, row_of=row_of)

    def row(self, pair: PreferencePair) -> int:
        """Return the row of a pair's prompt."""
        return self.row_of[prompt_text(pair.prompt)]

    def matrix(self) -> Any:
        """Return all features, sparse (prompt, feature)."""
        shape = (len(self.row_of), self.n_features)
        return csr_matrix((self.value.astype(np.float64), self.index, self.indptr), shape=shape)

    def features(self, row: int) -> tuple[Ints, NDArray[np.float32]]:
        """Return feature numbers and values of one prompt."""
        span = slice(int(self.indptr[row]), int(self.indptr[row + 1]))
        return self.index[span], self.value[span]


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


def prepare(
    train: Sequence[PreferencePair], dev: Sequence[PreferencePair], *, digest: str, pairs_of_words: bool = True
) -> Material:
    """Learn the features from the training prompts."""
    texts = list(dict.fromkeys(prompt_text(pair.prompt) for pair in train))
    vocabulary = learn(texts, pairs_of_words=pairs_of_words)
    prompts = Prompts.of((*train, *dev), vocabulary)
    return Material(train=tuple(train), dev=tuple(dev), vocabulary=vocabulary, prompts=prompts, digest=digest)


class Ledger:
    """Every judged z by pair and rubric id; an absent entry was not judged, or the judge abstained.

    A pair's entries lie in arrays, 12 bytes each: a free judge judges all pairs on a whole bank.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._rows: dict[str, tuple[Ints, NDArray[np.float32]]] = {}
        self._asked: dict[str, Ints] = {}
        self._table: tuple[Mapping[str, int], int, NDArray[np.int64]] | None = None

    def note(self, pair_id: str, asked: Iterable[str], z: Mapping[str, float]) -> None:
        """Keep the entries of one pair; `asked` are all rubrics that the judge was asked, abstentions included."""
        numbers = np.array([self._number(rubric_id) for rubric_id in asked], dtype=np.int32)
        self._asked[pair_id] = np.union1d(self._asked.get(pair_id, NOTHING), numbers)
        row = dict(zip(*(part.tolist() for part in self._rows.get(pair_id, (NOTHING, NOTHING))), strict=True))
        row |= {self._number(rubric_id): value for rubric_id, value in z.items()}
        self._rows[pair_id] = np.array([*row], dtype=np.int32), np.array([*row.values()], dtype=np.float32)

    def entries(self, pair_id: str, index: Mapping[str, int]) -> tuple[Ints, NDArray[np.float32]]:
        """Return (bank place, z) of one pair for the rubrics in `index`, in rising order of the place."""
        numbers, values = self._rows.get(pair_id, (NOTHING, NOTHING))
        places = self._places(index)[numbers]
        order = np.argsort(places)[np.count_nonzero(places < 0) :]
        return places[order].astype(np.int32), values[order].astype(np.float32)

    def asked(self, pair_id: str, index: Mapping[str, int]) -> Ints:
        """Return the bank places of the rubrics that the judge was asked about for one pair."""
        places = self._places(index)[self._asked.get(pair_id, NOTHING)]
        return np.sort(places[places >= 0]).astype(np.int32)

    def _number(self, rubric_id: str) -> int:
        return self._numbers.setdefault(rubric_id, len(self._numbers))

    def _places(self, index: Mapping[str, int]) -> NDArray[np.int64]:
        """Return the place of each rubric number in `index`, −1 if it is not there; the last table is kept."""
        if self._table is None or self._table[0] is not index or self._table[1] != len(self._numbers):
            table = np.array([index.get(rubric_id, -1) for rubric_id in self._numbers], dtype=np.int64)
            self._table = index, len(self._numbers), table
        return self._table[2]


# ── a bank and what was judged on it ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where the bank's rubrics came from: the prompt rows of each rubric, and the rubrics of each prompt row.

    `held_out` are the rubrics of each dev prompt that gave any: those of a bank that was induced with another split.
    `words` is a CSR from rubrics to their content words.
    """

    rows_of: tuple[tuple[int, ...], ...]
    rubrics_of: Mapping[int, tuple[int, ...]]
    words: tuple[NDArray[np.int64], Ints]
    held_out: Mapping[int, tuple[int, ...]]

    @classmethod
    def of(cls, bank: Sequence[Candidate], train: Mapping[str, int], dev: Mapping[str, int] | None = None) -> Sources:
        """Collect sources by the prompt rows of training and dev pairs, which are given by pair id."""
        given = [
            [{rows[pair] for pair in one.source_pair_ids if pair in rows} for one in bank]
            for rows in (train, dev or {})
        ]
        rubrics_of, held_out = map(_rubrics_by_row, given)
        words = rubric_words([candidate.rubric.text for candidate in bank])
        rows_of = tuple(tuple(sorted(rows)) for rows in given[0])
        return cls(rows_of=rows_of, rubrics_of=rubrics_of, words=words, held_out=held_out)

    def matrix(self, n_prompts: int) -> Any:
        """Return which rubrics were mined from which training prompts, sparse (prompt, rubric)."""
        borders, prompts = _flat(self.rows_of)
        shape = (len(self.rows_of), n_prompts)
        return csr_matrix((np.ones(len(prompts)), prompts, borders), shape=shape).T.tocsr()

    def worded(self) -> Any:
        """Return which content words each rubric holds, sparse (rubric, word)."""
        borders, words = self.words
        shape = (len(borders) - 1, int(words.max(initial=0)) + 1)
        return csr_matrix((np.ones(len(words)), words, borders), shape=shape)

    def own(self, row: int) -> Ints:
        """Return the rubrics that were mined from this prompt and from no other; of a dev prompt, all of its rubrics.

        They would not be in the bank without this prompt, so judging it on them is no evidence. A rubric that other
        prompts gave as well is evidence here too: leaving it out exactly where it was mined, and so where it favours
        the chosen response, would keep only the evidence against it.
        """
        if row in self.held_out:
            return np.array(self.held_out[row], dtype=np.int32)
        return np.array([n for n in self.rubrics_of.get(row, ()) if self.rows_of[n] == (row,)], dtype=np.int32)

    def mined(self, row: int) -> Ints:
        """Return the rubrics that were mined from this prompt."""
        return np.array(self.rubrics_of.get(row, ()), dtype=np.int32)


def _rubrics_by_row(rows_of: Sequence[Iterable[int]]) -> dict[int, tuple[int, ...]]:
    found: dict[int, list[int]] = {}
    for number, rows in enumerate(rows_of):
        for row in rows:
            found.setdefault(row, []).append(number)
    return {row: tuple(numbers) for row, numbers in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndexedBank:
    """A bank with what its arrays need: places by rubric id, sources, redundancy."""

    rubrics: tuple[Candidate, ...]
    place: Mapping[str, int]
    sources: Sources
    edges: RedundancyEdges


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoundData:
    """What fit and prune read: a bank, what was judged on it, and how many boundary pairs each rubric decides.

    `support` counts, by rubric id, the support pairs and hard negatives on which a rubric favours the chosen response.
    `last` is whether no further round would judge more.
    """

    bank: tuple[Candidate, ...]
    train: FitArrays
    dev: FitArrays
    support: Mapping[str, int]
    last: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JudgedRound:
    """All that a round was fitted on and measured on; `measured` is `data.dev` with entries judged to measure only."""

    number: int
    data: RoundData
    measured: FitArrays
    negatives: tuple[HardNegative, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FittedRound:
    """One round's outcome: the kept rubrics with their selector, how it does on dev, and what to record."""

    number: int
    bank: tuple[Candidate, ...]
    selector: Selector
    settings: InferenceSettings
    dev_accuracy: float
    dev_hits: NDArray[np.float64]
    support_counts: Mapping[str, int]
    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundCarryover:
    """What a round leaves for the next: candidates, the pruned, hard negatives, ids of support pairs.

    `criteria` is the criterion of every text that was asked about so far, by rubric id.
    """

    candidates: tuple[Candidate, ...]
    pruned: tuple[Candidate, ...] = ()
    negatives: tuple[HardNegative, ...] = ()
    support: tuple[str, ...] = ()
    criteria: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Session:
    """A training run: who is asked, the settings, the stages on disk, and the ledger of judged entries.

    `asker` is a digest of all that replies depend on besides the questions: model, settings, prompt templates.
    `boundary` holds what was judged only to compare the candidates of support pairs. Support pairs are chosen for their
    low margin, so fitting on more of their entries than on others' would teach that the best rubrics fail.
    `keep_round` is called with each round after it is measured; `svr train` writes it as a feature store.
    """

    judges: TrainingJudges
    config: TrainConfig
    stages: Stages
    material: Material
    keep_round: Callable[[Session, JudgedRound], None] = lambda *_: None
    say: Say = lambda _: None
    asker: str = ""
    ledger: Ledger = field(default_factory=Ledger)
    boundary: Ledger = field(default_factory=Ledger)

    def digest(self, *parts: Any) -> str:
        """Return the digest of a stage that is computed from `parts`, from the pairs and from who is asked."""
        return digest_of(self.material.digest, self.asker, *parts)

    def margins(self, selector: Selector, arrays: FitArrays) -> NDArray[np.float32]:
        """Return F of every pair as the fit sees it, shape (n_pairs,)."""
        return pair_margins(selector, arrays)

    def sources_of(self, bank: Sequence[Candidate]) -> Sources:
        """Return where rubrics came from."""
        material = self.material
        rows = ({pair.id: material.prompts.row(pair) for pair in side} for side in (material.train, material.dev))
        return Sources.of(bank, *rows)

    def indexed(self, bank: Sequence[Candidate]) -> IndexedBank:
        """Return a bank with its index, sources and redundancy."""
        return IndexedBank(
            rubrics=tuple(bank),
            place={candidate.rubric.id: place for place, candidate in enumerate(bank)},
            sources=self.sources_of(bank),
            edges=redundancy_edges([one.rubric.text for one in bank], self.config.redundancy_cutoff),
        )

    def arrays(
        self, bank: IndexedBank, pairs: Sequence[PreferencePair], negatives: Sequence[HardNegative] = ()
    ) -> FitArrays:
        """Return all that was judged so far of pairs and their hard negatives on a bank."""
        prompts = self.material.prompts
        rows = [*pairs, *(negative.pair for negative in negatives)]
        place = {pair.id: number for number, pair in enumerate(pairs)}
        entries = [self.ledger.entries(pair.id, bank.place) for pair in rows]
        prompt_rows = np.array([prompts.row(pair) for pair in rows], dtype=np.int32)
        own = [
            np.isin(rubric, bank.sources.own(int(row))) for (rubric, _), row in zip(entries, prompt_rows, strict=True)
        ]
        of = [-1] * len(pairs) + [place[negative.of] for negative in negatives]
        z_indptr, z_rubric = _flat([rubric for rubric, _ in entries])
        source_indptr, source_prompt = _flat(bank.sources.rows_of)
        return FitArrays(
            n_rubrics=len(bank.rubrics),
            n_features=prompts.n_features,
            feature_indptr=prompts.indptr,
            feature_index=prompts.index,
            feature_value=prompts.value,
            pair_prompt=prompt_rows,
            z_indptr=z_indptr,
            z_rubric=z_rubric,
            z_delta=np.concatenate([NOTHING, *(z for _, z in entries)]).astype(np.float32),
            z_own=np.concatenate([NOTHING, *own]).astype(np.bool_),
            negative_of=np.array(of, dtype=np.int32) if negatives else None,
            pair_source=source_numbers(source_names(pairs, negatives)),
            source_indptr=source_indptr,
            source_prompt=source_prompt,
            word_indptr=bank.sources.words[0],
            word_number=bank.sources.words[1],
            redundancy_i=bank.edges.i,
            redundancy_j=bank.edges.j,
            redundancy_value=bank.edges.value,
            criterion=criterion_numbers(bank.rubrics),
        )


def _flat(rows: Sequence[Sequence[int] | Ints]) -> tuple[NDArray[np.int64], Ints]:
    """Return rows of numbers as the borders and columns of a CSR."""
    borders = indptr_of(np.array([len(row) for row in rows], dtype=np.int64))
    return borders, np.concatenate([NOTHING, *rows]).astype(np.int32)


def source_numbers(names: Sequence[str]) -> Ints | None:
    """Return the number of each pair's source, in the order of their names; None if all have the same."""
    number = {name: place for place, name in enumerate(sorted(set(names)))}
    return np.array([number[name] for name in names], dtype=np.int32) if len(number) > 1 else None


def source_names(pairs: Sequence[PreferencePair], negatives: Sequence[HardNegative]) -> list[str]:
    """Return the source of each pair and then of each hard negative, which is that of its original."""
    source = {pair.id: pair.source for pair in pairs}
    return [*(pair.source for pair in pairs), *(source[negative.of] for negative in negatives)]
