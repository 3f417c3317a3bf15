"""`svr repro`: the paper's tables and figures, rebuilt next to the printed numbers."""

from __future__ import annotations

from typing import Any

import click

from svr_async.commands.options import (
    HELP,
    PATH,
    GroupedCommand,
    common,
    dry_run_option,
    few_limits,
    limit_option,
    option,
    preset_option,
    price_option,
    together,
)


@click.command(cls=GroupedCommand, context_settings=HELP)
@click.argument("tables", nargs=-1, required=True, metavar="TABLE...|all")
@option("--data", multiple=True, metavar="DIR|NAME=PATH", help="Files by benchmark, and by train.")
@option("--judge", multiple=True, metavar="[ROLE=]J", help="Who judges: for all but reward models, or a role.")
@option("--bank", multiple=True, metavar="[NAME=]DIR", help="A trained bank in place of full, or of another.")
@preset_option
@option("--decontaminate", is_flag=True, help="Leave out train pairs that overlap with the benchmarks of --data.")
@limit_option
@option("--recipes", type=PATH, metavar="DIR", help="Recipes in place of those that ship.")
@option("--figures", type=PATH, metavar="DIR", help="Draw figures too, as SVG and PNG.")
@few_limits
@together(price_option, group="The endpoint")
@dry_run_option
@option("--out", type=PATH, default="runs/repro", metavar="DIR", help="Where all of it goes.")
@common
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
