"""How a file's labels are meant, by all of its rows together; what can be read two ways is refused with both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from svr_async.adapters.fields import Fields, RowError
from svr_async.adapters.labels import (
    DOUBTFUL,
    OF_THE_ROW,
    SIGNED,
    Labelled,
    Reading,
    Verdict,
    as_number,
    by_value,
    is_missing,
    parse_labels,
    shown,
)
from svr_async.adapters.layouts import Layout, by_scores, labelled_by
from svr_async.adapters.tables import Row
from svr_async.errors import DataError

_MOST_VALUES = 1000
_SHOWN_VALUES = 6
_SHOWN_CHARS = 60

Pattern = tuple[Verdict | None, ...]


@dataclass(slots=True)
class Evidence:
    """What the rows of one layout say: values, how each reading takes them, and whether scores bear that out.

    A pattern is what all readings make of a row, those first that look at all of it, and then what its scores say; each
    is counted, and its first row kept.
    """

    layout: Layout
    file: str
    readings: tuple[Reading, ...]
    values: Counter[str] = field(default_factory=Counter)
    low: float = 0.0
    high: float = 0.0
    patterns: Counter[Pattern] = field(default_factory=Counter)
    examples: dict[Pattern, tuple[Row, Labelled]] = field(default_factory=dict)
    _known: dict[tuple[type, str], tuple[Verdict | None, ...]] = field(default_factory=dict)

    def add(self, fields: Fields, *, lower: bool | None) -> None:
        """Take in a row; one without a label says nothing."""
        labelled = labelled_by(fields, self.layout)
        if is_missing(labelled.value):
            return
        value = shown(labelled.value)
        if value in self.values or len(self.values) < _MOST_VALUES:
            self.values[value] += 1
        number = as_number(labelled.value)
        if number is not None:
            self.low, self.high = min(self.low, number), max(self.high, number)
        pattern = (*self._verdicts(labelled, value), scores_say(fields, self.layout, lower=lower))
        self.patterns[pattern] += 1
        self.examples.setdefault(pattern, (fields.row, labelled))

    def _verdicts(self, labelled: Labelled, value: str) -> tuple[Verdict | None, ...]:
        """Return what each reading says; what does not hang on the rest of the row is worked out once a value."""
        key = (type(labelled.value), value)
        known = self._known.get(key)
        if known is None:
            known = tuple(one.read(labelled) for one in self.readings[len(OF_THE_ROW) :])
            if len(self._known) < _MOST_VALUES:
                self._known[key] = known
        return (*(one.read(labelled) for one in OF_THE_ROW), *known)

    def decide(self) -> Reading:
        """Return the reading that explains all rows, or else most; DataError where two do and disagree, or none."""
        rows, fits = self.patterns.total(), self._fits()
        plain = [one for one in self.readings if one not in DOUBTFUL]
        doubtful = [one for one in self.readings if one in DOUBTFUL and (self.low < 0 or one not in SIGNED)]
        most = max(fits[one] for one in plain)
        kept = [one for one in plain if fits[one] == rows] or [one for one in doubtful if fits[one] == rows]
        kept = sorted(kept or [one for one in plain if fits[one] == most], key=OF_THE_ROW.__contains__)
        if rows and fits[kept[0]] * 2 < rows:
            raise self._unknown()
        self._refuse_two(kept)
        self._refuse_contradiction(kept[0])
        return kept[0]

    def _fits(self) -> dict[Reading, int]:
        """Return how many rows each reading explains."""
        return {
            reading: sum(count for pattern, count in self.patterns.items() if pattern[place] is not None)
            for place, reading in enumerate(self.readings)
        }

    def _refuse_two(self, kept: list[Reading]) -> None:
        """Raise where two of these readings prefer different responses in a row."""
        places = {reading: self.readings.index(reading) for reading in kept}
        first = kept[0]
        for other in kept[1:]:
            for pattern, (row, labelled) in self.examples.items():
                one, two = pattern[places[first]], pattern[places[other]]
                if one is not two and one is not None and two is not None:
                    raise DataError(
                        f"{self.file}: column {self.layout.label!r} ({self._told()}) can be read in two ways: "
                        f"{self._says(first)}, then {row.where} {_prefers(labelled, one)}; or {self._says(other)}, "
                        f"then it {_prefers(labelled, two)}",
                        hint=f"say which: --labels '{first.flag}' or --labels '{other.flag}'",
                    )

    def _refuse_contradiction(self, reading: Reading) -> None:
        """Raise where the scores beside the responses mostly speak against the reading."""
        place = self.readings.index(reading)
        sides = {Verdict.A, Verdict.B}
        both = {p: n for p, n in self.patterns.items() if p[place] in sides and p[-1] in sides}
        against = sum(n for pattern, n in both.items() if pattern[place] is not pattern[-1])
        if 2 * against > sum(both.values()):
            scores = self.layout.scores
            assert scores is not None
            raise DataError(
                f"{self.file}: column {self.layout.label!r} ({self._says(reading)}) contradicts {scores.first} and "
                f"{scores.second} in {against} of {sum(both.values())} rows",
                hint="say what the label means, as --labels 1=a,0=b, or --labels lower where lower scores are better",
            )

    def _unknown(self) -> DataError:
        message = f"{self.file}: column {self.layout.label!r} holds {self._told()}, which nothing here explains"
        values = list(self.values)
        if self.high > self.low and all(as_number(value) is not None for value in values):
            middle = (min(map(float, values)) + max(map(float, values))) / 2
            return DataError(
                message,
                hint=f"say what they mean: --labels '<{middle:g}=a,>{middle:g}=b' or '<{middle:g}=b,>{middle:g}=a'",
            )
        if len(values) == 2:
            a, b = values
            return DataError(message, hint=f"say which is which: --labels '{a}=a,{b}=b' or --labels '{b}=a,{a}=b'")
        return DataError(
            message, hint="say what each means: --labels VALUE=a,VALUE=b,VALUE=tie, or name another --columns label="
        )

    def _says(self, reading: Reading) -> str:
        two = self.layout.two
        return reading.says.format(a=two.first, b=two.second)

    def told(self, reading: Reading) -> str:
        """Return how the label is read, for people."""
        return f"{self.layout.label}: {self._says(reading)} ({self._told()})"

    def _told(self) -> str:
        common = [f"{_short(value)} ×{count}" for value, count in self.values.most_common(_SHOWN_VALUES)]
        left = len(self.values) - len(common)
        return ", ".join(common) + (f" and {left} more" if left else "")


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


def _prefers(labelled: Labelled, verdict: Verdict) -> str:
    if verdict not in (Verdict.A, Verdict.B):
        return "is a tie"
    text = labelled.texts[0 if verdict is Verdict.A else 1]
    return f"prefers {_short(text)!r}" if isinstance(text, str) else f"prefers {labelled.columns[verdict is Verdict.B]}"


def scores_say(fields: Fields, layout: Layout, *, lower: bool | None) -> Verdict | None:
    """Return what the scores of a row say; None where there are none, or no numbers."""
    if layout.scores is None:
        return None
    try:
        return by_scores(fields, layout.scores, lower=lower)
    except RowError:
        return None


class Survey:
    """Looks at all rows of a file before any is made a pair."""

    def __init__(self, labels: str) -> None:
        self.told = parse_labels(labels)
        word = labels.strip().casefold()
        self.lower = {"lower": True, "higher": False}.get(word)
        self._evidence: dict[Layout, Evidence] = {}
        self._swapped: Counter[tuple[Layout, bool]] = Counter()
        self._file = ""

    def add(self, fields: Fields, layout: Layout) -> None:
        """Take in a row that has this layout."""
        self._file = self._file or fields.row.file
        if layout.rivals:
            raise DataError(
                f"{fields.row.where}: several columns may be the label: {', '.join(layout.rivals)}",
                hint=f"say which: --columns label={layout.rivals[0]}",
            )
        if layout.more:
            raise DataError(
                f"{fields.row.where}: more than two responses: {', '.join((*layout.two, *layout.more))}",
                hint=f"say which: --columns response_a={layout.two.first},response_b={layout.two.second}",
            )
        if not layout.labelled:
            verdict = scores_say(fields, layout, lower=self.lower)
            if verdict in (Verdict.A, Verdict.B):
                self._swapped[layout, verdict is Verdict.B] += 1
        elif layout.label and not layout.fixed and not self.told and layout.label in fields.row.values:
            readings = (*OF_THE_ROW, *by_value(layout.two), *DOUBTFUL)
            evidence = self._evidence.setdefault(layout, Evidence(layout, fields.row.file, readings))
            evidence.add(fields, lower=self.lower)

    def decide(self) -> Readings:
        """Return how each layout's label is read; DataError where that cannot be told, or scores speak against it."""
        for layout, wrong in [key for key in self._swapped if key[1]]:
            against, fair = self._swapped[layout, wrong], self._swapped[layout, False]
            if against > fair:
                raise self._contradicted(layout, against, against + fair)
        found = {layout: evidence.decide() for layout, evidence in self._evidence.items()}
        told = tuple(self._evidence[layout].told(reading) for layout, reading in found.items())
        return Readings(found, self.told, self.lower, told)

    def _contradicted(self, layout: Layout, against: int, rows: int) -> DataError:
        assert layout.scores is not None
        a, b = layout.two
        return DataError(
            f"{self._file}: {a} has the worse of {layout.scores.first} and {layout.scores.second} in {against} of "
            f"{rows} rows: either the two columns are swapped, or lower scores are better",
            hint=f"--columns chosen={b},rejected={a} in the first case, --labels lower in the second",
        )


@dataclass(frozen=True, slots=True)
class Readings:
    """How each layout's label is read; `told` is the user's word, `lower` that less is better, `says` is for people."""

    found: dict[Layout, Reading]
    told: Reading | None = None
    lower: bool | None = None
    says: tuple[str, ...] = ()

    def of(self, layout: Layout) -> Reading:
        """Return the reading of a layout's label."""
        return self.told or layout.fixed or self.found[layout]


def survey(rows: Iterable[tuple[Fields, Layout]], labels: str) -> Readings:
    """Look at all rows and decide."""
    looked = Survey(labels)
    for fields, layout in rows:
        looked.add(fields, layout)
    return looked.decide()
