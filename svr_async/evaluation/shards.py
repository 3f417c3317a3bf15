"""Shards of a run (`--shard I/N`), and their merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from svr_async.core.files import write_atomic
from svr_async.core.validation import type_error
from svr_async.engine.money import Price
from svr_async.engine.stats import EngineStats, Spread
from svr_async.errors import ArtefactError, UsageError
from svr_async.evaluation.metrics import JudgeCost
from svr_async.evaluation.record import begin_run
from svr_async.evaluation.run import SHARD_FILE, EvalResult, UsageSummary, end_judging, joined_usage
from svr_async.evaluation.run_folder import Run, RunFolder, with_reasons
from svr_async.evaluation.settings import from_plain
from svr_async.evaluation.setup import PreparedRun, prepare
from svr_async.judges.limits import WHOLE, Share, share_in_words

FAILURES = "failures.jsonl"
AGAIN = "run its svr eval --shard command again; the judged pairs are in the cache"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A shard: the run in its folder, its share of the whole, and its usage."""

    run: Run
    share: Share
    usage: UsageSummary


def merge_shards(folders: Sequence[Path], out: Path) -> EvalResult:
    """Write the run of these shards, with the items and metrics of a run on one machine; nothing is sent.

    Needs the data, bank and judges.toml of `svr eval`. UsageError for missing, repeated or unfinished shards and for
    shards of different runs; ArtefactError for damaged ones.
    """
    shards = sorted(map(_read_shard, folders), key=lambda shard: shard.share)
    _check_set(shards)
    run = _whole_run(shards[0].run, out)
    found = {item.id: item for shard in shards for item in shard.run.items}
    items = [found[pair.id] for pair in run.record.pairs if pair.id in found]
    if not len(items) == len(found) == len(run.record.pairs):
        raise ArtefactError(f"the shards have {len(found)} of {len(run.record.pairs)} pairs", hint=AGAIN)
    parts = [shard.usage for shard in shards]
    begin_run(out, run.record, joined_usage(parts).judge)
    failures = [path.read_bytes() for folder in folders if (path := folder / FAILURES).exists()]
    if failures:  # a later `svr eval` in this folder must not repeat these requests
        write_atomic(out / FAILURES, b"\n".join(failures))
    return EvalResult(folder=out, metrics=end_judging(run, items, parts), items=items, total=len(items))


def _read_shard(folder: Path) -> Shard:
    run, path = RunFolder.load(folder), folder / SHARD_FILE
    if not path.exists():
        raise UsageError(f"{folder} is not a shard of a run", hint="svr eval --shard I/N writes one")
    try:
        value = orjson.loads(path.read_bytes())
        number, count = value["share"]
        shard = Shard(run=run, share=(number, count), usage=_usage(value["asked"]))
        wrong = type_error(shard)
    except (OSError, KeyError, TypeError, ValueError) as error:
        wrong = " ".join(str(error).split())[:120]
    if wrong:
        raise ArtefactError(f"{path} is damaged ({wrong})", hint=AGAIN)
    if not run.complete:
        raise UsageError(f"{folder}, shard {share_in_words(shard.share)}, is not finished", hint=AGAIN)
    return replace(shard, run=replace(run, items=with_reasons(folder, run.items)))


def _usage(value: Mapping[str, Any]) -> UsageSummary:
    """Read the usage of a shard; latencies are not merged."""
    costs = []
    for cost in value["costs"]:
        stats = cost["stats"] and EngineStats(**{**cost["stats"], "latency": Spread(), "endpoints": ()})
        costs.append(JudgeCost(name=cost["name"], stats=stats, price=cost["price"] and Price(**cost["price"])))
    if not isinstance(value["judge"]["label"], str):
        raise TypeError("its judge has no label")
    return UsageSummary(**{**value, "costs": tuple(costs), "notes": tuple(value["notes"])})


def _check_set(shards: Sequence[Shard]) -> None:
    """Raise UsageError unless these are all the shards of one run."""
    first = shards[0].run
    for shard in shards:
        if shard.run.manifest["digest"] != first.manifest["digest"]:
            both = f"{shard.run.path} and {first.path} are shards of different runs"
            raise UsageError(both, hint="the commands must differ in --shard only, with the same data and version")
    held, count = [shard.share for shard in shards], shards[0].share[1]
    if held != [(number, count) for number in range(count)]:
        given = ", ".join(map(share_in_words, held[:8])) + (" …" if len(held) > 8 else "")
        raise UsageError(f"a merge needs each of {count} shards once (got {given})", hint="name all shards of one run")


def _whole_run(shard: Run, out: Path) -> PreparedRun:
    """Prepare the undivided run; UsageError if the data, bank or judge here are not those of the shard."""
    try:
        settings = from_plain(shard.manifest["config"])
    except UsageError as error:
        raise ArtefactError(f"{shard.path}: its manifest is damaged ({error.message})", hint=AGAIN) from error
    limits = replace(settings.limits, share=WHOLE, budget=None, max_calls=None)
    run = prepare(replace(settings, limits=limits, out=out))
    if run.record.digest != shard.manifest["digest"]:
        hint = "merge with the same data, bank, judges.toml and version"
        raise UsageError(f"data, bank or judge on this machine are not those of {shard.path}", hint=hint)
    return run
