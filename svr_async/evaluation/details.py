"""Details of a run's items: their texts, and the requests and replies of each call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from svr_async.adapters.tables import STDIN
from svr_async.engine.cache import Cache
from svr_async.engine.cache_files import refuse_missing
from svr_async.engine.concurrency import run_whole
from svr_async.engine.failures import FailureLog
from svr_async.engine.money import Price
from svr_async.engine.reply import Reply
from svr_async.engine.request import Request
from svr_async.engine.secrets import Secrets, environment_secrets
from svr_async.engine.shutdown import ShutdownController
from svr_async.errors import SvrError, UsageError, did_you_mean
from svr_async.evaluation.items import Exchange, Exchanges, Item
from svr_async.evaluation.judging import evaluation_of, judge_pairs, open_judge_pool
from svr_async.evaluation.run_folder import Run, Texts
from svr_async.evaluation.setup import PreparedRun, judged_pairs, prepare, settings_of, texts_of_run
from svr_async.judges.model import SIMULATED_FINGERPRINT

KEY_DIGITS = 12  # of a cache key, as pages show it
Requests = Mapping[str, tuple[Request, Price | None]]  # with their prices, by key


def item_of_run(run: Run, item_id: str) -> Item:
    """Return an item by its id; UsageError suggests the nearest id for an unknown one."""
    item = next((item for item in run.items if item.id == item_id), None)
    if item is None:
        lists = "`svr explain RUN` lists the most confident mistakes; items.jsonl has every id"
        hint = did_you_mean(item_id, [item.id for item in run.items]) or lists
        raise UsageError(f"{run.path} has no item {item_id!r}", hint=hint)
    return item


def known_texts(run: Run, data: Path | None) -> tuple[Mapping[str, Texts], tuple[str, ...]]:
    """Return the texts of a run's items by id, and a note if they are unknown."""
    if data is not None:
        return texts_of_run(run, [item.id for item in run.items], data), ()
    try:
        settings = settings_of(run)
        if settings.data == STDIN:
            raise UsageError("standard input is not stored")
        pairs = judged_pairs(settings, run)
    except SvrError as error:
        return {}, (f"The items have no texts: {error.message}. --data PATH names the run's data.",)
    return {pair.id: Texts.of(pair) for pair in pairs}, ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a run. `reply` is None if the cache lacks it, `request` is None if it cannot be rebuilt."""

    key: str
    reply: Reply | None
    request: Request | None
    usd: float | None
    failure: tuple[str, str] | None
    unread: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; `tries` counts attempts until a reply could be read."""
        reply, request = self.reply, self.request
        texts = ("text", "reasoning", "finish_reason", "id")
        return {
            "key": self.key,
            "request": request and {"endpoint": request.endpoint, "wire": request.wire.name, "body": request.body()},
            "reply": reply and {name: getattr(reply, name) for name in texts},
            "model": reply and reply.model,
            "simulated": reply is not None and reply.fingerprint.startswith(SIMULATED_FINGERPRINT),
            "tokens": reply and {name: getattr(reply.usage, name) for name in reply.usage.__struct_fields__},
            "usd": self.usd,
            "tries": reply and reply.tries,
            "unread": self.unread or None,
            "failure": self.failure and dict(zip(("outcome", "detail"), self.failure, strict=True)),
        }


def calls_of_item(run: Run, item_id: str, cache: Path | str | None = None) -> tuple[list[Call], Secrets, Path | str]:
    """Return the calls of an item, what masks keys in their texts, and the cache that holds the replies.

    The keys are those the run recorded, then those of calls that were asked again. A request is rebuilt from the data
    and today's profiles, or else with the settings that the run recorded; if its key is still not the recorded one,
    the reply is shown without it. UsageError for an unknown item.
    """
    item, place = item_of_run(run, item_id), cache or settings_of(run).limits.cache
    requests, secrets = _rebuild(run, [item], place)
    if item.requests and requests.keys().isdisjoint(item.requests):
        requests, secrets = _rebuild(run, [item], place, recorded=True)
    failures, calls = FailureLog(run.path / "failures.jsonl"), []
    keys = item.requests if requests.keys().isdisjoint(item.requests) else (*item.requests, *requests)
    with closing(Cache.open(refuse_missing(place))) as replies:
        for key in dict.fromkeys(keys or requests):
            request, price = requests.get(key, (None, None))
            reply, failed = replies.get(bytes.fromhex(key)), failures.get(key)
            usd = None if price is None or reply is None else price.cost(reply.usage)
            failure = None if failed is None else (failed[0].value, failed[1])
            unread = failures.texts.get(key, "")
            calls.append(Call(key=key, reply=reply, request=request, usd=usd, failure=failure, unread=unread))
    return calls, environment_secrets(secrets), place


def exchanges_of(run: Run) -> Exchanges:
    """Return every recorded call of a run whose reply is cached and whose request can be rebuilt; keys are masked."""
    place = settings_of(run).limits.cache
    requests, keys = _rebuild(run, run.items, place)
    secrets = environment_secrets(keys)
    found: dict[str, list[Exchange]] = {item.id: [] for item in run.items}
    if not requests:
        return found
    with closing(Cache.open(place)) as replies:
        for item in run.items:
            for key in item.requests:
                reply = replies.get(bytes.fromhex(key)) if key in requests else None
                if reply is not None:
                    turns = tuple((role, secrets.mask(text)) for role, text in requests[key][0].messages)
                    exchange = Exchange(key=key[:KEY_DIGITS], asked=turns, reply=secrets.mask(reply.text))
                    found[item.id].append(exchange)
    return found


def _rebuild(
    run: Run, items: Iterable[Item], cache: Path | str, *, recorded: bool = False
) -> tuple[Requests, tuple[str, ...]]:
    """Judge items of a run again, offline; return the requests and the API keys to mask, empty if data are gone.

    With `recorded`, the judges have the model, address and decoding of the manifest, whatever their profiles are now.
    """
    with suppress(SvrError):
        settings = settings_of(run)
        if settings.data != STDIN:
            limits = replace(settings.limits, cache=cache)
            prepared = prepare(replace(settings, limits=limits, out=run.path))
            if recorded:
                prepared = _as_recorded(prepared, run.manifest.get("judge") or {})
            requests = run_whole(_requests(prepared, {item.id for item in items}))
            names = [name for judge in prepared.judges.judges for name in judge.spec.key_variables]
            return requests, tuple(value for name in names if (value := os.environ.get(name, "").strip()))
    return {}, ()


def _as_recorded(prepared: PreparedRun, facts: Mapping[str, Any]) -> PreparedRun:
    """Return the run with its judge as the manifest describes it; a jury stays as it is."""
    judges, first = prepared.judges, prepared.judges.jurors[0]
    if first.spec.profile is None or "judges" in facts:
        return prepared
    params = facts.get("params") or {}
    values = {name: facts[name] for name in ("model", "base_url", "wire", "path", "max_tokens") if name in facts}
    values |= {name: params.get(name) for name in ("temperature", "top_p", "n", "seed")}
    values |= {} if facts.get("base_url") == first.spec.profile.base_url else {"identity": "", "base_urls": ()}
    spec = replace(first.spec, profile=replace(first.spec.profile, **values))
    return replace(prepared, judges=replace(judges, jurors=(replace(first, spec=spec),)))


async def _requests(prepared: PreparedRun, ids: set[str]) -> Requests:
    found: dict[str, tuple[Request, Price | None]] = {}

    def noting(price: Price | None) -> Callable[[Request], None]:
        return lambda request: found.setdefault(request.key.hex(), (request, price)) and None

    pool = await open_judge_pool(prepared)
    try:
        for engine in pool.engines:
            engine.on_asked = noting(engine.price)
        shutdown = ShutdownController()
        await judge_pairs(evaluation_of(prepared, pool, [p for p in prepared.pairs if p.id in ids]), shutdown)
        shutdown.reraise()
    finally:
        await pool.close()
    return found
