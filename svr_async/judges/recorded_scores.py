"""Recorded scores: what a reward model gave to responses somewhere else, read from JSON Lines or CSV.

A row is a pair by its id, {"id": "7", "score_a": 1.25, "score_b": 0.5} in the order of the data set (`pair_id` is the
same as `id`); or a response by its text, {"prompt": …, "response": …, "score": 1.25}, where the prompt is a text or a
list of messages. A CSV file has the same names in its first line.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from svr_async.core.integrity import Integrity, Marks
from svr_async.core.pair import Order, Presentation, parse_prompt, prompt_text
from svr_async.core.verdict import Outcome, is_number
from svr_async.errors import ConfigError
from svr_async.judges.protocol import Answer, Preference
from svr_async.judges.scalar import LARGEST_SCORE, OnlyScores, by_scores

SUFFIX = ".csv"
MOST_CELL_CHARS = 2**24
KNOWN = "id, score_a and score_b; or prompt, response and score"


@dataclass(frozen=True, slots=True)
class RecordedScores(OnlyScores):
    """Replays scores by pair id, or by prompt and response. Pairs without both scores are unscored, and counted."""

    path: Path
    pairs: dict[str, tuple[float, float]] = field(default_factory=dict)
    responses: dict[bytes, float] = field(default_factory=dict)
    marks: Marks = frozenset({Integrity.RECORDED})

    @property
    def name(self) -> str:
        """`recorded:` and the file's name."""
        return f"recorded:{self.path.name}"

    @property
    def label(self) -> str:
        """How its results are labelled."""
        return f"recorded scores ({self.path.name})"

    async def prefer(self, shown: Presentation) -> Answer[Preference]:
        """Replay two scores: the margin is their difference."""
        a, b = self._scores(shown)
        if a is None or b is None:
            detail = f"no recorded score for {'response' if a is None else 'other response'} of {shown.pair_id}"
            return Answer(value=None, outcome=Outcome.API_ERROR, detail=detail)
        return Answer(value=by_scores(a, b))

    def _scores(self, shown: Presentation) -> tuple[float | None, float | None]:
        if shown.pair_id in self.pairs:
            a, b = self.pairs[shown.pair_id]
            return (a, b) if shown.order is Order.AB else (b, a)
        prompt, find = prompt_text(shown.prompt), self.responses.get
        return find(_key(prompt, shown.response_a)), find(_key(prompt, shown.response_b))


def holds_scores(path: Path, data: bytes) -> bool:
    """Whether a file is one of scores: CSV, or JSON Lines whose first row has one."""
    if path.suffix.lower() == SUFFIX:
        return True
    try:
        row = orjson.loads(data.lstrip().partition(b"\n")[0])
    except orjson.JSONDecodeError:
        return False
    return isinstance(row, dict) and bool({"score", "score_a"} & row.keys())


def read_scores_file(path: Path, data: bytes) -> RecordedScores:
    """Read a file of scores; ConfigError names the row that is wrong, or that says otherwise than one before it."""
    found = RecordedScores(path)
    for where, row in _rows(path, data):
        if row.get("response") is not None:
            _put(found.responses, _key(_prompt(row, where), str(row["response"])), _number(row, "score", where), where)
        else:
            pair = row.get("id", row.get("pair_id"))
            if pair is None:
                raise ConfigError(f"{where} has neither an id nor a response", hint=f"a row has {KNOWN}")
            _put(found.pairs, str(pair), (_number(row, "score_a", where), _number(row, "score_b", where)), where)
    if not found.pairs and not found.responses:
        raise ConfigError(f"{path} holds no scores", hint=f"a row has {KNOWN}")
    return found


def _put(held: dict[Any, Any], key: Any, value: Any, where: str) -> None:
    if held.setdefault(key, value) != value:
        raise ConfigError(f"{where} has another score than a row before it", hint="keep one of them")


def _rows(path: Path, data: bytes) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from error
    if path.suffix.lower() == SUFFIX:
        yield from _csv_rows(path, text)
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield f"{path} line {number}", _object(line, f"{path} line {number}")


def _csv_rows(path: Path, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    csv.field_size_limit(MOST_CELL_CHARS)
    try:
        for number, row in enumerate(csv.DictReader(io.StringIO(text, newline="")), 1):
            yield f"{path} row {number}", row
    except csv.Error as error:
        raise ConfigError(f"{path} cannot be read as CSV: {error}", hint="write it as JSON Lines") from error


def _object(line: str, where: str) -> Mapping[str, Any]:
    try:
        value: Any = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"{where} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{where} is no JSON object", hint=f"a row has {KNOWN}")
    return value


def _number(row: Mapping[str, Any], name: str, where: str) -> float:
    value = row.get(name)
    try:
        number = float(value) if isinstance(value, str) else value
    except ValueError:
        number = None
    if not is_number(number) or not abs(number) <= LARGEST_SCORE:
        raise ConfigError(f"{where}: {name} = {value!r} is no number", hint=f"a row has {KNOWN}")
    return float(number)


def _prompt(row: Mapping[str, Any], where: str) -> str:
    try:
        return prompt_text(parse_prompt(row.get("prompt")))
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from error


def _key(prompt: str, response: str) -> bytes:
    texts = (prompt.encode("utf-8", "replace"), response.encode("utf-8", "replace"))
    return hashlib.blake2b(b"".join(len(one).to_bytes(8, "big") + one for one in texts), digest_size=16).digest()
