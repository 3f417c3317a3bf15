"""Every request of a run with its reply, for a page: made out again from data, settings and cache, without a call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from svr_async.engine.concurrency import run_whole
from svr_async.evaluation.items import Exchange, Exchanges
from svr_async.evaluation.judging import JudgePool, open_judge_pool
from svr_async.evaluation.run_folder import Run
from svr_async.evaluation.running.calls import Asked, asked_of, prepared_again, secrets_of
from svr_async.evaluation.setup import Prepared
from svr_async.observability.redaction import Redactor

KEY_DIGITS = 12  # of a cache key: enough for `svr call show`


def exchanges_of(run: Run, cache: Path | str | None = None) -> Exchanges:
    """Return the calls that the items of a run list, those whose reply is in the cache; keys of judges are masked.

    Errors are those of `prepared_again`.
    """
    prepared = prepared_again(run, cache)
    return run_whole(_exchanges(prepared, run))


async def _exchanges(prepared: Prepared, run: Run) -> Exchanges:
    pool = await open_judge_pool(prepared)
    try:
        wanted = {item.id for item in run.items}
        asked = await asked_of(prepared, pool, [pair for pair in prepared.record.pairs if pair.id in wanted])
        redactor = Redactor(secrets_of(prepared))
        return {item.id: _of_keys(item.requests, asked, pool, redactor) for item in run.items}
    finally:
        await pool.close()


def _of_keys(keys: Sequence[str], asked: Asked, pool: JudgePool, redactor: Redactor) -> list[Exchange]:
    caches = [judge.engine.cache for judge in pool.judges if judge.engine is not None]
    found = []
    for key in keys:
        reply = next(filter(None, (cache.get(bytes.fromhex(key)) for cache in caches)), None)
        if key in asked and reply is not None:
            turns = tuple((role, redactor.text(text)) for role, text in asked[key][0].messages)
            found.append(Exchange(key=key[:KEY_DIGITS], asked=turns, reply=redactor.text(reply.text)))
    return found
