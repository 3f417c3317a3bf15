"""`svr repro`: the paper's tables and figures, rebuilt next to the printed numbers."""

from __future__ import annotations

from typing import Any

import click

from svr_async.commands.options import (
    HELP,
    PATH,
    GroupedCommand,
    common,
    few_limits,
    limit_option,
    price_option,
)


@click.command(cls=GroupedCommand, context_settings=HELP)
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@click.option("--data", multiple=True, metavar="DIR|NAME=PATH", help="Files of the benchmarks, by name.")
@click.option("--train", default="", metavar="PATH|helpsteer3", help="Pairs that banks are trained on.")
@click.option("--judge", multiple=True, metavar="[ROLE=]J", help="The judge of all roles, or of one.")
@click.option("--bank", multiple=True, metavar="[NAME=]DIR", help="A trained bank, for the full one or by name.")
@click.option(
    "--preset",
    type=click.Choice(["default", "paper"]),
    default="default",
    show_default=True,
    help="How banks are trained.",
)
@click.option("--decontaminate", is_flag=True, help="Leave out train pairs that overlap with the benchmarks of --data.")
@limit_option
@click.option("--figures", type=PATH, metavar="DIR", help="Draw figures too, as SVG and PNG.")
@few_limits
@price_option
@click.option("--dry-run", is_flag=True, help="Count calls, tokens, price and time by table; send nothing.")
@click.option("--out", type=PATH, default="runs/repro", show_default=True, metavar="DIR", help="Folder of the results.")
@common
def repro(**flags: Any) -> int:
    """Rebuild TABLES of the paper, or all; without TABLE, list them.

    \b
    Examples:
      svr repro all --data simulated/ --judge gpt-4o-mini --dry-run
      svr repro rubricbench --train helpsteer3 --judge gpt-oss-120b --budget 50
    """
    from svr_async.commands.screen import tell
    from svr_async.reproduction.recipes import list_tables
    from svr_async.reproduction.reproduce import count, reproduce

    if not flags["tables"]:
        click.echo(list_tables())
        return 0
    settings, tables, as_json = _settings(flags), flags["tables"], flags["as_json"]
    say = (lambda _: None) if as_json else lambda text: click.echo(text, err=True)
    done = (count if flags["dry_run"] else reproduce)(settings, tables, say)
    tell(done.as_json(), done.in_words(), as_json=as_json)
    return 0


def _settings(flags: dict[str, Any]) -> Any:
    from svr_async.commands.options import known_of, with_limits
    from svr_async.reproduction.recipes import load_recipes
    from svr_async.reproduction.settings import ReproSettings, by_name, data_files, training_source

    recipes, data = load_recipes(), data_files(flags["data"])
    judge, judges = by_name(flags["judge"], "judge", tuple(recipes.roles))
    bank, banks = by_name(flags["bank"], "bank", tuple(recipes.banks))
    adapter, train = training_source(flags["train"], data)
    named = {"judge": judge, "judges": judges, "banks": ({"full": bank} if bank else {}) | banks}
    values = with_limits({**flags, "dry_run": False}) | named | {"data": data, "train": train, "adapter": adapter}
    return ReproSettings(**known_of(ReproSettings, values))
