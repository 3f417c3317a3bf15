"""Single calls of a judge, for a person to look at: what the cache, the run and a log know of each.

The cache keeps replies, not requests. A request is a function of the data, the settings and the replies ahead of it, so
that judging the pair of a run again, offline, writes the same ones.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svr_async.adapters.source import STDIN
from svr_async.core.pair import PreferencePair
from svr_async.engine.cache_files import Kept, look_up
from svr_async.engine.concurrency import ShutdownController, run_whole
from svr_async.engine.failures import FailureLog
from svr_async.engine.money import Price
from svr_async.engine.request import Request
from svr_async.errors import ArtefactError, UsageError
from svr_async.evaluation.explain import item_of_run
from svr_async.evaluation.items import Item
from svr_async.evaluation.judging import JudgePool, evaluation_of, judge_pairs, open_judge_pool
from svr_async.evaluation.run_folder import Run
from svr_async.evaluation.running.frontier import settings_of
from svr_async.evaluation.setup import Prepared, prepare
from svr_async.judges.brackets import direct_reason
from svr_async.judges.model import SIMULATED_FINGERPRINT
from svr_async.judges.reply_text import reasons_in

if TYPE_CHECKING:
    from svr_async.engine.reply import Reply
    from svr_async.judges.profile import Profile

MOST_NAMED = 5
Asked = Mapping[str, tuple[Request, Price | None]]
"""Requests by their keys, in the order asked, with the price of their judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What is known of one call. `request`, `item`, `usd` and `failure` are known of calls of a run alone.

    `kept` is its row in the cache: None where there is none, as of a call that failed for good.
    """

    key: str
    kept: Kept | None
    request: Request | None = None
    item: str | None = None
    usd: float | None = None
    failure: tuple[str, str] | None = None

    @property
    def reply(self) -> Reply | None:
        """The reply, where the cache has it whole."""
        return None if self.kept is None else self.kept.reply

    @property
    def simulated(self) -> bool:
        """Whether the reply is one of `svr sim`."""
        return self.reply is not None and self.reply.fingerprint.startswith(SIMULATED_FINGERPRINT)

    @property
    def reasons(self) -> tuple[tuple[str, str], ...]:
        """What the judge wrote of each rubric, by the id that it has in the request; of its verdict where that is all.

        They are what the reply says, whether or not it counted.
        """
        answer = "" if self.reply is None else self.reply.answer
        whole = direct_reason(answer)
        return reasons_in(answer) or ((("", whole),) if whole else ())

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; `tries` counts how often it was asked until a reply could be read."""
        reply, request = self.reply, self.request
        usage = None if reply is None else reply.usage
        asked = request and {"endpoint": request.endpoint, "wire": request.wire.name, "body": request.body()}
        return {
            "key": self.key,
            "item": self.item,
            "kept_at": None if self.kept is None else self.kept.kept_at,
            "request": asked,
            "reply": reply and {name: getattr(reply, name) for name in ("text", "reasoning", "finish_reason", "id")},
            "reasons": [{"rubric": rubric, "reason": text} for rubric, text in self.reasons],
            "model": reply and reply.model,
            "fingerprint": reply and reply.fingerprint,
            "simulated": self.simulated,
            "tokens": usage and {name: getattr(usage, name) for name in usage.__struct_fields__},
            "usd": self.usd,
            "tries": reply and reply.tries,
            "failure": self.failure and dict(zip(("outcome", "detail"), self.failure, strict=True)),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Calls, the cache that was read, and the values that must not be shown: keys and headers of their judges."""

    calls: tuple[Call, ...]
    cache: Path | str
    secrets: tuple[str, ...] = ()


def key_digits(text: str) -> str:
    """Return the hex digits of a key or of its beginning; UsageError for anything else."""
    digits = text.strip().lower()
    if not re.fullmatch(r"[0-9a-f]{4,64}", digits):
        hint = "give 4 to 64 hex digits, as in `requests` of items.jsonl or in the log"
        raise UsageError(f"{text!r} is not the key of a call", hint=hint)
    return digits


def one_of(keys: Sequence[str], begins: str, where: str) -> str | None:
    """Return the only key of those that begin alike, None if there are none; UsageError for several."""
    if len(keys) > 1:
        some = ", ".join(key[: max(12, len(begins) + 4)] for key in keys[:MOST_NAMED])
        more = " …" if len(keys) > MOST_NAMED else ""
        raise UsageError(f"{begins} begins several keys of {where}: {some}{more}", hint="give more digits")
    return keys[0] if keys else None


def call_in_cache(cache: Path | str, begins: str) -> Found:
    """Return the call in a cache whose key begins with these digits; UsageError if there are none or several."""
    begins = key_digits(begins)
    found = look_up(cache, begins, MOST_NAMED + 1)
    if one_of([kept.key for kept in found], begins, str(cache)) is None:
        hint = "--cache DIR names another; with --run also calls that failed are shown"
        raise UsageError(f"no reply in {cache} has a key that begins with {begins}", hint=hint)
    return Found(calls=(Call(key=found[0].key, kept=found[0]),), cache=cache)


def calls_of_run(run: Run, *, item_id: str | None, begins: str | None, cache: Path | str | None = None) -> Found:
    """Return the calls of an item of a run, or those of them whose key begins so; without an item, of that with one.

    Nothing is sent. UsageError for what the run does not have, ArtefactError where its data is not what it judged.
    """
    digits = None if begins is None else key_digits(begins)
    item = item_of_run(run, item_id) if item_id is not None else _item_with(run, digits or "")
    prepared = prepared_again(run, cache)
    asked = run_whole(_asked(prepared, item.id))
    wanted = [key for key in asked if digits is None or key.startswith(digits)]
    if digits is not None and one_of(wanted, digits, f"{run.path}") is None:
        raise UsageError(f"the item {item.id} of {run.path} has no call {digits}", hint="leave KEY out to see them all")
    place, failures = prepared.settings.limits.cache, FailureLog(run.path / "failures.jsonl")
    calls = tuple(_call(key, asked[key], item, place, failures) for key in wanted)
    return Found(calls=calls, cache=place, secrets=secrets_of(prepared))


def _item_with(run: Run, digits: str) -> Item:
    """Return the first item that lists the call; several may have asked the same."""
    found = {key: item for item in reversed(run.items) for key in item.requests if key.startswith(digits)}
    key = one_of(list(found), digits, f"{run.path}")
    if key is None:
        hint = "--item ITEM shows all calls of an item, those that were put again too"
        raise UsageError(f"no item of {run.path} lists a call {digits}", hint=hint)
    return found[key]


def prepared_again(run: Run, cache: Path | str | None) -> Prepared:
    """Return what a run was made of, offline; UsageError or ArtefactError where its data is not there any more."""
    settings = settings_of(run)
    if settings.data == STDIN:
        raise UsageError(f"{run.path} judged what came on standard input, which is not kept", hint="leave --run out")
    limits = settings.limits if cache is None else replace(settings.limits, cache=cache)
    prepared = prepare(replace(settings, limits=limits, out=run.path))
    if prepared.record.dataset.digest != (run.manifest.get("data") or {}).get("digest"):
        source = prepared.record.dataset.source
        raise ArtefactError(f"{source} is not what {run.path} judged", hint="put the same data back")
    return prepared


async def _asked(prepared: Prepared, item_id: str) -> Asked:
    pool = await open_judge_pool(prepared)
    try:
        return await asked_of(prepared, pool, [pair for pair in prepared.record.pairs if pair.id == item_id])
    finally:
        await pool.close()


async def asked_of(prepared: Prepared, pool: JudgePool, pairs: Sequence[PreferencePair]) -> Asked:
    """Judge pairs of a run again with what the cache holds, and return the requests that this takes."""
    asked: dict[str, tuple[Request, Price | None]] = {}
    for engine in (judge.engine for judge in pool.judges if judge.engine is not None):
        engine.on_asked = _noting(asked, engine.price)
    shutdown = ShutdownController()
    await judge_pairs(evaluation_of(prepared, pool, pairs), shutdown)
    shutdown.reraise()
    return asked


def _noting(asked: dict[str, tuple[Request, Price | None]], price: Price | None) -> Callable[[Request], None]:
    def note(request: Request) -> None:
        asked.setdefault(request.key.hex(), (request, price))

    return note


def _call(key: str, asked: tuple[Request, Price | None], item: Item, cache: Path | str, failures: FailureLog) -> Call:
    request, price = asked
    kept, failed = next(iter(look_up(cache, key, 1)), None), failures.get(key)
    usd = None if price is None or kept is None or kept.reply is None else price.cost(kept.reply.usage)
    failure = None if failed is None else (failed[0].value, failed[1])
    return Call(key=key, kept=kept, request=request, item=item.id, usd=usd, failure=failure)


def secrets_of(prepared: Prepared) -> tuple[str, ...]:
    """Return the values that must not be shown: keys and headers of the judges."""
    return tuple(value for name in variables_of(prepared) if (value := os.environ.get(name, "").strip()))


def variables_of(prepared: Prepared) -> tuple[str, ...]:
    """Return the names of the variables that hold keys and headers of the judges."""
    return tuple(name for judge in prepared.judges.judges if judge.profile for name in _variables(judge.profile))


def _variables(profile: Profile) -> list[str]:
    from svr_async.judges.profile import variable_in

    named = [variable_in(value) for value in (*profile.headers.values(), *profile.query.values())]
    return [name for name in (profile.key_env, *named) if name]
