"""The shards of a run, each judged on a machine of its own: what a folder says of its shard, and the run of all.

A shard's folder is that of a run of fewer pairs, with `shard.json` beside the rest: which shard of what it is, and what
was asked for it, so that the merged run has the bytes of one that was never divided.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import orjson

from svr_async.engine.stats import EngineStats, Spread
from svr_async.errors import ArtefactError, UsageError
from svr_async.evaluation.costs import JudgeCost
from svr_async.evaluation.items import Item
from svr_async.evaluation.reasons import FILE as REASONS
from svr_async.evaluation.reasons import with_reasons
from svr_async.evaluation.runfolder import Run, RunFolder, write_atomic
from svr_async.evaluation.running.ending import SEEN, Asked, end_judging, joined_asked
from svr_async.evaluation.running.listener import EvalResult
from svr_async.evaluation.running.prepared import Prepared, prepare
from svr_async.evaluation.running.record import begin_run
from svr_async.evaluation.running.settings import from_plain
from svr_async.evaluation.running.shares import places_in
from svr_async.judges.shares import WHOLE, Share, share_in_words
from svr_async.vocabulary.fitting import fits, is_deep, misfit

FILE = "shard.json"
FAILURES = "failures.jsonl"
FORMAT = 1
AGAIN = "give its svr eval --shard command again; what was judged is in the cache"
PLAIN = ("str", "int", "float", "float | None")  # fields of an engine's facts that a merge adds up


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A shard that is judged to its end. `identity` has a digest of each thing that the run is made of."""

    run: Run
    share: Share
    identity: Mapping[str, str]
    asked: Asked


def refuse_empty(run: Prepared) -> None:
    """Raise UsageError for a shard to which nothing falls."""
    if not run.record.pairs:
        told = share_in_words(run.settings.limits.share)
        raise UsageError(
            f"--shard {told} has no pairs: the run has fewer prompts than shards", hint="divide it into fewer shards"
        )


def keep_shard(run: Prepared, asked: Asked) -> None:
    """Write what a merge needs beside the files of a shard, with digests of those."""
    value = {
        "format": FORMAT,
        "share": run.settings.limits.share,
        "identity": digests_of(run),
        "files": _files(run.folder),
        "asked": {**asdict(asked), "costs": [_cost_as_json(cost) for cost in asked.costs]},
    }
    write_atomic(run.folder / FILE, orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def digests_of(run: Prepared) -> dict[str, str]:
    """Return a digest of each thing that the run is made of, by name."""
    identity = run.record.identity
    data = {name: orjson.dumps(value, option=orjson.OPT_SORT_KEYS, default=str) for name, value in identity.items()}
    return {name: hashlib.sha256(value).hexdigest()[:16] for name, value in data.items()}


def _files(folder: Path) -> dict[str, str | None]:
    paths = (RunFolder(folder).items, folder / REASONS)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None for path in paths}


def _cost_as_json(cost: JudgeCost) -> dict[str, Any]:
    return {"name": cost.name, "stats": None if cost.stats is None else _plain(cost.stats)}


def _plain(stats: EngineStats) -> dict[str, Any]:
    return {one.name: getattr(stats, one.name) for one in fields(EngineStats) if one.type in PLAIN}


def read_shard(folder: Path) -> Shard:
    """Read and check a shard; UsageError for a folder that is none, or unfinished, ArtefactError for a damaged one."""
    run, path = RunFolder.load(folder), folder / FILE
    if not path.exists():
        raise UsageError(f"{folder} is no shard of a run", hint="svr eval --shard I/N writes one")
    try:
        value = orjson.loads(path.read_bytes())
        whole = value["format"] == FORMAT and value["files"] == _files(folder)
        shard = _shard(run, value)
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise ArtefactError(f"{path} is damaged ({' '.join(str(error).split())[:120]})", hint=AGAIN) from error
    if not run.complete:
        raise UsageError(f"{folder}, shard {share_in_words(shard.share)}, is not finished", hint=AGAIN)
    if not whole:
        raise ArtefactError(f"{path} does not match the files beside it", hint=AGAIN)
    return replace(shard, run=replace(run, items=with_reasons(folder, run.items)))


def _shard(run: Run, value: Mapping[str, Any]) -> Shard:
    if is_deep(value):
        raise ValueError("its values are nested too deep")
    number, count = value["share"]
    asked = value["asked"]
    costs = tuple(_cost_from(each) for each in asked["costs"])
    known = Asked(**{**asked, "costs": costs, "notes": tuple(asked["notes"])})
    shard = Shard(run=run, share=(int(number), int(count)), identity=dict(value["identity"]), asked=known)
    stats = [cost.stats for cost in costs if cost.stats is not None]
    if wrong := next(filter(None, map(misfit, (shard, known, *costs, *stats))), ""):
        raise TypeError(wrong)
    if not _are_facts(known.judge) or not isinstance(known.judge.get("label"), str):
        raise TypeError("its judge is none")
    return shard


def _are_facts(judge: Any) -> bool:
    """Whether what a shard says of its judge, or of each of its judges, can be put together with what others say."""
    if not isinstance(judge, Mapping) or not all(fits(judge.get(name, []), list[str]) for name in SEEN):
        return False
    several = judge.get("judges", [])
    return isinstance(several, list) and all(map(_are_facts, several))


def _cost_from(value: Mapping[str, Any]) -> JudgeCost:
    stats = value["stats"]
    spreads: dict[str, Any] = {"latency": Spread(), "lag": Spread(), "lanes": ()}
    return JudgeCost(
        name=value["name"], stats=None if stats is None else EngineStats(**{**stats, **spreads}), price=None
    )


def merge_shards(folders: Sequence[Path], out: Path) -> EvalResult:
    """Write the run of which these folders hold all shards; its items and metrics are those of a run in one piece.

    The data, the bank and the judge's profile have to be here, as for `svr eval`; nothing is sent, no cache is read.
    UsageError where shards are missing, twice, unfinished or of another run, ArtefactError for damaged ones.
    """
    shards = [read_shard(folder) for folder in folders]
    _refuse_strangers(shards)
    _refuse_gaps(shards)
    shards.sort(key=lambda shard: shard.share)
    run = _whole_run(shards[0], out)
    _refuse_other_judges(run, shards)
    items = _in_order(run, shards)
    parts = [replace(shard.asked, costs=_priced(run, shard.asked.costs)) for shard in shards]
    begin_run(out, run.record, joined_asked(parts).judge)
    _join_failures([shard.run.path for shard in shards], out / FAILURES)
    metrics = end_judging(run, items, parts)
    return EvalResult(folder=out, metrics=metrics, items=items, total=len(items))


def _refuse_strangers(shards: Sequence[Shard]) -> None:
    first = shards[0]
    for shard in shards[1:]:
        if other := differing(shard.identity, first.identity):
            both = f"{shard.run.path} and {first.run.path} are of different runs: they differ in {', '.join(other)}"
            raise UsageError(both, hint="name the shards of one run, made by one command")
        if shard.share[1] != first.share[1]:
            told = " and ".join(share_in_words(one.share) for one in (first, shard))
            raise UsageError(f"the run was divided in two ways, {told}", hint="name the shards of one division")


def differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Return the names of the things in which two runs differ."""
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))


def _refuse_gaps(shards: Sequence[Shard]) -> None:
    held: dict[int, Shard] = {}
    for shard in shards:
        twin = held.setdefault(shard.share[0], shard)
        if twin is not shard:
            both = f"{twin.run.path} and {shard.run.path} both hold shard {share_in_words(shard.share)}"
            raise UsageError(both, hint="name each shard once")
    count = shards[0].share[1]
    if missing := [share_in_words((number, count)) for number in range(count) if number not in held]:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise UsageError(f"shards are missing: {', '.join(missing[:5])}{more}", hint="name the folders of all shards")


def _refuse_other_judges(run: Prepared, shards: Sequence[Shard]) -> None:
    """Raise ArtefactError for a shard that tells of other judges than the run has, as one written by hand may."""
    several = len(shards[0].asked.judge.get("judges", ()))
    for shard in shards:
        named = [cost.name for cost in shard.asked.costs] == [judge.name for judge in run.judges.judges]
        if not named or len(shard.asked.judge.get("judges", ())) != several:
            raise ArtefactError(f"{shard.run.path / FILE} tells of other judges than the run has", hint=AGAIN)


def _whole_run(shard: Shard, out: Path) -> Prepared:
    """Prepare the run that a shard is of; UsageError where what is here is not what was judged."""
    try:
        settings = from_plain(shard.run.manifest.get("config") or {})
    except TypeError as error:
        raise ArtefactError(
            f"{shard.run.path}: its manifest does not say how it was made ({error})", hint=AGAIN
        ) from error
    limits = replace(settings.limits, share=WHOLE, budget=None, max_calls=None)
    run = prepare(replace(settings, limits=limits, out=out))
    if other := differing(digests_of(run), shard.identity):
        hint = "merge where the same data, bank and judges.toml are, with the same version"
        raise UsageError(f"what is here differs from what {shard.run.path} judged in {', '.join(other)}", hint=hint)
    return run


def _in_order(run: Prepared, shards: Iterable[Shard]) -> list[Item]:
    """Return the items of all shards in the order of the data; ArtefactError where one judged other pairs."""
    pairs, placed = run.record.pairs, dict[int, Item]()
    for shard in shards:
        places = places_in(pairs, shard.share)
        if [item.id for item in shard.run.items] != [pairs[place].id for place in places]:
            raise ArtefactError(f"{RunFolder(shard.run.path).items} has other pairs than its shard", hint=AGAIN)
        placed.update(zip(places, shard.run.items, strict=True))
    return [placed[place] for place in range(len(pairs))]


def _priced(run: Prepared, costs: Sequence[JudgeCost]) -> tuple[JudgeCost, ...]:
    prices = [None if one.profile is None else one.profile.price for one in run.judges.judges]
    return tuple(replace(cost, price=price) for cost, price in zip(costs, prices, strict=True))


def _join_failures(folders: Iterable[Path], target: Path) -> None:
    """Keep what failed for good in any shard, so that the merged run does not ask it again."""
    lines = [line for folder in folders for line in _lines(folder / FAILURES)]
    if lines:
        write_atomic(target, b"".join(dict.fromkeys(lines)))


def _lines(path: Path) -> list[bytes]:
    data = path.read_bytes() if path.exists() else b""
    return [line for line in data.splitlines(keepends=True) if line.endswith(b"\n")]
