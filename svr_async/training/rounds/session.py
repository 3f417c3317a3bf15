"""A training run in memory: its material, its settings, who is asked, and what a round hands on."""

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
from svr_async.fit.history import FitResult
from svr_async.fit.tfidf import Vocabulary, learn, transform
from svr_async.scoring.bank import InferenceSettings
from svr_async.training.bank.distinct import rubric_words
from svr_async.training.bank.merge import Candidate
from svr_async.training.bank.near_duplicates import RedundancyEdges
from svr_async.training.rounds.config import TrainConfig
from svr_async.training.rounds.judge_calls import Crew
from svr_async.training.rounds.stages import Stages, digest_of

NOTHING = np.zeros(0, dtype=np.int32)


class Ledger:
    """z by pair and rubric. An entry that is not there was not judged, or the judge abstained.

    A pair's entries lie in arrays, 12 bytes each: a judge that costs nothing judges all pairs on a whole bank.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._rows: dict[str, tuple[NDArray[np.int32], NDArray[np.float32]]] = {}
        self._asked: dict[str, NDArray[np.int32]] = {}

    def note(self, pair_id: str, asked: Iterable[str], z: Mapping[str, float]) -> None:
        """Keep the entries of one pair; `asked` are all rubrics that were put to the judge, abstentions included."""
        numbers = np.array([self._number(rubric_id) for rubric_id in asked], dtype=np.int32)
        self._asked[pair_id] = np.union1d(self._asked.get(pair_id, NOTHING), numbers)
        held, values = self._rows.get(pair_id, (NOTHING, NOTHING))
        row = dict(zip(held.tolist(), values.tolist(), strict=True))
        row |= {self._number(rubric_id): value for rubric_id, value in z.items()}
        self._rows[pair_id] = np.array([*row], dtype=np.int32), np.array([*row.values()], dtype=np.float32)

    def entries(self, pair_id: str, index: Mapping[str, int]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return (bank index, z) of one pair for the rubrics in `index`, in rising order of the index."""
        numbers, values = self._rows.get(pair_id, (NOTHING, NOTHING))
        places = self._table(index)[numbers]
        order = np.argsort(places)[np.count_nonzero(places < 0) :]
        return places[order].astype(np.int32), values[order].astype(np.float32)

    def asked(self, pair_id: str, index: Mapping[str, int]) -> NDArray[np.int32]:
        """Return the bank indices of the rubrics that the judge was asked about for one pair."""
        places = self._table(index)[self._asked.get(pair_id, NOTHING)]
        return np.sort(places[places >= 0]).astype(np.int32)

    def _number(self, rubric_id: str) -> int:
        return self._numbers.setdefault(rubric_id, len(self._numbers))

    def _table(self, index: Mapping[str, int]) -> NDArray[np.int64]:
        key = id(index)
        cached = getattr(self, "_cached", None)
        if cached is None or cached[0] != key or len(cached[1]) != len(self._numbers):
            table = np.full(len(self._numbers), -1, dtype=np.int64)
            for rubric_id, number in self._numbers.items():
                table[number] = index.get(rubric_id, -1)
            self._cached = (key, table, index)
            return table
        held: NDArray[np.int64] = cached[1]
        return held


Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class HardNegative:
    """A triple (x, chosen, hard negative) made from the pair `of` (paper `sec:adv`)."""

    pair: PreferencePair
    of: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prompts:
    """The distinct prompts of some pairs: features as CSR rows, and the row of each pair."""

    texts: tuple[str, ...]
    indptr: NDArray[np.int64]
    index: Ints
    value: NDArray[np.float32]
    n_features: int
    row_of: Mapping[str, int]

    @classmethod
    def of(cls, pairs: Sequence[PreferencePair], vocabulary: Vocabulary) -> Prompts:
        """Collect the prompts of the pairs, in order of first appearance."""
        row_of = {text: row for row, text in enumerate(dict.fromkeys(prompt_text(pair.prompt) for pair in pairs))}
        texts = tuple(row_of)
        indptr, index, value = transform(vocabulary, texts)
        n_features = max(1, len(vocabulary.terms))
        return cls(texts=texts, indptr=indptr, index=index, value=value, n_features=n_features, row_of=row_of)

    def row(self, pair: PreferencePair) -> int:
        """Return the row of a pair's prompt."""
        return self.row_of[prompt_text(pair.prompt)]

    def matrix(self) -> Any:
        """Return all features, sparse (prompt, feature)."""
        shape = (len(self.texts), self.n_features)
        return csr_matrix((self.value.astype(np.float64), self.index, self.indptr), shape=shape)

    def features(self, row: int) -> tuple[Ints, NDArray[np.float32]]:
        """Return feature numbers and values of one prompt."""
        start, end = int(self.indptr[row]), int(self.indptr[row + 1])
        return self.index[start:end], self.value[start:end]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where the bank's rubrics came from: for each rubric the prompt rows, and the rubrics of each prompt row.

    `held_out` are the rubrics of each dev prompt that gave any: those of a bank that was induced with another split.
    `words` is a CSR from rubrics to their content words.
    """

    rows_of: tuple[tuple[int, ...], ...]
    rubrics_of: Mapping[int, tuple[int, ...]]
    words: tuple[NDArray[np.int64], Ints]
    held_out: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, bank: Sequence[Candidate], row_of_pair: Mapping[str, int], row_of_dev: Mapping[str, int] | None = None
    ) -> Sources:
        """Collect sources by the prompt rows of training pairs and of dev pairs; other pairs are left out."""
        rows_of = tuple(
            tuple(sorted({row_of_pair[pair] for pair in rubric.source_pair_ids if pair in row_of_pair}))
            for rubric in bank
        )
        rubrics_of, held_out = (_mined_from(bank, rows) for rows in (row_of_pair, row_of_dev or {}))
        words = rubric_words([rubric.rubric.text for rubric in bank])
        return cls(rows_of=rows_of, rubrics_of=rubrics_of, held_out=held_out, words=words)

    def matrix(self, n_prompts: int, n_rubrics: int) -> Any:
        """Return which rubrics were mined from which training prompts, sparse (prompt, rubric)."""
        borders = _borders([len(found) for found in self.rows_of])
        prompts = np.array([row for found in self.rows_of for row in found], dtype=np.int32)
        return csr_matrix((np.ones(len(prompts)), prompts, borders), shape=(n_rubrics, n_prompts)).T.tocsr()

    def worded(self) -> Any:
        """Return which content words each rubric holds, sparse (rubric, word)."""
        borders, words = self.words
        return csr_matrix(
            (np.ones(len(words)), words, borders), shape=(len(borders) - 1, int(words.max(initial=0)) + 1)
        )

    def own(self, row: int) -> Ints:
        """Return the rubrics that were mined from this prompt and from no other.

        They would not be in the bank without this prompt, so judging it on them is no evidence. A rubric that other
        prompts gave as well is evidence here too: leaving it out exactly where it was mined, and so where it favours
        the chosen response, would keep only the evidence against it. Of a dev prompt all are returned: nothing that was
        mined from it may tell how well a bank does on it.
        """
        if row in self.held_out:
            return np.array(self.held_out[row], dtype=np.int32)
        return np.array([n for n in self.rubrics_of.get(row, ()) if self.rows_of[n] == (row,)], dtype=np.int32)

    def mined(self, row: int) -> Ints:
        """Return the rubrics that were mined from this prompt."""
        return np.array(self.rubrics_of.get(row, ()), dtype=np.int32)


def _mined_from(bank: Sequence[Candidate], row_of_pair: Mapping[str, int]) -> dict[int, tuple[int, ...]]:
    """Return, by prompt row, the places of the rubrics that were mined from these pairs."""
    found: dict[int, dict[int, None]] = {}
    for number, rubric in enumerate(bank):
        for pair in rubric.source_pair_ids:
            if pair in row_of_pair:
                found.setdefault(row_of_pair[pair], {})[number] = None
    return {row: tuple(numbers) for row, numbers in found.items()}


def source_numbers(names: Sequence[str]) -> Ints | None:
    """Return the number of each pair's source, in the order of their names; None where all have the same."""
    number = {name: place for place, name in enumerate(sorted(set(names)))}
    return np.array([number[name] for name in names], dtype=np.int32) if len(number) > 1 else None


def source_names(pairs: Sequence[PreferencePair], negatives: Sequence[HardNegative]) -> list[str]:
    """Return the source of each pair and then of each hard negative, which is that of its original."""
    source = {pair.id: pair.source for pair in pairs}
    return [*(pair.source for pair in pairs), *(source[negative.of] for negative in negatives)]


def build_arrays(
    pairs: Sequence[PreferencePair],
    negatives: Sequence[HardNegative],
    prompts: Prompts,
    ledger: Ledger,
    index: Mapping[str, int],
    sources: Sources,
    edges: RedundancyEdges,
) -> FitArrays:
    """Return the arrays of pairs and their hard negatives; `index` maps rubric ids to bank places."""
    rows = [*pairs, *(negative.pair for negative in negatives)]
    place = {pair.id: number for number, pair in enumerate(pairs)}
    entries = [ledger.entries(pair.id, index) for pair in rows]
    prompt_rows = np.array([prompts.row(pair) for pair in rows], dtype=np.int32)
    own = [np.isin(rubric, sources.own(int(row))) for (rubric, _), row in zip(entries, prompt_rows, strict=True)]
    of = [-1] * len(pairs) + [place[negative.of] for negative in negatives]
    return FitArrays(
        n_rubrics=len(index),
        n_features=prompts.n_features,
        feature_indptr=prompts.indptr,
        feature_index=prompts.index,
        feature_value=prompts.value,
        pair_prompt=prompt_rows,
        z_indptr=_borders([len(rubric) for rubric, _ in entries]),
        z_rubric=_joined([rubric for rubric, _ in entries], np.int32),
        z_delta=_joined([z for _, z in entries], np.float32),
        z_own=_joined(own, np.bool_),
        negative_of=np.array(of, dtype=np.int32) if negatives else None,
        pair_source=source_numbers(source_names(pairs, negatives)),
        source_indptr=_borders([len(found) for found in sources.rows_of]),
        source_prompt=np.array([row for found in sources.rows_of for row in found], dtype=np.int32),
        word_indptr=sources.words[0],
        word_number=sources.words[1],
        redundancy_i=edges.i,
        redundancy_j=edges.j,
        redundancy_value=edges.value,
    )


def _borders(lengths: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _joined(parts: Sequence[NDArray[Any]], kind: type[np.generic]) -> NDArray[Any]:
    return np.concatenate(parts).astype(kind) if parts else np.zeros(0, dtype=kind)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoundData:
    """All that fit and prune read: a bank, what was judged on it, and how many boundary pairs each rubric decides.

    `support` counts, by rubric id, the support pairs and hard negatives on which the rubric favours the chosen
    response. `last` is whether no further round would judge more.
    """

    bank: tuple[Candidate, ...]
    train: FitArrays
    dev: FitArrays
    support: Mapping[str, int]
    last: bool


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
