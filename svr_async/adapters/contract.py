"""What an adapter is: where a benchmark comes from, what its rows look like, how to load it, how it is scored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svr_async.adapters.columns import parse_columns
from svr_async.adapters.dataset import FileReader, OfficialCounts, RowParser, RowReading, load_dataset
from svr_async.adapters.records import Dataset, PairResult, Parsed
from svr_async.adapters.tables import DEFAULT_CAPS, Caps
from svr_async.core.pair import PreferencePair
from svr_async.errors import UsageError

__all__ = ["Adapter", "Dataset", "OfficialCounts", "PairResult", "Parsed"]

NO_COUNTS = OfficialCounts()

Scorer = Callable[[Sequence[PairResult], float], dict[str, Any]]
"""Judged pairs and the credit for a tie → the benchmark's own scores, as fractions of 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """One benchmark or training set.

    `hub_id` and `hub_files` say what `hub.fetch` downloads (the first file unless told otherwise); they are empty
    where there is nothing to download. `schema` describes the columns. `tie_credit` is the official credit for a tie.
    `title` says what the data is, `label` is its name in reports (`name` where empty). Data that is for evaluation only
    (not `training`) is told by its name in lower case, or by `spelling`, a pattern. `read_file`, where rows can only be
    understood together, looks at all of them and returns what `parse` is in its place. `ruled`: its authors say how to
    score it; `chance`: what guessing scores, where not one half; `shares_prompts`: several of its pairs have one
    prompt; `sampled`: the shipped sample is in its form.
    """

    name: str
    title: str
    licence: str
    schema: Mapping[str, str]
    parse: RowParser
    score: Scorer
    hub_id: str = ""
    hub_files: tuple[str, ...] = ()
    homepage: str = ""
    read_file: FileReader | None = None
    counts: OfficialCounts = NO_COUNTS
    tie_credit: float = 0.0
    training: bool = False
    label: str = ""
    spelling: str = ""
    ruled: bool = True
    chance: str = ""
    shares_prompts: bool = False
    sampled: bool = False

    def load(
        self,
        path: Path | str,
        *,
        lenient: bool = False,
        official: bool = False,
        columns: str = "",
        labels: str = "",
        caps: Caps = DEFAULT_CAPS,
    ) -> Dataset:
        """Load a file, a folder, `-` (standard input) or hf:org/name[@revision][:split].

        `columns` names the file's columns as NAME=COLUMN,…, NAME one of the schema's; `labels` says what the values of
        a label mean, as 1=a,2=b. See `dataset.load_dataset` for `lenient`, `official` and errors.
        """
        if labels and self.read_file is None:
            raise UsageError(f"--labels is for pairs; {self.name} has labels of its own", hint="leave --labels out")
        how = RowReading(
            self.parse, self.read_file, columns=parse_columns(columns, self.schema), labels=labels, lenient=lenient
        )
        return load_dataset(self.name, how, self.counts, Path(path), official=official, caps=caps)

    def official_scores(
        self, pairs: Iterable[PreferencePair], results: Iterable[PairResult], *, tie_credit: float = 0.0
    ) -> dict[str, Any]:
        """Return the benchmark's own scores over all `pairs`; a pair without a result counts as unscored.

        Always has `overall` (a fraction of 1, or None where no pair has a right answer) and `rule` (in words).
        `tie_credit` is 0 (the paper's code) or 0.5 (RewardBench's official rule for generative judges).
        """
        if tie_credit not in (0.0, 0.5):
            raise ValueError(f"tie_credit must be 0 or 0.5 (got {tie_credit})")
        judged = {result.pair.id: result for result in results}
        return self.score([judged.get(pair.id) or PairResult(pair, None) for pair in pairs], tie_credit)
