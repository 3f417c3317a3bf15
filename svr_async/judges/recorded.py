"""Recorded judges: replies or scores from a file (`--judge recorded:PATH`).

Replies are JSON Lines, read by the same code as live replies:

    {"pair_id": "7", "order": "ab", "role": "direct", "reply": "… [[A]]"}

`role` is `direct`, `compare` or `self_rubrics`; `order` (`ab`: as in the data set, `ba`: swapped) is left out for
`self_rubrics`. `rubric_id`s are R1…Rk in the order of the item's rubrics.

Scores are JSON Lines or CSV with these names: {"id": "7", "score_a": 1.25, "score_b": 0.5} in the order of the data
set, or {"prompt": …, "response": …, "score": 1.25}, whose prompt is a text or a list of messages.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import msgspec

from svr_async.core.files import read_plain
from svr_async.core.integrity import Integrity, Marks
from svr_async.core.pair import Order, Presentation, Prompt, parse_prompt, prompt_text
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Outcome
from svr_async.engine.reply import without_thoughts
from svr_async.engine.request import ReplyRejectedError
from svr_async.errors import ConfigError
from svr_async.judges.decision import Score, by_scores
from svr_async.judges.protocol import Answer, Comparisons, Judge, Preference, WrittenRubrics
from svr_async.judges.questions import read_comparisons, read_written
from svr_async.judges.reader import read_direct

T = TypeVar("T")
CSV = ".csv"
MOST_CELL_CHARS = 2**24
MOST_BYTES = 2**32  # replies are whole texts
Key = tuple[str, str, str]


class _ReplyRow(msgspec.Struct):
    pair_id: str
    role: Literal["direct", "compare", "self_rubrics"]
    reply: str
    order: Literal["ab", "ba", ""] = ""


class _ScoreRow(msgspec.Struct):
    id: str | int | None = None
    pair_id: str | int | None = None
    score_a: Score | None = None
    score_b: Score | None = None
    prompt: Any = None
    response: str | None = None
    score: Score | None = None


@dataclass(frozen=True, slots=True)
class _Recorded(Judge):
    """A judge from a file. Pairs that the file lacks are unscored, and counted."""

    path: Path
    kind: ClassVar[str] = ""

    @property
    def marks(self) -> Marks:
        return frozenset({Integrity.RECORDED})

    @property
    def name(self) -> str:
        """`recorded:` and the file's name."""
        return f"recorded:{self.path.name}"

    @property
    def label(self) -> str:
        """The label of results."""
        return f"recorded {self.kind} ({self.path.name})"


@dataclass(frozen=True, slots=True)
class RecordedJudge(_Recorded):
    """Replays replies by (role, pair id, order)."""

    replies: Mapping[Key, str]
    prompts: Mapping[bytes, str]
    kind: ClassVar[str] = "replies"

    async def prefer(self, shown: Presentation) -> Answer[Preference]:
        """Replay a direct verdict."""
        read = partial(read_direct, quoted=(shown.response_a, shown.response_b))
        return self._replayed(("direct", shown.pair_id, shown.order.value), read)

    async def write_rubrics(self, prompt: Prompt) -> Answer[WrittenRubrics]:
        """Replay rubrics that were written for a prompt."""
        pair_id = self.prompts.get(_key(prompt_text(prompt)), "")
        return self._replayed(("self_rubrics", pair_id, ""), read_written)

    async def compare(
        self,
        shown: Presentation,
        rubrics: Sequence[Rubric],
        *,
        overall: bool,
        note: str = "",  # noqa: ARG002
    ) -> Answer[Comparisons]:
        """Replay verdicts per rubric and the overall preference."""
        quoted = shown.response_a, shown.response_b
        read = partial(read_comparisons, rubrics=rubrics, overall=overall, quoted=quoted)
        return self._replayed(("compare", shown.pair_id, shown.order.value), read)

    def _replayed(self, key: Key, read: Callable[[str], T]) -> Answer[T]:
        reply, (role, pair_id, order) = self.replies.get(key), key
        if reply is None:
            shown = f" in order {order}" if order else ""
            detail = f"no recorded {role} reply for {pair_id or 'this prompt'}{shown}"
            return Answer(value=None, outcome=Outcome.API_ERROR, detail=detail)
        try:
            return Answer(value=read(reply))
        except ReplyRejectedError as error:
            return Answer(value=None, outcome=Outcome.PARSE_ERROR, detail=str(error))


@dataclass(frozen=True, slots=True)
class RecordedScores(_Recorded):
    """Replays scores by pair id, or by prompt and response."""

    pairs: dict[str, tuple[float, float]] = field(default_factory=dict)
    responses: dict[bytes, float] = field(default_factory=dict)
    kind: ClassVar[str] = "scores"

    async def prefer(self, shown: Presentation) -> Answer[Preference]:
        """Replay two scores: the margin is their difference."""
        if shown.pair_id in self.pairs:
            first, second = self.pairs[shown.pair_id]
            return Answer(value=by_scores(*((first, second) if shown.order is Order.AB else (second, first))))
        prompt = prompt_text(shown.prompt)
        a = self.responses.get(_key(prompt, shown.response_a))
        b = self.responses.get(_key(prompt, shown.response_b))
        if a is None or b is None:
            detail = f"no recorded score for response {'A' if a is None else 'B'} of {shown.pair_id}"
            return Answer(value=None, outcome=Outcome.API_ERROR, detail=detail)
        return Answer(value=by_scores(a, b))


def load_recorded(path: Path, prompts: Mapping[str, Prompt]) -> RecordedJudge | RecordedScores:
    """Read a file of replies or scores; `prompts` maps pair ids to prompts. ConfigError names a wrong line."""
    try:
        text = read_plain(path, MOST_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read '{path}': {getattr(error, 'strerror', None) or error}") from error
    lines = [(f"{path} line {n}", line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    if path.suffix.lower() == CSV:
        return _load_scores(path, _csv_rows(path, text))
    if lines and {"score", "score_a"} & _decode(lines[0][1], dict[str, Any], lines[0][0]).keys():
        return _load_scores(path, ((where, _decode(line, _ScoreRow, where)) for where, line in lines))
    replies: dict[Key, str] = {}
    for where, line in lines:
        row = _decode(line, _ReplyRow, where)
        if not row.order and row.role != "self_rubrics":
            raise ConfigError(f"{where} has no order", hint="ab: as in the data set, ba: swapped")
        order = "" if row.role == "self_rubrics" else row.order
        replies[row.role, row.pair_id, order] = without_thoughts(row.reply)
    if not replies:
        raise ConfigError(f"{path} holds no replies", hint="one JSON object a line: pair_id, order, role, reply")
    by_prompt = {_key(prompt_text(prompt)): pair_id for pair_id, prompt in reversed(list(prompts.items()))}
    return RecordedJudge(path, replies, by_prompt)


def _decode(line: str, kind: type[T], where: str) -> T:
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{where}: {error}", hint="see the format of recordings in docs/judges.md") from error


def _csv_rows(path: Path, text: str) -> Iterator[tuple[str, _ScoreRow]]:
    csv.field_size_limit(MOST_CELL_CHARS)
    try:
        for number, row in enumerate(csv.DictReader(io.StringIO(text, newline=""), restkey=""), 1):
            filled = {name: cell for name, cell in row.items() if cell}
            yield f"{path} row {number}", msgspec.convert(filled, _ScoreRow, strict=False)
    except (csv.Error, msgspec.ValidationError) as error:
        raise ConfigError(f"{path} cannot be read as CSV: {error}", hint="write it as JSON Lines") from error


def _load_scores(path: Path, rows: Iterator[tuple[str, _ScoreRow]]) -> RecordedScores:
    found = RecordedScores(path)
    for where, row in rows:
        pair = row.id if row.id is not None else row.pair_id
        if row.response is not None and row.score is not None:
            try:
                key = _key(prompt_text(parse_prompt(row.prompt)), row.response)
            except ValueError as error:
                raise ConfigError(f"{where}: {error}") from error
            same = found.responses.setdefault(key, row.score) == row.score
        elif pair is not None and row.score_a is not None and row.score_b is not None:
            scores = row.score_a, row.score_b
            same = found.pairs.setdefault(str(pair), scores) == scores
        else:
            hint = "write id, score_a and score_b; or prompt, response and score"
            raise ConfigError(f"{where} lacks an id, a response or a score", hint=hint)
        if not same:
            raise ConfigError(f"{where} has another score than an earlier row", hint="keep one of them")
    return found


def _key(*texts: str) -> bytes:
    data = [text.encode("utf-8", "replace") for text in texts]
    return hashlib.blake2b(b"".join(len(one).to_bytes(8, "big") + one for one in data), digest_size=16).digest()
