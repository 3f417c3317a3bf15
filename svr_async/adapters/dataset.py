"""Loads a data set: parses rows, strict or lenient, makes ids unique, checks official counts, lists problems."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import orjson

from svr_async.adapters.fields import Fields, RowError
from svr_async.adapters.records import Parsed, Problem
from svr_async.adapters.tables import Row
from svr_async.core.pair import PreferencePair, prompt_text

INVALID = "invalid: "
REPEATED = "repeated rows, kept with #2, #3 … after their ids"
CONTRADICTING = "rows with the label of an earlier row with the same texts reversed, kept"
IDENTICAL = "two identical responses: a verdict is chance"
EMPTY = "an empty response"
_FIRST = 3
_ANSWER_STARTS = (
    "sure",
    "certainly",
    "here is",
    "here's",
    "here are",
    "i'm sorry",
    "as an ai",
    "of course",
    "yes,",
    "no,",
)

RowParser = Callable[[Fields], Parsed]
"""Turns one row into pairs; RowError if the row breaks its schema."""

FileReader = Callable[[Sequence[Row], str, frozenset[str]], tuple[RowParser, Sequence[str]]]
"""Looks at all rows, --label-map and the names in --columns; returns a parser of rows, and how labels are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialCounts:
    """Rows in the official release: the possible totals (it may have several files), and rows by group.

    `first_chosen` is how many official pairs list the chosen response first; another number is only noted.
    """

    rows: tuple[int, ...] = ()
    groups: Mapping[str, int] = field(default_factory=dict)
    first_chosen: int | None = None

    def mismatch(self, n_rows: int, groups: Mapping[str, int]) -> str:
        """Return how these counts differ from the official ones, or an empty text."""
        if not self.rows:
            return ""
        if n_rows not in self.rows:
            return f"{n_rows} rows, not the official {' or '.join(map(str, self.rows))}"
        wrong = [
            f"{name} {groups.get(name, 0)}, not {n}" for name, n in self.groups.items() if groups.get(name, 0) != n
        ]
        return f"rows by group differ from the official ones: {'; '.join(wrong)}" if wrong else ""

    def label_note(self, pairs: Sequence[PreferencePair]) -> str:
        """Return a warning if the labels are not distributed as in the official data, or an empty text."""
        if self.first_chosen is None or (found := sum(pair.chosen_first for pair in pairs)) == self.first_chosen:
            return ""
        flipped = len(pairs) - found == self.first_chosen
        what = "the labels may be flipped" if flipped else "these may be other pairs, or another version of them"
        return f"{found} labels prefer the first response, in the official data {self.first_chosen}: {what}"


def in_rows(count: int) -> str:
    """Return a number of rows in words."""
    return "1 row" if count == 1 else f"{count} rows"


def prompts_note(pairs: Sequence[PreferencePair]) -> str:
    """Return a warning if the prompts look like answers (columns mixed up), or an empty text."""
    prompts = [prompt_text(pair.prompt).strip().casefold() for pair in pairs]
    answers = [pair.chosen.strip().casefold() for pair in pairs]
    same = sum(prompt in (pair.chosen.strip().casefold(), pair.rejected.strip().casefold())
               for prompt, pair in zip(prompts, pairs, strict=True))  # fmt: skip
    asks = [sum(text.endswith("?") for text in texts) for texts in (prompts, answers)]
    replies = [sum(text.startswith(_ANSWER_STARTS) for text in texts) for texts in (prompts, answers)]
    swapped = (asks[1] * 2 > len(pairs) and asks[0] * 5 < asks[1]) or (
        replies[0] * 5 > len(pairs) and replies[0] > replies[1]
    )
    if same * 2 > len(pairs) or swapped:
        return "the prompts look like answers: check which column holds the prompt (--columns prompt=…)"
    return ""


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


class Collector:
    """Collects pairs with unique ids, and counts everything else."""

    def __init__(self) -> None:
        self.groups: Counter[str] = Counter()
        self.problems: dict[str, Problem] = {}
        self.tied: list[PreferencePair] = []
        self.hint = ""
        self._rows: list[tuple[Row, Parsed]] = []
        self._preferred: dict[int, int] = {}

    def add(self, row: Row, parse: RowParser, *, lenient: bool) -> None:
        """Parse one row."""
        try:
            parsed = _parsed(row, parse)
        except RowError as error:
            if not lenient:
                raise
            self.hint = self.hint or error.hint or ""
            self._count(f"{INVALID}{error.reason}", row, kept=False)
            return
        if parsed.group:
            self.groups[parsed.group] += 1
        self._rows.append((row, parsed))

    def pairs(self) -> list[PreferencePair]:
        """Return all pairs with unique ids."""
        contents: dict[str, int] = {}
        pairs: list[PreferencePair] = []
        for row, parsed in self._rows:
            for reason in parsed.skipped:
                self._count(reason, row, kept=False)
            for note in parsed.notes:
                self._count(note, row, kept=True)
            self.tied += [parsed.tied] if parsed.tied else []
            if parsed.pairs:
                key = parsed.id or parsed.pairs[0].item or parsed.pairs[0].id
                if key in contents:
                    self._count(REPEATED, row, kept=True)
                suffix = _suffix(key, contents)
                pairs += [self._checked(row, _renamed(pair, suffix)) for pair in parsed.pairs]
        return pairs

    def count(self, prefix: str) -> int:
        """Return how many rows have a problem that starts so."""
        return sum(one.count for what, one in self.problems.items() if what.startswith(prefix))

    def _checked(self, row: Row, pair: PreferencePair) -> PreferencePair:
        if pair.chosen == pair.rejected:
            self._count(IDENTICAL, row, kept=True)
        elif pair.has_preference and not pair.item:
            key, chosen = hash((pair.prompt, frozenset((pair.chosen, pair.rejected)))), hash(pair.chosen)
            if self._preferred.setdefault(key, chosen) != chosen:
                self._count(CONTRADICTING, row, kept=True)
        if not pair.chosen.strip() or not pair.rejected.strip():
            self._count(EMPTY, row, kept=True)
        return pair

    def _count(self, what: str, row: Row, *, kept: bool) -> None:
        problem = self.problems.setdefault(what, Problem(what, kept))
        problem.count += 1
        if len(problem.first) < _FIRST:
            problem.first.append(row.where)


def _parsed(row: Row, parse: RowParser) -> Parsed:
    if row.problem:
        raise RowError(row, row.problem)
    return parse(Fields(row))


def _suffix(key: str, taken: dict[str, int]) -> str:
    """Return "" for a new id, else the first of #2, #3 … that makes it unique, and remember it."""
    number = taken.get(key, 0) + 1
    while number > 1 and f"{key}#{number}" in taken:
        number += 1
    taken[key] = number
    if number > 1:
        taken[f"{key}#{number}"] = 1
    return f"#{number}" if number > 1 else ""


def _renamed(pair: PreferencePair, suffix: str) -> PreferencePair:
    item = pair.item + suffix if pair.item else ""
    return replace(pair, id=pair.id + suffix, item=item) if suffix else pair
