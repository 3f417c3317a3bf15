"""The work behind `svr report --frontier`: runs in, decisions read back from the cache, a page or a table out.

Nothing is sent: engines are opened offline, and what the cache does not hold is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from svr_async.adapters import get_adapter
from svr_async.adapters.pair_files import select_pairs
from svr_async.core.pair import Order, PreferencePair, present
from svr_async.engine.concurrency import bounded_map
from svr_async.errors import ArtefactError, UsageError
from svr_async.evaluation.frontier import Charge, Column, Frontier, draw_frontier, first_order
from svr_async.evaluation.plan import Orders
from svr_async.evaluation.run_folder import Run
from svr_async.evaluation.settings import EvalSettings, from_plain
from svr_async.evaluation.setup import (
    ResolvedJudge,
    choose_method,
    load_dataset,
    orders_of,
    pairs_of,
    rephrasing,
    resolve_judges,
)
from svr_async.judges.open_judge import OpenJudge, open_judge
from svr_async.scoring.decision import Decision
from svr_async.scoring.methods.contract import Method

TEXTS = ("benchmark", "judge", "order", "concurrency", "salt", "tie_credit", "cache")
MAYBE_TEXTS = ("method", "bank", "limit", "jury", "escalate_to", "data", "rubrics", "prompts")
TOP_KS = (1, 2, 3, 4, 6, 8, 12, 18)
TRIED = 40  # pairs that show whether the cache holds replies for a smaller top_k
WORKERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One judge of one run: how it was asked, and the run, in whose folder its final failures are noted."""

    settings: EvalSettings
    judge: ResolvedJudge
    run: Run


async def frontier_of(runs: Sequence[Run]) -> Frontier:
    """Read back what the judges of runs said, and work out the grid; UsageError for runs of different things."""
    settings = [settings_of(run) for run in runs]
    method = choose_method(settings[0])
    _refuse_strangers(runs, method)
    pairs = judged_pairs(settings[0], runs[0])
    sources: dict[str, Source] = {}
    for run, own in zip(runs, settings, strict=True):
        for judge in resolve_judges(own, method).judges:
            sources.setdefault(judge.name, Source(settings=own, judge=judge, run=run))
    columns, extra = [], []
    for source in sources.values():
        whole, smaller = await _read_back(source, method, pairs, orders_of(settings[0]))
        if not whole.decisions and len(judges_told(source.run)) == 1:
            raise _no_replies(source)
        columns.append(whole)
        extra += smaller
    return await draw_frontier(pairs, columns, extra, orders_of(settings[0]))


def judges_told(run: Run) -> Sequence[Mapping[str, Any]]:
    """Return what the manifest of a run tells of each of its judges."""
    told: Mapping[str, Any] = run.manifest.get("judge") or {}
    return told.get("judges") or [told]


def _no_replies(source: Source) -> ArtefactError:
    """Return the error of a run whose only judge has no reply in the cache: its address tells another key."""
    told, profile = judges_told(source.run)[0].get("base_url"), source.judge.profile
    now = None if profile is None else profile.base_url
    cache = f"the cache {source.settings.limits.cache} has no reply of {source.judge.name} to {source.run.path}"
    if told and now and told != now:
        hint = f"give {source.judge.name} the address of the run again, in its profile"
        return ArtefactError(f"{cache}: the run asked it at {told}, now it is at {now}", hint=hint)
    return ArtefactError(cache, hint="put back the cache, or the judge's profile, that the run was made with")


def settings_of(run: Run) -> EvalSettings:
    """Return the settings that a run was made with, offline; ArtefactError where its manifest does not tell."""
    config: Mapping[str, Any] = run.manifest.get("config") or {}
    wrong = [name for name in TEXTS if not isinstance(config.get(name), str)]
    wrong += [name for name in MAYBE_TEXTS if not isinstance(config.get(name) or "", str)]
    if wrong:
        raise _untold(run, wrong[0])
    never = {"offline": True, "dry_run": False, "retry_errors": False, "budget": None, "max_calls": None}
    try:
        return from_plain({**config, **never})
    except (TypeError, UsageError) as error:
        raise _untold(run, str(error)) from error


def _untold(run: Run, what: str) -> ArtefactError:
    return ArtefactError(f"{run.path}: its manifest does not say how it was made ({what})", hint="run svr eval again")


def _refuse_strangers(runs: Sequence[Run], method: Method) -> None:
    if not method.facts.asks_judge:
        raise UsageError(f"{runs[0].path} asked no judge", hint="a frontier is about what judges cost")
    first = runs[0]
    for run in runs[1:]:
        for what, mine, other in (
            ("pairs", _data_of(run), _data_of(first)),
            ("method", run.metrics["method"], first.metrics["method"]),
            ("bank", run.metrics.get("bank"), first.metrics.get("bank")),
        ):
            if mine != other:
                hint = "draw the frontier of runs that differ in their judges only"
                raise UsageError(f"{run.path} and {first.path} differ in their {what}", hint=hint)


def _data_of(run: Run) -> tuple[Any, Any]:
    data = run.manifest.get("data") or {}
    return data.get("digest"), data.get("n_pairs")


def judged_pairs(settings: EvalSettings, run: Run) -> Sequence[PreferencePair]:
    """Return the pairs that a run judged; ArtefactError where its data is not what it was."""
    dataset = load_dataset(settings, get_adapter(settings.benchmark))
    pairs = pairs_of(select_pairs(dataset.pairs, settings.limit, settings.domain), settings.limits.share)
    if (dataset.digest, len(pairs)) != _data_of(run):
        raise ArtefactError(f"{dataset.source} is not what {run.path} judged", hint="put the same data back")
    return pairs


async def _read_back(
    source: Source, method: Method, pairs: Sequence[PreferencePair], orders: Orders
) -> tuple[Column, list[Column]]:
    """Return what a judge said of all pairs in both orders, and once with fewer rubrics where replies of that are kept.

    Whether there are any is tried on the first pairs.
    """
    limits = replace(source.settings.limits, failures=source.run.path / "failures.jsonl")
    judge = open_judge(source.judge.spec, limits, prompts={pair.id: pair.prompt for pair in pairs})
    try:
        used = rephrasing(method, judge) if source.settings.rephrase else method
        whole = await _column(source.judge.name, judge, used, [(pair, order) for pair in pairs for order in Order])
        first = [(pair, first_order(orders, pair)) for pair in pairs]
        smaller = []
        for top_k, fewer in _with_fewer(used):
            if (await _column(source.judge.name, judge, fewer, first[:TRIED])).decisions:
                column = await _column(source.judge.name, judge, fewer, first)
                smaller.append(replace(column, top_k=top_k))
    finally:
        await judge.close()
    return whole, smaller


async def _column(
    name: str,
    judge: OpenJudge,
    method: Method,
    asked: Sequence[tuple[PreferencePair, Order]],
) -> Column:
    async def decide(one: tuple[PreferencePair, Order]) -> Decision:
        pair, order = one
        return await method.decide(judge.judge, present(pair, order), pair.human_rubrics)

    missing: set[str] = set()
    if judge.engine is not None:
        judge.engine.on_missing = lambda question: missing.add(question.request.key.hex())
    decisions: dict[tuple[str, Order], Decision] = {}
    async with aclosing(bounded_map(decide, asked, workers=WORKERS)) as done:
        async for place, decision in done:
            if missing.isdisjoint(decision.requests):
                pair, order = asked[place]
                decisions[pair.id, order] = replace(decision, contributions=(), reason="")
    keys = {key for decision in decisions.values() for key in decision.requests}
    return Column(judge=name, decisions=decisions, charges=_charges(judge, keys))


def _charges(judge: OpenJudge, keys: set[str]) -> dict[str, Charge]:
    """Return what each kept reply cost; one that failed for good has no reply, and costs nothing that is known."""
    if judge.engine is None:
        return {}
    price = None if judge.profile is None else judge.profile.price
    found = {}
    for key in keys:
        reply = judge.engine.cache.get(bytes.fromhex(key))
        if reply is not None:
            usage = reply.usage
            found[key] = Charge(
                prompt_tokens=usage.prompt_tokens or 0,
                cached_tokens=usage.cached_tokens or 0,
                completion_tokens=usage.completion_tokens or 0,
                usd=None if price is None else price.cost(usage),
            )
    return found


def _with_fewer(method: Method) -> list[tuple[int, Method]]:
    """Return a bank's method with fewer rubrics a prompt, for each number below its own; none for other methods."""
    use = method.facts.bank
    return [] if use is None else [(size, use.with_top_k(size)) for size in TOP_KS if size < use.top_k]
