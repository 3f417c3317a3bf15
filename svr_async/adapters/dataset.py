"""From rows to a data set: strict or lenient rows, unique ids, official counts, notes."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import orjson

from svr_async.adapters.columns import renamed
from svr_async.adapters.fields import Fields, RowError
from svr_async.adapters.records import Dataset, Parsed
from svr_async.adapters.source import Source, open_source
from svr_async.adapters.tables import DEFAULT_CAPS, REPLACED, Caps, Row, read_rows
from svr_async.core.pair import PreferencePair
from svr_async.errors import DataError

_REPEATED = "repeated rows (same contents), kept with #2, #3 … after their ids"
_CONTRADICTED = "repeated rows with another label or category, kept with #2, #3 … after their ids"
_SAME_ID = "rows with the id of an earlier one but other contents, kept with #2, #3 … after their ids"
_SYSTEMATIC = 0.01  # of the rows; single odd values may all be mishaps

RowParser = Callable[[Fields], Parsed]
"""Turns one row into pairs; raises RowError where the row breaks its schema."""

FileReader = Callable[[Iterable[Row], str, frozenset[str]], tuple[RowParser, Sequence[str]]]
"""Looks at all rows, with what --labels and --columns say, and returns what parses one, and how labels are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialCounts:
    """Rows in the official release: the totals that occur (a release may have several files), and rows by group.

    `first_chosen` is how many official pairs list the chosen response first; another number is only noted.
    """

    rows: tuple[int, ...] = ()
    groups: Mapping[str, int] = field(default_factory=dict)
    first_chosen: int | None = None

    def mismatch(self, n_rows: int, groups: Mapping[str, int]) -> str:
        """Return in what way these counts are not the official ones, or an empty text."""
        if not self.rows:
            return ""
        if n_rows not in self.rows:
            return f"{n_rows} rows, not the official {' or '.join(map(str, self.rows))}"
        wrong = [
            f"{name} {groups.get(name, 0)}, not {n}" for name, n in self.groups.items() if groups.get(name, 0) != n
        ]
        return f"rows by group differ from the official ones: {'; '.join(wrong)}" if wrong else ""

    def label_note(self, pairs: Sequence[PreferencePair]) -> str:
        """Return a warning where the labels do not fall as officially, or an empty text."""
        if self.first_chosen is None or (found := sum(pair.chosen_first for pair in pairs)) == self.first_chosen:
            return ""
        flipped = len(pairs) - found == self.first_chosen
        what = "the labels may be flipped" if flipped else "these may be other pairs, or another version of them"
        return f"{found} labels prefer the first response, in the official data {self.first_chosen}: {what}"


@dataclass(frozen=True, slots=True)
class RowReading:
    """How the rows of a file are read: by `parse`, or by what `read_file` makes of all rows together.

    `columns` are the file's columns by the schema's names, `labels` says what a label's values mean. Strict: the first
    invalid row raises; `lenient`: invalid rows are left out and counted.
    """

    parse: RowParser
    read_file: FileReader | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    labels: str = ""
    lenient: bool = False

    def rows(self, source: Source, repairs: Counter[str], caps: Caps) -> Iterator[Row]:
        """Yield the rows of a source, with the schema's names for the columns."""
        rows = read_rows(source.path, repairs, caps, source.files)
        return (renamed(row, self.columns) for row in rows) if self.columns else rows

    def settled(self, source: Source, caps: Caps) -> tuple[RowParser, Sequence[str]]:
        """Return what parses a row, and how labels are read; DataError where that cannot be told."""
        if self.read_file is None:
            return self.parse, ()
        return self.read_file(self.rows(source, Counter(), caps), self.labels, frozenset(self.columns))


def load_dataset(
    name: str,
    how: RowReading,
    counts: OfficialCounts,
    path: Path,
    *,
    official: bool = False,
    caps: Caps = DEFAULT_CAPS,
) -> Dataset:
    """Read a file, a folder, standard input or files of the hub into a data set.

    `official`: the path came from the official release, so other counts than the official ones raise.
    DataError also where no usable pair is left, and where `lenient` would leave out every row with one label.
    """
    source = open_source(path)
    repairs: Counter[str] = Counter()
    parse, readings = how.settled(source, caps)
    collected = _Collector(parse, how.lenient)
    for row in how.rows(source, repairs, caps):
        collected.add(row)
    collected.refuse_systematic(path)
    used = collected.used()
    if not used.pairs:
        raise DataError(
            f"0 usable pairs in {path} ({collected.why_none()})", hint="see `svr data show` for the columns"
        )
    mismatch = counts.mismatch(collected.n_rows, collected.groups)
    if mismatch and official:
        raise DataError(f"{path}: {mismatch}", hint="the release has changed; pass the file by --data to use it anyway")
    return replace(
        _dataset(name, path, collected),
        notes=tuple(_notes(collected, counts, mismatch, repairs)),
        official=bool(counts.rows) and not mismatch and not collected.invalid,
        readings=tuple(readings),
        origin=source.origin,
    )


def _dataset(name: str, path: Path, collected: _Collector) -> Dataset:
    """Return what was collected, without what is said of it."""
    used = collected.used()
    return Dataset(
        name=name,
        pairs=used.pairs,
        source=path,
        digest=pairs_digest(used.pairs),
        n_rows=collected.n_rows,
        skipped=dict(collected.skipped()),
        repeated=collected.repeated(),
        contradicting=used.contradicting,
        tied=used.tied,
    )


def _notes(collected: _Collector, counts: OfficialCounts, mismatch: str, repairs: Counter[str]) -> list[str]:
    used = collected.used()
    notes = [f"{mismatch}: scores are not benchmark scores"] if mismatch else []
    if note := "" if mismatch else counts.label_note(used.pairs):
        notes.append(note)
    if collected.invalid:
        notes.append(f"{_rows(collected.invalid)} left out as invalid")
    notes += [f"{note}: {_rows(count)}" for note, count in used.notes.items()]
    if fallback := collected.unused_fallback():
        notes.append(fallback)
    if used.same:
        notes.append(f"{_rows(used.same)} with two identical responses: a verdict between them is chance")
    if used.empty:
        notes.append(f"{_rows(used.empty)} with an empty response")
    if used.contradicting:
        notes.append(f"{_rows(used.contradicting)} with the label turned round from an earlier row with the same texts")
    if repairs[REPLACED]:
        notes.append(f"{repairs[REPLACED]} {REPLACED}")
    return notes


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def pairs_digest(pairs: Iterable[PreferencePair]) -> str:
    """Return the SHA-256 over the pairs' contents, one canonical JSON line a pair."""
    digest = hashlib.sha256()
    for pair in pairs:
        digest.update(orjson.dumps(_canonical(pair), option=orjson.OPT_APPEND_NEWLINE))
    return digest.hexdigest()


def _canonical(p: PreferencePair) -> list[object]:
    turns = [[turn.role, turn.content] for turn in p.prompt]
    kind = [p.domain, p.subset, p.chosen_first, p.has_preference, p.strength]
    more = [one for one in (p.source, p.points) if one]
    return [p.id, turns, p.chosen, p.rejected, *kind, p.rubrics, p.item, p.slot, *more]


@dataclass(slots=True)
class _Part:
    """Pairs with the counts that belong to them.

    `contradicting` are those that prefer the other response of two than an earlier pair does, for the same prompt.
    """

    pairs: list[PreferencePair] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    tied: list[PreferencePair] = field(default_factory=list)
    same: int = 0
    empty: int = 0
    contradicting: int = 0
    _preferred: dict[int, int] = field(default_factory=dict)

    def add(self, pair: PreferencePair) -> None:
        """Take in a pair."""
        self.pairs.append(pair)
        self.same += pair.chosen == pair.rejected
        self.empty += not pair.chosen.strip() or not pair.rejected.strip()
        if pair.has_preference and pair.chosen != pair.rejected and not pair.item:
            key, chosen = hash((pair.prompt, frozenset((pair.chosen, pair.rejected)))), hash(pair.chosen)
            self.contradicting += self._preferred.setdefault(key, chosen) != chosen


class _Collector:
    """Takes rows one by one; keeps pairs with unique ids and counts everything else."""

    def __init__(self, parse: RowParser, lenient: bool) -> None:
        self.n_rows = self.invalid = 0
        self.groups: Counter[str] = Counter()
        self._parse, self._lenient = parse, lenient
        self._main, self._spare = _Part(), _Part()
        self._spare_rows: Counter[str] = Counter()
        self._invalid_reasons: Counter[str] = Counter()
        self._seen: dict[str, int] = {}
        self._repeats: Counter[str] = Counter()
        self._kept: set[str] = set()
        self._lost: dict[str, tuple[str, int]] = {}

    def add(self, row: Row) -> None:
        """Parse one row and take in what it became."""
        self.n_rows += 1
        try:
            parsed = self._parse_row(row)
        except RowError as error:
            if not self._lenient:
                raise
            self.invalid += 1
            if error.value:
                first, count = self._lost.get(error.value, (error.message, 0))
                self._lost[error.value] = first, count + 1
            self._invalid_reasons[f"invalid: {error.reason}"] += 1
            return
        self._take(parsed)

    def _parse_row(self, row: Row) -> Parsed:
        if row.problem:
            raise RowError(row, row.problem)
        return self._parse(Fields(row))

    def used(self) -> _Part:
        """Return the pairs and their counts: those of fallback rows only if there are no others."""
        return self._main if self._main.pairs or not self._spare.pairs else self._spare

    def skipped(self) -> Counter[str]:
        """Return how many rows or pairs were left out, by reason."""
        return self.used().skipped + self._invalid_reasons

    def why_none(self) -> str:
        """Say why nothing was usable."""
        if not self.n_rows:
            return "it has no rows"
        reasons = "; ".join(f"{reason}: {count}" for reason, count in self.skipped().most_common(3))
        return f"{_rows(self.n_rows)} read" + (f"; {reasons}" if reasons else "")

    def unused_fallback(self) -> str:
        """Say how many fallback rows were left out because other rows gave pairs."""
        if not self._main.pairs:
            return ""
        return "; ".join(f"{count} {kind} left out" for kind, count in self._spare_rows.items())

    def repeated(self) -> int:
        """Return how many rows have the id or the texts of an earlier one."""
        return sum(self.used().notes[note] for note in (_REPEATED, _CONTRADICTED, _SAME_ID))

    def refuse_systematic(self, path: Path) -> None:
        """Raise where all rows with one value are left out as invalid: that is no mishap of single rows."""
        for value, (first, count) in self._lost.items():
            if value not in self._kept and count > 1 and count >= _SYSTEMATIC * self.n_rows:
                raise DataError(
                    f"{path.name}: --lenient would leave out all {count} rows with {value} (the first: {first})",
                    hint="say what the value means with --labels, as 1=a,2=b or x=skip, or name the right --columns",
                )

    def _take(self, parsed: Parsed) -> None:
        if parsed.group:
            self.groups[parsed.group] += 1
        part = self._main
        if parsed.fallback:
            part = self._spare
            self._spare_rows[parsed.fallback] += 1
        if parsed.value:
            self._kept.add(parsed.value)
        part.notes.update(parsed.notes)
        part.skipped.update(parsed.skipped)
        if parsed.tied:
            part.tied.append(parsed.tied)
        if parsed.pairs:
            for pair in self._distinct(parsed, part):
                part.add(pair)

    def _distinct(self, parsed: Parsed, part: _Part) -> tuple[PreferencePair, ...]:
        """Return the row's pairs, with a suffix after their ids where an earlier row has the same texts."""
        key = parsed.id or parsed.pairs[0].item or parsed.pairs[0].id
        contents = hash(parsed.pairs)
        if key not in self._seen:
            self._seen[key] = contents
            return parsed.pairs
        same = self._seen[key] == contents
        part.notes[_REPEATED if same else _SAME_ID if parsed.id else _CONTRADICTED] += 1
        return _renamed(parsed.pairs, f"#{self._next(key)}")

    def _next(self, key: str) -> int:
        """Return the next number for an id that is taken, passing over those that the data has of its own."""
        while True:
            self._repeats[key] += 1
            number = self._repeats[key] + 1
            if f"{key}#{number}" not in self._seen:
                self._seen[f"{key}#{number}"] = self._seen[key]
                return number


def _renamed(pairs: tuple[PreferencePair, ...], suffix: str) -> tuple[PreferencePair, ...]:
    return tuple(replace(p, id=p.id + suffix, item=p.item + suffix if p.item else "") for p in pairs)
