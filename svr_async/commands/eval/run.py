"""The work behind `svr eval`: flags in, a run folder out. Loaded only when an evaluation runs."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click
import orjson

from svr_async import __version__
from svr_async.adapters import Adapter, Dataset, get_adapter
from svr_async.adapters.selection import select_pairs
from svr_async.commands.eval.data import load_dataset
from svr_async.commands.eval.flags import EvalFlags
from svr_async.commands.eval.judge import JudgePlan
from svr_async.commands.eval.method import choose_method, rephrasing
from svr_async.commands.eval.plan import (
    Bench,
    SettledPlan,
    default_judge_notes,
    open_bench,
    settle_judges,
    unused_flags,
    with_plan,
)
from svr_async.commands.eval.processes import Crew, SharedBench, run_in_processes, share_out
from svr_async.commands.eval.space import free_bytes, network_note, room_at_most, room_for, shortage, words
from svr_async.commands.pricing import DryRunCount, describe_plan, guessed_by, total_plan
from svr_async.commands.terminal import RunProgress, print_summary
from svr_async.engine.loops import loop_factory
from svr_async.engine.signals import draining, has_hung_up
from svr_async.engine.stopper import Stopper
from svr_async.engine.telling import About, Word
from svr_async.errors import SvrError, UsageError
from svr_async.evaluation.items import Item, rephrased_counts
from svr_async.evaluation.orders import OrderPolicy
from svr_async.evaluation.run import Evaluation, run_evaluation
from svr_async.evaluation.writing import RunFacts, RunRecord, begin_run, command_line, end_run
from svr_async.judges.keys import naming_keys
from svr_async.judges.opening import OpenJudge
from svr_async.scoring.methods.contract import Method
from svr_async.vocabulary.coverage import require_coverage
from svr_async.vocabulary.integrity import Integrity
from svr_async.vocabulary.pair import PreferencePair

OFFLINE_WORKERS = 8
UNKEPT = {
    "as_json",
    "quiet",
    "verbose",
    "given",
    "share",
    "failures",
    "report",
    "force",
}  # flags that say nothing about a run


def make_record(
    flags: EvalFlags,
    adapter: Adapter,
    dataset: Dataset,
    pairs: Sequence[PreferencePair],
    method: Method,
    plan: JudgePlan | SettledPlan,
) -> RunRecord:
    """Return what the run folder says about the run; its digest covers all that can change an item."""
    identity = {
        "rubrics": [],
        "bank": None,
        **method.facts.identity,
        "version": __version__,
        "data": dataset.digest,
        "pairs": [len(pairs), pairs[0].id, pairs[-1].id],
        "domains": sorted(flags.domain),
        "method": method.name,
        "order": [flags.order, flags.audit, flags.salt],
        "tie_credit": flags.tie_credit,
        **plan.identity(),
    }
    told = {name: value for name, value in asdict(flags).items() if name != "limits"} | asdict(flags.limits)
    config = {name: value for name, value in told.items() if name not in UNKEPT}
    return RunRecord(
        adapter=adapter,
        dataset=dataset,
        pairs=pairs,
        method=method.name,
        judge=plan.name,
        bank=flags.bank,
        identity=identity,
        command=command_line(),
        config={name: str(value) if isinstance(value, Path) else value for name, value in config.items()},
        prompts=plan.prompts,
        policy=OrderPolicy(flags.order),
        tie_credit=float(flags.tie_credit),
        sample=flags.sample,
        started=datetime.now(UTC),
        audit_below=flags.audit_below,
    )


def run_command(flags: EvalFlags) -> int:
    """Evaluate and return the exit code; SvrError for what stops the run before it begins."""
    adapter = get_adapter(flags.benchmark)
    flags = with_plan(flags)
    method = choose_method(flags)
    plan = settle_judges(flags, method)
    for note in unused_flags(flags, plan):
        click.echo(f"note: {note}", err=True)
    dataset = load_dataset(flags, adapter)
    pairs = select_pairs(dataset.pairs, flags.limit, flags.domain)
    record = make_record(flags, adapter, dataset, pairs, method, plan)
    folder = flags.out or record.default_folder()
    if folder.exists() and not flags.resume and not flags.limits.dry_run:
        raise UsageError(
            f"{folder} exists and --no-resume is set", hint="name another with --out, or leave --no-resume out"
        )
    for note in default_judge_notes(flags, plan):
        click.echo(f"note: {note}", err=True)
    keys = naming_keys(judge.profile.key_env for judge in plan.judges if judge.profile is not None)
    with keys, asyncio.Runner(loop_factory=loop_factory()) as runner:
        code = runner.run(_evaluate(flags, record, method, plan, folder))
    if flags.report == "frontier" and not flags.limits.dry_run:
        from svr_async.commands.eval.frontier import write_frontier  # noqa: PLC0415  (it needs jinja2)

        write_frontier([folder], folder / "frontier.html")
        click.echo(f"frontier  {folder}/frontier.html", err=flags.as_json)
    return code


async def _evaluate(flags: EvalFlags, record: RunRecord, method: Method, plan: SettledPlan, folder: Path) -> int:
    if not flags.limits.dry_run:
        await _look_around(flags, record, method, plan, folder)
    bench = await open_bench(flags, plan, record.pairs, folder)
    if flags.processes > 1 and bench.sending and not flags.limits.offline:
        bench = share_out(bench)
    try:
        evaluation = make_evaluation(flags, record.pairs, method, bench)
        if flags.limits.dry_run:
            return await _dry_run(flags, evaluation, bench)
        return await _judge_and_write(flags, record, evaluation, bench, folder)
    finally:
        await bench.close()


async def _look_around(flags: EvalFlags, record: RunRecord, method: Method, plan: SettledPlan, folder: Path) -> None:
    """Before the first call: say that the memo's disk is no good place; StorageError where it has too little room."""
    sending = sum(judge.profile is not None for judge in plan.judges)
    if not sending or flags.limits.offline:
        return
    if note := network_note(flags.limits.memo):
        click.echo(f"note: {note}", err=True)
    if flags.force or shortage(room_at_most(len(record.pairs), sending), flags.limits.memo, folder) is None:
        return
    counting = replace(flags, limits=replace(flags.limits, dry_run=True))
    bench = await open_bench(counting, plan, record.pairs, folder)
    try:
        counted = await _count_calls(make_evaluation(counting, record.pairs, method, bench), bench)
    finally:
        await bench.close()
    error = shortage(room_for(counted, len(record.pairs)), flags.limits.memo, folder)
    if error is not None:
        raise error


def make_evaluation(flags: EvalFlags, pairs: Sequence[PreferencePair], method: Method, bench: Bench) -> Evaluation:
    """Return the evaluation of pairs by open judges."""
    return Evaluation(
        pairs=pairs,
        method=rephrasing(method, bench.first) if flags.rephrase else method,
        plan=bench.plan,
        workers=bench.workers or OFFLINE_WORKERS,
    )


async def _judge_and_write(
    flags: EvalFlags, record: RunRecord, evaluation: Evaluation, bench: Bench, folder: Path
) -> int:
    begin_run(folder, record, _judge_facts(bench, record))
    stopper = Stopper()
    begun = time.monotonic()
    stats = bench.stats if bench.sending else None
    with RunProgress(len(record.pairs), stats, quiet=flags.quiet) as progress, draining(stopper, progress.note):
        for engine in evaluation.engines:
            engine.tell(partial(pass_on, progress.note, verbose=flags.verbose))
        if isinstance(bench, SharedBench):
            crew = Crew(flags=flags, folder=folder, bench=bench, stopper=stopper, progress=progress)
            items = await run_in_processes(crew, evaluation)
        else:
            items = await run_evaluation(evaluation, stopper, on_item=progress.advance)
    judged = [item for item in items if item is not None]
    facts = RunFacts(
        judge=_judge_facts(bench, record),
        stats=stats() if stats else None,
        costs=bench.costs(),
        wall_s=time.monotonic() - begun,
        complete=len(judged) == len(record.pairs),
        notes=_notes(bench) + (rephrase_notes(judged) if flags.rephrase else ()),
    )
    return _finish(flags, record, folder, judged, facts, stopper)


def pass_on(say: Callable[[str], None], word: Word, *, verbose: bool) -> None:
    """Say why calls wait for long, and what is said once; with --verbose also why each of them is tried again."""
    if word.about is About.RETRY:
        if verbose:
            say(f"trying again: {word.text}")
    else:
        say(f"note: {word.text}" if word.about is About.NOTE else word.text)


def _finish(
    flags: EvalFlags, record: RunRecord, folder: Path, judged: Sequence[Item], facts: RunFacts, stopper: Stopper
) -> int:
    if not judged and stopper.error is not None:
        raise stopper.error
    metrics = end_run(folder, record, judged, facts)
    if has_hung_up(stopper):
        return 128 + stopper.signal
    if flags.as_json:
        click.echo(orjson.dumps(metrics, option=orjson.OPT_INDENT_2))
    else:
        print_summary(metrics, str(folder))
    left = f"{len(judged)} of {len(record.pairs)} pairs are judged and kept in {folder}"
    if stopper.error is not None:
        raise _with_progress(stopper.error, left)
    if stopper.signal:
        click.echo(
            f"stopped by {signal.Signals(stopper.signal).name}: {left} — run the same command to go on", err=True
        )
        return 128 + stopper.signal
    if metrics["coverage"] is not None:  # some pair has a right answer
        again = "without --offline they are asked" if flags.limits.offline else "--retry-errors asks again"
        require_coverage(
            metrics["n_total"] - metrics["n_scored"],
            metrics["n_total"],
            flags.min_coverage,
            lack="pairs have no verdict",
            hint=f"{folder}/items.jsonl says why; {again}, --min-coverage accepts it",
        )
    return 0


def _with_progress(error: SvrError, left: str) -> SvrError:
    return type(error)(f"{error.message}; {left}", hint=error.hint)


def _judge_facts(bench: Bench, record: RunRecord) -> dict[str, Any]:
    if record.judge == "none":
        return {"name": "none", "label": "no judge (content-blind baseline)", "marks": [Integrity.CONTENT_BLIND]}
    return bench.facts()


def _notes(bench: Bench) -> tuple[str, ...]:
    return tuple(dict.fromkeys(note for judge in bench.judges for note in _judge_notes(judge)))


def _judge_notes(judge: OpenJudge) -> tuple[str, ...]:
    notes = []
    if judge.engine is not None and judge.profile is not None:
        others = sorted(filter(None, judge.engine.models - {judge.profile.model}))
        if others:
            notes.append(f"the endpoint answered as {', '.join(others)}, not {judge.profile.model}")
        if judge.engine.memo.damaged:
            notes.append(f"{judge.engine.memo.damaged} damaged memo rows were asked again; svr cache verify")
    return tuple(notes)


def rephrase_notes(items: Sequence[Item]) -> tuple[str, ...]:
    """Say how many rubrics were judged in their own words because no sure wording for the prompt came back."""
    shown, kept = rephrased_counts(items)
    return (f"{kept} of {shown} rubrics kept their own words: the rephrasing gave none for them",) if kept else ()


async def _dry_run(flags: EvalFlags, evaluation: Evaluation, bench: Bench) -> int:
    """Count what would be asked; replies that the memo holds are used, so that later stages are exact."""
    if not bench.sending:
        click.echo("0 calls: this judge sends nothing")
        return 0
    plan = await _count_calls(evaluation, bench)
    need, free = room_for(plan, len(evaluation.pairs)).total, free_bytes(flags.limits.memo)
    if flags.as_json:
        click.echo(orjson.dumps(plan | {"disk_bytes": need, "free_bytes": free}, option=orjson.OPT_INDENT_2))
    else:
        click.echo(f"{describe_plan(plan)}\n  at most about {words(need)} on the disk, where {words(free)} are free")
    return 0


async def _count_calls(evaluation: Evaluation, bench: Bench) -> dict[str, Any]:
    """Return calls, tokens and dollars to come, of judges that were opened for a dry run."""
    planned = {judge.judge.name: watched(judge) for judge in bench.sending}
    stopper = Stopper()
    await run_evaluation(replace(evaluation, guessed=partial(guessed_by, tuple(planned.values()))), stopper)
    if stopper.error is not None:
        raise stopper.error
    return total_plan({name: one.price() for name, one in planned.items()})


def watched(judge: OpenJudge) -> DryRunCount:
    """Return the count of what a judge behind an endpoint would be sent."""
    assert judge.engine is not None
    return DryRunCount(judge.engine)
