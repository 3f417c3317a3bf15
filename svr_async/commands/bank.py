"""`svr bank`: show, edit, compare, merge and share a bank of rubrics."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from svr_async.commands import options as opt
from svr_async.commands.options import flag, option
from svr_async.commands.screen import safe_console, tell
from svr_async.core.table import Line, Part
from svr_async.errors import UsageError

if TYPE_CHECKING:
    from svr_async.scoring.bank import BankRubric, RubricBank

SHOWN = 20
NARROW = 100  # minimum terminal columns for a text with numbers
bank_argument = click.argument("folder", metavar="BANK")


@click.group()
def bank() -> None:
    """Show, check, edit, merge and share a bank of rubrics. BANK is a folder, or hf:user/name.

    \b
    Example:  svr bank show bank/
    """


@bank.command("show")
@bank_argument
@click.argument("runs", nargs=-1, metavar="[RUN...]", type=opt.PATH)
@option("--top N", "Rubrics listed; 0: all.", type=click.IntRange(0), default=SHOWN)
@option("--domain NAME", "List the rubrics of one domain (generic: of several).")
@option("--rubric ID", "Show one rubric; the start of its id is enough.", name="key")
@option("--stats", "Count rubrics by domain and facet.", name="view", flag_value="stats")
@option("--card", "Print the bank's card: training, results, rubrics, gaps.", name="view", flag_value="card")
@option("--lint", "List vague, double, opposed, repeated, idle or broken rubrics.", name="view", flag_value="lint")
@opt.json
def show_bank(
    folder: str, runs: tuple[Path, ...], top: int, domain: str | None, key: str | None, view: str | None, as_json: bool
) -> None:
    """Show a bank: its origin and its rubrics by weight; with RUNs, what each rubric did in them.

    \b
    Examples:
      svr bank show bank/ --domain code
      svr bank show bank/ runs/first runs/second
      svr bank show bank/ --lint --json
    """
    loaded = _load(folder)
    if view is not None:
        tell(*_views(loaded, view), as_json=as_json)
    elif runs:
        tell(*_effects(loaded, runs, top or len(loaded)), as_json=as_json)
    else:
        tell(*_rubrics(loaded, top, domain, key), as_json=as_json)


def _rubrics(loaded: RubricBank, top: int, domain: str | None, key: str | None) -> tuple[Any, Any]:
    """Return one rubric, or the bank with its rubrics by weight, as values and as parts."""
    from svr_async.reports.bank_summary import bank_parts, rubric_parts
    from svr_async.scoring.bank_files import bank_json, rubric_json

    if key:
        from svr_async.training.bank.edit import place_of

        chosen = [loaded.rubrics[place_of(loaded, key)]]
    else:
        chosen = _listed(loaded, domain)[: top or None]
    facts = {name: value for name, value in bank_json(loaded).items() if name not in {"rubrics", "files"}}
    values = {"digest": loaded.digest, **facts, "rubrics": [rubric_json(entry) for entry in chosen]}
    return values, rubric_parts(chosen[0]) if key else bank_parts(loaded, chosen, narrow=safe_console().width < NARROW)


def _views(loaded: RubricBank, view: str) -> tuple[Any, Any]:
    """Return counts, the card or the findings of a bank, as values and as parts."""
    from svr_async.reports.bank_summary import stats_parts
    from svr_async.scoring.bank_card import bank_stats, render_card
    from svr_async.training.bank.lint import findings_sheet, lint

    if view == "stats":
        stats = bank_stats(loaded)
        return stats, stats_parts(loaded, stats)
    if view == "card":
        text = render_card(loaded)
        return {"card": text}, text.removesuffix("\n")
    findings = lint(loaded.rubrics)
    return [asdict(finding) for finding in findings], findings_sheet(loaded, findings)


def _effects(loaded: RubricBank, runs: tuple[Path, ...], most: int) -> tuple[Any, Any]:
    """Return how often each rubric was used and right; its contribution is removed from the stored margins."""
    from svr_async.evaluation.run_folder import Run
    from svr_async.reports.effects import bank_effects, effects_tables

    effects = bank_effects(loaded, [Run.load(run) for run in runs])
    parts: list[Part] = list(
        effects_tables(effects, loaded.name or "bank", width=safe_console().width, best=most, worst=most)
    )
    if idle := len(loaded) - len(effects.rubrics):
        parts.append(Line(f"{idle} of the bank's {len(loaded)} rubrics were judged on no pair of these runs"))
    return effects.to_json, parts


@bank.command(short_help="Compare two banks.")
@click.argument("first", metavar="BANK")
@click.argument("second", metavar="BANK")
@opt.json
def diff(first: str, second: str, as_json: bool) -> None:
    """Compare two banks: rubrics gained, lost, reworded and reweighed, settings and dev metrics.

    \b
    Example:  svr bank diff round-1/ round-2/
    """
    from svr_async.training.bank.edit import diff_banks, diff_sheet

    changes = diff_banks(_load(first), _load(second))
    tell(changes, diff_sheet(changes), as_json=as_json)


@bank.command(short_help="Merge the rubrics of several banks.")
@click.argument("folders", nargs=-1, required=True, metavar="BANK BANK...")
@option("--out DIR", "Folder of the merged bank.", type=opt.FOLDER, required=True)
@opt.json
def merge(folders: tuple[str, ...], out: Path, as_json: bool) -> None:
    """Merge the rubrics of several banks; the merged bank has no selector until svr-fit fits one.

    \b
    Example:  svr bank merge mine/ theirs/ --out both/
    """
    from svr_async.training.bank.edit import merge_banks

    banks = [_load(folder) for folder in folders]
    merged = merge_banks(banks)
    if (out / "bank.json").exists() and _load(str(out)).digest != merged.digest:  # a trained bank would be lost
        raise UsageError(f"{out} holds another bank", hint="name another folder with --out, or remove it")
    digest = merged.save(out)
    counts = [len(loaded) for loaded in banks]
    summary = f"{sum(counts)} rubrics of {len(banks)} banks became {len(merged)} in {out}"
    summary += f"\nits selector is the same for every prompt; to fit one: svr stages judge PAIRS --bank {out} --judge J"
    values = {"folder": str(out), "digest": digest, "rubrics": len(merged), "from": counts}
    tell(values, summary, as_json=as_json)


@bank.command(short_help="Disable, reword, reweigh or add rubrics.")
@click.argument("folder", metavar="BANK")
@option("--disable ID", "Never choose this rubric again.", name="disabled", multiple=True)
@option("--reword ID TEXT", "Replace the text of a rubric.", name="reworded", multiple=True, type=(str, str))
@option("--weight ID W", "Replace a weight; enables the rubric.", name="reweighed", multiple=True, type=(str, float))
@option("--add TEXT", "Add a rubric, for every prompt.", name="added", multiple=True)
@option("--by NAME", "Who edits.", required=True)
@option("--reason TEXT", "Why.", required=True)
@option("--out DIR", "Folder of the edited bank.", type=opt.FOLDER)
@flag("--in-place", "Replace BANK; the former bank is kept next to it.")
@opt.json
def edit(folder: str, out: Path | None, in_place: bool, by: str, reason: str, as_json: bool, **edits: Any) -> None:
    """Edit a bank by hand; every change is kept in its history. ID is the start of a rubric's id.

    \b
    Examples:
      svr bank edit bank/ --disable r3fa9 --by Ana --reason "too long" --out new/
      svr bank edit bank/ --weight r3fa9 0.5 --by Ana --reason policy --in-place
    """
    from svr_async.training.bank.edit import diff_banks, diff_sheet, edit_bank, save_in_place

    if (out is None) is not in_place or (in_place and folder.startswith("hf:")):
        raise UsageError("edit needs one of --out and --in-place", hint="--in-place is for a folder")
    if out is not None and (out / "bank.json").exists():
        raise UsageError(f"{out} holds a bank", hint="name another folder, or edit that one with --in-place")
    former = _load(folder)
    edited = edit_bank(former, author=by, reason=reason, day=datetime.now(UTC).date(), **edits)
    if out is None:
        kept: str | Path = save_in_place(edited, Path(folder), former.digest)
    else:
        kept = folder
        edited.save(out)
    changes, place = diff_banks(former, edited), out or folder
    was = {"folder": str(kept), "digest": former.digest}
    values = {"folder": str(place), "digest": edited.digest, "former": was, "changes": changes}
    end = f"the edited bank {edited.digest[:12]} is in {place}, the former {former.digest[:12]} in {kept}"
    ends = [Line(end), Line("to measure the edit: svr eval with both banks, then svr compare")]
    tell(values, [*diff_sheet(changes), *ends], as_json=as_json)


@bank.command(short_help="Upload a bank to the Hugging Face hub.")
@click.argument("folder", metavar="BANK")
@click.argument("name", metavar="hf:OWNER/NAME")
@flag("--private", "Make a new repository private.")
@option("--license TEXT", "Licence in the card, in place of the bank's.", name="licence", default="")
@flag("--dry-run", "Print the files and the card; upload and ask nothing.")
@opt.json
def push(folder: str, name: str, private: bool, licence: str, dry_run: bool, as_json: bool) -> None:
    """Upload BANK with a card to a repository of the Hugging Face hub, in one commit. Needs a token in HF_TOKEN.

    \b
    Examples:
      svr bank push bank/ hf:user/name --dry-run
      svr bank push bank/ hf:user/name --private --license cc-by-4.0
    """
    from svr_async.scoring.bank_hub import push_files, upload_files
    from svr_async.scoring.provenance import read_provenance

    loaded = _load(folder)
    made = read_provenance(Path(folder), loaded.digest)
    repository, files = upload_files(loaded, name, licence=licence, made=made)
    place = "" if dry_run else push_files(repository, files, private=private)
    sizes = {file: len(data) for file, data in sorted(files.items())}
    values = {"place": place or None, "repository": repository, "digest": loaded.digest, "files": sizes}
    listed = "\n".join(f"{size:>12,}  {file}" for file, size in sizes.items())
    card = files["README.md"].decode()
    planned = f"would upload {len(files)} files to {repository}:\n{listed}\n\n{card.rstrip()}"
    summary = f"{len(loaded)} rubrics, {loaded.digest[:12]}, are in {place}" if place else planned
    tell(values | {"card": card}, summary, as_json=as_json)


@bank.command(short_help="Download a bank from the Hugging Face hub.")
@click.argument("name", metavar="hf:OWNER/NAME[@REV]")
@click.argument("out", metavar="OUT", type=opt.PATH)
@opt.json
def pull(name: str, out: Path, as_json: bool) -> None:
    """Download a bank, check it, and write it to the new folder OUT; prints its commit.

    \b
    Example:  svr bank pull hf:user/name@v1 bank
    """
    from svr_async.scoring.bank_hub import pull_bank

    pulled, pinned = pull_bank(name, out)
    values = {"folder": str(out), "pinned": pinned, "digest": pulled.digest, "rubrics": len(pulled)}
    summary = f"{len(pulled)} rubrics, {pulled.digest[:12]}, are in {out}\npinned  {pinned}"
    tell(values, summary, as_json=as_json)


def _load(name: str) -> RubricBank:
    from svr_async.scoring.bank import RubricBank

    return RubricBank.load(name)


def _listed(loaded: RubricBank, domain: str | None) -> list[BankRubric]:
    names = sorted({entry.domain or "generic" for entry in loaded.rubrics})
    if domain is not None and domain not in names:
        raise UsageError(f"the bank has no domain {domain!r}", hint=f"one of {', '.join(names)}")
    found = [entry for entry in loaded.rubrics if domain in {None, entry.domain or "generic"}]
    return sorted(found, key=lambda entry: (-round(entry.weight, 3), -entry.activation_rate, entry.id))  # as shown
