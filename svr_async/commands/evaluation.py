"""The work behind `svr eval`: flags in, a run folder out. Loaded only when an evaluation runs."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from svr_async import __version__
from svr_async.adapters import Adapter, Dataset, get_adapter, load_sample
from svr_async.adapters.hub import fetch
from svr_async.commands.terminal import RunProgress, print_summary
from svr_async.engine.money import Price
from svr_async.engine.reply import Usage
from svr_async.engine.stats import EngineStats
from svr_async.errors import CoverageError, SvrError, UsageError
from svr_async.evaluation.items import Item, rephrased_counts
from svr_async.evaluation.orders import OrderPlan, OrderPolicy
from svr_async.evaluation.run import Evaluation, Stopper, run_evaluation
from svr_async.evaluation.writing import RunFacts, RunRecord, begin_run, command_line, end_run
from svr_async.judges.opening import OpenJudge, needs_endpoint, open_offline_judge
from svr_async.judges.rubric_file import load_rubric_file
from svr_async.scoring import shipped
from svr_async.scoring.methods import CONTENT_BLIND, ContentBlind, Fixed, Method, Oracle, Pointwise, SelfRubric, Vanilla
from svr_async.vocabulary.pair import PreferencePair

if TYPE_CHECKING:
    from svr_async.judges.profiles import Profile

REPHRASED = ("svr", "uniform")  # the methods whose rubrics can be fitted to a prompt
OFFLINE_WORKERS = 8
MOST_CONCURRENCY = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalFlags:
    """The flags of `svr eval`, by name."""

    benchmark: str
    judge: str
    method: str | None
    rubrics: Path | None
    bank: str | None
    top_k: int | None
    rephrase: bool
    data: Path | None
    sample: bool
    limit: str | None
    domain: tuple[str, ...]
    order: str
    audit: float
    base_url: str
    concurrency: str
    rpm: float | None
    tpm: float | None
    timeout_s: float
    give_up_after_s: float
    budget: float | None
    max_calls: int | None
    dry_run: bool
    offline: bool
    resume: bool
    retry_errors: bool
    min_coverage: float
    tie_credit: str
    prompts: Path | None
    memo: Path
    lenient: bool
    salt: str
    out: Path | None
    quiet: bool
    verbose: bool
    as_json: bool


def load_dataset(flags: EvalFlags, adapter: Adapter) -> Dataset:
    """Load --data, the sample, or the downloaded benchmark."""
    if flags.sample and flags.data is not None:
        raise UsageError("--sample and --data exclude each other", hint="give one of them")
    if flags.sample:
        if adapter.name not in {"rubricbench", "pairs"}:
            raise UsageError(f"there is no sample for {adapter.name}", hint="svr eval rubricbench --sample")
        return load_sample()
    if flags.data is not None:
        return adapter.load(flags.data, lenient=flags.lenient)
    if not adapter.hub_id:
        raise UsageError(f"svr eval {adapter.name} needs --data PATH", hint="json, jsonl, csv or parquet, or a folder")
    return adapter.load(fetch(adapter, Path("cache/hub")), official=True)


def select_pairs(
    pairs: Sequence[PreferencePair], limit: str | None, domains: Sequence[str]
) -> Sequence[PreferencePair]:
    """Return the pairs of these domains, then the first N or A to B of them; UsageError when nothing is left."""
    if domains:
        wanted = {name.casefold() for name in domains}
        known = sorted({pair.domain for pair in pairs})
        unknown = wanted - {name.casefold() for name in known}
        if unknown:
            raise UsageError(f"there is no domain {min(unknown)!r}", hint=f"there are {', '.join(known)}")
        pairs = [pair for pair in pairs if pair.domain.casefold() in wanted]
    if limit:
        start, end = _parse_limit(limit)
        pairs = pairs[start:end]
    if not pairs:
        raise UsageError(f"0 usable pairs are left after --limit {limit}", hint="widen --limit")
    return pairs


def _parse_limit(limit: str) -> tuple[int, int]:
    first, dash, last = limit.partition("-")
    try:
        start, end = (int(first) - 1, int(last)) if dash else (0, int(first))
    except ValueError:
        start, end = -1, -1
    if start < 0 or end <= start:
        raise UsageError(f"--limit {limit} is no range", hint="write 100, or 101-200")
    return start, end


def with_shipped_bank(flags: EvalFlags) -> EvalFlags:
    """Name the shipped bank where the rules judge is to judge with a bank and none is named.

    That is so with --method svr or uniform, and, where `shipped.STANDS_IN` says so, with no method at all.
    """
    wanted = flags.method in REPHRASED or (flags.method is None and flags.rubrics is None and shipped.STANDS_IN)
    if flags.bank is not None or flags.judge != "rules" or flags.rephrase or not wanted:
        return flags
    return replace(flags, bank=shipped.NAME)


def choose_method(flags: EvalFlags) -> Method:
    """Return the method that the flags name."""
    name = flags.method or ("svr" if flags.bank else "fixed" if flags.rubrics else "vanilla")
    if flags.rephrase and (flags.bank is None or name not in REPHRASED):
        raise UsageError("--rephrase rewrites the rubrics of a bank", hint="give --bank, with --method svr or uniform")
    if flags.bank is not None:
        return _bank_method(flags, flags.bank, name)
    if name in {"svr", "uniform"}:
        raise UsageError(f"--method {name} needs --bank DIR", hint="svr train makes one; --bank default is shipped")
    rubrics = load_rubric_file(flags.rubrics) if flags.rubrics else ()
    if rubrics and name not in {"fixed", "pointwise"}:
        raise UsageError(f"--method {name} does not use --rubrics", hint="leave one out; fixed and pointwise use them")
    if name == "fixed":
        if not rubrics:
            raise UsageError("--method fixed needs --rubrics FILE", hint="one rubric a line")
        return Fixed(rubrics)
    if name in CONTENT_BLIND:
        return ContentBlind(name)
    methods: dict[str, Method] = {"self-rubric": SelfRubric(), "oracle": Oracle(), "pointwise": Pointwise(rubrics)}
    return methods.get(name, Vanilla())


def _bank_method(flags: EvalFlags, bank: str, name: str) -> Method:
    from svr_async.scoring.bank import RubricBank  # noqa: PLC0415  (only a bank needs NumPy's selector)
    from svr_async.scoring.bank_hub import locate_bank  # noqa: PLC0415
    from svr_async.scoring.svr import Svr, SvrPointwise, open_chooser  # noqa: PLC0415

    if flags.rubrics is not None or name not in {"svr", "uniform", "pointwise"}:
        other = "--rubrics" if flags.rubrics is not None else f"--method {name}"
        raise UsageError(f"--bank and {other} exclude each other", hint="svr, uniform and pointwise use a bank")
    held = RubricBank.load(locate_bank(bank, offline=flags.offline))
    chooser = open_chooser(held, top_k=flags.top_k, uniform=name == "uniform")
    return SvrPointwise(chooser) if name == "pointwise" else Svr(chooser, name + "+rephrase" * flags.rephrase)


def rephrasing(method: Method, judge: OpenJudge) -> Method:
    """Return the method of a bank with the judge's model to fit its rubrics to prompts; UsageError without a model."""
    from svr_async.scoring.rephrasing import rephraser_of  # noqa: PLC0415
    from svr_async.scoring.svr import Svr  # noqa: PLC0415

    assert isinstance(method, Svr)
    return replace(method, rephraser=rephraser_of(judge.author, judge.judge.name))


def bank_identity(method: Method) -> list[Any] | None:
    """Return what of a bank can change an item: its digest and how many rubrics are used; None without a bank."""
    chooser = getattr(method, "chooser", None)
    return None if chooser is None else [chooser.bank.digest, asdict(chooser.settings)]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePlan:
    """A judge that is settled but not open: its name, and for an endpoint its profile and prompt digests."""

    spec: str
    name: str
    profile: Profile | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    recording: str = ""

    def identity(self) -> dict[str, Any]:
        """Return all of the judge that can change an item."""
        facts: dict[str, Any] = {"judge": self.spec, "prompts": dict(self.prompts), "recording": self.recording}
        if self.profile is not None:
            facts["endpoint"] = [self.profile.identity, self.profile.model, self.profile.max_tokens]
            facts["params"] = [self.profile.params(structured=flag) for flag in (False, True)]
        return facts


def plan_judge(flags: EvalFlags, method: Method) -> JudgePlan:
    """Settle which judge is meant, without opening it; a content-blind method needs none."""
    if isinstance(method, ContentBlind):
        return JudgePlan(spec="rules", name="none")
    spec = flags.judge
    if not needs_endpoint(spec):
        return JudgePlan(spec=spec, name=spec if spec == "rules" else "recorded", recording=_digest_of(spec))
    from svr_async.judges.profiles import find_profile  # noqa: PLC0415  (offline judges need none)
    from svr_async.judges.templates import load_templates  # noqa: PLC0415

    profile = find_profile(spec.removesuffix("+rules"), base_url=flags.base_url)
    name = profile.name + ("+rules" if spec.endswith("+rules") else "")
    return JudgePlan(spec=spec, name=name, profile=profile, prompts=load_templates(flags.prompts).digests)


def _digest_of(spec: str) -> str:
    path = Path(spec.removeprefix("recorded:"))
    return hashlib.sha256(path.read_bytes()).hexdigest() if spec != "rules" and path.is_file() else ""


def open_judge(flags: EvalFlags, plan: JudgePlan, pairs: Sequence[PreferencePair], folder: Path) -> OpenJudge:
    """Open the judge; an endpoint's final failures are kept in the run folder."""
    if plan.profile is None:
        return open_offline_judge(plan.spec, {pair.id: pair.prompt for pair in pairs})
    from svr_async.engine.engine import EngineConfig  # noqa: PLC0415
    from svr_async.engine.failures import FailureLog  # noqa: PLC0415
    from svr_async.engine.money import Budget  # noqa: PLC0415
    from svr_async.judges.opening import EndpointOptions, open_endpoint_judge  # noqa: PLC0415

    config = EngineConfig(
        concurrency=parse_concurrency(flags.concurrency, plan.profile.concurrency),
        rpm=flags.rpm or plan.profile.rpm,
        tpm=flags.tpm or plan.profile.tpm,
        give_up_after_s=flags.give_up_after_s,
        offline=flags.offline,
        dry_run=flags.dry_run,
    )
    options = EndpointOptions(
        memo=flags.memo,
        config=config,
        budget=Budget(max_calls=flags.max_calls, max_usd=flags.budget),
        failures=FailureLog(folder / "failures.jsonl", forget=flags.retry_errors),
        prompts=flags.prompts,
        timeout_s=flags.timeout_s,
    )
    if flags.budget is not None and plan.profile.price is None:
        raise UsageError(
            f"--budget needs a price, and judge {plan.name} has none",
            hint="add price = [in, cached, out] in judges.toml",
        )
    return open_endpoint_judge(plan.spec, plan.profile, options)


def parse_concurrency(text: str, default: int) -> int:
    """Read --concurrency: auto is the profile\'s."""
    if text == "auto":
        return default
    if not text.isdecimal() or not 1 <= int(text) <= MOST_CONCURRENCY:
        raise UsageError(f"--concurrency {text} is not auto or a number", hint=f"1 to {MOST_CONCURRENCY}")
    return int(text)


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


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's factory of event loops where it is installed."""
    try:
        import uvloop  # noqa: PLC0415  (optional: the extra [fast])
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


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
            judge.engine.on_retry = lambda detail: progress.note(f"trying again: {detail}")
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
