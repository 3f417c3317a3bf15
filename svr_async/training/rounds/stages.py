"""Stages: questions about many pairs at once, and what a stage gave, kept on disk.

When a run is started again, a stage whose inputs have the same digest is read back instead of computed. A stage is one
file that appears whole or not at all, under a checksum.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np
import orjson

from svr_async.core.files import write_atomic
from svr_async.core.integrity import require_coverage
from svr_async.core.verdict import Outcome
from svr_async.engine.shutdown import ShutdownController
from svr_async.errors import UsageError
from svr_async.judges.limits import WHOLE, Share, places_of, share_in_words
from svr_async.judges.protocol import Answer, Author, Judge
from svr_async.version import __version__

if TYPE_CHECKING:
    from svr_async.engine.engine import CallEngine

T = TypeVar("T")
R = TypeVar("R")
Outcomes = Mapping[str, Mapping[str, int]]  # how many questions of each stage had which outcome
RUBRICS_PER_CALL = 9


class StageFile(msgspec.Struct, frozen=True):
    """A stage: its program and inputs, the marks of its judge, the outcomes of its questions, and what it gave."""

    version: str
    digest: str
    marks: list[str]
    outcomes: dict[str, int]
    value: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Stages:
    """The folder of a training's stages.

    `marks` are the fingerprints of the systems that answered; they are stored with each stage, so that a bank names its
    judge even if no call was needed any more. `outcomes` are those of the questions of each stage that was read or
    saved. With `retry` a stage with unanswered questions is computed again.
    """

    folder: Path
    marks: set[str] = field(default_factory=set)
    outcomes: dict[str, Mapping[str, int]] = field(default_factory=dict)
    retry: bool = False

    def load(self, name: str, digest: str, kind: type[T]) -> T | None:
        """Return what a stage gave, or None if it was not computed from these inputs.

        A stage of another version of this package, and a damaged one, is computed again too: the cache has the replies.
        """
        path = self.folder / f"{name}.stage"
        data = path.read_bytes() if path.exists() else b""
        if data[:64] != _checksum(data[64:]):
            return None
        stage = msgspec.msgpack.decode(data[64:], type=StageFile)
        if (stage.version, stage.digest) != (__version__, digest) or (self.retry and unanswered(stage.outcomes)):
            return None
        self.marks.update(stage.marks)
        self.outcomes.update({name: stage.outcomes} if stage.outcomes else {})
        return msgspec.msgpack.decode(stage.value, type=kind, dec_hook=_read_array)

    def save(self, name: str, digest: str, value: object, outcomes: Mapping[str, int] | None = None) -> None:
        """Store a stage: plain values, records and arrays in any nesting."""
        counts = dict(outcomes or {})
        raw = msgspec.Raw(msgspec.msgpack.encode(value, enc_hook=_plain_array))
        data = msgspec.msgpack.encode(StageFile(__version__, digest, sorted(self.marks), counts, raw))
        write_atomic(self.folder / f"{name}.stage", _checksum(data) + data)
        self.outcomes.update({name: counts} if counts else {})


def _checksum(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()


def _plain_array(value: Any) -> tuple[str, tuple[int, ...], bytes]:
    if not isinstance(value, np.ndarray):
        raise NotImplementedError(f"a stage holds no {type(value).__name__}")
    return value.dtype.str, value.shape, value.tobytes()


def _read_array(_kind: type, value: Any) -> Any:
    kind, shape, raw = value
    return np.frombuffer(raw, kind).reshape(shape)


def digest_of(*parts: Any) -> str:
    """Return a digest of values: texts, numbers, records, lists and dictionaries of them, bytes, arrays."""
    sha = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else b""
        if isinstance(part, np.ndarray):
            data = f"{part.dtype}{part.shape}".encode() + np.ascontiguousarray(part).tobytes()
        elif not isinstance(part, bytes):
            data = orjson.dumps(part, option=orjson.OPT_SORT_KEYS, default=str)
        sha.update(len(data).to_bytes(8, "big") + data)
    return sha.hexdigest()[:32]


def unanswered(outcomes: Mapping[str, int]) -> int:
    """Return how many questions of a stage have no answer."""
    return sum(count for outcome, count in outcomes.items() if outcome != Outcome.SCORED)


def require_answers(outcomes: Outcomes, least: float, failures: Path, *, before: str = "") -> None:
    """Raise CoverageError if too few questions got an answer; `before` has to be done before they are asked again."""
    missing, total = sum(map(unanswered, outcomes.values())), sum(sum(counts.values()) for counts in outcomes.values())
    hint = f"{failures} says why; {before}--retry-errors asks again, --min-coverage accepts it"
    require_coverage(missing, total, least, lack="questions have no answer", hint=hint)


def unanswered_lines(outcomes: Outcomes) -> list[str]:
    """Return a line for each stage with unanswered questions: how many, and why."""
    lines = []
    for stage, counts in outcomes.items():
        if missing := unanswered(counts):
            why = ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()) if name != Outcome.SCORED)
            lines.append(f"{stage}: {missing:,} of {sum(counts.values()):,} questions have no answer ({why})")
    return lines


class StageEndsError(Exception):
    """No further stage may begin; the caller that set `before_stage` handles this."""


class ShardEndsError(Exception):
    """This machine's part of a stage is judged; the stage needs the replies of the others to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJudges:
    """Who is asked, how many at a time, and callbacks: at the start of a stage of N questions, and at each answer.

    `shutdown` ends the questions for good; `listening` is entered while questions run, to pass it signals.
    `before_stage` is called before a stage's first question and before a fit, and may raise: a run may end between two
    stages. Only `share` of each stage is asked; the rest has to be in the cache.
    """

    judge: Judge
    author: Author | None
    workers: int = 64
    rubrics_per_call: int = RUBRICS_PER_CALL
    on_done: Callable[[int], None] = lambda _: None
    on_begin: Callable[[str, int], None] = lambda _what, _total: None
    shutdown: ShutdownController = field(default_factory=ShutdownController)
    listening: Callable[[], AbstractContextManager[None]] = nullcontext
    before_stage: Callable[[], None] = lambda: None
    share: Share = WHOLE

    @property
    def writer(self) -> Author:
        """The author; UsageError without one."""
        if self.author is None:
            hint = "name a text judge with --author, or rules"
            raise UsageError(f"{self.judge.name} cannot induce rubrics", hint=hint)
        return self.author


async def ask(
    judges: TrainingJudges,
    what: str,
    items: Sequence[T],
    work: Callable[[T], Awaitable[R]],
    groups: Sequence[Hashable],
) -> list[R]:
    """Return the answer to a question about each item; those of other shards come from the cache.

    Items of equal `groups` are asked by the same shard. A question that fails for good is an answer without a value;
    what ends the run (key, budget, storage …) is an SvrError, raised after running calls have ended.
    """
    judges.before_stage()
    results: dict[int, R] = {}

    async def ask_at(places: Sequence[int], on_done: Callable[[int], None]) -> None:
        def keep(number: int, result: R) -> None:
            results[places[number]] = result
            on_done(len(results))

        with judges.listening():
            chosen = [items[place] for place in places]
            await judges.shutdown.run(work, chosen, workers=judges.workers, on_result=keep)
        judges.shutdown.reraise()

    own = places_of(groups, judges.share)
    judges.on_begin(what, len(own))
    await ask_at(own, judges.on_done)
    if len(own) < len(items):
        with from_cache(judges.shutdown.engines) as missing:
            await ask_at(sorted(set(range(len(items))).difference(own)), lambda _: None)
        if missing:
            raise ShardEndsError(
                f"shard {share_in_words(judges.share)} of {what} is done, {len(own):,} items of it; {len(missing):,} "
                "questions are for other shards: bring their replies (svr cache export, import) and repeat the command"
            )
    return [results[place] for place in range(len(items))]


@contextmanager
def from_cache(engines: Sequence[CallEngine]) -> Iterator[set[bytes]]:
    """Let only the cache answer for a while; yields the keys of the questions that it does not hold."""
    missing: set[bytes] = set()
    before = [(engine, engine.config, engine.on_missing) for engine in engines]
    for engine in engines:
        engine.config = replace(engine.config, offline=True)
        engine.on_missing = lambda question: missing.add(question.request.key)
    try:
        yield missing
    finally:
        for engine, config, on_missing in before:
            engine.config, engine.on_missing = config, on_missing


def outcomes_of(answers: Sequence[Answer[Any]]) -> Counter[str]:
    """Return how many answers had which outcome."""
    return Counter(answer.outcome.value for answer in answers)
