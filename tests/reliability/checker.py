"""The history checker: the endpoint's own log against the cache and the run folder, and the promises between them.

The endpoint is the witness: it writes down every call that reached it, whether the work was done (and so billed), and
the id of the completion. A cache row holds that id, so each row is traced to the one call that paid for it. From this
follow the promises P1, P2, P4 and P18 of docs/reliability.md; `check` raises with every one that is broken.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from svr_async.engine.cache import Cache
from svr_async.simulation.faults import FAULTS, GROUPS, POISON
from svr_async.simulation.history import CallRecord

HONEST = {"", *GROUPS["benign"]}
SCORED = {"scored", "tie"}


@dataclass(frozen=True, slots=True)
class Moment:
    """What was certain when a process had died: replies in the cache (their ids), and the calls logged until then."""

    kept: frozenset[str]
    logged: int


@dataclass(slots=True, kw_only=True)
class Account:
    """Where the calls of a history went. `paid` = `kept` + `after_billing` + `cut_off`.

    `kept` replies are in the cache; `after_billing` were paid for, then damaged by a fault on purpose; `cut_off` were
    paid for, honest, and lost: under way when a process was killed. `paid_again` are calls for what was kept already.
    """

    calls: int = 0
    paid: int = 0
    kept: int = 0
    after_billing: int = 0
    cut_off: int = 0
    paid_again: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def read_history(path: Path) -> list[CallRecord]:
    """Read the whole lines of an endpoint's log file."""
    lines = path.read_bytes().splitlines(keepends=True)
    return [CallRecord(**orjson.loads(line)) for line in lines if line.endswith(b"\n")]


def reply_ids(cache: Path) -> list[str]:
    """Return the id of the reply in every row of a cache; a damaged row is an error."""
    database = cache / "cache.db"
    if not database.exists() or not database.stat().st_size:  # not born yet
        return []
    opened = Cache.open(cache)
    try:
        replies = [opened.get(key) for key in list(opened.keys())]
    finally:
        opened.close()
    assert all(reply is not None for reply in replies), f"{cache} holds damaged rows"
    return [reply.id for reply in replies if reply is not None]


def moment(history: Sequence[CallRecord], cache: Path) -> Moment:
    """Note what is certain now; call it between the end of one process and the start of the next.

    A copy of the cache is looked at, so that what a dead process left behind is for the next process to clear up.
    """
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder) / "cache"
        if cache.exists():
            shutil.copytree(cache, copied, copy_function=shutil.copy)
        return Moment(frozenset(reply_ids(copied)), len(history))


def account(history: Sequence[CallRecord], cache: Path, moments: Iterable[Moment] = ()) -> Account:
    """Sort every call of a history; `problems` names what cannot be."""
    ids = reply_ids(cache)
    found = Account(calls=len(history), kept=len(ids))
    known = {record.reply for record in history if record.paid}
    if len(set(ids)) != len(ids):
        found.problems.append("P2: two rows of the cache hold the same reply")
    strangers = set(ids) - known
    if strangers:
        found.problems.append(f"P1: {len(strangers)} rows of the cache were never paid for: {min(strangers)}")
    kept = set(ids)
    for record in history:
        _sort(record, kept, found)
    for one in moments:
        _look_back(history, one, kept, found)
    return found


def _sort(record: CallRecord, kept: set[str], found: Account) -> None:
    if record.fault:
        found.kinds[record.fault] += 1
    if not record.paid:
        return
    found.paid += 1
    if record.reply in kept:
        return
    if record.fault in FAULTS and record.fault not in HONEST:
        found.after_billing += 1
    elif record.fault != POISON.name:
        found.cut_off += 1


def _look_back(history: Sequence[CallRecord], one: Moment, kept: set[str], found: Account) -> None:
    """Check what happened after a moment against what was certain at it."""
    lost = one.kept - kept
    if lost:
        found.problems.append(f"P1: {len(lost)} replies that were in the cache are gone: {min(lost)}")
    settled = {record.key for record in history if record.reply in one.kept}
    again = [r for r in history[one.logged :] if r.paid and r.key in settled and r.reply not in one.kept]
    found.paid_again += len(again)
    if again:
        found.problems.append(f"P2: {len(again)} calls were paid for requests whose reply was kept: {again[0]}")


def check(
    history: Sequence[CallRecord],
    cache: Path,
    run: Path | None = None,
    *,
    reference: Path | None = None,
    moments: Sequence[Moment] = (),
    in_flight_at_kills: int = 0,
    sent: int | None = None,
    lost: int = 0,
) -> Account:
    """Check P1, P2, P4 and P18 and return the account; AssertionError names every broken promise.

    `run` is the finished run folder, `reference` that of a run without faults. `in_flight_at_kills` bounds what kills
    may have cost. `sent` is how many calls the client says that it sent, where nothing but this run called; `lost` how
    many of them it says brought no reply, some of which may never have arrived.
    """
    found = account(history, cache, moments)
    if found.paid != found.kept + found.after_billing + found.cut_off:
        found.problems.append(f"P2: the account does not add up: {found}")
    if found.cut_off > in_flight_at_kills:
        found.problems.append(f"P1: {found.cut_off} honest replies were paid for and lost, {in_flight_at_kills} may be")
    if sent is not None and not 0 <= sent - found.calls <= lost:
        found.problems.append(f"P18: the client says it sent {sent} calls, the endpoint saw {found.calls}")
    if run is not None:
        found.problems += _problems_of(run, cache)
        if reference is not None and _items(run) != _items(reference):
            found.problems.append(f"P4: items.jsonl of {run} differs from that of the run without faults")
    assert not found.problems, "\n".join(found.problems)
    return found


def _items(run: Path) -> bytes:
    return (run / "items.jsonl").read_bytes()


def _problems_of(run: Path, cache: Path) -> list[str]:
    """Check a finished run folder: each scored item's replies are in the cache (P1), the outcomes add up (P18)."""
    items = [orjson.loads(line) for line in _items(run).splitlines()]
    metrics: Mapping[str, Any] = orjson.loads((run / "metrics.json").read_bytes())
    opened = Cache.open(cache)
    try:
        held = {key.hex() for key in list(opened.keys())}
    finally:
        opened.close()
    problems = []
    unkept = {key for item in items if item["outcome"] in SCORED for key in item["requests"]} - held
    if unkept:
        problems.append(f"P1: {len(unkept)} replies behind scored items are not in the cache: {min(unkept)}")
    counted = sum(metrics["outcomes"].values())
    if not metrics["n_total"] == counted == len(items):
        problems.append(f"P18: {len(items)} items, n_total {metrics['n_total']}, outcomes add up to {counted}")
    if sum(item["outcome"] in SCORED for item in items) != metrics["n_scored"]:
        problems.append(f"P18: n_scored is {metrics['n_scored']}")
    return problems
