"""`svr repro`: the paper's tables and figures, rebuilt next to the printed numbers."""

from __future__ import annotations

from typing import Any

import click

from svr_async.commands import options as opt
from svr_async.commands.options import GroupedCommand, flag, option, together


@click.command(cls=GroupedCommand, context_settings=opt.HELP)
@click.argument("tables", nargs=-1, required=True, metavar="TABLE...|all")
@option("--data DIR|NAME=PATH", "Files by benchmark, and by train.", multiple=True)
@option("--judge [ROLE=]J", "Who judges: for all but reward models, or a role.", multiple=True)
@option("--bank [NAME=]DIR", "A trained bank in place of full, or of another.", multiple=True)
@opt.preset
@flag("--decontaminate", "Leave out train pairs that overlap with the benchmarks of --data.")
@opt.limit
@option("--recipes DIR", "Recipes in place of those that ship.", type=opt.PATH)
@option("--figures DIR", "Draw figures too, as SVG and PNG.", type=opt.PATH)
@opt.few_limits
@together(opt.price, group="The endpoint")
@opt.dry_run
@option("--out DIR", "Where all of it goes.", type=opt.PATH, default="runs/repro")
@opt.common
def repro(**flags: Any) -> int:
    """Rebuild TABLES of the paper, by their labels: rubricbench, tab:rmbenches, ablation … or all.

    \b
    Examples:
      svr repro all --data simulated/ --base-url http://127.0.0.1:8000/v1 --dry-run
      svr repro rubricbench model_transfer --judge gemini=google:gemini-3.8-flash --bank banks/mine/bank
    """
    from svr_async.commands.options import known_of, with_limits
    from svr_async.commands.screen import tell
    from svr_async.reproduction.dry_run import count_reproduction, describe_reproduction
    from svr_async.reproduction.recipe import load_recipes
    from svr_async.reproduction.reproduce import reproduce
    from svr_async.reproduction.settings import ReproSettings, by_name, data_files

    recipes = load_recipes(flags["recipes"])
    judge, judges = by_name(flags["judge"], "judge", tuple(recipes.roles))
    bank, banks = by_name(flags["bank"], "bank", tuple(recipes.banks))
    named = {"judge": judge, "judges": judges, "banks": ({"full": bank} if bank else {}) | banks}
    values = with_limits({**flags, "dry_run": False}) | {"data": data_files(flags["data"]), **named}
    settings = ReproSettings(**known_of(ReproSettings, values))
    tables, as_json = flags["tables"], flags["as_json"]
    say = (lambda _: None) if as_json else lambda text: click.echo(text, err=True)
    if flags["dry_run"]:
        count = count_reproduction(settings, tables, say)
        tell(count.as_json(), describe_reproduction(count), as_json=as_json)
        return 0
    done = reproduce(settings, tables, say)
    tell(done.as_json, done.in_words(), as_json=as_json)
    return 0
