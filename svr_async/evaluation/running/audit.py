"""An audit of a bank: its pairs judged as they are and with each attack on the rejected answer, through the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from svr_async.core.files import write_atomic
from svr_async.core.integrity import integrity_marks, joined_marks
from svr_async.core.pair import PreferencePair
from svr_async.core.table import Line, Parts, Table
from svr_async.engine.concurrency import ShutdownController, run_whole
from svr_async.errors import CoverageError, UsageError
from svr_async.evaluation.attacks import ATTACKS, MADE, attacked
from svr_async.evaluation.audit import RUBRIC_HEADS, TABLE_HEADS, AttackFound, attack_found, rubric_rows, table_rows
from svr_async.evaluation.items import Item
from svr_async.evaluation.judging import evaluation_of, open_judge_pool
from svr_async.evaluation.run import Listener, judge_all, keys_named
from svr_async.evaluation.settings import EvalSettings
from svr_async.evaluation.setup import PreparedRun, prepare
from svr_async.evaluation.wording import plural
from svr_async.scoring.methods.svr import Svr

FILE = "audit.json"
USUAL = (*MADE, "fake verdict")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlan:
    """An audit that is settled: its `run` judges the pairs, and then once more with each attack, in this order."""

    run: PreparedRun
    pairs: Sequence[PreferencePair]
    attacks: tuple[str, ...]
    bank: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What an audit found, the attack that gains most first; `complete` unless a signal ended it.

    `judge` is how its results are labelled, `marks` the words for what that judge is not.
    """

    bank: str
    judge: str
    marks: tuple[str, ...]
    data: str
    found: tuple[AttackFound, ...]
    complete: bool
    signal: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        facts = {name: getattr(self, name) for name in ("bank", "judge", "data", "complete")}
        return facts | {"marks": list(self.marks), "attacks": [one.to_json() for one in self.found]}

    def sheet(self, top: int) -> Parts:
        """Yield a table of the attacks, and below it the `top` rubrics that gave way to each one that gains."""
        marks = "".join(f" [{word}]" for word in self.marks)
        partial = "" if self.complete else ": ended early, and not all pairs are judged"
        yield Line(f"bank {self.bank[:12]}, judge {self.judge}{marks}{partial}")
        yield Table(TABLE_HEADS, table_rows(self.found), texts=1)
        for one in self.found:
            if one.unjudged:
                yield Line(
                    f"{one.attack}: {plural(one.unjudged, 'pair')} without a verdict, with it or before, left out"
                )
        for one in self.found:
            if one.gains and top:
                yield Table(caption=f"{one.attack} gains by")
                yield Table(RUBRIC_HEADS, rubric_rows(one, top), texts=1)


def plan_audit(settings: EvalSettings, attacks: Sequence[str] = USUAL) -> AuditPlan:
    """Settle an audit, asking nothing: (1 + attacks) × pairs decisions by the bank's rubrics, each pair in one order.

    The rubrics that an attack restates, or takes its keywords from, are those that the bank chooses for the prompt: the
    attacker knows the bank. UsageError for an unknown attack, for a bank that has the judge asked directly, and for a
    recording, which has replies to the pairs as they were only.
    """
    known = (*MADE, *ATTACKS)
    unknown = next((name for name in attacks if name not in known), None)
    if unknown is not None:
        raise UsageError(f"there is no attack {unknown!r}", hint=f"one of {', '.join(known)}")
    run = prepare(replace(settings, audit=0.0))
    method = run.method
    if not isinstance(method, Svr) or method.facts.bank is None or method.facts.bank.direct:
        hint = "--top-k N has its rubrics decide all the same"
        raise UsageError("the bank has the judge asked directly, so none of its rubrics decides", hint=hint)
    if any(judge.spec.recording is not None for judge in run.judges.judges):
        raise UsageError("a recording has no replies to attacked answers", hint="name a judge that can be asked")
    chooser, names = method.chooser, tuple(dict.fromkeys(attacks))
    rubrics = [
        [chooser.bank.rubrics[one.index].text for one in chooser.choose(pair.prompt)] for pair in run.record.pairs
    ]
    plain = run.record.pairs
    more = [
        replace(pair, rejected=attacked(name, pair.rejected, texts))
        for name in names
        for pair, texts in zip(plain, rubrics, strict=True)
    ]
    out = settings.out or Path("runs") / f"audit-{run.record.default_folder().name}"
    whole = replace(run, settings=replace(run.settings, out=out), record=replace(run.record, pairs=[*plain, *more]))
    return AuditPlan(run=whole, pairs=plain, attacks=names, bank=chooser.bank.digest)


def run_audit(plan: AuditPlan, listener: Listener | None = None) -> Audit:
    """Ask what is not in the cache, compare, and write `audit.json` into the folder.

    SvrError for what ends it early, CoverageError where no pair is judged both with an attack and without.
    """
    with keys_named(plan.run):
        audit = run_whole(_run(plan, listener or Listener()))
    data = orjson.dumps(audit.to_json(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    write_atomic(plan.run.folder / FILE, data)
    if not audit.found and not audit.signal:
        hint = f"{plan.run.folder}/failures.jsonl says why, --retry-errors asks again"
        raise CoverageError("no pair has a verdict both with an attack and without", hint=hint)
    return audit


async def _run(plan: AuditPlan, listener: Listener) -> Audit:
    pool = await open_judge_pool(plan.run)
    shutdown = ShutdownController()
    try:
        items = await judge_all(pool, evaluation_of(plan.run, pool), listener, shutdown)
    finally:
        await pool.close()
    if shutdown.error is not None:
        raise shutdown.error
    marks = integrity_marks(joined_marks(judge.judge.marks for judge in pool.judges))
    return Audit(
        bank=plan.bank,
        judge=pool.label,
        marks=tuple(mark.word for mark in marks),
        data=plan.run.record.dataset.digest,
        found=_found(plan, items),
        complete=all(item is not None for item in items),
        signal=shutdown.signal,
    )


def _found(plan: AuditPlan, items: Sequence[Item | None]) -> tuple[AttackFound, ...]:
    n = len(plan.pairs)
    parts: Mapping[str, Sequence[Item | None]] = {
        name: items[(place + 1) * n : (place + 2) * n] for place, name in enumerate(plan.attacks)
    }
    found = [attack_found(name, plan.pairs, items[:n], part) for name, part in parts.items()]
    return tuple(sorted((one for one in found if one is not None), key=lambda one: (-one.gain, one.attack)))
