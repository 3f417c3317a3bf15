"""`svr bank push` and `svr bank pull`: a bank to a repository of the Hugging Face hub, and from one."""

from __future__ import annotations

from pathlib import Path

import click

from svr_async.commands.options import PATH, common
from svr_async.commands.screen import tell


@click.command(short_help="Upload a bank to the Hugging Face hub.")
@click.argument("folder", metavar="BANK")
@click.argument("name", metavar="hf:OWNER/NAME")
@click.option("--private", is_flag=True, help="Make a new repository private.")
@click.option("--licence", metavar="TEXT", default="", help="Of the card, in place of the bank's: cc-by-4.0, mit …")
@click.option("--dry-run", is_flag=True, help="Print the files and the card; upload and ask nothing.")
@common
def push(folder: str, name: str, private: bool, licence: str, dry_run: bool, as_json: bool) -> None:
    """Upload BANK with a card to a repository of the Hugging Face hub, in one commit; a token is in HF_TOKEN.

    \b
    Examples:
      svr bank push bank/ hf:user/name --dry-run
      svr bank push bank/ hf:user/name --private --licence cc-by-4.0
    """
    from svr_async.scoring.bank import RubricBank
    from svr_async.scoring.bank_exchange import planned_upload, push_bank
    from svr_async.scoring.bank_made import made_with

    held = RubricBank.load(folder)
    upload = planned_upload(held, name, licence=licence, made=made_with(Path(folder), held.digest))
    files = {file: len(data) for file, data in sorted(upload.files.items())}
    place = "" if dry_run else push_bank(upload, private=private)
    values = {"place": place or None, "repository": upload.repository, "digest": upload.digest, "files": files}
    listed = "\n".join(f"{size:>12,}  {file}" for file, size in files.items())
    planned = f"would upload {len(files)} files to {upload.repository}:\n{listed}\n\n{upload.card.rstrip()}"
    told = f"{len(held)} rubrics, {upload.digest[:12]}, are in {place}" if place else planned
    tell(values | {"card": upload.card}, told, as_json=as_json)


@click.command(short_help="Download a bank from the Hugging Face hub.")
@click.argument("name", metavar="hf:OWNER/NAME[@REV]")
@click.argument("out", metavar="OUT", type=PATH)
@common
def pull(name: str, out: Path, as_json: bool) -> None:
    """Download a bank into the new folder OUT, once all of it has been checked; tells the commit that it is of.

    \b
    Example:  svr bank pull hf:user/name@v1 bank
    """
    from svr_async.scoring.bank import RubricBank
    from svr_async.scoring.bank_exchange import pull_bank

    found = pull_bank(name, out, RubricBank)
    values = {"folder": str(out), "pinned": found.name, "digest": found.digest, "rubrics": len(found.bank)}
    told = f"{len(found.bank)} rubrics, {found.digest[:12]}, are in {out}\npinned  {found.name}"
    tell(values, told, as_json=as_json)
