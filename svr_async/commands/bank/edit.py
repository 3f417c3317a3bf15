"""`svr bank edit`: change rubrics of a bank by hand, with author, date and reason."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from svr_async.commands.options import common
from svr_async.errors import UsageError


@click.command(short_help="Disable, reword, reweigh or add rubrics.")
@click.argument("folder", metavar="BANK")
@click.option("--disable", "disabled", multiple=True, metavar="ID", help="Never choose this rubric again.")
@click.option("--enable", "enabled", multiple=True, metavar="ID", help="Choose a disabled one as before.")
@click.option("--reword", "reworded", multiple=True, type=(str, str), metavar="ID TEXT", help="Give it another text.")
@click.option("--weight", "reweighed", multiple=True, type=(str, float), metavar="ID W", help="Give it another weight.")
@click.option("--add", "added", multiple=True, metavar="TEXT", help="Add a rubric, for every prompt.")
@click.option(
    "--add-weight", "added_weight", type=float, metavar="W", help="What --add weighs. Default: as one chosen."
)
@click.option("--by", required=True, metavar="NAME", help="Who edits.")
@click.option("--reason", required=True, metavar="TEXT", help="Why.")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Where the edited bank goes."
)
@click.option("--in-place", is_flag=True, help="Write it over BANK; the former is kept beside it.")
@common
def edit(folder: str, out: Path | None, in_place: bool, by: str, reason: str, as_json: bool, **plan: object) -> None:
    """Edit a bank by hand; every change is kept in its history. ID is the start of a rubric's id.

    \b
    Examples:
      svr bank edit bank/ --disable r3fa9 --by Ana --reason "rewards length" --out edited/
      svr bank edit bank/ --weight r3fa9 0.5 --add "Names its sources." --by Ana --reason policy --in-place
    """
    from svr_async.commands.screen import print_json, show
    from svr_async.scoring.bank import RubricBank
    from svr_async.training.bank.bank_diff import diff_banks
    from svr_async.training.bank.edit import EditPlan, edit_bank, save_anew, save_in_place
    from svr_async.training.bank.sheets import diff_sheet

    if (out is None) is not in_place or (in_place and folder.startswith("hf:")):
        raise UsageError("edit needs one of --out and --in-place", hint="--in-place is for a folder")
    former = RubricBank.load(folder)
    edited = edit_bank(former, EditPlan(**plan), author=by, reason=reason, day=datetime.now(UTC).date())  # type: ignore[arg-type]  # the flags are its fields
    if out is None:
        kept: str | Path = save_in_place(edited, Path(folder), former.digest)
    else:
        kept = folder
        save_anew(edited, out)
    found, place = diff_banks(former, edited), out or folder
    if as_json:
        was = {"folder": str(kept), "digest": former.digest}
        print_json({"folder": str(place), "digest": edited.digest, "former": was, "changes": found.to_json()})
        return
    show(diff_sheet(found))
    click.echo(f"the edited bank {edited.digest[:12]} is in {place}, the former {former.digest[:12]} in {kept}")
    click.echo("judge again with it, then svr compare the run before and the run after")
