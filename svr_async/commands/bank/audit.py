"""`svr bank audit`: what attacks on an answer buy with a bank and a judge, before anyone trains on them."""

from __future__ import annotations

from typing import Any

import click

from svr_async.commands.groups import GroupedCommand
from svr_async.commands.options import (
    PATH,
    common,
    dry_run_option,
    judge_option,
    known_of,
    limit_option,
    limited,
    quiet_option,
    reading,
    retry_errors_option,
    top_k_option,
    with_limits,
)


@click.command(cls=GroupedCommand, short_help="Measure what attacks on answers buy.")
@click.argument("folder", metavar="BANK")
@click.option("--data", type=PATH, required=True, metavar="PAIRS", help="Pairs to attack.")
@click.option("--format", "benchmark", default="pairs", show_default=True, metavar="NAME", help="What reads PAIRS.")
@judge_option
@click.option("--attack", "attacks", multiple=True, metavar="NAME", help="Only this attack; may be given again.")
@top_k_option
@click.option("--top", type=click.IntRange(min=0), default=5, show_default=True, help="Rubrics listed of an attack.")
@limit_option
@limited
@reading
@retry_errors_option
@dry_run_option
@click.option("--out", type=PATH, metavar="DIR", help="For audit.json. Default: runs/audit-…")
@quiet_option
@common
def audit(folder: str, attacks: tuple[str, ...], top: int, quiet: bool, as_json: bool, **flags: Any) -> int:
    """Judge PAIRS with BANK as they are, and again with each attack at the end of the rejected answer.

    Attacks: padding, restated rubrics, keywords, instructions, fake verdict; docs/bank.md lists more.

    \b
    Example:  svr bank audit bank/ --data pairs.jsonl --judge gpt-oss-120b --limit 200 --dry-run
    """
    from svr_async.commands.screen import tell
    from svr_async.commands.watching import Screen, print_count
    from svr_async.evaluation.running.audit import FILE, USUAL, plan_audit, run_audit
    from svr_async.evaluation.settings import EvalSettings

    settings = EvalSettings(**known_of(EvalSettings, with_limits({**flags, "bank": folder})))
    plan = plan_audit(settings, attacks or USUAL)
    if settings.limits.dry_run:
        print_count(plan.run, as_json=as_json)
        return 0
    found = run_audit(plan, Screen(quiet=quiet, verbose=False, as_json=as_json))
    tell(found.to_json, found.sheet(top), as_json=as_json)
    if not as_json:
        click.echo(f"all of it is in {plan.run.folder / FILE}")
    return 128 + found.signal if found.signal else 0
