"""Details of a run's items: their texts, and the requests and replies of each call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from svr_async.adapters.tables import STDIN
from svr_async.engine.cache import Cache
from svr_async.engine.cache_files import Kept, look_up
from svr_async.engine.concurrency import ShutdownController, run_whole
from svr_async.engine.failures import FailureLog
from svr_async.engine.money import Price
from svr_async.engine.request import ReplyRejectedError, Request
from svr_async.errors import SvrError, UsageError
from svr_async.evaluation.explain import Explanation, explain_item, item_of_run
from svr_async.evaluation.items import Exchange, Exchanges, Item
from svr_async.evaluation.judging import evaluation_of, judge_pairs, open_judge_pool
from svr_async.evaluation.run_folder import Run, Texts, load_run
from svr_async.evaluation.setup import PreparedRun, judged_pairs, prepare, settings_of, texts_of_run
from svr_async.evaluation.wording import count
from svr_async.judges.model import SIMULATED_FINGERPRINT
from svr_async.judges.reader import read_direct, read_list
from svr_async.observability.redaction import Redactor

KEY_DIGITS = 12  # of a cache key, as pages show it
UNKNOWN_REQUEST = "not shown: the judge's profile, the prompts or the data have changed since the run"
_IN_MESSAGES = {"messages", "input", "questions", "system"}  # parts of a body that are shown as messages


def explain(run: Run | str | os.PathLike[str], item: str, *, data: Path | None = None) -> Explanation:
    """Explain one decision of a run: each rubric's verdicts and signed contribution.

    Texts that the run folder does not keep are read from `data`, else from the run's own data if it has not changed.
    UsageError suggests the nearest ids for an unknown one.
    """
    loaded = run if isinstance(run, Run) else load_run(run)
    found = explain_item(loaded, item)
    if found.texts is not None and data is None:
        return found
    texts = known_texts(loaded, None)[0] if data is None else texts_of_run(loaded, [item], data)
    return explain_item(loaded, item, texts=texts.get(item))


def known_texts(run: Run, data: Path | None) -> tuple[Mapping[str, Texts], tuple[str, ...]]:
    """Return the texts of a run's items by id, and a note if only the texts kept in the run folder are known."""
    if data is not None:
        return texts_of_run(run, [item.id for item in run.items], data), ()
    try:
        settings = settings_of(run)
        if settings.data == STDIN:
            raise UsageError("standard input is not stored")
        pairs = judged_pairs(settings, run)
    except SvrError as error:
        known = f"{count(len(run.examples))} of {count(len(run.items))} items"
        return run.examples, (f"Only {known} have texts: {error.message}. --data PATH names the run's data.",)
    return {pair.id: Texts.of(pair) for pair in pairs}, ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a run. `kept` is its row in the cache, None if missing; `request` is None if it cannot be rebuilt."""

    key: str
    kept: Kept | None
    request: Request | None
    usd: float | None
    failure: tuple[str, str] | None
    unread: str = ""

    @property
    def reasons(self) -> tuple[tuple[str, str], ...]:
        """The judge's reasons by rubric id of the request; "" for the verdict as a whole."""
        return () if self.kept is None or self.kept.reply is None else reasons_in(self.kept.reply.answer)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; `tries` counts attempts until a reply could be read."""
        reply, request = None if self.kept is None else self.kept.reply, self.request
        texts = ("text", "reasoning", "finish_reason", "id")
        return {
            "key": self.key,
            "kept_at": None if self.kept is None else self.kept.kept_at,
            "request": request and {"endpoint": request.endpoint, "wire": request.wire.name, "body": request.body()},
            "reply": reply and {name: getattr(reply, name) for name in texts},
            "reasons": [{"rubric": rubric, "reason": text} for rubric, text in self.reasons],
            "model": reply and reply.model,
            "simulated": reply is not None and reply.fingerprint.startswith(SIMULATED_FINGERPRINT),
            "tokens": reply and {name: getattr(reply.usage, name) for name in reply.usage.__struct_fields__},
            "usd": self.usd,
            "tries": reply and reply.tries,
            "failure": self.failure and dict(zip(("outcome", "detail"), self.failure, strict=True)),
        }

    def facts(self, cache: Path | str) -> list[tuple[str, str]]:
        """Return what is known of the call as labelled lines."""
        found = [("call", self.key)]
        if (request := self.request) is not None:
            found.append(("asked", f"{request.model} at {request.endpoint} (wire {request.wire.name})"))
        if self.failure:
            found.append(("failed", ": ".join(filter(None, self.failure))))
        if self.kept is None:
            return found if self.unread else [*found, ("reply", f"not in {cache}")]
        if (reply := self.kept.reply) is None:
            return [*found, ("reply", f"damaged in {cache}; it will be asked again")]
        at = self.kept.kept_at
        when = "" if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC "
        model = (reply.model or "unnamed model") + " (SIMULATED endpoint)" * self.to_json()["simulated"]
        usage, cost = reply.usage, "" if self.usd is None else f", ${self.usd:.6f}"
        tokens = f"in {count(usage.prompt_tokens)} (cached {count(usage.cached_tokens)})"
        return [
            *found,
            ("answered", f"by {model}, finish {reply.finish_reason}, tries {reply.tries}"),
            ("tokens", f"{tokens}, out {count(usage.completion_tokens)}{cost}{', in a batch' * usage.batch}"),
            ("stored", f"{when}in {cache}"),
        ]

    def texts(self) -> list[tuple[str, str]]:
        """Return the texts of the call with their names: request, settings, thoughts, reply, reasons."""
        found = [("request", UNKNOWN_REQUEST)]
        if self.request is not None:
            settings = {name: value for name, value in self.request.body().items() if name not in _IN_MESSAGES}
            found = [*self.request.messages, ("settings", orjson.dumps(settings).decode())]
        reply = None if self.kept is None else self.kept.reply
        if reply is not None:
            reasons = "\n".join(f"{rubric}: {text}" if rubric else text for rubric, text in self.reasons)
            found += [("thoughts", reply.reasoning)] if reply.reasoning else []
            found += [("reply", reply.text), ("reasons", reasons or "none in this reply")]
        elif self.unread:
            found.append(("unreadable reply", self.unread))
        return found


def reasons_in(text: str) -> tuple[tuple[str, str], ...]:
    """Return the (local rubric id, reason) pairs of a reply as written; ("", reason) of a direct verdict."""
    try:
        rows, _ = read_list(text, "rubric_comparisons")
        return tuple((str(row["rubric_id"]), str(row["reason"])) for row in rows if {"rubric_id", "reason"} <= set(row))
    except ReplyRejectedError:
        pass
    try:
        reason = read_direct(text).reason
    except ReplyRejectedError:
        return ()
    return (("", reason),) if reason else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """Requests of a run, rebuilt without calls from data, settings and cached replies; `secrets` must be masked."""

    requests: Mapping[str, tuple[Request, Price | None]] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()


def calls_of_item(run: Run, item_id: str, cache: Path | str | None = None) -> tuple[list[Call], Redactor, Path | str]:
    """Return the calls of an item, what masks keys in their texts, and the cache that holds the replies.

    The keys are those the run recorded, then those of calls that were asked again. A request is rebuilt from data and
    settings; if its key is not the recorded one, the reply is shown without it. UsageError for an unknown item.
    """
    item, place = item_of_run(run, item_id), cache or settings_of(run).limits.cache
    rebuilt = _rebuild(run, [item], place)
    failures, calls = FailureLog(run.path / "failures.jsonl"), []
    keys = item.requests if rebuilt.requests.keys().isdisjoint(item.requests) else (*item.requests, *rebuilt.requests)
    for key in dict.fromkeys(keys or rebuilt.requests):
        request, price = rebuilt.requests.get(key, (None, None))
        kept, failed = next(iter(look_up(place, key, 1)), None), failures.get(key)
        usd = None if price is None or kept is None or kept.reply is None else price.cost(kept.reply.usage)
        failure = None if failed is None else (failed[0].value, failed[1])
        calls.append(
            Call(key=key, kept=kept, request=request, usd=usd, failure=failure, unread=failures.texts.get(key, ""))
        )
    return calls, Redactor(rebuilt.secrets), place


def exchanges_of(run: Run, cache: Path | str | None = None) -> Exchanges:
    """Return every recorded call of a run whose reply is cached and whose request can be rebuilt; keys are masked."""
    place = cache or settings_of(run).limits.cache
    rebuilt = _rebuild(run, run.items, place)
    redactor = Redactor(rebuilt.secrets)
    found: dict[str, list[Exchange]] = {item.id: [] for item in run.items}
    if not rebuilt.requests:
        return found
    with closing(Cache.open(place)) as replies:
        for item in run.items:
            for key in item.requests:
                reply = replies.get(bytes.fromhex(key)) if key in rebuilt.requests else None
                if reply is not None:
                    turns = tuple((role, redactor.text(text)) for role, text in rebuilt.requests[key][0].messages)
                    exchange = Exchange(key=key[:KEY_DIGITS], asked=turns, reply=redactor.text(reply.text))
                    found[item.id].append(exchange)
    return found


def _rebuild(run: Run, items: Iterable[Item], cache: Path | str) -> Rebuilt:
    """Judge items of a run again, offline, and record the requests; nothing if data or judge are gone."""
    with suppress(SvrError):
        settings = settings_of(run)
        if settings.data != STDIN:
            limits = replace(settings.limits, cache=cache)
            prepared = prepare(replace(settings, limits=limits, out=run.path))
            return run_whole(_requests(prepared, {item.id for item in items}))
    return Rebuilt()


async def _requests(prepared: PreparedRun, ids: set[str]) -> Rebuilt:
    found: dict[str, tuple[Request, Price | None]] = {}

    def noting(price: Price | None) -> Callable[[Request], None]:
        return lambda request: found.setdefault(request.key.hex(), (request, price)) and None

    pool = await open_judge_pool(prepared)
    try:
        for engine in (judge.engine for judge in pool.judges if judge.engine is not None):
            engine.on_asked = noting(engine.price)
        shutdown = ShutdownController()
        await judge_pairs(evaluation_of(prepared, pool, [p for p in prepared.record.pairs if p.id in ids]), shutdown)
        shutdown.reraise()
    finally:
        await pool.close()
    names = [name for judge in prepared.judges.judges if judge.profile for name in judge.profile.key_variables]
    secrets = tuple(value for name in names if (value := os.environ.get(name, "").strip()))
    return Rebuilt(requests=found, secrets=secrets)
