"""`svr bank`: look at a bank of rubrics and care for it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from svr_async.commands.bank.audit import audit
from svr_async.commands.bank.edit import edit
from svr_async.commands.bank.hub import pull, push
from svr_async.commands.options import PATH, common
from svr_async.commands.screen import is_narrow, safe_console, tell
from svr_async.errors import ArtefactError, UsageError

if TYPE_CHECKING:
    from svr_async.scoring.bank import BankRubric, RubricBank

bank_argument = click.argument("folder", metavar="BANK")
SHOWN = 20


@click.group()
def bank() -> None:
    """Look at a bank of rubrics and care for it. BANK is a folder, or hf:user/name.

    \b
    Example:  svr bank show bank/
    """


bank.add_command(edit)
bank.add_command(audit)
bank.add_command(push)
bank.add_command(pull)


@bank.command()
@bank_argument
@click.option("--top", type=click.IntRange(1), default=SHOWN, show_default=True, help="How many rubrics to list.")
@click.option("--all", "everything", is_flag=True, help="List every rubric.")
@click.option("--domain", help="List the rubrics of one domain (generic: of several).")
@click.option("--rubric", "key", metavar="ID", help="Show all about one rubric; the start of its id is enough.")
@common
def show(folder: str, top: int, everything: bool, domain: str | None, key: str | None, as_json: bool) -> None:
    """Show a bank: where it comes from, and its rubrics by weight.

    \b
    Examples:
      svr bank show bank/ --domain code
      svr bank show bank/ --rubric r3fa9 --json
    """
    from svr_async.reports.bank_summary import bank_parts, rubric_parts
    from svr_async.scoring.bank_files import rubric_json

    held = _load(folder)
    chosen = [_one(held, key)] if key else _listed(held, domain)[: None if everything else top]
    values = {"digest": held.digest, **_summary(held), "rubrics": [rubric_json(entry) for entry in chosen]}
    tell(values, rubric_parts(chosen[0]) if key else bank_parts(held, chosen, narrow=is_narrow()), as_json=as_json)


@bank.command(short_help="Count a bank by domain and by facet.")
@bank_argument
@common
def stats(folder: str, as_json: bool) -> None:
    """Count a bank: rubrics, severity, activation and supports by domain and by facet.

    \b
    Example:  svr bank stats bank/
    """
    from svr_async.reports.bank_summary import stats_parts
    from svr_async.scoring.bank_stats import bank_stats

    held = _load(folder)
    found = bank_stats(held)
    tell(found, stats_parts(held, found), as_json=as_json)


@bank.command(short_help="Tell what each rubric did in runs.")
@bank_argument
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=PATH)
@click.option("--best", type=click.IntRange(0), default=SHOWN, show_default=True, help="How many of the best to list.")
@click.option("--worst", type=click.IntRange(0), default=SHOWN, show_default=True, help="How many of the worst.")
@common
def effect(folder: str, runs: tuple[Path, ...], best: int, worst: int, as_json: bool) -> None:
    """Tell what each rubric of BANK did in runs: how often used and right, pairs saved, errors caused.

    A rubric is left out by striking what it contributed to the stored margins; nothing is judged again.

    \b
    Examples:
      svr bank effect bank/ runs/first runs/second
      svr bank effect bank/ runs/* --json
    """
    from svr_async.evaluation.run_folder import RunFolder
    from svr_async.reports.effects import bank_effects, effects_tables

    held = _load(folder)
    found = bank_effects(held, [RunFolder.load(run) for run in runs])
    tables = effects_tables(found, held.name or folder, width=safe_console().width, best=best, worst=worst)
    tell(found.to_json, tables, as_json=as_json)
    if (idle := len(held) - len(found.rubrics)) and not as_json:
        click.echo(f"{idle} of the bank's {len(held)} rubrics were judged on no pair of these runs")


@bank.command(short_help="Find rubrics with defects.")
@bank_argument
@click.option("--kind", "kinds", multiple=True, help="Only findings of this kind; may be given more than once.")
@click.option("--strict", is_flag=True, help="Exit 7 where anything is found.")
@common
def lint(folder: str, kinds: tuple[str, ...], strict: bool, as_json: bool) -> None:
    """Find rubrics that are vague, double, opposed, repeated, idle, too narrow, too long or broken.

    \b
    Example:  svr bank lint bank/ --kind contradiction --kind duplicate
    """
    from svr_async.training.bank.lint import Kind
    from svr_async.training.bank.lint import lint as look_over
    from svr_async.training.bank.sheets import findings_sheet

    unknown = sorted(set(kinds) - set(Kind))
    if unknown:
        raise UsageError(f"there is no finding of kind {unknown[0]!r}", hint=f"one of {', '.join(Kind)}")
    held = _load(folder)
    found = [finding for finding in look_over(held.rubrics) if not kinds or finding.kind in kinds]
    tell([asdict(finding) for finding in found], findings_sheet(held, found), as_json=as_json)
    if strict and found:
        raise ArtefactError(f"{folder} has {len(found)} findings", hint="each says what to do; svr bank show has more")


@bank.command(short_help="Compare two banks.")
@click.argument("first", metavar="BANK")
@click.argument("second", metavar="BANK")
@common
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
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, metavar="DIR")
@click.option("--cutoff", type=click.FloatRange(0.5, 1), default=0.88, show_default=True, help="Merge at this.")
@click.option("--cap", type=click.IntRange(1), default=1024, show_default=True, help="Keep at most so many rubrics.")
@common
def merge(folders: tuple[str, ...], out: Path, cutoff: float, cap: int, as_json: bool) -> None:
    """Bring the rubrics of banks together; the merged bank has no selector until svr-fit fits one.

    \b
    Example:  svr bank merge mine/ theirs/ --out both/
    """
    from svr_async.training.bank.build import merge_banks

    banks = [_load(folder) for folder in folders]
    merged = merge_banks(banks, cutoff=cutoff, cap=cap)
    _keep(out, merged)
    digest = merged.save(out)
    counts = [len(held) for held in banks]
    told = f"{sum(counts)} rubrics of {len(banks)} banks became {len(merged)} in {out}"
    told += f"\nits selector is the same for every prompt; to fit one: svr judge PAIRS --bank {out} --judge J"
    values = {"folder": str(out), "digest": digest, "rubrics": len(merged), "from": counts}
    tell(values, told, as_json=as_json)


@bank.command(short_help="Print a bank's card.")
@bank_argument
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE.md", help="Write it to a file.")
@common
def card(folder: str, out: Path | None, as_json: bool) -> None:
    """Print a bank's card as it follows from the bank: training, results, rubrics, gaps.

    \b
    Example:  svr bank card bank/ --out card.md
    """
    from svr_async.core.files import write_atomic
    from svr_async.scoring.bank_card import render_card

    text = render_card(_load(folder))
    if out is not None:
        write_atomic(out, text.encode())
    shown = text.removesuffix("\n") if out is None else f"the card is in {out}"
    tell({"card": text, "file": None if out is None else str(out)}, shown, as_json=as_json)


@bank.command()
@bank_argument
@click.option(
    "--to", type=click.Path(path_type=Path, file_okay=False), required=True, metavar="DIR", help="Where it is copied."
)
@common
def export(folder: str, to: Path, as_json: bool) -> None:
    """Check a bank and copy it into a folder.

    \b
    Example:  svr bank export bank/ --to shared/bank
    """
    held = _load(folder)
    digest = held.save(to)
    values = {"place": str(to), "digest": digest, "rubrics": len(held)}
    tell(values, f"{len(held)} rubrics, {digest[:12]}, are in {to}", as_json=as_json)


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
        raise UsageError(f"no single rubric has an id that begins {key!r}", hint="svr bank show BANK --all lists them")
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
