"""`svr bank`: look at a bank of rubrics, edit, compare, merge, audit and share it."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from svr_async.commands.options import (
    PATH,
    GroupedCommand,
    dry_run_option,
    few_limits,
    json_option,
    judge_option,
    known_of,
    limit_option,
    top_k_option,
    with_limits,
)
from svr_async.commands.screen import is_narrow, safe_console, tell
from svr_async.errors import UsageError

if TYPE_CHECKING:
    from svr_async.scoring.bank import BankRubric, RubricBank

FOLDER = click.Path(path_type=Path, file_okay=False)
SHOWN = 20
SHOWN_OF_ATTACK = 5
bank_argument = click.argument("folder", metavar="BANK")


@click.group()
def bank() -> None:
    """Look at a bank of rubrics and care for it. BANK is a folder, or hf:user/name.

    \b
    Example:  svr bank show bank/
    """


@bank.command()
@bank_argument
@click.argument("runs", nargs=-1, metavar="[RUN...]", type=PATH)
@click.option(
    "--top", type=click.IntRange(0), default=SHOWN, show_default=True, metavar="N", help="Rubrics listed; 0: all."
)
@click.option("--domain", metavar="NAME", help="List the rubrics of one domain (generic: of several).")
@click.option("--rubric", "key", metavar="ID", help="Show one rubric; the start of its id is enough.")
@click.option("--stats", "view", flag_value="stats", help="Count rubrics by domain and facet.")
@click.option("--card", "view", flag_value="card", help="Print the bank's card: training, results, rubrics, gaps.")
@click.option(
    "--lint", "view", flag_value="lint", help="List vague, double, opposed, repeated, idle or broken rubrics."
)
@json_option
def show(
    folder: str, runs: tuple[Path, ...], top: int, domain: str | None, key: str | None, view: str | None, as_json: bool
) -> None:
    """Show a bank: its origin and its rubrics by weight; with RUNs, what each rubric did in them.

    \b
    Examples:
      svr bank show bank/ --domain code
      svr bank show bank/ runs/first runs/second
      svr bank show bank/ --lint --json
    """
    from svr_async.reports.bank_summary import bank_parts, rubric_parts
    from svr_async.scoring.bank_files import rubric_json

    held = _load(folder)
    if view is not None:
        {"stats": _show_stats, "card": _show_card, "lint": _show_lint}[view](held, as_json)
    elif runs:
        _show_effects(held, runs, top, as_json)
    else:
        chosen = [_one(held, key)] if key else _listed(held, domain)[: top or None]
        values = {"digest": held.digest, **_summary(held), "rubrics": [rubric_json(entry) for entry in chosen]}
        tell(values, rubric_parts(chosen[0]) if key else bank_parts(held, chosen, narrow=is_narrow()), as_json=as_json)


def _show_stats(held: RubricBank, as_json: bool) -> None:
    from svr_async.reports.bank_summary import stats_parts
    from svr_async.scoring.bank_card import bank_stats

    found = bank_stats(held)
    tell(found, stats_parts(held, found), as_json=as_json)


def _show_card(held: RubricBank, as_json: bool) -> None:
    from svr_async.scoring.bank_card import render_card

    text = render_card(held)
    tell({"card": text}, text.removesuffix("\n"), as_json=as_json)


def _show_lint(held: RubricBank, as_json: bool) -> None:
    from svr_async.training.bank.lint import lint
    from svr_async.training.bank.sheets import findings_sheet

    found = list(lint(held.rubrics))
    tell([asdict(finding) for finding in found], findings_sheet(held, found), as_json=as_json)


def _show_effects(held: RubricBank, runs: tuple[Path, ...], top: int, as_json: bool) -> None:
    """Show how often each rubric was used and right; its contribution is removed from the stored margins."""
    from svr_async.evaluation.run_folder import RunFolder
    from svr_async.reports.effects import bank_effects, effects_tables

    found = bank_effects(held, [RunFolder.load(run) for run in runs])
    most = top or len(held)
    tables = effects_tables(found, held.name or "bank", width=safe_console().width, best=most, worst=most)
    tell(found.to_json, tables, as_json=as_json)
    if (idle := len(held) - len(found.rubrics)) and not as_json:
        click.echo(f"{idle} of the bank's {len(held)} rubrics were judged on no pair of these runs")


@bank.command(short_help="Compare two banks.")
@click.argument("first", metavar="BANK")
@click.argument("second", metavar="BANK")
@json_option
def diff(first: str, second: str, as_json: bool) -> None:
    """Compare two banks: rubrics gained, lost, reworded and reweighed, settings and dev metrics.

    \b
    Example:  svr bank diff round-1/ round-2/
    """
    from svr_async.training.bank.bank_diff import diff_banks
    from svr_async.training.bank.sheets import diff_sheet

    found = diff_banks(_load(first), _load(second))
    tell(found.to_json, diff_sheet(found), as_json=as_json)


@bank.command(short_help="Bring the rubrics of banks together.")
@click.argument("folders", nargs=-1, required=True, metavar="BANK BANK...")
@click.option("--out", type=FOLDER, required=True, metavar="DIR", help="Where the merged bank goes.")
@json_option
def merge(folders: tuple[str, ...], out: Path, as_json: bool) -> None:
    """Bring the rubrics of banks together; the merged bank has no selector until svr-fit fits one.

    \b
    Example:  svr bank merge mine/ theirs/ --out both/
    """
    from svr_async.training.bank.build import merge_banks

    banks = [_load(folder) for folder in folders]
    merged = merge_banks(banks)
    _keep(out, merged)
    digest = merged.save(out)
    counts = [len(held) for held in banks]
    told = f"{sum(counts)} rubrics of {len(banks)} banks became {len(merged)} in {out}"
    told += f"\nits selector is the same for every prompt; to fit one: svr stages judge PAIRS --bank {out} --judge J"
    values = {"folder": str(out), "digest": digest, "rubrics": len(merged), "from": counts}
    tell(values, told, as_json=as_json)


@bank.command(short_help="Disable, reword, reweigh or add rubrics.")
@click.argument("folder", metavar="BANK")
@click.option("--disable", "disabled", multiple=True, metavar="ID", help="Never choose this rubric again.")
@click.option("--reword", "reworded", multiple=True, type=(str, str), metavar="ID TEXT", help="Give it another text.")
@click.option("--weight", "reweighed", multiple=True, type=(str, float), metavar="ID W", help="Give it another weight.")
@click.option("--add", "added", multiple=True, metavar="TEXT", help="Add a rubric, for every prompt.")
@click.option("--by", required=True, metavar="NAME", help="Who edits.")
@click.option("--reason", required=True, metavar="TEXT", help="Why.")
@click.option("--out", type=FOLDER, metavar="DIR", help="Where the edited bank goes.")
@click.option("--in-place", is_flag=True, help="Write it over BANK; the former is kept beside it.")
@json_option
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


@bank.command(cls=GroupedCommand, short_help="Measure what attacks on answers buy.")
@click.argument("folder", metavar="BANK")
@click.option("--data", type=PATH, required=True, metavar="PAIRS", help="Pairs to attack.")
@click.option("--format", "benchmark", default="pairs", show_default=True, metavar="NAME", help="What reads PAIRS.")
@judge_option
@click.option("--attack", "attacks", multiple=True, metavar="NAME", help="Only this attack; may be given again.")
@top_k_option
@limit_option
@few_limits
@dry_run_option
@click.option("--out", type=PATH, metavar="DIR", help="For audit.json. Default: runs/audit-…")
@json_option
def audit(folder: str, attacks: tuple[str, ...], as_json: bool, **flags: Any) -> int:
    """Judge PAIRS with BANK as they are, and again with each attack at the end of the rejected answer.

    Attacks: padding, restated rubrics, keywords, instructions, fake verdict; docs/bank.md lists more.

    \b
    Example:  svr bank audit bank/ --data pairs.jsonl --judge gpt-oss-120b --limit 200 --dry-run
    """
    from svr_async.commands.watching import Screen, print_count
    from svr_async.evaluation.audit import FILE, USUAL, plan_audit, run_audit
    from svr_async.evaluation.settings import EvalSettings

    settings = EvalSettings(**known_of(EvalSettings, with_limits({**flags, "bank": folder})))
    plan = plan_audit(settings, attacks or USUAL)
    if settings.limits.dry_run:
        print_count(plan.run, as_json=as_json)
        return 0
    found = run_audit(plan, Screen(quiet=as_json, verbose=False, as_json=as_json))
    tell(found.to_json, found.sheet(SHOWN_OF_ATTACK), as_json=as_json)
    if not as_json:
        click.echo(f"all of it is in {plan.run.folder / FILE}")
    return 128 + found.signal if found.signal else 0


@bank.command(short_help="Upload a bank to the Hugging Face hub.")
@click.argument("folder", metavar="BANK")
@click.argument("name", metavar="hf:OWNER/NAME")
@click.option("--private", is_flag=True, help="Make a new repository private.")
@click.option(
    "--license", "licence", metavar="TEXT", default="", help="Of the card, in place of the bank's: cc-by-4.0, mit …"
)
@click.option("--dry-run", is_flag=True, help="Print the files and the card; upload and ask nothing.")
@json_option
def push(folder: str, name: str, private: bool, licence: str, dry_run: bool, as_json: bool) -> None:
    """Upload BANK with a card to a repository of the Hugging Face hub, in one commit; a token is in HF_TOKEN.

    \b
    Examples:
      svr bank push bank/ hf:user/name --dry-run
      svr bank push bank/ hf:user/name --private --license cc-by-4.0
    """
    from svr_async.scoring.bank import RubricBank
    from svr_async.scoring.bank_files import read_provenance
    from svr_async.scoring.bank_hub import planned_upload, push_bank

    held = RubricBank.load(folder)
    upload = planned_upload(held, name, licence=licence, made=read_provenance(Path(folder), held.digest))
    files = {file: len(data) for file, data in sorted(upload.files.items())}
    place = "" if dry_run else push_bank(upload, private=private)
    values = {"place": place or None, "repository": upload.repository, "digest": upload.digest, "files": files}
    listed = "\n".join(f"{size:>12,}  {file}" for file, size in files.items())
    planned = f"would upload {len(files)} files to {upload.repository}:\n{listed}\n\n{upload.card.rstrip()}"
    told = f"{len(held)} rubrics, {upload.digest[:12]}, are in {place}" if place else planned
    tell(values | {"card": upload.card}, told, as_json=as_json)


@bank.command(short_help="Download a bank from the Hugging Face hub.")
@click.argument("name", metavar="hf:OWNER/NAME[@REV]")
@click.argument("out", metavar="OUT", type=PATH)
@json_option
def pull(name: str, out: Path, as_json: bool) -> None:
    """Download a bank into the new folder OUT, once all of it has been checked; tells the commit that it is of.

    \b
    Example:  svr bank pull hf:user/name@v1 bank
    """
    from svr_async.scoring.bank import RubricBank
    from svr_async.scoring.bank_hub import pull_bank

    found = pull_bank(name, out, RubricBank)
    values = {"folder": str(out), "pinned": found.name, "digest": found.digest, "rubrics": len(found.bank)}
    told = f"{len(found.bank)} rubrics, {found.digest[:12]}, are in {out}\npinned  {found.name}"
    tell(values, told, as_json=as_json)


def _load(name: str) -> RubricBank:
    from svr_async.scoring.bank import RubricBank

    return RubricBank.load(name)


def _keep(out: Path, merged: RubricBank) -> None:
    """Refuse to replace another bank: a trained one cannot be had back from what was merged."""
    if (out / "bank.json").exists() and _load(str(out)).digest != merged.digest:
        raise UsageError(f"{out} holds another bank", hint="name another folder with --out, or remove it")


def _one(held: RubricBank, key: str) -> BankRubric:
    found = held.find(key)
    if found is None:
        raise UsageError(
            f"no single rubric has an id that begins {key!r}", hint="svr bank show BANK --top 0 lists them"
        )
    return found


def _listed(held: RubricBank, domain: str | None) -> list[BankRubric]:
    names = sorted({entry.domain or "generic" for entry in held.rubrics})
    if domain is not None and domain not in names:
        raise UsageError(f"the bank has no domain {domain!r}", hint=f"one of {', '.join(names)}")
    found = [entry for entry in held.rubrics if domain in {None, entry.domain or "generic"}]
    return sorted(found, key=lambda entry: (-round(entry.weight, 3), -entry.activation_rate, entry.id))  # as shown


def _summary(held: RubricBank) -> dict[str, Any]:
    from svr_async.scoring.bank_files import bank_json

    return {key: value for key, value in bank_json(held).items() if key not in {"rubrics", "files"}}
