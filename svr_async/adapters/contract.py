"""Describes a benchmark or training set, and loads its pairs: strict or lenient, with unique ids, listing problems."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import orjson

from svr_async.adapters.fields import Fields, RowError
from svr_async.adapters.hub import Source, Wanted, fetch_files, open_source
from svr_async.adapters.layouts import parse_columns, renamed
from svr_async.adapters.records import CONTRADICTING, INVALID, REPEATED, Dataset, PairResult, Parsed, Problem
from svr_async.adapters.tables import Encoding, Pairs, Row, read_rows, rows_in_memory
from svr_async.core.pair import PreferencePair, prompt_text
from svr_async.errors import DataError, UsageError

IDENTICAL = "two identical responses: a verdict is chance"
EMPTY = "an empty response"
_FIRST = 3
_ANSWERS = ("sure", "certainly", "here is", "here's", "here are", "i'm sorry", "as an ai", "of course", "yes,", "no,")

RowParser = Callable[[Fields], Parsed]
"""Turns one row into pairs; RowError if the row breaks its schema."""
FileReader = Callable[[Sequence[Row], str, frozenset[str]], tuple[RowParser, Sequence[str]]]
"""Reads all rows, --label-map and the names in --columns; returns a parser of rows, and how labels are read."""
Scorer = Callable[[Sequence[PairResult], float], dict[str, Any]]
"""Judged pairs and the credit for a tie → the benchmark's own scores, as fractions of 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """One benchmark or training set.

    `columns` are the names that --columns can map, `reading` says how labels are read. `rows` are the possible numbers
    of rows in the official release, `groups` the rows by group. A path that matches `spelling` (default: `name`) is
    refused for training unless the adapter is for `training`. `read_file` replaces `parse`; it looks at all rows first.
    `ruled`: its authors say how to score it; `chance`: the score of guessing, if not one half.
    """

    name: str
    title: str
    licence: str
    columns: tuple[str, ...]
    parse: RowParser
    score: Scorer
    reading: str = "chosen is better than rejected"
    hub_id: str = ""
    hub_files: tuple[str, ...] = ()
    read_file: FileReader | None = None
    rows: tuple[int, ...] = ()
    groups: Mapping[str, int] = field(default_factory=dict)
    training: bool = False
    spelling: str = ""
    ruled: bool = True
    chance: str = ""

    def load(
        self, path: Pairs, *, lenient: bool = False, official: bool = False, columns: str = "", label_map: str = ""
    ) -> Dataset:
        """Load a file, a folder, `-` (standard input), hf:org/name[@revision][:split], or rows in memory.

        `columns` names the file's columns as NAME=COLUMN,…, with NAME one of the adapter's; `label_map` says what the
        values of a label mean, as 1=a,2=b. The first invalid row raises; `lenient` leaves such rows out and counts
        them. `official`: the path is from the official release, so other counts raise. DataError without any pair.
        """
        if label_map and self.read_file is None:
            raise UsageError(f"--label-map is for pairs; the labels of {self.name} are fixed", hint="omit --label-map")
        named = parse_columns(columns, self.columns)
        encoding = Encoding()
        found, name, origin = open_rows(path, encoding)
        rows = [renamed(row, named) for row in found]
        whole = self.read_file and self.read_file(rows, label_map, frozenset(named))
        parse, readings = whole or (self.parse, (self.reading,))
        collected = _Collector(rows, parse, lenient=lenient)
        pairs, problems = collected.pairs, tuple(collected.problems.values())
        if not pairs:
            why = "".join(f"; {one.what}: {one.count}" for one in problems if not one.kept)
            raise DataError(f"0 usable pairs in {name} ({_rows(len(rows))}{why})", hint=collected.hint)
        mismatch = self._mismatch(len(rows), collected.groups)
        if mismatch and official:
            raise DataError(f"{name}: {mismatch}", hint="the release has changed; pass the file by --data to use it")
        invalid = sum(one.count for one in problems if one.what.startswith(INVALID))
        notes = (
            f"{mismatch}: scores are not benchmark scores" if mismatch else "",
            f"{_rows(invalid)} left out as invalid" if invalid else "",
            *(f"{one.what}: {_rows(one.count)}" for one in problems if one.kept),
            _prompts_note(pairs),
            f"{encoding.legacy} bytes are not UTF-8 and were read as Windows-1252" if encoding.legacy else "",
            f"{encoding.replaced} characters replaced by U+FFFD (NUL, lone surrogates)" if encoding.replaced else "",
        )
        return Dataset(
            name=self.name,
            pairs=pairs,
            source=Path(name),
            digest=_digest(pairs),
            n_rows=len(rows),
            notes=tuple(filter(None, notes)),
            problems=problems,
            official=bool(self.rows) and not mismatch and not invalid,
            readings=tuple(readings),
            encoding=str(encoding),
            origin=origin,
            tied=collected.tied,
        )

    def _mismatch(self, n_rows: int, groups: Mapping[str, int]) -> str:
        """Return how these counts differ from the official ones, or an empty text."""
        if self.rows and n_rows not in self.rows:
            return f"{n_rows} rows, not the official {' or '.join(map(str, self.rows))}"
        wrong = [f"{name} {groups.get(name, 0)}, not {n}" for name, n in self.groups.items() if groups.get(name) != n]
        return f"rows by group differ from the official ones: {'; '.join(wrong)}" if wrong else ""

    def fetch(self, cache_dir: Path | None = None, *, endpoint: str = "", files: int | None = 1) -> Source:
        """Download the first `files` of the adapter (None: all), or find them in the cache.

        `endpoint` (default: the variable HF_ENDPOINT, else the public hub) names another server.
        """
        if not self.hub_files:
            raise DataError(f"{self.title} cannot be fetched", hint="download its files and pass them by --data PATH")
        return fetch_files(Wanted(self.hub_id), self.hub_files[:files], cache_dir, endpoint=endpoint)


def open_rows(pairs: Pairs, encoding: Encoding) -> tuple[Iterator[Row], str, str]:
    """Return the rows of pairs in a file, on the hub or in memory, with their name and their address on the hub."""
    if not isinstance(pairs, str | os.PathLike):
        return rows_in_memory(pairs, encoding), type(pairs).__name__, ""
    source = open_source(Path(pairs))
    return read_rows(source.path, encoding, source.files), str(pairs), source.origin


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _prompts_note(pairs: Sequence[PreferencePair]) -> str:
    """Return a warning if the prompts look like answers (columns mixed up), or an empty text."""
    prompts = [prompt_text(pair.prompt).strip().casefold() for pair in pairs]
    answers = [pair.chosen.strip().casefold() for pair in pairs]
    same = sum(prompt == answer for prompt, answer in zip(prompts, answers, strict=True))
    asks, asked = (sum(text.endswith("?") for text in texts) for texts in (prompts, answers))
    replies, replied = (sum(text.startswith(_ANSWERS) for text in texts) for texts in (prompts, answers))
    questions_answer = asked * 2 > len(pairs) and asks * 5 < asked
    if same * 2 > len(pairs) or questions_answer or (replies * 5 > len(pairs) and replies > replied):
        return "the prompts look like answers: check which column holds the prompt (--columns prompt=…)"
    return ""


def _digest(pairs: Iterable[PreferencePair]) -> str:
    """Return the SHA-256 over the pairs' contents, one canonical JSON line a pair."""
    digest = hashlib.sha256()
    for p in pairs:
        kind = [p.domain, p.subset, p.chosen_first, p.has_preference, p.strength, p.rubrics, p.item, p.slot]
        more = [one for one in (p.source, p.points) if one]
        content = [p.id, [[turn.role, turn.content] for turn in p.prompt], p.chosen, p.rejected, *kind, *more]
        digest.update(orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE))
    return digest.hexdigest()


class _Collector:
    """Parses rows: collects pairs with unique ids, and counts everything else."""

    def __init__(self, rows: Sequence[Row], parse: RowParser, *, lenient: bool) -> None:
        self.pairs: list[PreferencePair] = []
        self.tied: list[PreferencePair] = []
        self.groups: Counter[str] = Counter()
        self.problems: dict[str, Problem] = {}
        self.hint = "see `svr data check`"
        self._ids: Counter[str] = Counter()
        self._preferred: dict[int, int] = {}
        for row in rows:
            try:
                parsed = parse(Fields(row).checked())
            except RowError as error:
                if not lenient:
                    raise
                self.hint = error.hint or self.hint
                self._count(f"{INVALID}{error.reason}", row, kept=False)
            else:
                self._add(row, parsed)

    def _add(self, row: Row, parsed: Parsed) -> None:
        self.groups[parsed.group] += 1
        if parsed.skipped:
            self._count(parsed.skipped, row, kept=False)
        for note in parsed.notes:
            self._count(note, row, kept=True)
        self.tied += [parsed.tied] if parsed.tied else []
        if parsed.pairs:
            key = parsed.id or parsed.pairs[0].item or parsed.pairs[0].id
            number = next(n for n in count(self._ids[key] + 1) if n == 1 or f"{key}#{n}" not in self._ids)
            suffix = f"#{number}" if number > 1 else ""
            self._ids[key + suffix], self._ids[key] = 1, number
            if suffix:
                self._count(REPEATED, row, kept=True)
            for pair in parsed.pairs:
                self._look_at(row, pair)
                item = pair.item + suffix if pair.item else ""
                self.pairs.append(replace(pair, id=pair.id + suffix, item=item) if suffix else pair)

    def _look_at(self, row: Row, pair: PreferencePair) -> None:
        if pair.chosen == pair.rejected:
            self._count(IDENTICAL, row, kept=True)
        elif pair.has_preference and not pair.item:
            key, chosen = hash((pair.prompt, frozenset((pair.chosen, pair.rejected)))), hash(pair.chosen)
            if self._preferred.setdefault(key, chosen) != chosen:
                self._count(CONTRADICTING, row, kept=True)
        if not pair.chosen.strip() or not pair.rejected.strip():
            self._count(EMPTY, row, kept=True)

    def _count(self, what: str, row: Row, *, kept: bool) -> None:
        problem = self.problems.setdefault(what, Problem(what, kept))
        problem.count += 1
        if len(problem.first) < _FIRST:
            problem.first.append(row.where)
