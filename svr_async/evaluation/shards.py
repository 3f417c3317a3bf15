"""Merges the shards of a run (`--shard I/N`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from svr_async.core.files import write_atomic
from svr_async.errors import ArtefactError, UsageError
from svr_async.evaluation.metrics import added_costs
from svr_async.evaluation.results import RunFacts, begin_run
from svr_async.evaluation.run import end_run
from svr_async.evaluation.run_folder import Run
from svr_async.evaluation.settings import from_plain
from svr_async.evaluation.setup import PreparedRun, prepare
from svr_async.judges.limits import WHOLE, Share, share_in_words

FAILURES = "failures.jsonl"
AGAIN = "run its svr eval --shard command again; the judged pairs are in the cache"
UNIONS = ("models_seen", "fingerprints", "refused")  # facts of a judge that are joined as sets


def merge_shards(folders: Sequence[Path], out: Path) -> Run:
    """Write the run of these shards, with the items and metrics of a run on one machine; nothing is sent.

    Needs the data, bank and judges.toml of `svr eval`. UsageError for missing, repeated or unfinished shards and for
    shards of different runs; ArtefactError for damaged ones.
    """
    shards = sorted((_read_shard(folder) for folder in folders), key=_share_of)
    _check_set(shards)
    run = _whole_run(shards[0], out)
    found = {item.id: item for shard in shards for item in shard.items}
    items = [found[pair.id] for pair in run.pairs if pair.id in found]
    if not len(items) == len(found) == len(run.pairs):
        raise ArtefactError(f"the shards have {len(found)} of {len(run.pairs)} pairs", hint=AGAIN)
    metrics = [shard.metrics for shard in shards]
    try:
        facts = RunFacts(
            judge=_joined([shard.manifest["judge"] for shard in shards]),
            spent=added_costs(metrics),
            wall_s=max(one["wall_s"] for one in metrics),
            complete=True,
        )
        tallies = [one["tally"] for one in metrics]
    except (AttributeError, KeyError, TypeError) as error:
        raise ArtefactError(f"a shard of {out} is damaged ({error})", hint=AGAIN) from error
    begin_run(run, facts.judge)
    failures = [path.read_bytes() for folder in folders if (path := folder / FAILURES).exists()]
    if failures:  # a later `svr eval` in this folder must not repeat these requests
        write_atomic(out / FAILURES, b"\n".join(failures))
    return end_run(run, items, facts, tallies)


def _read_shard(folder: Path) -> Run:
    run = Run.load(folder)
    share = _share_of(run)
    if share == WHOLE:
        raise UsageError(f"{folder} is not a shard of a run", hint="svr eval --shard I/N writes one")
    if not run.complete:
        raise UsageError(f"{folder}, shard {share_in_words(share)}, is not finished", hint=AGAIN)
    return run


def _share_of(run: Run) -> Share:
    number, count = (run.manifest.get("config") or {}).get("share") or WHOLE
    return number, count


def _joined(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the facts of a judge on several machines."""
    facts = dict(parts[0])
    for name in UNIONS:
        if any(name in part for part in parts):
            facts[name] = sorted({one for part in parts for one in part.get(name, ())})
    if "judges" in facts:
        facts["judges"] = [_joined(each) for each in zip(*(part["judges"] for part in parts), strict=True)]
    return facts


def _check_set(shards: Sequence[Run]) -> None:
    """Raise UsageError unless these are all the shards of one run."""
    first = shards[0]
    for shard in shards:
        if shard.manifest["digest"] != first.manifest["digest"]:
            both = f"{shard.path} and {first.path} are shards of different runs"
            raise UsageError(both, hint="the commands must differ in --shard only, with the same data and version")
    shares = [_share_of(shard) for shard in shards]
    count = shares[0][1]
    if shares != [(number, count) for number in range(count)]:
        given = ", ".join(map(share_in_words, shares[:8])) + (" …" if len(shares) > 8 else "")
        raise UsageError(f"a merge needs each of {count} shards once (got {given})", hint="name all shards of one run")


def _whole_run(shard: Run, out: Path) -> PreparedRun:
    """Prepare the undivided run; UsageError if the data, bank or judge here are not those of the shard."""
    try:
        settings = from_plain(shard.manifest["config"])
    except UsageError as error:
        raise ArtefactError(f"{shard.path}: its manifest is damaged ({error.message})", hint=AGAIN) from error
    limits = replace(settings.limits, share=WHOLE, budget=None, max_calls=None)
    run = prepare(replace(settings, limits=limits, out=out))
    if run.digest != shard.manifest["digest"]:
        hint = "merge with the same data, bank, judges.toml and version"
        raise UsageError(f"data, bank or judge on this machine are not those of {shard.path}", hint=hint)
    return run
