"""`svr repro`: the paper's tables and figures, rebuilt next to the printed numbers."""

from __future__ import annotations

from typing import Any

import click

from svr_async.commands import options as opt
from svr_async.commands.options import GroupedCommand, flag, known_of, option, together, with_limits


@click.command(cls=GroupedCommand, context_settings=opt.HELP)
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@option("--data DIR|NAME=PATH", "Files of the benchmarks, by name.", multiple=True)
@option("--train PATH|helpsteer3", "Pairs that banks are trained on.", default="")
@option("--judge [ROLE=]J", "The judge of all roles, or of one.", multiple=True)
@option("--bank [NAME=]DIR", "A trained bank, for the full one or by name.", multiple=True)
@opt.preset
@flag("--decontaminate", "Leave out train pairs that overlap with the benchmarks of --data.")
@opt.limit
@option("--figures DIR", "Draw figures too, as SVG and PNG.", type=opt.PATH)
@opt.few_limits
@together(opt.price, group="The endpoint")
@opt.dry_run
@option("--out DIR", "Folder of the results.", type=opt.FOLDER, default="runs/repro")
@opt.common
def repro(**flags: Any) -> int:
    """Rebuild TABLES of the paper, or all; without TABLE, list them.

    \b
    Examples:
      svr repro all --data simulated/ --judge gpt-4o-mini --dry-run
      svr repro rubricbench --train helpsteer3 --judge gpt-oss-120b --budget 50
    """
    from svr_async.commands.screen import tell
    from svr_async.reproduction.paper import list_tables, load_recipes
    from svr_async.reproduction.reproduce import count, reproduce
    from svr_async.reproduction.runner import ReproSettings, by_name, data_files, training_source

    if not flags["tables"]:
        click.echo(list_tables())
        return 0
    recipes, data = load_recipes(), data_files(flags["data"])
    judge, judges = by_name(flags["judge"], "judge", tuple(recipes.roles))
    bank, banks = by_name(flags["bank"], "bank", tuple(recipes.banks))
    adapter, train = training_source(flags["train"], data)
    named = {"judge": judge, "judges": judges, "banks": ({"full": bank} if bank else {}) | banks}
    values = with_limits({**flags, "dry_run": False}) | named | {"data": data, "train": train, "adapter": adapter}
    settings = ReproSettings(**known_of(ReproSettings, values))
    say = (lambda _: None) if flags["as_json"] else lambda text: click.echo(text, err=True)
    done = (count if flags["dry_run"] else reproduce)(settings, flags["tables"], say)
    tell(done.as_json(), done.in_words(), as_json=flags["as_json"])
    return 0
