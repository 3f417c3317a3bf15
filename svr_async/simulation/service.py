"""The endpoint without HTTP: records of calls, which fault strikes, which reply is sent."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from svr_async.errors import StorageError
from svr_async.simulation.brain import JUDGED, Composed, Simulator
from svr_async.simulation.config import SimConfig
from svr_async.simulation.damage import corrupt, damaged_chances, odd
from svr_async.simulation.faults import POISON, Fault, Stage, draw_fault, poisoned
from svr_async.simulation.manners import FAILED_SHARE
from svr_async.simulation.prefix import PrefixCache
from svr_async.simulation.refusals import ApiError, Limits, refuse_settings
from svr_async.simulation.request import ChatRequest, Shape
from svr_async.simulation.wires import (
    FIELDS,
    as_message,
    completion,
    decision_reply,
    refuse_message_settings,
    reward_reply,
    token_logprobs,
)
from svr_async.simulation.world import draw, draw_bytes, uniform


@dataclass(slots=True, kw_only=True)
class CallRecord:
    """One call. `paid`: the server did the work. `completed`: the whole of an honest answer was handed to the socket.

    `t` is seconds since the start of the server; `attempt` counts the calls for `key` from 0, −1 where the call was
    turned away before it counted; `fault` is "" for none. `reply` is the id of the completion that was written: by it
    a client's copy is recognised.
    """

    t: float
    key: str
    attempt: int = -1
    fault: str = ""
    status: int = 0
    paid: bool = False
    completed: bool = False
    reply: str = ""


@dataclass(slots=True)
class KeyCounts:
    """The calls for one request: all of them, the paid ones, the completed ones, and those still under way."""

    calls: int = 0
    paid: int = 0
    completed: int = 0
    in_flight: int = 0


@dataclass(slots=True)
class History:
    """The endpoint's memory of its calls. `struck` are the content faults that each topic has suffered."""

    path: Path | None = None
    records: list[CallRecord] = field(default_factory=list)
    counts: dict[str, KeyCounts] = field(default_factory=dict)
    attempts: Counter[str] = field(default_factory=Counter)
    struck: dict[bytes, list[str]] = field(default_factory=dict)
    in_flight: int = 0
    peak: int = 0
    _file: int = -1

    def open(self) -> None:
        """Open the log file for appending; `StorageError` when that cannot be done."""
        if self.path is None:
            return
        try:
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as error:
            raise StorageError(f"cannot write the call log {self.path}: {error.strerror}") from error

    def close(self) -> None:
        """Close the log file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def clear(self) -> None:
        """Forget all calls; the log file keeps its lines."""
        self.records.clear()
        self.counts.clear()
        self.attempts.clear()
        self.struck.clear()
        self.peak = self.in_flight

    def begin(self, key: str) -> int:
        """Note that work on a request begins; return the number of this attempt, from 0."""
        attempt = self.attempts[key]
        self.attempts[key] += 1
        counts = self.counts.setdefault(key, KeyCounts())
        counts.calls += 1
        counts.in_flight += 1
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        return attempt

    def end(self, record: CallRecord) -> None:
        """Keep the record of a finished call and append it to the log file."""
        if record.attempt >= 0:
            self.in_flight -= 1
            counts = self.counts.setdefault(record.key, KeyCounts())
            counts.in_flight = max(0, counts.in_flight - 1)
            counts.paid += record.paid
            counts.completed += record.completed
        self.records.append(record)
        if self._file >= 0:
            os.write(self._file, orjson.dumps(asdict(record), option=orjson.OPT_APPEND_NEWLINE))

    def by_key(self) -> dict[str, dict[str, int]]:
        """Return the counts of every request as plain values."""
        return {key: asdict(counts) for key, counts in self.counts.items()}


REFERENCE_TOKENS = 256


@dataclass(frozen=True, slots=True)
class Worked:
    """What the server made of a request it worked on: the reply, and the tokens it took to write."""

    reply: dict[str, Any]
    completion_tokens: int


class Service:
    """One endpoint between start and reset. `now` arguments are seconds of a steady clock."""

    def __init__(self, config: SimConfig, simulator: Simulator | None = None) -> None:
        self.config = config
        self.simulator = simulator or Simulator(config)
        self.history = History(config.log_path)
        self.redirects_followed = 0
        self._fresh()

    def _fresh(self) -> None:
        self.limits = Limits(self.config.rpm, self.config.tpm, self.config.burst_s)
        self.prefix = PrefixCache(self.config.prefix_blocks)
        self.tokens: Counter[str] = Counter()
        self.failed: set[bytes] = set()  # topics that a manner has had its chance to fail on
        self.paid = 0

    def reset(self) -> None:
        """Forget all calls, attempts, limits and cached prefixes, as if just started."""
        self.history.clear()
        self.redirects_followed = 0
        self._fresh()

    def check_key(self, authorization: str) -> None:
        """Raise the 401 for a wrong or missing key."""
        if self.config.api_key and authorization != f"Bearer {self.config.api_key}":
            raise ApiError.bad_key(authorization)

    def admit(self, data: bytes, record: CallRecord, shape: Shape = Shape.CHAT) -> tuple[ChatRequest, dict[str, str]]:
        """Read a request and let it in, with the headers for its reply; those turned away count as no attempt."""
        try:
            body = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise ApiError.bad_request(f"the body is not JSON: {error}") from error
        chat = self.simulator.read(body, shape)
        record.key = chat.key
        if self.config.reasoning:
            (refuse_message_settings if shape is Shape.MESSAGES else refuse_settings)(body)
        if self.config.quota and self.paid >= self.config.quota:
            raise ApiError.no_quota()
        headers = self.limits.admit(time.monotonic(), chat.prompt_tokens)
        record.attempt = self.history.begin(record.key)
        return chat, headers

    def fault_of(self, chat: ChatRequest, record: CallRecord) -> Fault | None:
        """Choose the fault of this attempt and note it."""
        faults, history = self.config.faults, self.history
        if poisoned(faults, chat.contents):
            fault: Fault | None = POISON
        else:
            struck = history.struck.get(chat.topic, ())
            fault = draw_fault(
                faults, seed=self.config.seed, key=chat.key, attempt=record.attempt, role=chat.role, struck=struck
            )
        if fault is not None:
            record.fault = fault.name
            if fault.spoils:
                history.struck.setdefault(chat.topic, []).append(fault.name)
        return fault

    def work(self, chat: ChatRequest, fault: Fault | None, record: CallRecord) -> Worked:
        """Do the work that is paid for: compose the reply of an attempt, damaged where the fault says so."""
        self.paid += 1
        record.paid = True
        composed = [self.simulator.compose(chat, index) for index in range(chat.n)]
        drawn = draw_bytes(self.config.seed, "damage", chat.key, record.attempt)
        cached = min(self.prefix.visit(chat.model, chat.contents), chat.prompt_tokens)
        reply = self._reply(chat, composed, fault, drawn, record, cached)
        record.reply = reply["id"]
        written = self._count(reply["usage"], cached)
        if fault is not None and fault.name == "empty-choices":
            reply |= {name: type(reply[name])() for name in ("choices", "answers", "content", "data") if name in reply}
        if fault is not None and fault.stage is Stage.BENIGN:
            reply = odd(reply, fault, drawn)
        return Worked(reply, written)

    def _reply(
        self,
        chat: ChatRequest,
        composed: list[Composed],
        fault: Fault | None,
        drawn: bytes,
        record: CallRecord,
        cached_tokens: int,
    ) -> dict[str, Any]:
        """Return the reply in the shape of the request, its content damaged where the fault says so."""
        chances = damaged_chances(composed[0].chances, fault, drawn)
        fingerprint = self.simulator.fingerprint
        if chat.shape in (Shape.DECISIONS, Shape.SYSTEMONE):
            return decision_reply(
                chat, chances, fingerprint=fingerprint, attempt=record.attempt, cached_tokens=cached_tokens
            )
        if chat.shape in FIELDS:
            spoilt = fault is not None and fault.stage is Stage.CONTENT
            score = None if spoilt else composed[0].score
            return reward_reply(chat, score, fingerprint=fingerprint, attempt=record.attempt)
        texts, finish = _damaged(composed, fault, drawn)
        manner = self.simulator.manner
        if manner is not None and manner.fails and chat.topic not in self.failed and chat.role in JUDGED:
            self.failed.add(chat.topic)
            if draw(self.config.seed, "manner", chat.topic) < FAILED_SHARE:
                texts, finish = [text[: len(text) // 2] * (manner.fails == "length") for text in texts], manner.fails
        reply = completion(
            chat, texts, fingerprint=fingerprint, attempt=record.attempt, cached_tokens=cached_tokens, finish=finish
        )
        if chat.shape is Shape.MESSAGES:
            return as_message(reply, chat.key, record.attempt)
        if chat.statements:
            reply["choices"][0]["logprobs"] = token_logprobs(chances)
        return reply

    def _count(self, usage: dict[str, Any], cached: int) -> int:
        written: int = usage.get("completion_tokens") or usage.get("output_tokens", 0)
        read = usage.get("prompt_tokens") or usage.get("input_tokens", 0) + usage.get("cache_read_input_tokens", 0)
        self.tokens.update(prompt_tokens=read, completion_tokens=written, cached_tokens=cached)
        self.limits.charge(written)
        return written

    def latency_s(self, chat: ChatRequest, attempt: int, completion_tokens: int) -> float:
        """Return the seconds that writing a reply takes; log-normal, half fixed and half by output length."""
        if not self.config.latency_ms:
            return 0.0
        drawn = draw_bytes(self.config.seed, "latency", chat.key, attempt)
        normal = math.sqrt(-2 * math.log(1 - uniform(drawn, 0))) * math.cos(2 * math.pi * uniform(drawn, 1))
        scale = 0.5 + 0.5 * completion_tokens / REFERENCE_TOKENS
        return self.config.latency_ms / 1000 * scale * math.exp(self.config.latency_sigma * normal)

    def stats(self) -> dict[str, Any]:
        """Return totals: calls, paid and completed ones, faults by name, tokens, the peak of calls in flight."""
        records = self.history.records
        return {
            "calls": len(records) + self.history.in_flight,
            "keys": len(self.history.counts),
            "paid": sum(record.paid for record in records),
            "completed": sum(record.completed for record in records),
            "in_flight": self.history.in_flight,
            "peak_in_flight": self.history.peak,
            "faults": dict(Counter(record.fault for record in records if record.fault)),
            "tokens": dict(self.tokens),
            "redirects_followed": self.redirects_followed,
        }


def _damaged(composed: list[Composed], fault: Fault | None, drawn: bytes) -> tuple[list[str], str]:
    """Return the texts of all choices, and the finish reason that a content fault forces."""
    if fault is None or fault.stage is not Stage.CONTENT:
        return [one.text for one in composed], ""
    pairs = [corrupt(one, fault, drawn) for one in composed]
    return [text for text, _ in pairs], pairs[0][1]
