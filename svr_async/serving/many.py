"""Many pairs judged at once, as many as the engine has room for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, NamedTuple, TypeVar

from svr_async.core.pair import Prompt
from svr_async.engine.concurrency import bounded_map, in_sync
from svr_async.errors import SvrError, UsageError
from svr_async.judges.protocol import Judge
from svr_async.scoring.bank import RubricBank
from svr_async.serving.engine import FREE_WORKERS, Engine, opened
from svr_async.serving.pairs import PairVerdict, Shown, method_of, score_open_pair
from svr_async.serving.texts import as_prompt, as_response

PairLike = Mapping[str, Any] | Sequence[Any]
"""(prompt, a, b), or a mapping that has them by these names; `chosen` and `rejected` may stand for `a` and `b`."""

FORMS = "a pair is (prompt, a, b), or has prompt, a and b, or prompt, chosen and rejected"
T = TypeVar("T")
R = TypeVar("R")


class _Pair(NamedTuple):
    prompt: Prompt
    a: str
    b: str


async def judge_pairs(
    pairs: Iterable[PairLike],
    *,
    bank: RubricBank | None = None,
    engine: Engine | Judge | str,
    order: Shown = "hash",
    top_k: int | None = None,
    rephrase: bool = False,
) -> list[PairVerdict]:
    """Judge many pairs as `score_pair` does each, and return their verdicts in the order given.

    A pair is (prompt, a, b), or a mapping with these names, or with `chosen` and `rejected`, which are then A and B, as
    the rows of a data set. Every pair is read before the first is judged: UsageError names the one that cannot be. What
    stops an engine is raised once what was under way has ended; replies are in the cache then.
    """
    rows = [_read(number, pair) for number, pair in enumerate(pairs, start=1)]
    async with opened(engine) as asked:
        method_of(bank, asked, top_k=top_k, rephrase=rephrase)  # what cannot be is refused before any call
        ask = partial(score_open_pair, bank=bank, engine=asked, order=order, top_k=top_k, rephrase=rephrase)
        return await all_of(lambda row: ask(*row), rows, asked)


judge_pairs_sync = in_sync(judge_pairs)


async def all_of(work: Callable[[T], Awaitable[R]], items: Sequence[T], engine: Engine | Judge) -> list[R]:
    """Do the work on each item; after an error what is under way ends first, since it is paid for, and is kept."""

    async def attempt(item: T) -> R | SvrError:
        try:
            return await work(item)
        except SvrError as error:
            return error

    room = engine.concurrency if isinstance(engine, Engine) else FREE_WORKERS
    flow = bounded_map(attempt, items, workers=max(1, min(room, len(items))))
    async with aclosing(flow) as done:
        found = {place: result async for place, result in done}
    results: list[R] = []
    for place in range(len(items)):
        result = found[place]
        if isinstance(result, SvrError):
            raise result
        results.append(result)
    return results


def _read(number: int, pair: PairLike) -> _Pair:
    try:
        prompt, a, b = _parts(pair)
        conversation = as_prompt(prompt)
        return _Pair(conversation, as_response(a, conversation), as_response(b, conversation))
    except UsageError as error:
        raise UsageError(f"pair {number}: {error.message}", hint=error.hint) from error


def _parts(pair: Any) -> tuple[Any, Any, Any]:
    if isinstance(pair, Mapping):
        a, b = ("a", "b") if "a" in pair else ("chosen", "rejected")
        if lacking := [name for name in ("prompt", a, b) if name not in pair]:
            raise UsageError(f"there is no {lacking[0]!r} in it", hint=FORMS)
        return pair["prompt"], pair[a], pair[b]
    if isinstance(pair, list | tuple) and len(pair) == 3:
        return pair[0], pair[1], pair[2]
    raise UsageError("it is no pair", hint=FORMS)
