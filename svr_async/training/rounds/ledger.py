"""The ledger: every judged z of every pair, by rubric id, oriented chosen minus rejected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from svr_async.core.pair import Order, PreferencePair
from svr_async.judges.protocol import Comparisons

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


def oriented(pair: PreferencePair, order: Order, answers: Sequence[Comparisons]) -> dict[str, float]:
    """Return z by rubric id from verdicts in the order shown: positive favours the chosen response."""
    chosen_shown_as_a = pair.chosen_first == (order is Order.AB)
    sign = 1.0 if chosen_shown_as_a else -1.0
    rows = (row for answer in answers for row in answer.rows)
    return {row.rubric_id: sign * row.delta for row in rows}
