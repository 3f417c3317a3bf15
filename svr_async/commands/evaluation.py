"""The work behind `svr eval`: flags in, a run folder out. Loaded only when an evaluation runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import orjson

from svr_async import __version__
from svr_async.adapters import Adapter, Dataset, get_adapter
from svr_async.commands.eval_data import load_dataset, select_pairs
from svr_async.commands.eval_flags import EvalFlags
from svr_async.commands.eval_judge import JudgePlan, open_judge, plan_judge
from svr_async.commands.eval_method import bank_identity, choose_method, rephrasing, with_shipped_bank
from svr_async.commands.loops import loop_factory
from svr_async.commands.terminal import RunProgress, print_summary
from svr_async.engine.money import Price
from svr_async.engine.reply import Usage
from svr_async.engine.stats import EngineStats
from svr_async.errors import CoverageError, SvrError, UsageError
from svr_async.evaluation.items import Item, rephrased_counts
from svr_async.evaluation.orders import OrderPlan, OrderPolicy
from svr_async.evaluation.run import Evaluation, Stopper, run_evaluation
from svr_async.evaluation.writing import RunFacts, RunRecord, begin_run, command_line, end_run
from svr_async.judges.opening import OpenJudge
from svr_async.scoring import shipped
from svr_async.scoring.methods import Method
from svr_async.vocabulary.pair import PreferencePair

OFFLINE_WORKERS = 8


def make_record(
    flags: EvalFlags,
    adapter: Adapter,
    dataset: Dataset,
    pairs: Sequence[PreferencePair],
    method: Method,
    plan: JudgePlan,
) -> RunRecord:
    """Return what the run folder says about the run; its digest covers all that can change an item."""
    rubrics = [[rubric.text, weight] for rubric, weight in getattr(method, "rubrics", ())]
    identity = {
        "version": __version__,
        "data": dataset.digest,
        "pairs": [len(pairs), pairs[0].id, pairs[-1].id],
        "domains": sorted(flags.domain),
        "method": method.name,
        "rubrics": rubrics,
        "bank": bank_identity(method),
        "order": [flags.order, flags.audit, flags.salt],
        "tie_credit": flags.tie_credit,
        **plan.identity(),
    }
    config = {name: value for name, value in asdict(flags).items() if name not in {"as_json", "quiet", "verbose"}}
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
    )


def run_command(flags: EvalFlags) -> int:
    """Evaluate and return the exit code; SvrError for what stops the run before it begins."""
    adapter = get_adapter(flags.benchmark)
    flags = with_shipped_bank(flags)
    method = choose_method(flags)
    plan = plan_judge(flags, method)
    dataset = load_dataset(flags, adapter)
    pairs = select_pairs(dataset.pairs, flags.limit, flags.domain)
    record = make_record(flags, adapter, dataset, pairs, method, plan)
    folder = flags.out or record.default_folder()
    if folder.exists() and not flags.resume and not flags.dry_run:
        raise UsageError(
            f"{folder} exists and --no-resume is set", hint="name another with --out, or leave --no-resume out"
        )
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_evaluate(flags, record, method, plan, folder))


async def _evaluate(flags: EvalFlags, record: RunRecord, method: Method, plan: JudgePlan, folder: Path) -> int:
    judge = open_judge(flags, plan, record.pairs, folder)
    try:
        evaluation = Evaluation(
            pairs=record.pairs,
            method=rephrasing(method, judge) if flags.rephrase else method,
            judge=judge.judge,
            orders=OrderPlan(policy=record.policy, audit=flags.audit, salt=flags.salt),
            engine=judge.engine,
            workers=judge.engine.config.concurrency if judge.engine else OFFLINE_WORKERS,
        )
        if flags.dry_run:
            return await _dry_run(flags, evaluation, judge)
        return await _judge_and_write(flags, record, evaluation, judge, folder)
    finally:
        await judge.close()


async def _judge_and_write(
    flags: EvalFlags, record: RunRecord, evaluation: Evaluation, judge: OpenJudge, folder: Path
) -> int:
    begin_run(folder, record, _judge_facts(judge, record))
    stopper = Stopper()
    begun = time.monotonic()
    stats = judge.engine.stats if judge.engine else None
    notes = shipped_notes(flags.bank, evaluation.method)
    with RunProgress(len(record.pairs), stats, quiet=flags.quiet) as progress, _signals(stopper, progress):
        if flags.verbose and judge.engine is not None:
            judge.engine.tell_retries(lambda detail: progress.note(f"trying again: {detail}"))
        items = await run_evaluation(evaluation, stopper, on_item=progress.advance)
    judged = [item for item in items if item is not None]
    facts = RunFacts(
        judge=_judge_facts(judge, record),
        stats=stats() if stats else None,
        price=judge.profile.price if judge.profile else None,
        wall_s=time.monotonic() - begun,
        complete=len(judged) == len(record.pairs),
        notes=notes + _notes(judge) + (rephrase_notes(judged) if flags.rephrase else ()),
    )
    return _finish(flags, record, folder, judged, facts, stopper)


def _finish(
    flags: EvalFlags, record: RunRecord, folder: Path, judged: Sequence[Item], facts: RunFacts, stopper: Stopper
) -> int:
    if not judged and stopper.error is not None:
        raise stopper.error
    metrics = end_run(folder, record, judged, facts)
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
    coverage = metrics["coverage"]  # None where no pair has a right answer
    if coverage is not None and coverage < flags.min_coverage:
        unscored = metrics["n_total"] - metrics["n_scored"]
        raise CoverageError(
            f"{unscored} of {metrics['n_total']} pairs have no verdict: "
            f"coverage {coverage:.4f} is below {flags.min_coverage:g}",
            hint=f"{folder}/items.jsonl says why; --retry-errors asks again, --min-coverage accepts it",
        )
    return 0


def _with_progress(error: SvrError, left: str) -> SvrError:
    return type(error)(f"{error.message}; {left}", hint=error.hint)


def _judge_facts(judge: OpenJudge, record: RunRecord) -> dict[str, Any]:
    if record.judge == "none":
        return {"name": "none", "label": "no judge (content-blind baseline)"}
    return judge.facts()


def _notes(judge: OpenJudge) -> tuple[str, ...]:
    notes = []
    if judge.engine is not None and judge.profile is not None:
        others = sorted(filter(None, judge.engine.models - {judge.profile.model}))
        if others:
            notes.append(f"the endpoint answered as {', '.join(others)}, not {judge.profile.model}")
        if judge.engine.memo.damaged:
            notes.append(f"{judge.engine.memo.damaged} damaged memo rows were asked again; svr cache verify")
    return tuple(notes)


def shipped_notes(bank: str | None, method: Method) -> tuple[str, ...]:
    """Say of the shipped bank that it is that, and what it was trained on; nothing of any other bank."""
    chooser = getattr(method, "chooser", None)
    if bank != shipped.NAME or chooser is None:
        return ()
    return tuple(f"shipped bank, {note}" for note in chooser.bank.notes[:1])


def rephrase_notes(items: Sequence[Item]) -> tuple[str, ...]:
    """Say how many rubrics were judged in their own words because no sure wording for the prompt came back."""
    shown, kept = rephrased_counts(items)
    return (f"{kept} of {shown} rubrics kept their own words: the rephrasing gave none for them",) if kept else ()


@contextlib.contextmanager
def _signals(stopper: Stopper, progress: RunProgress) -> Iterator[None]:
    """Drain on the first SIGINT or SIGTERM; the second ends the process at once, with what is committed kept."""
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        if stopper.signal:
            os._exit(128 + number)
        progress.note("stopping: calls under way may finish (10 s); again to stop at once")
        stopper.interrupt(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


async def _dry_run(flags: EvalFlags, evaluation: Evaluation, judge: OpenJudge) -> int:
    """Count what would be asked; replies that the memo holds are used, so that later stages are exact."""
    if judge.engine is None:
        click.echo("0 calls: this judge sends nothing")
        return 0
    stopper = Stopper()
    await run_evaluation(evaluation, stopper)
    if stopper.error is not None:
        raise stopper.error
    plan = price_plan(judge.engine.stats(), judge.profile.price if judge.profile else None)
    click.echo(orjson.dumps(plan, option=orjson.OPT_INDENT_2) if flags.as_json else describe_plan(plan))
    return 0


def price_plan(stats: EngineStats, price: Price | None) -> dict[str, Any]:
    """Return calls, tokens and dollars, expected and at worst (every answer as long as it may be)."""

    def dollars(completion: int) -> float | None:
        usage = Usage(prompt_tokens=stats.planned_prompt_tokens, completion_tokens=completion)
        return None if price is None else round(price.cost(usage), 4)

    return {
        "calls": stats.planned_calls,
        "memo_hits": stats.memo_hits,
        "prompt_tokens": stats.planned_prompt_tokens,
        "completion_tokens": stats.planned_completion_tokens,
        "max_completion_tokens": stats.planned_max_completion_tokens,
        "usd": dollars(stats.planned_completion_tokens),
        "max_usd": dollars(stats.planned_max_completion_tokens),
    }


def describe_plan(plan: Mapping[str, Any]) -> str:
    """Return the plan in words; token counts are estimates at 3.6 characters a token."""
    cost = (
        "price unknown: add price = [in, cached, out] to the judge in judges.toml"
        if plan["usd"] is None
        else f"about ${plan['usd']:.2f}, at worst ${plan['max_usd']:.2f}"
    )
    return (
        f"dry run: {plan['calls']:,} calls to send, {plan['memo_hits']:,} answers already in the memo; "
        f"about {plan['prompt_tokens']:,} tokens in and {plan['completion_tokens']:,} out "
        f"(at worst {plan['max_completion_tokens']:,}); {cost}. Nothing was sent."
    )
